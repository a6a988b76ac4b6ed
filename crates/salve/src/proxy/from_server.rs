//! Messages from the server to the client.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use salve_core::tool::batch::{BatchMessages, GatheredAnswer};
use salve_core::tool::envelope::{Envelope, EnvelopeScanner, MessageId, RequestAnswer};
use salve_core::tool::session::FromServer;

use super::healing::{AnswerFate, CallHealing};
use super::link::{Happened, Link};
use super::wire::{LineReader, Piece, write_all};
use crate::process::Capture;

/// By what a server tells how far a call is.
const PROGRESS: &str = "notifications/progress";

/// Passes on what one server sends until it sends no more.
#[derive(Debug)]
pub(super) struct ServerPump {
    pub(super) link: Arc<Link>,
    pub(super) capture: Arc<Capture>,
    pub(super) healing: Arc<CallHealing>,
    pub(super) generation: u64,
}

/// What to do with one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineFate {
    Pass,
    Drop,
    /// It is no message, and belongs where logs go.
    Log,
}

impl ServerPump {
    pub(super) fn run(&self, from: OwnedFd) {
        let mut reader = LineReader::new(from);
        while let Ok(Some(piece)) = reader.next_piece() {
            self.link.hear();
            match piece {
                Piece::Lines(lines) => self.pass_lines(lines),
                Piece::Torn(line) => {
                    // A whole message whose line end is missing is one all the same.
                    let mut line = line.to_vec();
                    line.push(b'\n');
                    self.pass_lines(&line);
                }
                Piece::Part(first) => {
                    let first = first.to_vec();
                    self.pass_long_line(&first, &mut reader);
                }
                Piece::LastPart(rest) => self.capture.take_in(rest),
            }
        }
        self.link.tell(Happened::OutputClosed { generation: self.generation });
    }

    /// Passes on whole lines, as many as possible in one write.
    fn pass_lines(&self, lines: &[u8]) {
        let (mut start, mut at) = (0, 0);
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let envelope = Envelope::of(line);
            let batch = (envelope == Envelope::Batch).then(|| BatchMessages::of(line)).flatten();
            if let Some(batch) = batch {
                self.write(&lines[start..at]);
                at += line.len();
                start = at;
                self.pass_lines(&batch.lines());
                continue;
            }
            let fate = self.fate(&envelope, line);
            if fate != LineFate::Pass {
                self.write(&lines[start..at]);
                start = at + line.len();
            }
            if fate == LineFate::Log {
                self.capture.take_in(line);
            }
            at += line.len();
        }
        self.write(&lines[start..]);
    }

    fn write(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.link.to_client(bytes);
        }
    }

    fn fate(&self, envelope: &Envelope, line: &[u8]) -> LineFate {
        match envelope {
            Envelope::Text | Envelope::Foreign | Envelope::Batch => LineFate::Log,
            Envelope::Malformed { .. } => {
                self.refuse_malformed(envelope);
                LineFate::Log
            }
            Envelope::Response { id, .. } => match self.fate_of_message(envelope, line) {
                LineFate::Pass => self.fate_of_answer(id, line),
                fate @ (LineFate::Drop | LineFate::Log) => fate,
            },
            Envelope::Request { .. } | Envelope::Notification { .. } | Envelope::Blank => {
                self.fate_of_message(envelope, line)
            }
        }
    }

    /// Keeps an answer whose batch waits for others.
    fn fate_of_answer(&self, id: &MessageId, line: &[u8]) -> LineFate {
        let gathered = self.link.session().gather(id, line);
        match gathered {
            GatheredAnswer::Single => LineFate::Pass,
            GatheredAnswer::Kept => LineFate::Drop,
            GatheredAnswer::Whole(answers) => {
                self.link.to_client(&answers);
                LineFate::Drop
            }
        }
    }

    fn fate_of_message(&self, envelope: &Envelope, line: &[u8]) -> LineFate {
        if matches!(envelope, Envelope::Notification { method } if method == PROGRESS) {
            self.link.session().progressed(line, self.link.now_ms());
        }
        let sent = self.link.session().server_sends(envelope, Some(line));
        match sent {
            FromServer::PassAnswer(request) if request.method == "tools/call" => {
                match self.healing.look_at(request, envelope, line) {
                    AnswerFate::Pass => LineFate::Pass,
                    AnswerFate::Kept => LineFate::Drop,
                }
            }
            FromServer::PassAnswer(request) => {
                match self.link.watch().primed(&request.method, line) {
                    Some(primed) => {
                        self.link.answer(&request.id, &primed);
                        LineFate::Drop
                    }
                    None => LineFate::Pass,
                }
            }
            FromServer::OwnAnswer(id) => {
                self.healing.own_answer(&id, line);
                LineFate::Drop
            }
            sent => self.fate_of(&sent),
        }
    }

    fn fate_of(&self, sent: &FromServer) -> LineFate {
        match sent {
            FromServer::Pass | FromServer::PassAnswer(_) => LineFate::Pass,
            FromServer::Drop | FromServer::OwnAnswer(_) => LineFate::Drop,
            FromServer::Greeted => {
                self.link.tell(Happened::Greeted { generation: self.generation });
                LineFate::Drop
            }
        }
    }

    /// Answers the call whose answer came out broken, if it is clear which one that is.
    fn refuse_malformed(&self, envelope: &Envelope) {
        let Envelope::Malformed { id } = envelope else { return };
        let mut session = self.link.session();
        let id = id.clone().or_else(|| session.only_waiting().cloned());
        let refused = id.and_then(|id| session.take_over(&id));
        drop(session);
        if let Some(refused) = refused {
            self.link.refuse(&[refused], "The server's answer was not valid JSON.");
        }
    }

    /// Passes on a line that is too long to keep, while nobody else writes to the client.
    fn pass_long_line(&self, first: &[u8], reader: &mut LineReader) {
        let mut scanner = EnvelopeScanner::default();
        scanner.feed(first);
        let is_log = scanner.is_text();
        let client = self.link.client();
        let mut is_lost = false;
        let mut pass = |bytes: &[u8]| {
            if is_log {
                self.capture.take_in(bytes);
            } else {
                is_lost |= write_all(&client, bytes).is_err();
            }
        };
        pass(first);
        let mut is_whole = false;
        while let Ok(Some(piece)) = reader.next_piece() {
            self.link.hear();
            match piece {
                Piece::Part(bytes) | Piece::Torn(bytes) => {
                    scanner.feed(bytes);
                    pass(bytes);
                }
                Piece::Lines(bytes) | Piece::LastPart(bytes) => {
                    scanner.feed(bytes);
                    pass(bytes);
                    is_whole = true;
                    break;
                }
            }
        }
        if !is_whole {
            // The server died in the midst of it: the next message begins a line of its own.
            pass(b"\n");
        }
        drop(client);
        if is_lost {
            self.link.tell(Happened::ClientLost);
        }
        let envelope = scanner.finish();
        if is_whole && !is_log && !matches!(envelope, Envelope::Malformed { .. }) {
            let sent = self.link.session().server_sends(&envelope, None);
            let is_result =
                matches!(&envelope, Envelope::Response { answer: RequestAnswer::Result, .. });
            if let FromServer::PassAnswer(request) = &sent
                && is_result
                && request.method == "tools/call"
            {
                self.healing.passed(request);
            }
            if let Envelope::Response { id, .. } = &envelope {
                self.link.session().passed_by_itself(id);
                self.link.finish_batches();
            }
            self.fate_of(&sent);
        } else if is_whole {
            self.refuse_malformed(&envelope);
        }
    }
}
