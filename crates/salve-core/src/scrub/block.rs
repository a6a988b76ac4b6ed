//! Private key blocks, which span lines.
//!
//! A block is read before any line is judged. What an earlier scrubbing left inside is gone
//! around: the marks stay, and what is between them is as secret as without them.

use std::borrow::Cow;
use std::ops::Range;

use super::lines::Lines;
use super::mark;
use super::scan::More;

/// The longest block that is waited for.
pub(super) const BLOCK_MAX: usize = 32 * 1024;

/// How a block begins.
const BEGIN: &[u8] = b"-----BEGIN ";

/// How the private half of PuTTY's key files begins; the number of its lines follows.
const PUTTY: &[u8] = b"Private-Lines: ";

/// How much base64 makes a key.
const KEY_MIN: usize = 16;

/// How many lines that hold none of the key may stand in it: headers, blank ones, marks.
const FILLERS_MAX: usize = 64;

/// The longest thing that a logger may have put before a line of a key.
const PREFIX_MAX: usize = 64;

/// Stands for each byte of a mark while a block is read.
const HIDDEN: u8 = 0;

/// The private keys of a text.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Where keys stand, in order and apart.
    pub(super) keys: Vec<Range<usize>>,
    /// There is a header that no key follows.
    pub(super) bare: bool,
    /// The beginning of the line from which on more text is needed to tell.
    pub(super) open: Option<usize>,
    /// From the line where each header stands to where reading it came to an end.
    read: Vec<Range<usize>>,
}

impl Blocks {
    /// Returns where the text can be cut if what stands from `at` on is not known yet.
    ///
    /// What was read up to the very line at `at` may look different once that is known.
    pub(super) fn cut(&self, at: usize) -> usize {
        self.read.iter().rev().fold(
            at,
            |base, read| {
                if read.end >= base { base.min(read.start) } else { base }
            },
        )
    }
}

/// What a header turned out to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SecretBlock {
    /// No key; the line that begins there is none of one.
    Bare(usize),
    /// A private key, whole or as much of it as there is.
    Key(Range<usize>),
    /// The text ends inside: more is needed to tell.
    Open,
}

/// Finds the private keys in `text`.
pub(super) fn find(text: &[u8], more: More) -> Blocks {
    let mut blocks = Blocks::default();
    let mut lines = Lines::new(text);
    let mut next = 0;
    for at in heads(text) {
        let line = lines.around(at);
        let Some(head) = head(&text[at..line.end.max(at)]).filter(|_| at >= next) else { continue };
        next = match read(text, at, head, more) {
            SecretBlock::Key(place) => {
                blocks.keys.push(place.clone());
                place.end
            }
            SecretBlock::Bare(to) => {
                blocks.bare = true;
                to
            }
            SecretBlock::Open => {
                let base = blocks.cut(line.start);
                blocks.keys.retain(|key| key.end <= base);
                blocks.open = Some(base);
                break;
            }
        };
        blocks.read.push(line.start..next);
    }
    blocks
}

/// Returns where a header may begin, in order.
fn heads(text: &[u8]) -> Vec<usize> {
    let all = [BEGIN, PUTTY].into_iter().flat_map(|head| memchr::memmem::find_iter(text, head));
    let mut heads: Vec<usize> = all.collect();
    heads.sort_unstable();
    heads
}

