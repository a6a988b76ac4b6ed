//! Words as the shell will see them: quotes removed, and holes where it will fill something in.

use super::super::pattern::Template;
use super::Unclear;
use super::cursor::Cursor;

/// One word of a command.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// As written, without line continuations.
    pub(super) raw: String,
    /// As the shell will see it.
    pub(super) cooked: Template,
}

impl Word {
    /// Returns the word's text if the shell fills nothing in.
    pub(super) fn known(&self) -> Option<&str> {
        self.cooked.known()
    }

    /// Returns whether the word is an option, as far as can be told.
    pub(super) fn is_option(&self) -> bool {
        self.cooked.head().starts_with('-')
    }

    /// Returns a word that is only known at run time.
    pub(super) fn unknown() -> Self {
        let mut cooked = Template::default();
        cooked.push_hole();
        Self { raw: String::new(), cooked }
    }
}

/// Reads one word at the cursor, collecting the scripts of its substitutions.
pub(super) fn read(cursor: &mut Cursor<'_>, nested: &mut Vec<String>) -> Result<Word, Unclear> {
    let mut reader =
        Reader { raw: String::new(), cooked: Template::default(), nested, braces: Braces::None };
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
        reader.cooked = Word::unknown().cooked;
    }
    Ok(Word { raw: reader.raw, cooked: reader.cooked })
}

/// Collects the scripts of the substitutions in a text that the shell expands like quoted text.
pub(super) fn read_here_document(text: &str, nested: &mut Vec<String>) -> Result<(), Unclear> {
    let mut reader =
        Reader { raw: String::new(), cooked: Template::default(), nested, braces: Braces::None };
    let mut cursor = Cursor::new(text);
    while let Some(c) = cursor.peek() {
        match c {
            '\\' => {
                cursor.bump();
                cursor.bump();
            }
            '$' => reader.dollar(&mut cursor, Quotes::Double)?,
            '`' => reader.backquote(&mut cursor)?,
            _ => cursor.bump(),
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

struct Reader<'a> {
    raw: String,
    cooked: Template,
    nested: &'a mut Vec<String>,
    braces: Braces,
}

impl Reader<'_> {
    fn take(&mut self, cursor: &mut Cursor<'_>) -> Option<char> {
        let c = cursor.next();
        self.raw.extend(c);
        c
    }

    fn literal(&mut self, c: char) {
        self.cooked.push(c.encode_utf8(&mut [0; 4]));
    }

    fn plain(&mut self, cursor: &mut Cursor<'_>, c: char) {
        use Braces as B;
        let start = self.raw.is_empty() || self.raw.ends_with(['=', ':']);
        self.take(cursor);
        self.braces = match (self.braces, c) {
            (B::None, '{') => B::Open,
            (B::Open, ',') => B::Separator,
            (B::Open, '.') if cursor.peek() == Some('.') => B::Separator,
            (B::Separator, '}') => B::Expand,
            (braces, _) => braces,
        };
        match c {
            '*' | '?' => self.cooked.push_hole(),
            '[' if self.raw != "[" || !cursor.at_word_end() => self.cooked.push_hole(),
            '~' if start => self.cooked.push_hole(),
            _ => self.literal(c),
        }
    }

    fn escape(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        match cursor.second() {
            None => Err(Unclear("it ends in a backslash")),
            Some('\n') => {
                cursor.bump();
                cursor.bump();
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
        loop {
            match self.take(cursor) {
                None => return Err(Unclear("a single quote is not closed")),
                Some('\'') => return Ok(()),
                Some(c) => self.literal(c),
            }
        }
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
                Some(c) => {
                    self.take(cursor);
                    self.literal(c);
                }
            }
        }
    }

    /// Reads what follows a `$`: always a hole, and never more than is understood.
    fn dollar(&mut self, cursor: &mut Cursor<'_>, quotes: Quotes) -> Result<(), Unclear> {
        self.take(cursor);
        match cursor.peek() {
            Some('(') if cursor.second() == Some('(') => {
                let text = cursor.parens()?;
                self.raw.push_str(text);
                // Names in arithmetic are evaluated, whatever their variables hold.
                let sum = |c: char| c.is_ascii_digit() || " ()+-*/%<>=!&|^~?:,".contains(c);
                if !text.chars().all(sum) {
                    return Err(Unclear("it computes with more than plain numbers"));
                }
            }
            Some('(') => self.substitution(cursor)?,
            Some('{') => {
                let text = cursor.braces()?;
                self.raw.push_str(text);
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
                while cursor.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.take(cursor);
                }
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => drop(self.take(cursor)),
            Some(_) | None => {
                self.literal('$');
                return Ok(());
            }
        }
        self.cooked.push_hole();
        Ok(())
    }

    fn substitution(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        let text = cursor.parens()?;
        self.raw.push_str(text);
        self.nested.push(text[1..text.len() - 1].to_owned());
        Ok(())
    }

    fn process_substitution(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unclear> {
        self.take(cursor);
        self.substitution(cursor)?;
        self.cooked.push_hole();
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
        self.cooked.push_hole();
        Ok(())
    }
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
