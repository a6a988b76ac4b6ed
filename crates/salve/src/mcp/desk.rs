//! The thread that owns the store, and the way to it.
//!
//! A store is for one thread. Sessions hand their work over and wait without blocking, so that a
//! journal that is busy for a while delays an answer and never the protocol.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};

use super::news::{self, News};
use super::{Place, Room};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(8);

type Work = Box<dyn FnOnce(&mut Room) + Send>;

/// The way to the thread that owns the store.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    work: Sender<Work>,
    news: broadcast::Sender<News>,
}

/// The journal did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the journal is busy; call again")]
pub(super) struct Busy;

impl Desk {
    /// Starts the thread, and the one that follows the journal.
    pub(super) fn open(place: Place) -> Self {
        let (work, orders) = mpsc::channel();
        let (news, _) = broadcast::channel(256);
        let desk = Self { work, news };
        let room = Room::new(place.clone());
        thread::spawn(move || attend(room, &orders));
        let follower = desk.clone();
        thread::spawn(move || news::follow(&place.project, &follower));
        desk
    }

    /// Hands `work` over and returns what came of it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Room) -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |room| {
            // Whoever asked may have left.
            let _gone = reply.send(work(room));
        });
        self.work.send(work).map_err(|_| Busy)?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(Busy),
        }
    }

    /// Hands `work` over without waiting.
    pub(super) fn tell(&self, work: impl FnOnce(&mut Room) + Send + 'static) {
        // The thread ends only with the process.
        let _gone = self.work.send(Box::new(work));
    }

    /// Returns what hears of changes from now on.
    pub(super) fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// Passes on what changed.
    pub(super) fn announce(&self, news: News) {
        // Nobody may be listening.
        let _nobody = self.news.send(news);
    }

    /// Says that all clients have left, and waits until that is written.
    pub(super) fn close(&self) {
        let (done, wait) = mpsc::channel();
        self.tell(move |room| {
            room.leave();
            let _gone = done.send(());
        });
        // The process ends anyway; the journal tells by the process that it is gone.
        let _late = wait.recv_timeout(Duration::from_secs(2));
    }
}

fn attend(mut room: Room, orders: &Receiver<Work>) {
    while let Ok(work) = orders.recv() {
        work(&mut room);
    }
}
