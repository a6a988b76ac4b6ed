//! Words as the shell will see them: quotes removed, and holes where it will fill something in.

use super::super::pattern::{HOLE, Template};
use super::Unclear;
use super::cursor::Cursor;

/// One word of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShellWord<'w> {
    /// As written, without line continuations.
    pub(super) raw: &'w str,
    /// As the shell will see it.
    pub(super) cooked: Template<'w>,
}

impl<'w> ShellWord<'w> {
    /// A word that is only known at run time.
    pub(super) const UNKNOWN: ShellWord<'static> = ShellWord { raw: "\0", cooked: Template("\0") };

    /// Returns the word's text if the shell fills nothing in.
    pub(super) fn known(self) -> Option<&'w str> {
        self.cooked.known()
    }

    /// Returns whether the word is an option, as far as can be told.
    pub(super) fn is_option(self) -> bool {
        self.cooked.0.starts_with('-')
    }
}

/// How many bytes an ordinary command has.
const ORDINARY: usize = 64;

/// The words of one command, each text in one piece with single blanks between the words.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandWords {
    raw: String,
    cooked: String,
    /// Where each word ends in both.
    ends: Vec<(usize, usize)>,
}

impl CommandWords {
    /// Returns whether there are no words.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns how many words there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends a word.
    pub(super) fn push(&mut self, word: ShellWord<'_>) {
        if self.is_empty() {
            // Room for an ordinary command at once: growing to it takes longer than reading it.
            self.raw.reserve(ORDINARY);
            self.cooked.reserve(ORDINARY);
        } else {
            self.raw.push(' ');
            self.cooked.push(' ');
        }
        self.raw.push_str(word.raw);
        self.cooked.push_str(word.cooked.0);
        self.ends.push((self.raw.len(), self.cooked.len()));
    }

    /// Returns the text from word `at` on, which there must be.
    pub(super) fn from(&self, at: usize) -> ShellWord<'_> {
        let (raw, cooked) = self.start(at);
        ShellWord { raw: &self.raw[raw..], cooked: Template(&self.cooked[cooked..]) }
    }

    /// Returns word `at`, if there is one.
    pub(super) fn get(&self, at: usize) -> Option<ShellWord<'_>> {
        let &(raw_end, cooked_end) = self.ends.get(at)?;
        let (raw, cooked) = self.start(at);
        let cooked = Template(&self.cooked[cooked..cooked_end]);
        Some(ShellWord { raw: &self.raw[raw..raw_end], cooked })
    }

    /// Returns the words from word `at` on.
    pub(super) fn iter_from(&self, at: usize) -> impl Iterator<Item = ShellWord<'_>> + Clone {
        (at..self.len()).filter_map(|at| self.get(at))
    }

    fn start(&self, at: usize) -> (usize, usize) {
        match at.checked_sub(1).and_then(|before| self.ends.get(before)) {
            Some((raw, cooked)) => (raw + 1, cooked + 1),
            None => (0, 0),
        }
    }

    /// Makes every word from `at` on that `hides` something a word known only at run time.
    pub(super) fn hide(&mut self, at: usize, hides: impl Fn(ShellWord<'_>) -> bool) {
        let mut words = CommandWords::default();
        for (number, word) in self.iter_from(0).enumerate() {
            let hidden = number >= at && hides(word);
            words.push(if hidden {
                ShellWord { raw: word.raw, ..ShellWord::UNKNOWN }
            } else {
                word
            });
        }
        *self = words;
    }
}

/// A word while it is read.
#[derive(Debug, Default)]
pub(super) struct WordDraft {
    raw: String,
    cooked: String,
}