/// Reads the block whose header of `head` bytes stands at `at` in `text`.
fn read(text: &[u8], at: usize, head: usize, more: More) -> SecretBlock {
    let mut key = BlockKey::after(text, at);
    let (mut window, mut all) = window(text, at, more);
    // Where the window begins, what has been read of it, and how much of that is the key's.
    let (mut base, mut end, mut stop) = (at, head, head);
    let mut first = true;
    loop {
        let rest = &window[end..];
        let line_len = memchr::memchr(b'\n', rest);
        let line = &*without_marks(&rest[..line_len.unwrap_or(rest.len())]);
        let dashes = dashes(line);
        if let Some(close) = dashes.and_then(|at| closing(line, at)) {
            key.body += weight(&line[..close.start]);
            stop = end + close.end;
            break;
        }
        if line_len.is_none() && !all {
            return SecretBlock::Open;
        }
        let inner = dashes.and_then(|at| Some((at, self::head(&line[at..])?)));
        if let Some((at, head)) = inner
            && key.body < KEY_MIN
            && if first { inline_fits(&line[..at]) } else { fits_around(&line[..at]) }
        {
            // Whatever begins here begins there too.
            (base, first) = (base + end + at, true);
            key = BlockKey::after(text, base);
            (window, all) = self::window(text, base, more);
            (end, stop) = (head, head);
            continue;
        }
        let part = if first { inline(line) } else { key.part(line) };
        match part.filter(|_| dashes.is_none() || first) {
            None => break,
            Some(BlockPart::Code { len, weight }) => {
                key.body += weight;
                stop = end + len;
                if len < line.len() {
                    break;
                }
            }
            Some(BlockPart::Filler) if key.fillers == FILLERS_MAX => break,
            Some(BlockPart::Filler) => key.fillers += 1,
        }
        first = false;
        match line_len {
            None => break,
            Some(len) => end += len + 1,
        }
    }
    if key.body < KEY_MIN {
        return SecretBlock::Bare(base + end);
    }
    let tail = window[..stop].iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
    SecretBlock::Key(at..base + stop - tail)
}

/// Returns what is looked at of a block at `at`, and whether that is all there will be.
fn window(text: &[u8], at: usize, more: More) -> (&[u8], bool) {
    let window = &text[at..text.len().min(at + BLOCK_MAX)];
    (window, more == More::None || window.len() == BLOCK_MAX)
}

/// Returns `line` with every byte of a mark hidden.
fn without_marks(line: &[u8]) -> Cow<'_, [u8]> {
    let mut hidden = Cow::Borrowed(line);
    for place in mark::all(line) {
        hidden.to_mut()[place].fill(HIDDEN);
    }
    hidden
}

/// Returns the length of the header that `text` begins with, if it is a private key's.
fn head(text: &[u8]) -> Option<usize> {
    if let Some(count) = text.strip_prefix(PUTTY) {
        let len = count.iter().take_while(|b| b.is_ascii_digit()).count();
        return (1..=3).contains(&len).then_some(PUTTY.len() + len);
    }
    let label = text.strip_prefix(BEGIN)?;
    let len = label
        .iter()
        .take(64)
        .take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ')
        .count();
    let private = memchr::memmem::find(&label[..len], b"PRIVATE KEY").is_some();
    (private && label[len..].starts_with(b"-----")).then_some(BEGIN.len() + len + 5)
}

/// Returns where five dashes stand; of more, as where a line was taken out of a file, the last.
fn dashes(line: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(line, b"-----")?;
    let run = line[at..].iter().take_while(|b| **b == b'-').count();
    Some(at + run - 5)
}

/// Returns the place of the footer if the dashes at `at` begin it.
fn closing(line: &[u8], at: usize) -> Option<Range<usize>> {
    let label = line[at..].strip_prefix(b"-----END ")?;
    let len = memchr::memmem::find(&label[..label.len().min(64)], b"-----").map_or(0, |at| at + 5);
    Some(at..at + 9 + len)
}

/// What a line is to the block it stands in.
#[derive(Debug)]
enum BlockPart {
    /// Its first `len` bytes are a part of the key.
    Code { len: usize, weight: usize },
    /// It holds nothing of the key, which may go on after it.
    Filler,
}

/// Returns what the rest of the header's line is: `\n` and base64 written out, or nothing.
fn inline(line: &[u8]) -> Option<BlockPart> {
    let len = line.iter().take_while(|b| is_inline(**b)).count();
    let weight = weight(&line[..len]);
    match weight {
        40.. => Some(BlockPart::Code { len, weight }),
        1.. if inline_fits(line) => Some(BlockPart::Code { len, weight }),
        0 if inline_fits(line) => Some(BlockPart::Filler),
        _ => None,
    }
}

