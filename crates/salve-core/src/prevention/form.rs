//! How an argument is written, apart from what it says.

use std::fmt;

use serde_json::Value;

/// What an argument looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FormKind {
    /// Nothing.
    Null,
    /// True or false.
    Boolean,
    Number,
    List,
    Object,
    /// An empty text.
    Empty,
    /// A text of digits.
    Digits,
    /// A text of hexadecimal digits, with a letter among them.
    Hex,
    Uuid,
    /// A day, as in `2026-01-26`.
    Date,
    /// A day and a time.
    DateTime,
    /// An address with a scheme.
    Url,
    /// A path from the root.
    AbsolutePath,
    /// A path from somewhere.
    RelativePath,
    Word,
    /// Anything else.
    Text,
}

impl FormKind {
    const ALL: [Self; 16] = [
        Self::Null,
        Self::Boolean,
        Self::Number,
        Self::List,
        Self::Object,
        Self::Empty,
        Self::Digits,
        Self::Hex,
        Self::Uuid,
        Self::Date,
        Self::DateTime,
        Self::Url,
        Self::AbsolutePath,
        Self::RelativePath,
        Self::Word,
        Self::Text,
    ];

    /// Returns its name in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::List => "list",
            Self::Object => "object",
            Self::Empty => "empty",
            Self::Digits => "digits",
            Self::Hex => "hex",
            Self::Uuid => "uuid",
            Self::Date => "date",
            Self::DateTime => "datetime",
            Self::Url => "url",
            Self::AbsolutePath => "absolute_path",
            Self::RelativePath => "relative_path",
            Self::Word => "word",
            Self::Text => "text",
        }
    }
}

/// How an argument is written: its kind, and its length where that is part of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueForm {
    pub kind: FormKind,
    /// The length; only of hexadecimal digests, whose length is fixed.
    pub length: Option<usize>,
}

/// The shortest digest whose length is taken for its form.
const DIGEST: usize = 32;

impl ValueForm {
    /// Returns how a value is written.
    pub fn of(value: &Value) -> Self {
        let plain = |kind| Self { kind, length: None };
        match value {
            Value::Null => plain(FormKind::Null),
            Value::Bool(_) => plain(FormKind::Boolean),
            Value::Number(_) => plain(FormKind::Number),
            Value::Array(_) => plain(FormKind::List),
            Value::Object(_) => plain(FormKind::Object),
            Value::String(text) => {
                let kind = of_text(text);
                let is_digest = kind == FormKind::Hex && text.len() >= DIGEST;
                Self { kind, length: is_digest.then_some(text.len()) }
            }
        }
    }

    /// Reads what [`fmt::Display`] writes, as in `hex{40}`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, length) = match text.trim().split_once('{') {
            Some((name, rest)) => (name, Some(rest.strip_suffix('}')?.parse().ok()?)),
            None => (text.trim(), None),
        };
        let kind = FormKind::ALL.into_iter().find(|kind| kind.as_str() == name)?;
        Some(Self { kind, length })
    }
}

impl fmt::Display for ValueForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Some(length) => write!(f, "{}{{{length}}}", self.kind.as_str()),
            None => f.write_str(self.kind.as_str()),
        }
    }
}

fn of_text(text: &str) -> FormKind {
    let bytes = text.as_bytes();
    let all = |is: fn(&u8) -> bool| !bytes.is_empty() && bytes.iter().all(is);
    let is_shaped = |shape: &str| {
        bytes.len() >= shape.len()
            && shape.bytes().zip(bytes).all(|(want, byte)| match want {
                b'9' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_hexdigit(),
                other => other == *byte,
            })
    };
    const DAY: &str = "9999-99-99";
    match () {
        () if bytes.is_empty() => FormKind::Empty,
        () if bytes.len() == DAY.len() && is_shaped(DAY) => FormKind::Date,
        () if bytes.len() > DAY.len() && is_shaped(DAY) && matches!(bytes[10], b'T' | b' ') => {
            FormKind::DateTime
        }
        () if bytes.len() == 36 && is_shaped("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") => {
            FormKind::Uuid
        }
        () if all(u8::is_ascii_digit) => FormKind::Digits,
        () if bytes.len() >= 6 && all(u8::is_ascii_hexdigit) => FormKind::Hex,
        () if text.split_once("://").is_some_and(|(scheme, _)| is_word(scheme)) => FormKind::Url,
        () if text.contains(char::is_whitespace) => FormKind::Text,
        () if text.starts_with('/') => FormKind::AbsolutePath,
        () if text.contains('/') => FormKind::RelativePath,
        () if is_word(text) => FormKind::Word,
        () => FormKind::Text,
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}
