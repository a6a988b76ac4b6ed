//! Breaks long lines of lists and stories where a window ends, under the column in which they began.
//!
//! **Invariant:** what can be pasted stays whole: a word, what stands in backquotes, and a command
//! of Salve at the end of a line or in a column of its own.

/// The narrowest window for which lines are broken.
const NARROWEST: usize = 30;

/// The last column at which the rest of a broken line may begin.
const DEEPEST: usize = 40;

/// Returns how wide the window is that a stream leads to, if it is one.
pub(super) fn window_of(stream: impl rustix::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns a line in lines of `width` columns at most, as far as its words allow; what shows a
/// place in a file stays as it is.
pub(super) fn hang(line: &str, width: usize) -> String {
    if width < NARROWEST || columns(line) <= width || quotes_a_file(line) {
        return line.to_owned();
    }
    let hanging = hanging_column(line, width);
    let mut broken = String::with_capacity(line.len() + 64);
    let mut at = 0;
    let mut is_fresh = false;
    for unit in units(line, width - hanging) {
        let own = columns(unit.trim_end());
        if at > hanging && at + own > width && own > 0 {
            broken.truncate(broken.trim_end_matches(' ').len());
            broken.push('\n');
            broken.extend(std::iter::repeat_n(' ', hanging));
            (at, is_fresh) = (hanging, true);
        }
        if own == 0 && (is_fresh || at + columns(unit) > width) {
            // Blanks at an edge; a style that ends there still ends.
            broken.push_str(unit.trim_matches(' '));
            continue;
        }
        is_fresh = false;
        broken.push_str(unit);
        at += columns(unit);
    }
    broken.truncate(broken.trim_end_matches(' ').len());
    broken
}

/// Returns how many columns a text takes, without the sequences that give it a style.
fn columns(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    let plain = |part: &str| part.split_once('m').map_or(part, |(_, rest)| rest).chars().count();
    first + parts.map(plain).sum::<usize>()
}

/// Tells whether a line quotes one of a file, with its number, or points below it.
fn quotes_a_file(line: &str) -> bool {
    line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
}

/// Returns the column under which the rest of a line stands: its last one that begins early enough.
fn hanging_column(line: &str, width: usize) -> usize {
    let leading = line.len() - line.trim_start_matches(' ').len();
    let deepest = DEEPEST.min(width / 2);
    let mut column = (leading + 2).min(width / 2);
    let mut from = leading;
    while let Some(gap) = line[from..].find("  ") {
        let after = from + gap;
        let begin = after + (line[after..].len() - line[after..].trim_start_matches(' ').len());
        let at = columns(&line[..begin]);
        if at > deepest || begin == line.len() {
            break;
        }
        (column, from) = (at, begin);
    }
    column
}

/// Returns the parts of a line between which it may be broken, each with the space behind it.
fn units(line: &str, room: usize) -> Vec<&str> {
    let words: Vec<&str> = line.split_inclusive(' ').collect();
    let mut units = Vec::with_capacity(words.len());
    let (mut at, mut next) = (0, 0);
    while next < words.len() {
        let begins = next == 0 || words[next - 1].trim().is_empty();
        let is_told = next > 0 && words[next - 1].trim_end().ends_with(':');
        let many = whole_words(&words[next..], begins || is_told);
        let long = words[next..next + many].iter().map(|word| word.len()).sum::<usize>();
        // Where there is no room for it as a whole, it is broken like anything else.
        let many = if columns(line[at..at + long].trim_end()) > room { 1 } else { many };
        let long = words[next..next + many].iter().map(|word| word.len()).sum::<usize>();
        units.push(&line[at..at + long]);
        (at, next) = (at + long, next + many);
    }
    units
}

/// Returns how many words belong together from the first one on.
fn whole_words(words: &[&str], may_begin_command: bool) -> usize {
    if may_begin_command && words[0].trim_end() == "salve" {
        let until_gap = words.iter().take_while(|word| !word.trim().is_empty()).count();
        return until_gap.max(1);
    }
    let mut marks = 0;
    for (count, word) in words.iter().enumerate() {
        marks += word.matches('`').count();
        if marks % 2 == 0 {
            return count + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, width: usize, want: &[&str]) {
        assert_eq!(hang(line, width), want.join("\n"));
    }

    #[test]
    fn a_line_is_broken_under_the_column_in_which_it_began() {
        let line = "  19:27:30  salve        test failed (exit 1): expected 160 to equal 180";
        let want = [
            "  19:27:30  salve        test failed (exit 1):",
            "                         expected 160 to equal 180",
        ];
        check(line, 50, &want);
        check(line, 80, &[line]);
        check(
            "  because: the file is wrong in a way",
            30,
            &["  because: the file is wrong", "    in a way"],
        );
        let gap_at_the_end = "one two three four five six seven  eight";
        check(gap_at_the_end, 30, &["one two three four five six", "  seven  eight"]);
    }

    #[test]
    fn what_can_be_pasted_stays_whole() {
        let line = "  no salve runs it now; go on with: salve resume 8cbb710cf082";
        check(line, 50, &["  no salve runs it now; go on with:", "    salve resume 8cbb710cf082"]);
        let line = "write it with `npm run build -- --watch` and go on";
        check(line, 39, &["write it with", "  `npm run build -- --watch` and go on"]);
        let path = format!("  files: {}", "x".repeat(50));
        check(&path, 40, &["  files:", &format!("    {}", "x".repeat(50))]);
        // What is longer than the window is broken like anything else.
        let line = format!("salve {}", "word ".repeat(12).trim_end());
        assert!(hang(&line, 30).lines().all(|line| line.len() <= 30));
    }

    #[test]
    fn styles_take_no_room_and_places_in_files_stay() {
        let styled = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m exactly thirty columns!";
        check(styled, 30, &[styled]);
        let quoted = "12 | key = \"a value that is longer than the window is wide\"";
        check(quoted, 30, &[quoted]);
        let filled = "\u{1b}[1mexactly twenty-eight columns    \u{1b}[0m  and more";
        let want = ["\u{1b}[1mexactly twenty-eight columns  \u{1b}[0m", "  and more"];
        check(filled, 30, &want);
        check("", 30, &[""]);
        let deep = format!("{}deeper than the window is wide", " ".repeat(90));
        assert!(hang(&deep, 40).ends_with("wide"));
        check(
            "a narrow window is left to the terminal",
            20,
            &["a narrow window is left to the terminal"],
        );
    }
}
