//! Private key blocks, which span lines.

use std::ops::Range;

/// The longest block that is waited for.
pub(super) const BLOCK_MAX: usize = 32 * 1024;

/// What a `-----BEGIN` turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// No private key.
    Other,
    /// A private key, whole or as much of it as there is.
    Key(Range<usize>),
    /// The text ends inside: more is needed to tell.
    Open,
}

/// Reads the block whose `-----BEGIN ` stands at `at` in `text`.
///
/// `last` says that no more text follows.
pub(super) fn read(text: &[u8], at: usize, last: bool) -> Block {
    let window = &text[at..text.len().min(at + BLOCK_MAX)];
    let cut = window.len() == BLOCK_MAX;
    let Some(head) = head(window) else { return Block::Other };
    let mut end = head;
    let mut first = true;
    let mut body = 0;
    loop {
        let rest = &window[end..];
        let line_len = memchr::memchr(b'\n', rest);
        let line = &rest[..line_len.unwrap_or(rest.len())];
        if let Some(close) = closing(line) {
            body += weight(&line[..close.start]);
            return if body >= 16 { Block::Key(at..at + end + close.end) } else { Block::Other };
        }
        if line_len.is_none() && !last && !cut {
            return Block::Open;
        }
        let fits = if first { inline_len(line) } else { line_fits(line, body) };
        let Some(len) = fits else { break };
        body += weight(&line[..len]);
        end += len;
        if len < line.len() || line_len.is_none() {
            break;
        }
        end += 1;
        first = false;
    }
    if body < 16 {
        return Block::Other;
    }
    let tail = window[..end].iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
    Block::Key(at..at + end - tail)
}

/// Returns the length of the opening line's marker, if it opens a private key.
fn head(text: &[u8]) -> Option<usize> {
    let label = text.strip_prefix(b"-----BEGIN ")?;
    let len = label
        .iter()
        .take(64)
        .take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ')
        .count();
    let private = memchr::memmem::find(&label[..len], b"PRIVATE KEY").is_some();
    (private && label[len..].starts_with(b"-----")).then_some(11 + len + 5)
}

/// Returns where the closing marker stands in `line`.
fn closing(line: &[u8]) -> Option<Range<usize>> {
    let start = memchr::memmem::find(line, b"-----END ")?;
    let label = &line[start + 9..];
    let len = memchr::memmem::find(&label[..label.len().min(64)], b"-----").map_or(0, |at| at + 5);
    Some(start..start + 9 + len)
}

/// Returns how much of the opening line's rest belongs to the key: `\n` and base64 written out.
fn inline_len(line: &[u8]) -> Option<usize> {
    let part = |b: &&u8| is_base64(**b) || b"\\ \r\t\"',".contains(b);
    let len = line.iter().take_while(part).count();
    // The rest of a sentence is no key.
    let keyish = len == line.len() && line.iter().filter(|&&b| b == b' ').count() < 2
        || weight(&line[..len]) >= 40;
    keyish.then_some(len)
}

/// Returns the length of `line` if it may stand inside a key.
fn line_fits(line: &[u8], body: usize) -> Option<usize> {
    let junk = |b: &u8| b.is_ascii_whitespace() || b"\"'`,+\\|>".contains(b);
    let start = line.iter().position(|b| !junk(b)).unwrap_or(line.len());
    let stop = line.iter().rposition(|b| !junk(b)).map_or(start, |at| at + 1);
    let inner = &line[start..stop.max(start)];
    let inner = inner.strip_suffix(b"\\n").unwrap_or(inner);
    let header = body == 0 && inner.iter().take(20).any(|&b| b == b':') && inner.len() < 120;
    let word = inner.rsplit(|b| b" |\t".contains(b)).next().unwrap_or_default();
    let code = word.iter().all(|&b| is_base64(b))
        && (word.len() >= 16 || body > 0 && word.len() == inner.len());
    (inner.is_empty() || header || code && !word.is_empty()).then_some(line.len())
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

/// Returns how many base64 characters stand in long runs of `text`.
fn weight(text: &[u8]) -> usize {
    text.split(|&b| !is_base64(b)).map(<[u8]>::len).filter(|&len| len >= 8).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts together a block so that no key stands here, and says what of it goes.
    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let text = text.replace("BEGIN_", "-----BEGIN RSA PRIVATE KEY-----");
        let text = text.replace("END_", "-----END RSA PRIVATE KEY-----");
        let want = want.map(|w| {
            let w = w.replace("BEGIN_", "-----BEGIN RSA PRIVATE KEY-----");
            w.replace("END_", "-----END RSA PRIVATE KEY-----")
        });
        let at = text.find("-----BEGIN").unwrap();
        let got = match read(text.as_bytes(), at, true) {
            Block::Key(place) => Some(text[place].to_owned()),
            Block::Other => None,
            Block::Open => panic!("nothing follows {text}"),
        };
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn a_block_ends_at_its_end_or_where_the_key_does() {
        let body = "MIIEpAIBAAKCAQEA75xYd3lV";
        let whole = format!("BEGIN_\n{body}\n{body}\nAb==\nEND_");
        check(&format!("x {whole} y"), Some(&whole));
        let escaped = format!("BEGIN_\\n{body}\\n{body}\\nEND_");
        check(&format!("\"{escaped}\\n\","), Some(&escaped));
        let spaced = format!("BEGIN_ {body} {body} END_");
        check(&spaced, Some(&spaced));
        check(&format!("BEGIN_\n{body}\nnot a key any more\n"), Some(&format!("BEGIN_\n{body}")));
        check("expected BEGIN_ at the start of the file", None);
        check("BEGIN_\n...\nEND_", None);
        let logged = format!("BEGIN_\napp_1  | {body}\napp_1  | END_");
        check(&format!("app_1  | {logged}"), Some(&logged));
    }
}