impl WordDraft {
    /// Returns what was read.
    pub(super) fn word(&self) -> ShellWord<'_> {
        ShellWord { raw: &self.raw, cooked: Template(&self.cooked) }
    }

    /// Reads one word at the cursor, collecting the scripts of its substitutions.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        nested: &mut Vec<String>,
    ) -> Result<(), Unclear> {
        self.raw.clear();
        self.cooked.clear();
        let mut reader = WordReader { draft: self, nested, braces: Braces::None };
        while let Some(c) = cursor.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' if cursor.second() != Some('(') => break,
                '<' | '>' => reader.process_substitution(cursor)?,
                '\\' => reader.escape(cursor)?,
                '\'' => reader.single(cursor)?,
                '"' => reader.double(cursor)?,
                '$' => reader.dollar(cursor, Quotes::No)?,
                '`' => reader.backquote(cursor)?,
                _ => reader.plain(cursor, c),
            }
        }
        if reader.braces == Braces::Expand {
            // One word may become many; what they are is left to the shell.
            self.cooked.clear();
            self.cooked.push(HOLE);
        }
        Ok(())
    }
}

/// Collects the scripts of the substitutions in a text that the shell expands like quoted text.
pub(super) fn read_here_document(text: &str, nested: &mut Vec<String>) -> Result<(), Unclear> {
    let mut draft = WordDraft::default();
    let mut reader = WordReader { draft: &mut draft, nested, braces: Braces::None };
    let mut cursor = Cursor::new(text);
    while let Some(c) = cursor.peek() {
        match c {
            '\\' => {
                cursor.step_over_one();
                cursor.step_over_one();
            }
            '$' => reader.dollar(&mut cursor, Quotes::Double)?,
            '`' => reader.backquote(&mut cursor)?,
            _ => drop(cursor.run(|b| !matches!(b, b'\\' | b'$' | b'`'))),
        }
    }
    Ok(())
}

/// How far a `{a,b}` or `{1..3}` has been seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Braces {
    None,
    Open,
    Separator,
    Expand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    No,
    Double,
}

struct WordReader<'a> {
    draft: &'a mut WordDraft,
    nested: &'a mut Vec<String>,
    braces: Braces,
}

