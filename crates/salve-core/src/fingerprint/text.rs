//! A cleaned text and its lines.

/// The longest line that is looked at whole; a longer one counts as several.
pub(crate) const LONGEST: usize = 2 * 1024;

/// A cleaned text and where its lines are.
#[derive(Debug)]
pub(crate) struct Text<'t> {
    text: &'t str,
    lines: Vec<(usize, usize)>,
}

impl<'t> Text<'t> {
    /// Finds the lines of a cleaned text.
    pub(crate) fn new(text: &'t str) -> Self {
        let mut lines = Vec::with_capacity(64);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text.as_bytes()) {
            push(text, (start, end), &mut lines);
            start = end + 1;
        }
        if start < text.len() {
            push(text, (start, text.len()), &mut lines);
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
fn push(text: &str, (mut start, end): (usize, usize), lines: &mut Vec<(usize, usize)>) {
    while end - start > LONGEST {
        let cut = (start + 1..=start + LONGEST)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(end);
        lines.push((start, cut));
        start = cut;
    }
    lines.push((start, end));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_between_characters() {
        let long = "é".repeat(LONGEST);
        let text = Text::new(&long);
        assert!(text.len() >= 2);
        let joined: String = (0..text.len()).map(|n| text.line(n)).collect();
        assert_eq!(joined, long);
        assert_eq!(Text::new("a\n\nb\n").len(), 3);
    }
}
