//! Several messages in one line, as the protocol of 2025-03-26 lets clients send them.
//!
//! A batch is taken apart: each of its messages goes on by itself, byte for byte, so that each
//! request is healed, timed and saved from a dead server like any other, and so that a server is
//! asked in a way that it knows, for later protocols have no batches. The answers are gathered, and
//! the client gets them in one line, as it asked. To hand the whole batch on, and to look into it
//! only once the server is dead, would be a second way for calls to be repeated or refused.
//!
//! **Invariant:** every request of a batch is answered once, and whatever wants no answer gets none.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::envelope::{Envelope, MessageId};

/// The messages of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchMessages<'l> {
    /// All of them, as they are written.
    pub messages: Vec<&'l str>,
    /// The requests among them.
    pub asked: Vec<MessageId>,
}

impl<'l> BatchMessages<'l> {
    /// Reads a line that begins like a batch; returns nothing if it holds anything but messages.
    pub fn of(line: &'l [u8]) -> Option<Self> {
        let parts: Vec<&RawValue> = serde_json::from_slice(line).ok()?;
        let messages: Vec<&str> = parts.into_iter().map(RawValue::get).collect();
        let mut asked = Vec::new();
        for message in &messages {
            match Envelope::of(message.as_bytes()) {
                Envelope::Request { id, .. } => asked.push(id),
                Envelope::Notification { .. } | Envelope::Response { .. } => {}
                // One within another is no message either.
                Envelope::Batch
                | Envelope::Blank
                | Envelope::Foreign
                | Envelope::Text
                | Envelope::Malformed { .. } => return None,
            }
        }
        (!messages.is_empty()).then_some(Self { messages, asked })
    }

    /// Returns the messages as lines of their own.
    pub fn lines(&self) -> Vec<u8> {
        self.messages.iter().flat_map(|message| [message.as_bytes(), b"\n"].concat()).collect()
    }
}

/// What becomes of an answer on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatheredAnswer {
    /// It belongs to no batch, and goes on by itself.
    Single,
    /// Its batch waits for others.
    Kept,
    /// It was the last of its batch, whose answers are this line.
    Whole(Vec<u8>),
}

/// The batches of a client that are not answered yet.
#[derive(Clone, Debug, Default)]
pub struct RequestBatches {
    open: Vec<OpenBatch>,
}

#[derive(Clone, Debug)]
struct OpenBatch {
    waiting: HashSet<MessageId>,
    /// The answers so far, with commas between them.
    answers: Vec<u8>,
}

impl RequestBatches {
    /// Begins to gather the answers to these requests.
    pub fn begin(&mut self, asked: Vec<MessageId>) {
        if !asked.is_empty() {
            let waiting = asked.into_iter().collect();
            self.open.push(OpenBatch { waiting, answers: Vec::new() });
        }
    }

    /// Takes in the answer to a request.
    pub fn take_in(&mut self, id: &MessageId, answer: &[u8]) -> GatheredAnswer {
        let Some(at) = self.place_of(id) else { return GatheredAnswer::Single };
        let answers = &mut self.open[at].answers;
        if !answers.is_empty() {
            answers.push(b',');
        }
        answers.extend_from_slice(answer.trim_ascii());
        self.leave_out(id).map_or(GatheredAnswer::Kept, GatheredAnswer::Whole)
    }

    /// Gathers no answer to this request: the client wants none any more, or got it by itself.
    ///
    /// Returns the line with the answers of its batch if that waits for nothing else.
    pub fn leave_out(&mut self, id: &MessageId) -> Option<Vec<u8>> {
        let at = self.place_of(id)?;
        self.open[at].waiting.remove(id);
        if !self.open[at].waiting.is_empty() {
            return None;
        }
        let OpenBatch { answers, .. } = self.open.remove(at);
        (!answers.is_empty()).then(|| [b"[", &*answers, b"]\n"].concat())
    }

    fn place_of(&self, id: &MessageId) -> Option<usize> {
        self.open.iter().position(|batch| batch.waiting.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(of: &[&str]) -> Vec<MessageId> {
        of.iter().map(|id| MessageId::from_json(id)).collect()
    }

    #[test]
    fn what_a_batch_asks_is_told_from_what_it_only_tells() {
        let call = r#"{"id":1,"method":"tools/call","params":{"a":[1, 2]}}"#;
        let note = r#"{"method":"notifications/initialized"}"#;
        let answer = r#"{"id":"x","result":{}}"#;
        let some = |messages, asked: &[&str]| Some(BatchMessages { messages, asked: ids(asked) });
        for (line, want) in [
            (format!("[{call} ,\t{note},{answer}]\n"), some(vec![call, note, answer], &["1"])),
            (format!("[{note}]"), some(vec![note], &[])),
            ("[]".to_owned(), None),
            ("[INFO] ready".to_owned(), None),
            (format!("[{call}"), None),
            (format!("[{call},7]"), None),
            (format!("[[{call}]]"), None),
        ] {
            assert_eq!(BatchMessages::of(line.as_bytes()), want, "{line}");
        }
        let batch = BatchMessages { messages: vec![call, note], asked: Vec::new() };
        assert_eq!(batch.lines(), format!("{call}\n{note}\n").as_bytes());
    }

    /// Each step is an answer to a request, or, without a text, that none is gathered.
    #[track_caller]
    fn check(asked: &[&[&str]], steps: &[(&str, Option<&str>)], want: &[&str]) {
        let mut batches = RequestBatches::default();
        asked.iter().for_each(|of| batches.begin(ids(of)));
        let mut got = Vec::new();
        for (id, answer) in steps {
            let id = MessageId::from_json(id);
            let told = match answer {
                Some(answer) => match batches.take_in(&id, answer.as_bytes()) {
                    GatheredAnswer::Single => Some(answer.as_bytes().to_vec()),
                    GatheredAnswer::Kept => None,
                    GatheredAnswer::Whole(line) => Some(line),
                },
                None => batches.leave_out(&id),
            };
            got.extend(told.map(|line| String::from_utf8(line).unwrap()));
        }
        assert_eq!(got, want, "{asked:?}, {steps:?}");
    }

    /// **Invariant:** Every request of a batch is answered once, all in one line.
    #[test]
    fn a_batch_is_answered_in_one_line_when_nothing_of_it_is_open() {
        let (one, two) = (("1", Some("{1}\n")), ("2", Some("{2}\n")));
        check(&[&["1", "2"]], &[two, one], &["[{2},{1}]\n"]);
        check(&[&["1"]], &[one], &["[{1}]\n"]);
        // An answer that is given twice, or that nobody asked for here, goes by itself.
        check(
            &[&["1", "2"]],
            &[one, one, ("9", Some("{9}\n")), two],
            &["{1}\n", "{9}\n", "[{1},{2}]\n"],
        );
        // Batches do not wait for one another.
        check(&[&["1"], &["2"]], &[two, one], &["[{2}]\n", "[{1}]\n"]);
        // What was called off is not waited for, and of nothing there is no line.
        check(&[&["1", "2"]], &[one, ("2", None)], &["[{1}]\n"]);
        check(&[&["1", "2"]], &[("1", None), ("2", None)], &[]);
        check(&[&["1", "\"1\""]], &[("\"1\"", Some("{s}")), one], &["[{s},{1}]\n"]);
    }
}
