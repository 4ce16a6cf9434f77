//! Who leads: a Lease that one process holds at a time.
//!
//! [`Elector`] is the whole rule, a state machine without input or output: what was found or written goes in, what to do next comes out.
//! [`run`] does what it says, and moves the [`Fence`] that all writes pass. The rule is the one that client-go's electors follow, so a lease may pass from one
//! program to the other: whoever sees that the holder has not renewed for the lease's own duration, by the watcher's own clock, may take it.
//!
//! What is stricter here: a leader counts from the moment *before* it sent a renewal, by a clock that nobody sets, and writes only until `renew_within` of it
//! has passed. At that moment nobody else can have taken the lease yet, by `duration - renew_within`. A leader that was stopped and goes on late finds its fence
//! closed. Whoever loses the lease goes back to waiting; its watches stay warm.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use joiner_provider::{Clock, Monotonic};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams, WatchParams};
use kube::{Client, ResourceExt};
use tokio::sync::{oneshot, watch};

use crate::executor::Fence;

/// Which lease, who asks for it, and how long things take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who asks: `host_uuid`, another one for each process.
    pub identity: String,
    /// Others may take it when it has not been renewed for so long.
    pub duration: Duration,
    /// The leader writes only for so long after a renewal.
    pub renew_within: Duration,
    /// Between two renewals, or two looks at a lease that somebody else holds.
    pub retry: Duration,
}

impl LeaseSettings {
    /// A lease with the usual times.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Who leads, as this process sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Whether it is this process.
    pub leads: bool,
    /// Who holds the lease; nothing if nobody does or nobody knows.
    pub holder: Option<String>,
}

/// What to do next about the lease.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Create it.
    Create(Box<Lease>),
    /// Replace it by this, if nobody else has meanwhile.
    Replace(Box<Lease>),
    /// Nothing for so long.
    Wait(Duration),
}

/// The rule: when to take a lease, when to renew it, when it is lost.
#[derive(Debug)]
pub struct Elector {
    settings: LeaseSettings,
    /// The lease as last seen, and when that state of it was first seen.
    seen: Option<(Lease, Monotonic)>,
    /// Up to when this process leads.
    until: Option<Monotonic>,
}

impl Elector {
    /// Knows nothing yet.
    pub fn new(settings: LeaseSettings) -> Self {
        Self { settings, seen: None, until: None }
    }

    /// Up to when this process leads, if it does at that moment.
    pub fn leads_until(&self, now: Monotonic) -> Option<Monotonic> {
        self.until.filter(|until| now < *until)
    }

    /// Who leads at that moment.
    pub fn leadership(&self, now: Monotonic) -> Leadership {
        let holder = self.seen.as_ref().and_then(|(lease, _)| holder(lease)).map(str::to_owned);
        Leadership { leads: self.leads_until(now).is_some(), holder }
    }

    /// The lease was read: what to do.
    pub fn found(&mut self, lease: Option<Lease>, wall: Timestamp, now: Monotonic) -> Next {
        let Some(lease) = lease else {
            self.seen = None;
            self.until = None;
            return Next::Create(Box::new(self.taken(None, wall)));
        };
        let same = |(seen, _): &(Lease, Monotonic)| {
            seen.spec == lease.spec && seen.resource_version() == lease.resource_version()
        };
        let since = self.seen.as_ref().filter(|seen| same(seen)).map_or(now, |(_, since)| *since);
        let held = holder(&lease).map(str::to_owned);
        let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration = duration.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        self.seen = Some((lease.clone(), since));
        match held {
            Some(holder) if holder == self.settings.identity => {}
            None => self.until = None,
            Some(_) => {
                self.until = None;
                // Whoever holds it may have promised more than we would.
                let ends = since + duration.unwrap_or(self.settings.duration).max(self.settings.duration);
                if now < ends {
                    return Next::Wait(ends.since(now).min(self.settings.retry));
                }
            }
        }
        Next::Replace(Box::new(self.taken(Some(&lease), wall)))
    }

    /// A renewal without reading first; nothing if this process does not lead.
    pub fn renewal(&self, wall: Timestamp, now: Monotonic) -> Option<Lease> {
        self.leads_until(now)?;
        let (lease, _) = self.seen.as_ref()?;
        Some(self.taken(Some(lease), wall))
    }

