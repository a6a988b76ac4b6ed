//! One line at the bottom of a terminal while something takes long: what, for how long, and the
//! last line that it wrote.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use salve_core::hidden_char::is_hidden;

use super::fit::window_width;
use crate::process::{Outlet, WorkOutput, spawn_thread};

/// How often the line is rewritten; nothing shorter is shown at all.
const TICK: Duration = Duration::from_secs(1);

/// The line for one piece of work, until it is dropped.
#[derive(Debug)]
pub(in crate::cli) struct WorkProgress {
    _ending: Sender<()>,
}

impl WorkProgress {
    /// Begins to show the line for work that is told in a few words.
    pub(super) fn begin(what: String, outlet: &Arc<Outlet>, output: &WorkOutput) -> Self {
        let (ending, ended) = mpsc::channel();
        let (outlet, output, since) = (Arc::clone(outlet), output.clone(), Instant::now());
        spawn_thread("progress", move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let last = output.last_line();
                let text = line(&what, since.elapsed(), last.as_deref());
                outlet.show_status(&cut(&text, window_width().unwrap_or(80)));
            }
            outlet.show_status("");
        });
        Self { _ending: ending }
    }
}

fn line(what: &str, passed: Duration, last: Option<&str>) -> String {
    let last = last.map(|last| format!(" · {last}")).unwrap_or_default();
    format!("… salve  {what}  {} s{last}", passed.as_secs())
}

/// Returns a text without control characters that fits into a window.
fn cut(text: &str, width: usize) -> String {
    let plain: String = text.chars().filter(|c| *c != '\t' && !is_hidden(*c)).collect();
    let most = width.saturating_sub(1);
    if plain.chars().count() <= most {
        return plain;
    }
    let kept: String = plain.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_seconds_and_the_last_words_and_fits() {
        let text =
            line("npm ci", Duration::from_millis(12_900), Some("added 12 packages\u{1b}[0m"));
        assert_eq!(cut(&text, 80), "… salve  npm ci  12 s · added 12 packages[0m");
        assert_eq!(cut(&text, 24), "… salve  npm ci  12 s …");
        assert_eq!(line("npm ci", Duration::from_secs(3), None), "… salve  npm ci  3 s");
    }
}