impl WordReader<'_> {
    fn take(&mut self, cursor: &mut Cursor<'_>) -> Option<char> {
        let c = cursor.next();
        self.draft.raw.extend(c);
        c
    }

    fn literal(&mut self, c: char) {
        self.draft.cooked.push(c);
    }

    fn hole(&mut self) {
        self.draft.cooked.push(HOLE);
    }

    /// Takes everything up to the first byte that is not `inside` as it stands.
    fn run(&mut self, cursor: &mut Cursor<'_>, inside: impl Fn(u8) -> bool) {
        let text = cursor.run(inside);
        self.draft.raw.push_str(text);
        self.draft.cooked.push_str(text);
    }

    fn plain(&mut self, cursor: &mut Cursor<'_>, c: char) {
        use Braces as B;
        if is_ordinary(c as u32) {
            return self.run(cursor, |b| is_ordinary(b.into()));
        }
        let raw = &self.draft.raw;
        let start = raw.is_empty() || raw.ends_with(['=', ':']);
        self.take(cursor);
        self.braces = match (self.braces, c) {
            (B::None, '{') => B::Open,
            (B::Open, ',') => B::Separator,
            (B::Open, '.') if cursor.peek() == Some('.') => B::Separator,
            (B::Separator, '}') => B::Expand,
            (braces, _) => braces,
        };
        match c {
            '*' | '?' => self.hole(),
            '[' if self.draft.raw != "[" || !cursor.at_word_end() => self.hole(),
            '~' if start => self.hole(),
            _ => self.literal(c),
        }
    }

    fn escape(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        match cursor.second() {
            None => Err(Unclear("it ends in a backslash")),
            Some('\n') => {
                cursor.step_over_one();
                cursor.step_over_one();
                Ok(())
            }
            Some(c) => {
                self.take(cursor);
                self.take(cursor);
                self.literal(c);
                Ok(())
            }
        }
    }

    fn single(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        self.take(cursor);
        self.run(cursor, |b| b != b'\'');
        self.take(cursor).map(drop).ok_or(Unclear("a single quote is not closed"))
    }

    fn double(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        self.take(cursor);
        loop {
            match cursor.peek() {
                None => return Err(Unclear("a double quote is not closed")),
                Some('"') => {
                    self.take(cursor);
                    return Ok(());
                }
                Some('\\') => match cursor.second() {
                    Some('$' | '`' | '"' | '\\' | '\n') => self.escape(cursor)?,
                    _ => {
                        self.take(cursor);
                        self.literal('\\');
                    }
                },
                Some('$') => self.dollar(cursor, Quotes::Double)?,
                Some('`') => self.backquote(cursor)?,
                Some(_) => self.run(cursor, |b| !matches!(b, b'"' | b'\\' | b'$' | b'`')),
            }
        }
    }

    /// Reads what follows a `$`: always a hole, and never more than is understood.
    fn dollar(&mut self, cursor: &mut Cursor<'_>, quotes: Quotes) -> Result<(), Unclear> {
        self.take(cursor);
        match cursor.peek() {
            Some('(') if cursor.second() == Some('(') => {
                let text = cursor.parens()?;
                self.draft.raw.push_str(text);
                // Names in arithmetic are evaluated, whatever their variables hold.
                let sum = |c: char| c.is_ascii_digit() || " ()+-*/%<>=!&|^~?:,".contains(c);
                if !text.chars().all(sum) {
                    return Err(Unclear("it computes with more than plain numbers"));
                }
            }
            Some('(') => self.substitution(cursor)?,
            Some('{') => {
                let text = cursor.braces()?;
                self.draft.raw.push_str(text);
                plain_parameter(text)?;
            }
            Some('[') => return Err(Unclear("it computes with more than plain numbers")),
            Some('\'') if quotes == Quotes::No => {
                self.take(cursor);
                loop {
                    match self.take(cursor) {
                        None => return Err(Unclear("a single quote is not closed")),
                        Some('\\') => drop(self.take(cursor)),
                        Some('\'') => break,
                        Some(_) => {}
                    }
                }
            }
            Some('"') if quotes == Quotes::No => {}
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = cursor.run(|b| b.is_ascii_alphanumeric() || b == b'_');
                self.draft.raw.push_str(name);
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => drop(self.take(cursor)),
            Some(_) | None => {
                self.literal('$');
                return Ok(());
            }
        }
        self.hole();
        Ok(())
    }

    fn substitution(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        let text = cursor.parens()?;
        self.draft.raw.push_str(text);
        self.nested.push(text[1..text.len() - 1].to_owned());
        Ok(())
    }

    fn process_substitution(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        self.take(cursor);
        self.substitution(cursor)?;
        self.hole();
        Ok(())
    }

    fn backquote(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        self.take(cursor);
        let mut script = String::new();
        loop {
            match self.take(cursor) {
                None => return Err(Unclear("a back quote is not closed")),
                Some('`') => break,
                Some('\\') => match self.take(cursor) {
                    Some(c @ ('`' | '\\' | '$')) => script.push(c),
                    Some(c) => script.extend(['\\', c]),
                    None => return Err(Unclear("a back quote is not closed")),
                },
                Some(c) => script.push(c),
            }
        }
        self.nested.push(script);
        self.hole();
        Ok(())
    }
}

/// Returns whether a character outside quotes only ever stands for itself.
fn is_ordinary(c: u32) -> bool {
    u8::try_from(c).is_ok_and(|b| b.is_ascii_alphanumeric() || b"_-/:=+%@".contains(&b))
}

/// Checks that `${…}` only looks something up.
fn plain_parameter(text: &str) -> Result<(), Unclear> {
    let inner = &text[1..text.len() - 1];
    let inner = inner.strip_prefix(['!', '#']).unwrap_or(inner);
    let name = inner.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count();
    let rest = &inner[name..];
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-+=?:%#/.,^~".contains(c);
    let slices = rest.strip_prefix(':').is_some_and(|r| !r.starts_with(['-', '=', '?', '+']));
    if rest.chars().all(plain) && !slices {
        Ok(())
    } else {
        Err(Unclear("it expands a variable in a way that may run something"))
    }
}