/// Returns whether all of `text` may follow a header; the rest of a sentence is no key.
fn inline_fits(text: &[u8]) -> bool {
    blanks(text) < 2 && text.iter().all(|b| is_inline(*b))
}

fn is_inline(byte: u8) -> bool {
    is_base64(byte) || b"\\ \r\t\"',".contains(&byte) || byte == HIDDEN
}

/// Returns `line` without what writing it down may have put around it.
fn trimmed(line: &[u8]) -> &[u8] {
    let junk = |b: &u8| b.is_ascii_whitespace() || b"\"'`,+\\|>".contains(b);
    // A line that was taken out of a file has a dash before it.
    let start = line.iter().position(|b| !junk(b) && *b != b'-').unwrap_or(line.len());
    let stop = line.iter().rposition(|b| !junk(b)).map_or(start, |at| at + 1);
    &line[start..stop.max(start)]
}

/// What has been read of a key.
#[derive(Debug, Default)]
struct BlockKey<'t> {
    /// What stands before the header on its line.
    lead: &'t [u8],
    /// How much base64 there was.
    body: usize,
    /// What a logger put before the last line of it.
    prefix: usize,
    /// The last line of it was a short one, after which only a checksum follows.
    short: bool,
    fillers: usize,
}

impl<'t> BlockKey<'t> {
    /// Begins to read the key whose header stands at `at`.
    fn after(text: &'t [u8], at: usize) -> Self {
        let before = &text[at.saturating_sub(PREFIX_MAX)..at];
        let start = memchr::memrchr(b'\n', before).map(|end| end + 1);
        let start = start.or((before.len() == at).then_some(0));
        Self { lead: start.map_or(&[], |start| trimmed(&before[start..])), ..Self::default() }
    }

    /// Returns what a line after the header's is.
    fn part(&mut self, line: &[u8]) -> Option<BlockPart> {
        if let Some(at) = memchr::memchr(HIDDEN, line) {
            return self.marked(line, at);
        }
        let inner = trimmed(line);
        let inner = inner.strip_suffix(b"\\n").unwrap_or(inner);
        let word = inner.rsplit(|b| b" |\t".contains(b)).next().unwrap_or_default();
        let prefix = inner.len() - word.len();
        let goes_on = self.body > 0 && (prefix == 0 || prefix == self.prefix);
        let goes_on = goes_on && (!self.short || word.starts_with(b"="));
        let long = word.len() >= KEY_MIN && (prefix == 0 || is_mixed(word));
        if !word.is_empty() && word.iter().all(|&b| is_base64(b)) && (long || goes_on) {
            self.prefix = prefix;
            self.short = !long;
            return Some(BlockPart::Code { len: line.len(), weight: weight(word) });
        }
        let header =
            self.body == 0 && inner.iter().take(20).any(|&b| b == b':') && inner.len() < 120;
        (inner.is_empty() || inner == self.lead || header).then_some(BlockPart::Filler)
    }

    /// Returns what a line is whose first mark stands at `at`.
    fn marked(&mut self, line: &[u8], at: usize) -> Option<BlockPart> {
        if !fits_around(line) {
            return None;
        }
        let word = word_before(&line[..at]);
        let tail = &line[at..];
        let code = word > 0 && self.body > 0 || tail.iter().any(|b| b.is_ascii_alphanumeric());
        let weight = weight(&line[at - word..]);
        // Each such line may have been far longer, and must not be waited for without end.
        self.fillers += 1;
        if self.fillers > FILLERS_MAX {
            return None;
        }
        Some(if code || weight > 0 {
            BlockPart::Code { len: line.len(), weight }
        } else {
            BlockPart::Filler
        })
    }
}