    /// A lease was written that was sent at `sent`: this process leads from now on, or still.
    pub fn written(&mut self, lease: Lease, sent: Monotonic) {
        self.seen = Some((lease, sent));
        self.until = Some(sent + self.settings.renew_within);
    }

    /// A renewal was refused: somebody else has written the lease, and nothing is known of it until it is read.
    pub fn refused(&mut self) {
        self.until = None;
    }

    /// The lease as it is given back, if this process leads: free for the next at once.
    pub fn released(&self, wall: Timestamp, now: Monotonic) -> Option<Lease> {
        self.leads_until(now)?;
        let mut lease = self.seen.as_ref()?.0.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(MicroTime(wall));
        spec.renew_time = Some(MicroTime(wall));
        Some(lease)
    }

    /// The lease as this process would have it.
    fn taken(&self, before: Option<&Lease>, wall: Timestamp) -> Lease {
        let settings = &self.settings;
        let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let ours = spec.holder_identity.as_deref() == Some(settings.identity.as_str());
        let acquired = spec.acquire_time.clone().filter(|_| ours).unwrap_or(MicroTime(wall));
        let transitions = spec.lease_transitions.unwrap_or(0);
        let transitions = if ours || before.is_none() { transitions } else { transitions.saturating_add(1) };
        let metadata = before.map_or_else(
            || ObjectMeta {
                name: Some(settings.name.clone()),
                namespace: Some(settings.namespace.clone()),
                ..ObjectMeta::default()
            },
            |lease| lease.metadata.clone(),
        );
        let spec = LeaseSpec {
            holder_identity: Some(settings.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(settings.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: Some(acquired),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: Some(transitions),
            ..spec
        };
        Lease { metadata, spec: Some(spec) }
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Asks for the lease and keeps it until `end` comes; then gives it back. The fence is open while, and only while, this process leads.
///
/// The client has no fence: it writes this lease and nothing else.
pub async fn run(
    client: Client,
    settings: LeaseSettings,
    fence: Fence,
    clock: Arc<dyn Clock>,
    told: watch::Sender<Leadership>,
    mut end: oneshot::Receiver<()>,
) {
    let keeper = Keeper {
        api: Api::namespaced(client, &settings.namespace),
        elector: Elector::new(settings.clone()),
        settings,
        fence,
        clock,
        told,
        epoch: 0,
        opened: false,
        trouble: None,
    };
    keeper.keep(&mut end).await;
}

/// The doing beside the rule.
struct Keeper {
    api: Api<Lease>,
    elector: Elector,
    settings: LeaseSettings,
    fence: Fence,
    clock: Arc<dyn Clock>,
    told: watch::Sender<Leadership>,
    /// The last epoch that was begun here.
    epoch: u64,
    opened: bool,
    /// What was wrong last: it is told once.
    trouble: Option<String>,
}

impl Keeper {
    /// Something is wrong, or nothing any more.
    fn trouble(&mut self, what: Option<String>) {
        if let Some(what) = what.as_ref().filter(|what| self.trouble.as_ref() != Some(*what)) {
            tracing::warn!(lease = %self.place(), error = what, "the lease cannot be had");
        }
        self.trouble = what;
    }

    async fn keep(mut self, end: &mut oneshot::Receiver<()>) {
        loop {
            let wait = self.turn().await;
            self.show();
            tokio::select! {
                biased;
                _ = &mut *end => break,
                () = self.wait(wait) => {}
            }
        }
        self.release().await;
    }

    /// Waits, but no longer than until somebody writes a lease that is not ours.
    async fn wait(&self, time: Duration) {
        let pause = self.clock.sleep(time);
        let version = match self.elector.leads_until(self.clock.monotonic()) {
            None => self.elector.seen.as_ref().and_then(|(lease, _)| lease.resource_version()),
            Some(_) => None,
        };
        let Some(version) = version else { return pause.await };
        let changed = async {
            let only = WatchParams::default().fields(&format!("metadata.name={}", self.settings.name));
            if let Ok(events) = self.api.watch(&only, &version).await
                && let Some(Ok(_)) = Box::pin(events).next().await
            {
                return;
            }
            // What cannot be watched is looked at from time to time.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = changed => {}
            () = pause => {}
        }
    }

    /// Renews, takes or looks, whatever is to be done; how long to wait afterwards.
    async fn turn(&mut self) -> Duration {
        let now = self.clock.monotonic();
        if let Some(lease) = self.elector.renewal(self.clock.now(), now) {
            return self.write(lease, false).await;
        }
        let found = self.within(self.api.get_opt(&self.settings.name)).await;
        match found {
            Some(Ok(lease)) => {
                self.trouble(None);
                match self.elector.found(lease, self.clock.now(), self.clock.monotonic()) {
                    Next::Create(lease) => self.write(*lease, true).await,
                    Next::Replace(lease) => self.write(*lease, false).await,
                    Next::Wait(time) => time,
                }
            }
            Some(Err(error)) => {
                self.trouble(Some(format!("cannot read it: {error}")));
                self.settings.retry
            }
            None => {
                self.trouble(Some("cannot read it: no answer".to_owned()));
                self.settings.retry
            }
        }
    }

    async fn write(&mut self, lease: Lease, new: bool) -> Duration {
        let post = PostParams { field_manager: Some("joiner".to_owned()), ..PostParams::default() };
        let sent = self.clock.monotonic();
        let answer = match new {
            true => self.within(self.api.create(&post, &lease)).await,
            false => self.within(self.api.replace(&self.settings.name, &post, &lease)).await,
        };
        match answer {
            Some(Ok(lease)) => {
                self.elector.written(lease, sent);
                self.settings.retry
            }
            Some(Err(kube::Error::Api(status))) if status.is_conflict() || status.is_already_exists() => {
                // Somebody else was faster; who it is stands in the lease.
                self.elector.refused();
                Duration::ZERO
            }
            Some(Err(error)) => {
                self.trouble(Some(format!("cannot write it: {error}")));
                self.settings.retry
            }
            None => {
                self.trouble(Some("cannot write it: no answer".to_owned()));
                self.settings.retry
            }
        }
    }

    /// The answer to a call, unless it takes so long that a leader would have to stop meanwhile.
    async fn within<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let now = self.clock.monotonic();
        let until = self.elector.leads_until(now).map(|until| until.since(now));
        let limit = until.unwrap_or(self.settings.renew_within).min(self.settings.renew_within / 2);
        tokio::select! {
            biased;
            answer = call => Some(answer),
            () = self.clock.sleep(limit) => None,
        }
    }

    /// Moves the fence to where the rule says it is, and tells others.
    fn show(&mut self) {
        if self.fence.is_retired() {
            return;
        }
        let now = self.clock.monotonic();
        match (self.elector.leads_until(now), self.opened) {
            (Some(until), true) if self.fence.epoch().may_write() => self.fence.put_off(until),
            (Some(until), _) => {
                // Also when the fence closed by itself and the lease is still ours: whatever was decided meanwhile is decided again.
                self.epoch += 1;
                self.opened = true;
                self.fence.advance_until(self.epoch, until);
                tracing::info!(lease = %self.place(), identity = self.settings.identity, "leads");
            }
            (None, true) => {
                self.opened = false;
                self.fence.close();
                tracing::warn!(lease = %self.place(), "leads no more: waits for the lease");
            }
            (None, false) => {}
        }
        let leadership = self.elector.leadership(now);
        self.told.send_if_modified(|told| {
            let changed = *told != leadership;
            if changed && !leadership.leads {
                tracing::info!(holder = leadership.holder.as_deref().unwrap_or("nobody"), "stands by");
            }
            *told = leadership;
            changed
        });
    }

    async fn release(mut self) {
        self.fence.close();
        let (wall, now) = (self.clock.now(), self.clock.monotonic());
        if let Some(lease) = self.elector.released(wall, now) {
            let post = PostParams::default();
            match self.within(self.api.replace(&self.settings.name, &post, &lease)).await {
                Some(Ok(_)) => tracing::info!(lease = %self.place(), "gave the lease back"),
                // It runs out by itself.
                _ => tracing::warn!(lease = %self.place(), "the lease could not be given back"),
            }
        }
        self.elector.refused();
        self.told.send_replace(Leadership::default());
    }

    fn place(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> (Timestamp, Monotonic) {
        let wall = Timestamp::from_second(1_800_000_000 + second as i64).unwrap();
        (wall, Monotonic::new(Duration::from_secs(second)))
    }

    fn elector(identity: &str) -> Elector {
        Elector::new(LeaseSettings::new("kube-system", "lead", identity))
    }

    fn stored(mut lease: Lease, version: &str) -> Lease {
        lease.metadata.resource_version = Some(version.to_owned());
        lease
    }

    /// Takes a lease that is free.
    fn take(elector: &mut Elector, found: Option<Lease>, second: u64, version: &str) -> Lease {
        let (wall, now) = at(second);
        let (Next::Create(lease) | Next::Replace(lease)) = elector.found(found, wall, now) else {
            panic!("it waits")
        };
        let lease = stored(*lease, version);
        elector.written(lease.clone(), now);
        lease
    }

    #[test]
    fn nobody_takes_a_lease_that_is_renewed() {
        let (mut first, mut second) = (elector("a_1"), elector("b_2"));
        let mut lease = take(&mut first, None, 0, "1");
        assert_eq!(lease.spec.as_ref().unwrap().lease_transitions, Some(0));
        for second_no in 1..60 {
            let (wall, now) = at(second_no);
            if second_no % 2 == 0 {
                lease = stored(first.renewal(wall, now).unwrap(), &second_no.to_string());
                first.written(lease.clone(), now);
            }
            assert!(matches!(second.found(Some(lease.clone()), wall, now), Next::Wait(_)));
        }
        assert_eq!(second.leadership(at(60).1).holder.as_deref(), Some("a_1"));
    }

    #[test]
    fn a_lease_that_is_not_renewed_is_taken_after_its_leader_has_stopped() {
        let (mut first, mut second) = (elector("a_1"), elector("b_2"));
        let lease = take(&mut first, None, 0, "1");
        let mut taken = None;
        for second_no in 1..30 {
            let (wall, now) = at(second_no);
            if let Next::Replace(lease) = second.found(Some(lease.clone()), wall, now) {
                taken = Some((second_no, lease));
                break;
            }
        }
        let (when, lease) = taken.unwrap();
        assert_eq!(when, 16, "fifteen seconds after it was first seen");
        assert_eq!(lease.spec.unwrap().lease_transitions, Some(1));
        assert!(first.leads_until(at(9).1).is_some());
        assert!(first.leads_until(at(10).1).is_none() && first.renewal(at(10).0, at(10).1).is_none());
    }

    #[test]
    fn the_clock_on_the_wall_takes_no_lease() {
        let (mut first, mut second) = (elector("a_1"), elector("b_2"));
        let lease = take(&mut first, None, 0, "1");
        let (_, now) = at(1);
        let (in_a_day, _) = at(86_400);
        assert!(matches!(second.found(Some(lease), in_a_day, now), Next::Wait(_)));
    }

    #[test]
    fn what_is_given_back_is_taken_at_once() {
        let (mut first, mut second) = (elector("a_1"), elector("b_2"));
        take(&mut first, None, 0, "1");
        let (wall, now) = at(1);
        let free = stored(first.released(wall, now).unwrap(), "2");
        assert_eq!(free.spec.as_ref().unwrap().holder_identity.as_deref(), Some(""));
        let lease = take(&mut second, Some(free), 1, "3");
        assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("b_2"));
        assert!(second.leads_until(at(2).1).is_some());
        assert!(second.released(at(12).0, at(12).1).is_none(), "who does not lead gives nothing back");
    }

    #[test]
    fn a_leader_that_finds_another_in_its_lease_leads_no_more() {
        let (mut first, mut second) = (elector("a_1"), elector("b_2"));
        let lease = take(&mut first, None, 0, "1");
        assert!(matches!(second.found(Some(lease.clone()), at(1).0, at(1).1), Next::Wait(_)));
        let other = take(&mut second, Some(lease), 16, "2");
        first.written(stored(other.clone(), "1"), at(14).1);
        assert!(matches!(first.found(Some(other), at(17).0, at(17).1), Next::Wait(_)));
        assert!(first.leads_until(at(17).1).is_none());
    }

    #[test]
    fn its_own_lease_is_renewed_after_a_late_awakening() {
        let mut first = elector("a_1");
        let lease = take(&mut first, None, 0, "1");
        let (wall, now) = at(60);
        let Next::Replace(again) = first.found(Some(lease), wall, now) else { panic!("it waits") };
        assert_eq!(again.spec.unwrap().lease_transitions, Some(0));
        assert!(first.leads_until(now).is_none(), "not before it is written");
    }
}
