//! Tokens put together at run time, so that no file holds anything like a secret.

/// A small generator of numbers that look random (SplitMix64).
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn chars(&mut self, class: &str, count: usize) -> String {
        let class: Vec<char> = class.chars().collect();
        (0..count).map(|_| class[(self.next() % class.len() as u64) as usize]).collect()
    }
}

const DIGITS: &str = "0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Returns `template` with each `{w36}` and `{uuid}` filled in.
pub(super) fn fill(template: &str, seed: u64) -> String {
    let hash = template.bytes().fold(seed, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
    let mut draw = Draw(hash);
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (hole, after) = after.split_once('}').unwrap_or((after, ""));
        match fill_hole(hole, &mut draw) {
            Some(text) => {
                out.push_str(&text);
                rest = after;
            }
            None => {
                out.push('{');
                rest = &rest[before.len() + 1..];
            }
        }
    }
    out + rest
}

fn fill_hole(hole: &str, draw: &mut Draw) -> Option<String> {
    let hex = "0123456789abcdef";
    if hole == "uuid" {
        let parts = [8, 4, 4, 4, 12].map(|n| draw.chars(hex, n));
        return Some(parts.join("-"));
    }
    let class = match hole.get(..1)? {
        "w" => WORD.to_owned(),
        "u" => format!("{WORD}_-"),
        "b" => format!("{WORD}+/"),
        "x" => hex.to_owned(),
        "X" => hex.to_uppercase(),
        "d" => DIGITS.to_owned(),
        "l" => LOWER.to_owned(),
        "A" => UPPER.to_owned(),
        "B" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".to_owned(),
        _ => return None,
    };
    let count: usize = hole[1..].parse().ok()?;
    let mut text = draw.chars(&class, count);
    // That a long token has no digit, or a dash at its end, happens; but not where it is tested.
    if count >= 8 && class.contains('0') && !text.contains(|c: char| c.is_ascii_digit()) {
        text.replace_range(3..4, "4");
    }
    if text.ends_with(['_', '-', '+', '/']) {
        text.replace_range(count - 1.., "7");
    }
    if text.starts_with(['_', '-', '+', '/']) {
        text.replace_range(..1, "7");
    }
    Some(text)
}
