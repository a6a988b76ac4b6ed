//! The scrubber as a whole: every row of the table, streams, and scrubbing twice.

mod fill;
mod properties;
mod recall;

use super::*;
use fill::fill;

pub(super) fn scrubber() -> Scrubber {
    Scrubber::new(ScrubKey::new([7; 32]))
}

#[test]
fn every_row_finds_its_hits_and_leaves_its_misses() {
    let mut wrong = Vec::new();
    for row in &table::table().token {
        assert!(!row.hits.is_empty(), "{} has no example", row.kind);
        for (seed, hit) in row.hits.iter().enumerate() {
            for seed in 0..20 + seed {
                let token = fill(hit, seed as u64);
                let out = scrubber().scrub(&format!("sent {token} to them"));
                let tail = &token[token.len() - token.len().min(12)..];
                if !out.as_str().contains("[secret:") || out.as_str().contains(tail) {
                    wrong.push(format!("{}: {token} stayed: {out}", row.kind));
                    break;
                }
            }
        }
        for miss in &row.misses {
            let text = format!("sent {} to them", fill(miss, 1));
            let out = scrubber().scrub(&text);
            if out != *text {
                wrong.push(format!("{}: {text} became {out}", row.kind));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_stands_between_marks_in_a_key_goes() {
    let lines: Vec<_> = (0..6).map(|seed| fill("{b64}", seed)).collect();
    let mark = "[secret:token:12345678]";
    for at in 0..lines.len() {
        for column in [0, 1, 30, 63, 64] {
            let mut marked = lines.clone();
            marked[at].insert_str(column, mark);
            for ends in ["\n", "\r\n", "\\n", "\napp_1  | "] {
                let key = format!("PRIVATE KEY-----{ends}{}{ends}", marked.join(ends));
                for text in [
                    format!("key: -----BEGIN RSA {key}-----END RSA PRIVATE KEY----- done"),
                    format!("key: -----BEGIN EC {key}"),
                ] {
                    let once = scrubber().scrub(&text);
                    assert!(once.as_str().contains(mark), "{text} became {once}");
                    for line in lines.iter().flat_map(|line| line.as_bytes().chunks(16)) {
                        let left = memchr::memmem::find(once.as_str().as_bytes(), line);
                        assert_eq!(left, None, "{text} became {once}");
                    }
                    assert_eq!(once, scrubber().scrub(once.as_str()), "{text}");
                }
            }
        }
    }
}

#[test]
fn the_table_can_be_read_and_knows_eighty_kinds() {
    let text = include_str!("../../data/scrub.toml");
    let table = table::parse(text).unwrap();
    assert!(table.token.len() >= 80, "{}", table.token.len());
    let prefixes: usize = table::tokens().iter().map(|t| t.prefix.len().min(1)).sum();
    assert!(prefixes >= table.token.len(), "a shape cannot be compiled");
    let mut kinds: Vec<_> = table.token.iter().map(|row| &row.kind).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), table.token.len(), "a kind stands twice");
}
