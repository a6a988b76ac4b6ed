//! What a person at a terminal sees of an attempt while it is at work: one line below everything
//! else that tells the step, the attempt, the timers, the cost and what was last said.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use salve_core::event::{Amounts, StepTimer};
use salve_core::job::Job;

use super::super::events::visible;
use super::super::terminal_reporter::window_width;
use crate::process::Outlet;
use crate::subjects::job::AttemptShown;

/// How often the timers move.
const TICK: Duration = Duration::from_millis(500);

/// The fewest characters that are shown of a step's name.
const SHORTEST_ID: usize = 8;

/// How wide the line is where nobody knows the window.
const WIDTH: usize = 80;

/// The line, which moves by itself until it is dropped.
pub(super) struct LiveProgress {
    shown: Arc<Mutex<Option<ProgressLine>>>,
    outlet: Arc<Outlet>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Clone, Debug)]
struct ProgressLine {
    /// Which step it is, and of how many.
    step: String,
    id: String,
    attempt: String,
    begun: Instant,
    wall: Duration,
    /// The timer that is about to end it, and when.
    warned: Option<(StepTimer, Instant)>,
    spent: Amounts,
    last: String,
}

impl LiveProgress {
    /// Begins to show progress on the terminal to which an outlet leads.
    pub(super) fn start(outlet: Arc<Outlet>) -> Self {
        let shown: Arc<Mutex<Option<ProgressLine>>> = Arc::default();
        let (end, ended) = mpsc::channel();
        let (theirs, to) = (Arc::clone(&shown), Arc::clone(&outlet));
        let tick = move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                show(&locked(&theirs), &to);
            }
        };
        let builder = std::thread::Builder::new().name("progress".to_owned());
        // Without a thread it moves only when something happens.
        let thread = builder.stack_size(256 << 10).spawn(tick).ok().map(|thread| (end, thread));
        Self { shown, outlet, thread }
    }

    /// Shows an attempt that begins.
    pub(super) fn begin(&self, of: &Job, begun: &AttemptShown) {
        let steps = of.terms().steps.len();
        let id = of.step_id(begun.step).map(ToString::to_string).unwrap_or_default();
        let most = of.terms().steps.get(begun.step).map_or(1, |step| step.attempts);
        let line = ProgressLine {
            step: format!("step {}/{steps}", begun.step + 1),
            id,
            attempt: format!("attempt {}/{most}", begun.attempt),
            begun: Instant::now(),
            wall: begun.wall,
            warned: None,
            spent: of.steps().spent(),
            last: String::new(),
        };
        self.change(|shown| *shown = Some(line));
    }

    /// Shows what the attempt said last.
    pub(super) fn said(&self, text: &str) {
        let last = text.lines().rfind(|line| !line.trim().is_empty()).map(visible);
        let last = last.map(|line| line.trim().to_owned()).unwrap_or_default();
        self.change(|shown| shown.iter_mut().for_each(|line| line.last.clone_from(&last)));
    }

    /// Shows what the job has cost.
    pub(super) fn costs(&self, of: &Job) {
        let spent = of.steps().spent();
        self.change(|shown| shown.iter_mut().for_each(|line| line.spent = spent));
    }

    /// Shows that a timer ends the attempt soon.
    pub(super) fn warn(&self, timer: StepTimer, left: Duration) {
        let due = Instant::now() + left;
        self.change(|shown| shown.iter_mut().for_each(|line| line.warned = Some((timer, due))));
    }

    /// Takes the line away: nothing is at work.
    pub(super) fn end(&self) {
        self.change(|shown| *shown = None);
    }

    fn change(&self, change: impl FnOnce(&mut Option<ProgressLine>)) {
        let mut shown = locked(&self.shown);
        change(&mut shown);
        show(&shown, &self.outlet);
    }
}

impl Drop for LiveProgress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            // It only fails by a panic, and then there is nothing more to show.
            let _ = thread.join();
        }
        self.end();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show(shown: &Option<ProgressLine>, outlet: &Outlet) {
    let width = window_width().unwrap_or(WIDTH);
    let text = shown.as_ref().map(|line| line.text(Instant::now(), width));
    outlet.show_status(&text.unwrap_or_default());
}

impl ProgressLine {
    /// Returns the line as it is now, so short that it takes one line of the window.
    fn text(&self, now: Instant, width: usize) -> String {
        let spent = now.saturating_duration_since(self.begun);
        let mut parts =
            vec![self.attempt.clone(), format!("{} of {}", clock(spent), clock(self.wall))];
        if let Some((timer, due)) = self.warned.filter(|(_, due)| *due > now) {
            let left = clock(due.saturating_duration_since(now));
            parts.push(format!("the {} timer ends it in {left}", timer.as_str()));
        }
        parts.extend(self.spent.cost_in_words());
        parts.extend(Some(self.last.clone()).filter(|last| !last.is_empty()));
        let most = width.saturating_sub(1);
        // A long name gives way to the attempt and its timers.
        let fixed = parts.iter().take(2).map(|part| part.chars().count() + 3).sum::<usize>();
        // After them a cut of the rest takes one character.
        let fixed = fixed + self.step.chars().count() + 2;
        let room = most.saturating_sub(fixed).max(SHORTEST_ID);
        let text = format!("{} {} · {}", self.step, cut(&self.id, room), parts.join(" · "));
        cut(&text, most)
    }
}

/// Returns text of at most so many characters, and shows where something is missing.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Returns a time as minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3_600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_step_timers_cost_and_what_was_said_and_fits_the_window() {
        let begun = Instant::now();
        let mut line = ProgressLine {
            step: "step 2/3".to_owned(),
            id: "build".to_owned(),
            attempt: "attempt 1/3".to_owned(),
            begun,
            wall: Duration::from_secs(900),
            warned: None,
            spent: Amounts { tokens: 1_200, money_micros: 10_000, ..Amounts::default() },
            last: "writes src/search.ts".to_owned(),
        };
        let now = begun + Duration::from_secs(72);
        let text = line.text(now, 200);
        assert!(text.starts_with("step 2/3 build · attempt 1/3 · 1:12 of 15:00 · "), "{text}");
        assert!(text.contains("1200 tokens") || text.contains("1,200 tokens"), "{text}");
        assert!(text.ends_with(" · writes src/search.ts"), "{text}");
        line.warned = Some((StepTimer::Idle, now + Duration::from_secs(60)));
        assert!(line.text(now, 200).contains("the idle timer ends it in 1:00"));
        let cut = line.text(now, 40);
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (39, true), "{cut}");
        line.id = "prepare-the-workspace-and-install-all-of-it".to_owned();
        for width in [80, 60] {
            let text = line.text(now, width);
            assert!(text.contains("attempt 1/3 · 1:12 of 15:00"), "{text}");
            assert!(text.starts_with("step 2/3 prepare") && text.chars().count() < width, "{text}");
        }
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
    }
}
