//! Reads who a JSON-RPC message is for and leaves its contents alone.
//!
//! A proxy that parses messages into types drops what it does not know and pays for every byte
//! twice. Only the members of the outermost object matter here, so a message is scanned, in as many
//! pieces as it comes in, and is never kept: a result of fifty megabytes passes in small memory.

use std::fmt;

/// The longest id or method that is read; real ones have a few dozen bytes.
const LONGEST: usize = 512;

/// A message's id as it is written in JSON: `7` and `"7"` are different ids.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Box<str>);

impl MessageId {
    /// Takes an id as it is written in JSON.
    pub fn from_json(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the id as it is written in JSON.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What one line on a wire of the Model Context Protocol is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// It wants an answer.
    Request {
        /// Under which id.
        id: MessageId,
        /// What is asked for.
        method: String,
    },
    /// It wants no answer.
    Notification {
        /// What is told.
        method: String,
    },
    /// It answers the request with this id.
    Response {
        /// Whose answer it is.
        id: MessageId,
        /// Which of the two answers a protocol knows it is.
        answer: RequestAnswer,
    },
    /// An array of objects, which may be several messages.
    Batch,
    /// Nothing but white space.
    Blank,
    /// JSON that is no message, as structured logs are.
    Foreign,
    /// Text that does not even begin like a message, as logs are.
    Text,
    /// The beginning of a message that is cut off or broken.
    Malformed {
        /// Its id, if that was still legible.
        id: Option<MessageId>,
    },
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAnswer {
    /// With a result.
    Result,
    /// With a protocol error.
    Error,
}

impl Envelope {
    /// Reads one whole line.
    pub fn of(line: &[u8]) -> Envelope {
        let mut scanner = EnvelopeScanner::default();
        scanner.feed(line);
        scanner.finish()
    }
}

/// Where in a message the scanner is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanPlace {
    /// Before the first byte that is no white space.
    #[default]
    Before,
    /// After a bracket that begins a batch, or a line of a log.
    Bracket,
    /// In the outermost object, before a member's name or the object's end.
    Name,
    /// After a member's name.
    Colon,
    /// Before a member's value.
    Value,
    /// In a value that is neither string nor container.
    Scalar,
    /// In a container of this depth below the outermost object.
    Inside(u32),
    /// After a member's value.
    Comma,
    /// After the object's end.
    After,
    /// In something that is not scanned.
    Skipped(Skipped),
}

/// Why the rest of a line is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    Batch,
    Text,
    Broken,
}

/// Which member's name was read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    Id,
    Method,
    Result,
    Error,
    #[default]
    Other,
}

/// In which string the scanner is, if in any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringPlace {
    #[default]
    None,
    /// A member's name.
    Name,
    /// A member's value.
    Value,
    /// Somewhere deeper.
    Deep,
}

/// Reads a message that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct EnvelopeScanner {
    place: ScanPlace,
    text: StringPlace,
    is_escaped: bool,
    member: Member,
    /// What is being read: a name, an id or a method.
    read: Vec<u8>,
    id: Option<MessageId>,
    method: Option<String>,
    answer: Option<RequestAnswer>,
}

