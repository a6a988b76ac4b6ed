//! What an agent writes, line by line: its stdout is its stream, its stderr are its complaints.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::drive::AgentRunMessage;

/// The longest line that is read; longer ones are passed over.
const LONGEST_LINE: usize = 4 << 20;
/// How much of its complaints is kept.
const COMPLAINTS: usize = 8 << 10;

/// Sends each line on, and that there are no more.
pub(super) fn read_lines(output: File, outbox: SyncSender<AgentRunMessage>) {
    let read = move || {
        let mut output = BufReader::with_capacity(1 << 16, output);
        let mut line = Vec::new();
        while let Ok(Some(kept)) = next_line(&mut output, &mut line) {
            let line = kept.then(|| String::from_utf8_lossy(&line).into_owned());
            if outbox.send(AgentRunMessage::Line(line)).is_err() {
                return;
            }
        }
        let _ = outbox.send(AgentRunMessage::Closed);
    };
    // Without a thread to read it the output counts as closed, and the run ends by its limits.
    let _ = std::thread::Builder::new().name("agent-output".into()).spawn(read);
}

/// Reads one line; tells whether it was kept, or nothing at the end.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let limit = LONGEST_LINE as u64;
    if from.by_ref().take(limit).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || line.len() < LONGEST_LINE {
        return Ok(Some(true));
    }
    loop {
        line.clear();
        let read = from.by_ref().take(limit).read_until(b'\n', line)?;
        if read == 0 || line.last() == Some(&b'\n') {
            return Ok(Some(false));
        }
    }
}

/// Keeps the end of what it complains about, and sends each line on; what is returned disconnects when all
/// was read.
pub(super) fn read_complaints(
    mut errors: File,
    kept: Arc<Mutex<String>>,
    outbox: SyncSender<AgentRunMessage>,
) -> Receiver<()> {
    let (is_reading, complained) = sync_channel::<()>(1);
    let read = move || {
        let _until_all_is_read = is_reading;
        let mut buffer = [0; 4096];
        let (mut tail, mut begun) = (Vec::new(), Vec::new());
        while let Ok(n @ 1..) = errors.read(&mut buffer) {
            send_complaints(&mut begun, &buffer[..n], &outbox);
            tail.extend(&buffer[..n]);
            let extra = tail.len().saturating_sub(COMPLAINTS);
            tail.drain(..extra);
            *kept.lock().unwrap_or_else(PoisonError::into_inner) =
                String::from_utf8_lossy(&tail).into_owned();
        }
    };
    let _ = std::thread::Builder::new().name("agent-errors".into()).spawn(read);
    complained
}

/// Sends on the lines that are whole by now; `begun` is the one that is not.
fn send_complaints(begun: &mut Vec<u8>, bytes: &[u8], outbox: &SyncSender<AgentRunMessage>) {
    begun.extend(bytes);
    while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = begun.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line).into_owned();
        // Whoever complains faster than anybody listens has said it all before.
        let _full = outbox.try_send(AgentRunMessage::Complaint(line));
    }
    if begun.len() > COMPLAINTS {
        begun.clear();
    }
}
