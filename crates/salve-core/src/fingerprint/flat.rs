//! Flat lines, as shapes see them.

use super::peel::{Peeled, nested, peel};
pub(crate) use super::table::flat::flatten;
use super::table::flat::{Ends, flatten_into};

/// A line as shapes see it, and where its message starts in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat {
    /// The whole line, flat.
    pub(crate) text: String,
    /// Where it goes on after the log decorations.
    pub(crate) body: usize,
    /// Where it goes on after words that only say "error".
    pub(crate) core: usize,
}

impl Flat {
    /// Flattens a line that was peeled, using the buffer again.
    pub(crate) fn fill(&mut self, line: &str, peeled: &Peeled<'_>) {
        let line = nested(line.trim());
        let place = |part: &str| (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
        let body = place(peeled.body).min(line.len());
        let core = place(peeled.core).clamp(body, line.len());
        self.text.clear();
        flatten_into(&line[..body], &mut self.text, Ends::Kept);
        self.body = self.text.len();
        flatten_into(&line[body..core], &mut self.text, Ends::Kept);
        self.core = self.text.len();
        flatten_into(&line[core..], &mut self.text, Ends::Kept);
    }

    /// Flattens a line.
    pub(crate) fn new(line: &str) -> Self {
        let mut flat = Self::default();
        flat.fill(line, &peel(line));
        flat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_line_knows_where_its_message_starts() {
        let flat = Flat::new("web-1  | npm ERR!  Error: Cannot  find \"x\"");
        assert_eq!(&flat.text[flat.body..], "Error: Cannot find 'x'");
        assert_eq!(&flat.text[flat.core..], "Cannot find 'x'");
    }
}