/// Returns whether `line` holds nothing but marks and base64, after what a logger put before it.
fn fits_around(line: &[u8]) -> bool {
    let (head, tail) = line.split_at(memchr::memchr(HIDDEN, line).unwrap_or(line.len()));
    let fits = |b: &u8| is_base64(*b) || b" \t\r\"'`,+\\|>".contains(b) || *b == HIDDEN;
    head.len() - word_before(head) <= PREFIX_MAX && blanks(tail) < 2 && tail.iter().all(fits)
}

/// Returns how much of the end of `head` is base64.
fn word_before(head: &[u8]) -> usize {
    // What is given to a name is hidden, not the name.
    if head.ends_with(b"=") {
        return 0;
    }
    head.iter().rev().take_while(|b| is_base64(**b)).count()
}

fn blanks(text: &[u8]) -> usize {
    text.iter().filter(|&&b| b == b' ').count()
}

/// Returns whether `word` is no word of a language.
fn is_mixed(word: &[u8]) -> bool {
    let cases = word.iter().any(u8::is_ascii_uppercase) && word.iter().any(u8::is_ascii_lowercase);
    cases || word.iter().any(u8::is_ascii_digit)
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
        let blocks = find(text.as_bytes(), More::None);
        assert_eq!(blocks.open, None, "nothing follows {text}");
        let got: Vec<_> = blocks.keys.iter().map(|key| text[key.clone()].to_owned()).collect();
        assert_eq!(got, Vec::from_iter(want), "{text}");
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
        let short = format!("BEGIN_\napp_1  | {body}\napp_1  | Ab==");
        check(&format!("app_1  | {short}\napp_1  | ready\n"), Some(&short));
        let removed = format!("BEGIN_\n-{body}\n-{body}\n-END_");
        check(&format!("-{removed}\n+gone"), Some(&removed));
        let putty = format!("Private-Lines: 2\n{body}\n{body}");
        check(&format!("Public-Lines: 1\n{body}\n{putty}\nPrivate-MAC: 12"), Some(&putty));
        check("Private-Lines: 2 of 3 were read", None);
        check("no BEGIN_\n12:00:01 connection established\n12:00:02 listening\n", None);
    }

    #[test]
    fn marks_inside_a_block_are_gone_around() {
        let (body, mark) = ("MIIEpAIBAAKCAQEA75xYd3lV", "[secret:token:12345678]");
        for inner in [
            format!("{mark}\n{body}"),
            format!("{body}\n{mark}\n{body}"),
            format!("{body}{mark}{body}\n{body}"),
            format!("{body}\nAb{mark}\n{mark}{mark}\n{mark}cD"),
            format!("Proc-Type: {mark}\n{body}"),
            format!("app_1  | {body}\napp_1  | {mark}\napp_1  | {body}"),
        ] {
            let whole = format!("BEGIN_\n{inner}\nEND_");
            check(&format!("x {whole} y"), Some(&whole));
            let inline = format!("BEGIN_\\n{}\\nEND_", inner.replace('\n', "\\n"));
            check(&format!("\"{inline}\""), Some(&inline));
        }
        check(&format!("BEGIN_\n{mark}\nEND_"), None);
        check(&format!("no BEGIN_ in {mark}\nlast known {mark} is not that\n"), None);
    }

    #[test]
    fn while_a_block_is_open_its_line_is_waited_for() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75xYd3lV\n";
        let end = "-----END RSA PRIVATE KEY-----";
        for (text, want) in [
            (format!("a\nb {key}"), Some(2)),
            (format!("a\nb {key}{end}\n"), None),
            // The first key ends where the second begins: neither comes out alone.
            (format!("a\nb {key}{end} {key}"), Some(2)),
            (format!("{key}{end}\nc {key}"), Some(key.len() + end.len() + 1)),
        ] {
            let blocks = find(text.as_bytes(), More::Maybe);
            assert_eq!(blocks.open, want, "{text}");
            assert!(blocks.keys.iter().all(|key| key.end <= want.unwrap_or(text.len())), "{text}");
        }
    }
}