impl EnvelopeScanner {
    /// Takes in the next piece.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at = match (self.text, self.place) {
                (StringPlace::None, ScanPlace::Skipped(_)) => return,
                (StringPlace::None, ScanPlace::Inside(depth)) => self.skip(bytes, at, depth),
                (StringPlace::None, _) => {
                    self.byte(bytes[at]);
                    at + 1
                }
                (StringPlace::Name | StringPlace::Value | StringPlace::Deep, _) => {
                    self.string(bytes, at)
                }
            };
        }
    }

    /// Returns whether the line is no message, as far as its first bytes tell.
    pub fn is_text(&self) -> bool {
        self.place == ScanPlace::Skipped(Skipped::Text)
    }

    /// Returns what the line is, now that it is over.
    pub fn finish(self) -> Envelope {
        match self.place {
            ScanPlace::Before => return Envelope::Blank,
            ScanPlace::Skipped(Skipped::Batch) => return Envelope::Batch,
            ScanPlace::Skipped(Skipped::Text) | ScanPlace::Bracket => return Envelope::Text,
            ScanPlace::After if self.text == StringPlace::None => {}
            _ => return Envelope::Malformed { id: self.id },
        }
        match (self.id, self.method, self.answer) {
            (Some(id), Some(method), _) => Envelope::Request { id, method },
            (None, Some(method), _) => Envelope::Notification { method },
            (Some(id), None, Some(answer)) => Envelope::Response { id, answer },
            (_, None, _) => Envelope::Foreign,
        }
    }

    /// Takes in one byte that is in no string and in no inner container.
    fn byte(&mut self, byte: u8) {
        let is_space = byte.is_ascii_whitespace();
        self.place = match (self.place, byte) {
            (ScanPlace::Scalar, b',' | b'}') => {
                self.value_ended();
                if byte == b',' { ScanPlace::Name } else { ScanPlace::After }
            }
            (ScanPlace::Scalar, _) if is_space => {
                self.value_ended();
                ScanPlace::Comma
            }
            (ScanPlace::Scalar, _) => {
                self.take(&[byte]);
                ScanPlace::Scalar
            }
            (place, _) if is_space => place,
            (ScanPlace::Before, b'{') => ScanPlace::Name,
            (ScanPlace::Before, b'[') => ScanPlace::Bracket,
            (ScanPlace::Bracket, b'{' | b']') => ScanPlace::Skipped(Skipped::Batch),
            // Many logs put the level in brackets before each line.
            (ScanPlace::Bracket, _) => ScanPlace::Skipped(Skipped::Text),
            // Some servers begin their first line with the mark of UTF-8.
            (ScanPlace::Before, 0xef | 0xbb | 0xbf) => ScanPlace::Before,
            (ScanPlace::Before, _) => ScanPlace::Skipped(Skipped::Text),
            (ScanPlace::Name, b'"') => {
                self.begin(StringPlace::Name);
                ScanPlace::Name
            }
            (ScanPlace::Name | ScanPlace::Comma, b'}') => ScanPlace::After,
            (ScanPlace::Comma, b',') => ScanPlace::Name,
            (ScanPlace::Colon, b':') => ScanPlace::Value,
            (ScanPlace::Value, b'"') => {
                self.begin(StringPlace::Value);
                self.take(b"\"");
                ScanPlace::Comma
            }
            (ScanPlace::Value, b'{' | b'[') => {
                self.value_began();
                ScanPlace::Inside(1)
            }
            (ScanPlace::Value, b'}' | b']' | b',' | b':') => ScanPlace::Skipped(Skipped::Broken),
            (ScanPlace::Value, _) => {
                self.read.clear();
                self.take(&[byte]);
                ScanPlace::Scalar
            }
            (ScanPlace::Name | ScanPlace::Colon | ScanPlace::Comma | ScanPlace::After, _) => {
                ScanPlace::Skipped(Skipped::Broken)
            }
            (place @ (ScanPlace::Inside(_) | ScanPlace::Skipped(_)), _) => place,
        };
    }

    /// Skips what is in an inner container up to a string's beginning or the container's end.
    fn skip(&mut self, bytes: &[u8], from: usize, mut depth: u32) -> usize {
        for (at, byte) in bytes.iter().enumerate().skip(from) {
            match byte {
                b'"' => {
                    self.place = ScanPlace::Inside(depth);
                    self.begin(StringPlace::Deep);
                    return at + 1;
                }
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.place = ScanPlace::Comma;
                return at + 1;
            }
        }
        self.place = ScanPlace::Inside(depth);
        bytes.len()
    }

    /// Takes in a string's bytes up to its end, or to the piece's.
    fn string(&mut self, bytes: &[u8], from: usize) -> usize {
        if self.is_escaped {
            self.is_escaped = false;
            self.take_text(&bytes[from..=from]);
            return from + 1;
        }
        let rest = &bytes[from..];
        let Some(length) = memchr::memchr2(b'"', b'\\', rest) else {
            self.take_text(rest);
            return bytes.len();
        };
        self.take_text(&rest[..length]);
        if rest[length] == b'\\' {
            self.take_text(b"\\");
            self.is_escaped = true;
        } else {
            self.string_ended();
        }
        from + length + 1
    }

    fn begin(&mut self, text: StringPlace) {
        self.text = text;
        self.is_escaped = false;
        if text != StringPlace::Deep {
            self.read.clear();
        }
    }

    fn string_ended(&mut self) {
        match std::mem::take(&mut self.text) {
            StringPlace::Name => {
                self.member = match &*self.read {
                    b"id" => Member::Id,
                    b"method" => Member::Method,
                    b"result" => Member::Result,
                    b"error" => Member::Error,
                    _ => Member::Other,
                };
                self.read.clear();
                self.place = ScanPlace::Colon;
            }
            StringPlace::Value => {
                self.take(b"\"");
                self.value_ended();
            }
            StringPlace::Deep | StringPlace::None => {}
        }
    }

    fn take_text(&mut self, bytes: &[u8]) {
        let is_read = match self.text {
            StringPlace::Name => true,
            StringPlace::Value => matches!(self.member, Member::Id | Member::Method),
            StringPlace::Deep | StringPlace::None => false,
        };
        if is_read {
            self.take(bytes);
        }
    }

    /// Keeps what is read; something too long to be real becomes the same as any other such.
    fn take(&mut self, bytes: &[u8]) {
        let left = LONGEST.saturating_sub(self.read.len());
        self.read.extend_from_slice(&bytes[..bytes.len().min(left)]);
    }

    fn value_began(&mut self) {
        match self.member {
            // A container can be neither.
            Member::Id | Member::Method | Member::Other => {}
            Member::Result => self.answer = self.answer.or(Some(RequestAnswer::Result)),
            Member::Error => self.answer = Some(RequestAnswer::Error),
        }
    }

    fn value_ended(&mut self) {
        let read = std::mem::take(&mut self.read);
        let text = String::from_utf8(read).unwrap_or_default();
        match self.member {
            Member::Id if text != "null" && !text.is_empty() => {
                self.id = Some(MessageId::from_json(&text));
            }
            Member::Method => self.method = serde_json::from_str(&text).ok(),
            // Some servers send both members, one of them empty.
            Member::Error if text == "null" => {}
            Member::Result | Member::Error => self.value_began(),
            Member::Id | Member::Other => {}
        }
    }
}

#[cfg(test)]
mod tests;
