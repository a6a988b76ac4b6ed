//! Messages from the client to the server.

use std::os::fd::OwnedFd;

use salve_core::tool::batch::BatchMessages;
use salve_core::tool::envelope::{Envelope, EnvelopeScanner, MessageId};
use salve_core::tool::session::FromClient;

use super::link::{Happened, Link, ServerWire};
use super::watching::blocked_answer;
use super::wire::{CutShort, LineReader, Piece, write_all};

/// Passes on what the client sends until it sends no more.
pub(super) fn pump(link: &Link, from: OwnedFd) {
    let mut reader = LineReader::new(from);
    let mut long: Option<EnvelopeScanner> = None;
    // A client whose wire breaks is a client that has gone.
    while let Ok(Some(piece)) = reader.next_piece() {
        match piece {
            Piece::Lines(lines) | Piece::Torn(lines) if long.is_none() => pass_lines(link, lines),
            Piece::Lines(bytes) | Piece::Part(bytes) => pass_part(link, bytes, &mut long),
            Piece::LastPart(bytes) | Piece::Torn(bytes) => {
                pass_last_part(link, bytes, long.take().unwrap_or_default());
            }
        }
    }
    link.tell(Happened::ClientEnded);
}

/// A run of lines that goes to the server in one write.
#[derive(Debug, Default)]
struct Run {
    start: usize,
    end: usize,
    /// The requests in it, each with the place where it ends.
    requests: Vec<(MessageId, usize)>,
}

fn pass_lines(link: &Link, lines: &[u8]) {
    let mut wire = link.server();
    let is_wanted = pass_by(link, &mut wire, lines);
    if is_wanted && matches!(*wire, ServerWire::Down) {
        link.tell(Happened::Wanted);
    }
}

/// Passes lines on by a wire that the caller holds; returns whether any wants an answer.
fn pass_by(link: &Link, wire: &mut ServerWire, lines: &[u8]) -> bool {
    let now = link.now_ms();
    let mut run = Run::default();
    let mut at = 0;
    let mut is_wanted = false;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let envelope = Envelope::of(line);
        at += line.len();
        if let Some(answer) = refused_before(link, &envelope, line) {
            send(link, wire, lines, &mut run);
            (run.start, run.end) = (at, at);
            if let Envelope::Request { id, .. } = &envelope {
                link.answer(id, &answer);
            }
            continue;
        }
        if envelope == Envelope::Batch
            && let Some(batch) = BatchMessages::of(line)
        {
            send(link, wire, lines, &mut run);
            (run.start, run.end) = (at, at);
            let lines = batch.lines();
            link.session().begin_batch(batch.asked);
            is_wanted |= pass_by(link, wire, &lines);
            continue;
        }
        let fate = link.session().client_sends(&envelope, Some(line), now);
        match fate {
            FromClient::Deliver => run.end = at,
            FromClient::Drop => {
                send(link, wire, lines, &mut run);
                (run.start, run.end) = (at, at);
            }
        }
        match envelope {
            Envelope::Request { id, .. } => {
                is_wanted = true;
                run.requests.push((id, at));
            }
            // It may have called off the last that its batch waits for.
            Envelope::Notification { .. } => link.finish_batches(),
            Envelope::Response { .. }
            | Envelope::Batch
            | Envelope::Blank
            | Envelope::Foreign
            | Envelope::Text
            | Envelope::Malformed { .. } => {}
        }
    }
    send(link, wire, lines, &mut run);
    is_wanted
}

/// Returns the answer to a call that is known to fail and is not made.
fn refused_before(link: &Link, envelope: &Envelope, line: &[u8]) -> Option<Vec<u8>> {
    let Envelope::Request { id, method } = envelope else { return None };
    let reason = (method == "tools/call").then(|| link.watch().before(id, line)).flatten()?;
    Some(blocked_answer(id, &reason))
}

/// Writes a run of lines; what a server did not get is still waiting in the session.
fn send(link: &Link, wire: &mut ServerWire, lines: &[u8], run: &mut Run) {
    let ServerWire::Up(fd) = wire else { return };
    let written = match write_all(fd, &lines[run.start..run.end]) {
        Ok(()) => run.end,
        Err(CutShort { written }) => {
            // Its end is being noticed; nothing more is sent to it.
            *wire = ServerWire::Awaited;
            run.start + written
        }
    };
    let mut session = link.session();
    for (id, end) in run.requests.drain(..) {
        // The line's end may be missing and the request still be legible.
        if end <= written + 1 {
            session.delivered(&id);
        }
    }
}

fn pass_part(link: &Link, bytes: &[u8], long: &mut Option<EnvelopeScanner>) {
    long.get_or_insert_default().feed(bytes);
    let mut wire = link.server();
    if let ServerWire::Up(fd) = &*wire
        && write_all(fd, bytes).is_err()
    {
        *wire = ServerWire::Awaited;
    }
}

/// Notes a long request before its end is written, since the answer may come at once.
fn pass_last_part(link: &Link, bytes: &[u8], mut scanner: EnvelopeScanner) {
    scanner.feed(bytes);
    let envelope = scanner.finish();
    let mut wire = link.server();
    link.session().client_sends(&envelope, None, link.now_ms());
    let is_up = matches!(&*wire, ServerWire::Up(fd) if write_all(fd, bytes).is_ok());
    if let Envelope::Request { id, .. } = &envelope {
        let mut session = link.session();
        if is_up {
            session.delivered(id);
        } else if let Some(refused) = session.take_over(id) {
            drop(session);
            let reason = "The server was not running and the request is too long to be kept.";
            link.refuse(&[refused], reason);
        }
    }
    if !is_up && matches!(*wire, ServerWire::Up(_)) {
        *wire = ServerWire::Awaited;
    }
}
