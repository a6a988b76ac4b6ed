//! What a fleet can besides keeping a queue, from the side of those who ask.

use std::sync::PoisonError;
use std::sync::mpsc::{self, Receiver};

use salve_core::id::JobId;

use super::queue::NatsQueue;
use super::{orders, presence, reconciler};
use crate::store::fleet::{Fleet, FleetFile, FleetJob, FleetOrder, PlacedOrder, WorkerSeen};
use crate::store::{FleetFixes, FleetFlights, StoreError};

impl Fleet for NatsQueue {
    fn submit(&self, job: FleetJob<'_>) -> Result<(), StoreError> {
        self.submit_with(job)
    }

    fn offer(&self, labels: Vec<String>) {
        *self.jobs.labels.lock().unwrap_or_else(PoisonError::into_inner) = labels;
    }

    fn keep_file(&self, job: JobId, bytes: Vec<u8>) -> Result<FleetFile, StoreError> {
        let blobs = self.jobs.blobs.clone();
        let done =
            self.link.wait_for_file("keeping a file", async move { blobs.keep(job, bytes).await });
        Ok(done?)
    }

    fn file(&self, job: JobId, file: &FleetFile) -> Result<Vec<u8>, StoreError> {
        let (blobs, file) = (self.jobs.blobs.clone(), file.clone());
        let done = self
            .link
            .wait_for_file("reading a file", async move { blobs.content(job, &file).await });
        Ok(done?)
    }

    fn order(&self, order: &FleetOrder) -> Result<(), StoreError> {
        let (context, names, order) =
            (self.link.context.clone(), self.link.names.clone(), order.clone());
        let done = self
            .link
            .wait("giving an order", async move { orders::place(&context, &names, &order).await });
        Ok(done?)
    }

    fn orders(&self, job: JobId, after: u64) -> Result<Vec<PlacedOrder>, StoreError> {
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let done = self.link.wait("reading orders", async move {
            orders::after(&context, &names, job, after).await
        });
        Ok(done?)
    }

    fn hear_orders(&self) -> Result<Receiver<PlacedOrder>, StoreError> {
        let (tell, hear) = mpsc::channel();
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        self.link.begin(orders::tell(context, names, tell));
        Ok(hear)
    }

    fn be_seen(&self, worker: &WorkerSeen) -> Result<(), StoreError> {
        let (context, names, worker) =
            (self.link.context.clone(), self.link.names.clone(), worker.clone());
        let done = self
            .link
            .wait("being seen", async move { presence::say(&context, &names, &worker).await });
        Ok(done?)
    }

    fn leave(&self, worker: &str) -> Result<(), StoreError> {
        let (context, names, worker) =
            (self.link.context.clone(), self.link.names.clone(), worker.to_owned());
        let done = self
            .link
            .wait("leaving", async move { presence::take_back(&context, &names, &worker).await });
        Ok(done?)
    }

    fn workers(&self) -> Result<Vec<WorkerSeen>, StoreError> {
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let done = self
            .link
            .wait("listing the workers", async move { presence::all(&context, &names).await });
        Ok(done?)
    }

    fn reconcile(&self) -> Result<usize, StoreError> {
        let jobs = self.jobs.clone();
        let done = self.link.wait("reconciling", async move { reconciler::reconcile(&jobs).await });
        Ok(done?)
    }

    fn fixes(&self) -> &dyn FleetFixes {
        self
    }

    fn flights(&self) -> &dyn FleetFlights {
        self
    }
}
