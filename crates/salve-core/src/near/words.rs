//! Which words a text has.

/// The most words taken from one text; the head of a failure says most about it.
const LIMIT: usize = 40;

/// Returns the hashes of the distinct words of `text`, sorted.
///
/// A word is a run of letters, digits and underscores. Case does not count.
pub(super) fn words(text: &str) -> Vec<u32> {
    let mut found = Vec::with_capacity(LIMIT);
    for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
        if word.is_empty() {
            continue;
        }
        let hash = hash(word.as_bytes());
        if !found.contains(&hash) {
            found.push(hash);
            if found.len() == LIMIT {
                break;
            }
        }
    }
    found.sort_unstable();
    found
}

/// FNV-1a over the lower-case bytes, folded to 32 bits.
fn hash(word: &[u8]) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in word {
        hash ^= u64::from(byte.to_ascii_lowercase());
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn same(a: &str, b: &str) {
        assert_eq!(words(a), words(b), "{a:?} and {b:?}");
    }

    #[test]
    fn order_case_repetition_and_punctuation_do_not_count() {
        same("Cannot find module 'express'", "express module: find CANNOT cannot");
        same("", " \t-/'\"");
        same("grün", "«grün»");
    }

    #[test]
    fn an_underscore_joins_and_a_dot_parts() {
        assert_eq!(words("node_modules").len(), 1);
        assert_eq!(words("node.modules").len(), 2);
    }

    #[test]
    fn a_long_text_keeps_its_first_words_only() {
        let long: String = (0..1000).map(|n| format!("w{n} ")).collect();
        let head: String = (0..LIMIT).map(|n| format!("w{n} ")).collect();
        same(&long, &head);
    }
}
