//! A cleaned text and its lines.

/// The longest line that is looked at whole; a longer one counts as several.
pub(crate) const LONGEST: usize = 2 * 1024;

/// How many such pieces are kept from either end of a very long line.
const PIECES: usize = 8;

/// A cleaned text and where its lines are.
///
/// Empty lines are not counted, and of a line of many thousand bytes only the ends.
#[derive(Debug)]
pub(crate) struct OutputText<'t> {
    text: &'t str,
    lines: Vec<(usize, usize)>,
}

impl<'t> OutputText<'t> {
    /// Finds the lines of a cleaned text.
    pub(crate) fn new(text: &'t str) -> Self {
        let mut lines = Vec::with_capacity(64);
        let bytes = text.as_bytes();
        let mut start = 0;
        while let Some(first) = bytes.get(start) {
            // A search costs more than the empty lines it would find.
            if *first == b'\n' {
                start += bytes[start..].iter().take_while(|byte| **byte == b'\n').count();
                continue;
            }
            let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |n| start + n);
            push(text, start, end, &mut lines);
            start = end + 1;
        }
        Self { text, lines }
    }

    /// Returns the whole text.
    pub(crate) fn whole(&self) -> &'t str {
        self.text
    }

    /// Returns how many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns line `number`, or an empty one past the end.
    pub(crate) fn line(&self, number: usize) -> &'t str {
        self.lines.get(number).map_or("", |(start, end)| &self.text[*start..*end])
    }

    /// Returns where line `number` ends, or the text past the end.
    pub(crate) fn end(&self, number: usize) -> usize {
        self.lines.get(number).map_or(self.text.len(), |(_, end)| *end)
    }
}

/// Adds a line, cut into several where it is too long.
fn push(text: &str, mut start: usize, end: usize, lines: &mut Vec<(usize, usize)>) {
    let long = end - start > 2 * PIECES * LONGEST;
    for _ in 0..if long { PIECES } else { usize::MAX } {
        if end - start <= LONGEST {
            break;
        }
        let cut = boundary(text, start + LONGEST);
        lines.push((start, cut));
        start = cut;
    }
    if long {
        let tail = boundary(text, end - PIECES * LONGEST);
        push(text, tail, end, lines);
    } else if start < end {
        lines.push((start, end));
    }
}

/// Returns the last character boundary at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_between_characters() {
        let long = "é".repeat(LONGEST);
        let text = OutputText::new(&long);
        assert!(text.len() >= 2);
        let joined: String = (0..text.len()).map(|n| text.line(n)).collect();
        assert_eq!(joined, long);
        assert_eq!(OutputText::new("a\n\nb\n").len(), 2);
    }

    #[test]
    fn of_a_huge_line_the_ends_are_kept() {
        let huge = format!("start{}end", "é".repeat(50 * LONGEST));
        let text = OutputText::new(&huge);
        assert!(text.len() <= 2 * PIECES + 1, "{}", text.len());
        let kept: String = (0..text.len()).map(|n| text.line(n)).collect();
        assert!(kept.starts_with("start") && kept.ends_with("end"));
    }
}
