//! One run of a check's command: bounded, captured, nothing left of it, and it can be stopped.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use salve_core::event::Exit;

use super::{CheckPlan, Ran};
use crate::heal::files::with_causes;
use crate::heal::spawn_thread;
use crate::process::{Capture, Care, Ended, Input, Spec, Terminal};

/// How long a check that is ended may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// How long what a check started may outlive it.
const MOMENT: Duration = Duration::from_millis(300);

/// What reaches the thread that waits for a check.
enum News {
    Ended(Ended),
    Stop,
}

/// A run under way.
#[derive(Clone, Debug)]
pub(super) struct Stopper(Sender<News>);

impl Stopper {
    /// Ends the run.
    pub(super) fn stop(&self) {
        // A run that is over need not be told.
        let _ = self.0.send(News::Stop);
    }
}

impl std::fmt::Debug for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            News::Ended(_) => "Ended",
            News::Stop => "Stop",
        })
    }
}

/// Runs a check on a thread of its own; `then` is called there with how it ended.
pub(super) fn start(
    care: &Care,
    plan: &CheckPlan,
    output: Arc<Capture>,
    then: impl FnOnce(Ran) + Send + 'static,
) -> Stopper {
    let (care, plan) = (care.clone(), plan.clone());
    let (tell, news) = mpsc::channel();
    let stopper = Stopper(tell.clone());
    spawn_thread("check", move || then(run(&care, &plan, output, tell, &news)));
    stopper
}

/// Runs a check to its end and waits for it.
pub(super) fn wait(care: &Care, plan: &CheckPlan, output: Arc<Capture>) -> Ran {
    let (tell, news) = mpsc::channel();
    run(care, plan, output, tell, &news)
}

fn run(
    care: &Care,
    plan: &CheckPlan,
    output: Arc<Capture>,
    tell: Sender<News>,
    news: &mpsc::Receiver<News>,
) -> Ran {
    let spec = Spec {
        argv: plan.argv.clone(),
        dir: plan.dir.clone(),
        env: plan.env.clone(),
        server: plan.name.clone(),
        terminal: Terminal::Pipes,
        output,
    };
    let since = Instant::now();
    let then = Box::new(move |ended| {
        // Whoever has stopped listening knows already.
        let _ = tell.send(News::Ended(ended));
    });
    let running = match care.spawn_with(&spec, Input::Ended, then) {
        Ok(running) => running,
        Err(error) => {
            let output = with_causes(&error);
            let (exit, took) = (Exit::Code(127), since.elapsed());
            return Ran { exit, took, output, stopped: false, left: 0 };
        }
    };
    let first = news.recv_timeout(plan.limit);
    let took = since.elapsed();
    let (grace, left) = match first {
        Ok(News::Ended(_)) => (Duration::ZERO, care.orphans(&running, MOMENT).len()),
        Ok(News::Stop) | Err(_) => (GRACE, 0),
    };
    care.end(&running, grace);
    let (exit, stopped) = match first {
        Ok(News::Ended(ended)) => (ended.exit, false),
        Ok(News::Stop) | Err(RecvTimeoutError::Disconnected) => (Exit::TimedOut, true),
        Err(RecvTimeoutError::Timeout) => (Exit::TimedOut, false),
    };
    Ran { exit, took, output: spec.output.tail(), stopped, left }
}
