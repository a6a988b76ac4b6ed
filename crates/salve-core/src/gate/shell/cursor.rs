//! A place in a script, and the brackets that begin there.

use super::Unclear;

/// How deep brackets and quotes may nest inside one word.
const MAX_NESTING: usize = 8;

/// A place in a script.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Returns the character here.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Returns the character after this one.
    pub(super) fn second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    /// Returns the character here and goes on.
    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Goes on by one character.
    pub(super) fn step_over_one(&mut self) {
        self.next();
    }

    /// Goes past `text` if it is here.
    pub(super) fn step_over(&mut self, text: &str) -> bool {
        let here = self.rest().starts_with(text);
        if here {
            self.at += text.len();
        }
        here
    }

    /// Goes past everything up to the first byte that is not `inside`, and returns it.
    ///
    /// `inside` must treat all bytes beyond ASCII alike.
    pub(super) fn run(&mut self, inside: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.bytes().position(|b| !inside(b)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Goes to the end of the line and returns what was passed, without the newline.
    pub(super) fn line(&mut self) -> &'a str {
        let rest = self.rest();
        let line = rest.split('\n').next().unwrap_or(rest);
        self.at += line.len();
        line
    }

    /// Returns whether white space or nothing follows.
    pub(super) fn at_word_end(&self) -> bool {
        matches!(self.peek(), None | Some(' ' | '\t' | '\n'))
    }

    /// Reads the parentheses that open here, both included.
    pub(super) fn parens(&mut self) -> Result<&'a str, Unclear> {
        let start = self.at;
        self.skip_parens(0)?;
        let text = &self.text[start..self.at];
        // In these a parenthesis need not have a partner.
        let odd = ["<<", "esac", "#"].iter().any(|odd| text.contains(odd));
        if odd { Err(Unclear("a substitution holds more than plain commands")) } else { Ok(text) }
    }

    /// Reads the braces that open here, both included.
    pub(super) fn braces(&mut self) -> Result<&'a str, Unclear> {
        let start = self.at;
        let length = self.rest().find('}').ok_or(Unclear("a `${` is not closed"))?;
        self.at += length + 1;
        Ok(&self.text[start..self.at])
    }

    fn skip_parens(&mut self, depth: usize) -> Result<(), Unclear> {
        if depth > MAX_NESTING {
            return Err(Unclear("it is nested too deep"));
        }
        let mut open = 0_usize;
        loop {
            match self.next().ok_or(Unclear("a parenthesis is not closed"))? {
                '(' => open += 1,
                ')' if open == 1 => return Ok(()),
                ')' => open -= 1,
                '\\' => self.step_over_one(),
                '\'' => self.skip_to('\'')?,
                '`' => self.skip_to('`')?,
                '"' => self.skip_double(depth)?,
                '$' if self.peek() == Some('\'') => {
                    return Err(Unclear("a substitution holds a `$'` quote"));
                }
                _ => {}
            }
        }
    }

    fn skip_to(&mut self, end: char) -> Result<(), Unclear> {
        let length = self.rest().find(end).ok_or(Unclear("a quote is not closed"))?;
        let passed = &self.rest()[..length];
        if end == '`' && passed.contains('\\') {
            return Err(Unclear("back quotes are nested"));
        }
        self.at += length + 1;
        Ok(())
    }

    fn skip_double(&mut self, depth: usize) -> Result<(), Unclear> {
        loop {
            match self.next().ok_or(Unclear("a double quote is not closed"))? {
                '"' => return Ok(()),
                '\\' => self.step_over_one(),
                '`' => self.skip_to('`')?,
                '$' if self.peek() == Some('(') => self.skip_parens(depth + 1)?,
                _ => {}
            }
        }
    }
}
