//! Work beside the loop: how it is begun, how its panics are caught, how it ends.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::command::Command;
use crate::engine::Engine;
use crate::queue::Key;
use crate::reports::Report;

impl Engine {
    /// Reconciles a key. If that ends in a panic, the others go on without it.
    pub(crate) fn reconcile_safely(&mut self, key: &Key, now: Timestamp) {
        let span = tracing::debug_span!("reconcile", %key);
        let begun = Instant::now();
        let done = span.in_scope(|| std::panic::catch_unwind(AssertUnwindSafe(|| self.reconcile(key, now))));
        let passed = begun.elapsed().as_secs_f64();
        self.metrics.reconciled(key, passed, done.is_ok());
        match done {
            Ok(()) if self.held.remove(key).is_some() => drop(self.pauses.remove(key)),
            Ok(()) => {}
            Err(panic) => self.panicked(key, &panic_message(&*panic)),
        }
    }

    pub(crate) fn spawn(&mut self, key: Key, each: Vec<Command>, ordered: Vec<Command>) {
        if let (Key::Event(_), true) = (&key, self.busy.contains_key(&key)) {
            // The event is being written; what would be added to it is not worth waiting for.
            return self.metrics.command("patch_event", "overloaded");
        }
        self.busy.insert(key.clone(), false);
        let (executor, epoch) = (self.executor.clone(), self.executor.fence().epoch());
        let keys = vec![key.clone()];
        self.spawn_guarded(keys, async move {
            let each_done = executor.run_each(epoch, &each).await;
            let ordered_done = executor.run_in_order(epoch, &ordered).await;
            let each = each.into_iter().zip(each_done).collect();
            let ordered = ordered.into_iter().zip(ordered_done).collect();
            Report::Ran { key, each, ordered }
        });
    }

    /// Does something beside the loop, which is told what came of it. A panic is told for each of the keys.
    pub(crate) fn spawn_guarded(
        &mut self,
        keys: Vec<Key>,
        work: impl Future<Output = Report> + Send + 'static,
    ) {
        let reports = self.reports.clone();
        self.tasks.spawn(async move {
            let done = AssertUnwindSafe(work).catch_unwind().await;
            let report =
                done.unwrap_or_else(|panic| Report::Panicked { keys, message: panic_message(&*panic) });
            // Nobody listens any more only at the end.
            let _ = reports.send(report).await;
        });
    }

    /// Sees to the end of what was sent. What was not is dropped: whoever comes next decides it again.
    pub(crate) async fn finish(mut self, mut inbox: mpsc::Receiver<Report>) {
        self.executor.stop();
        let mut deadline = self.clock.sleep(self.settings.shutdown_timeout);
        loop {
            tokio::select! {
                biased;
                ended = self.tasks.join_next() => if ended.is_none() { return },
                // Nobody waits for room to tell what is no longer asked.
                _ = inbox.recv() => {}
                () = &mut deadline => break,
            }
        }
        tracing::warn!(
            tasks = self.tasks.len(),
            "the time to finish is over: what is under way is left alone"
        );
        self.tasks.shutdown().await;
    }
}

/// What a panic says.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
