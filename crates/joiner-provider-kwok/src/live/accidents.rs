//! What happens to machines that stand: they vanish without a word, or the cloud takes them back after a notice.
//!
//! When, follows from the class, the claim's uid and the age of the Node, so the same cluster has the same accidents again, also after a restart. They happen while somebody listens, and
//! only a leader does. A machine that vanishes stops its kubelet and leaves its Node behind, as it is with a real cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_api::names::{KUBELET_ANNOTATION, MACHINE_ANNOTATION};
use joiner_provider::{Interruption, InterruptionKind};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;

use super::KwokProvider;
use super::instances::Standing;
use crate::chaos::Behaviour;
use crate::launch::VANISHED;

/// How often it is looked for machines that are new.
const LOOK: Duration = Duration::from_secs(10);

/// The accidents of all machines of a provider.
pub(super) struct Accidents<'p> {
    provider: &'p KwokProvider,
    heard: watch::Receiver<u64>,
    /// Moments of machines by the names of their Nodes, drawn once.
    drawn: BTreeMap<String, Moments>,
    /// Machines of which it was told that they are taken back.
    told: BTreeSet<String>,
}

/// What happens to a machine, and when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moments {
    told: Option<Timestamp>,
    ends: Option<Timestamp>,
}

impl Moments {
    fn of(behaviour: &Behaviour, uid: &str, machine: &Standing, created: Timestamp) -> Self {
        let at = |age: Duration| {
            let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
            created.checked_add(age).unwrap_or(Timestamp::MAX)
        };
        let vanishes = behaviour.vanishes_at(uid).map(at);
        let capacity_type = machine.offering.as_ref().and_then(|offering| offering.capacity_type.as_deref());
        let reclaimed = behaviour.reclaimed_at(uid, capacity_type);
        let (told, ends) = reclaimed.map(|(told, ends)| (at(told), at(ends))).unzip();
        Self { told, ends: [vanishes, ends].into_iter().flatten().min() }
    }
}

impl<'p> Accidents<'p> {
    pub(super) fn new(provider: &'p KwokProvider) -> Self {
        let heard = provider.classes.heard();
        Self { provider, heard, drawn: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// The next word of the cloud.
    pub(super) async fn next(&mut self) -> Interruption {
        loop {
            if self.heard.has_changed().unwrap_or(false) {
                self.heard.mark_unchanged();
                self.drawn.clear();
            }
            let wait = match self.provider.classes.any_ends_machines() {
                true => match self.look().await {
                    Ok(interruption) => return interruption,
                    Err(wait) => Some(wait),
                },
                false => None,
            };
            tokio::select! {
                biased;
                heard = self.heard.changed() => {
                    self.drawn.clear();
                    if heard.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                () = pause(self.provider, wait) => {}
            }
        }
    }

    /// Lets everything happen that is due; one word of the cloud, or how long nothing does.
    async fn look(&mut self) -> Result<Interruption, Duration> {
        let Ok(machines) = self.provider.standing().await else { return Err(LOOK) };
        self.drawn.retain(|name, _| machines.contains_key(name));
        self.told.retain(|name| machines.contains_key(name));
        let now = self.provider.clock.now();
        let mut next = Timestamp::MAX;
        for (name, machine) in machines.iter().filter(|(_, machine)| !machine.instance.terminating) {
            let moments = self.moments(name, machine);
            if moments.ends.is_some_and(|ends| ends <= now) {
                // One that could not be written is tried again with the next look; one that was, is missing from the list then.
                let _ = self.vanish(name).await;
                continue;
            }
            if moments.told.is_some_and(|told| told <= now) && self.told.insert(name.clone()) {
                return Ok(Interruption {
                    provider_id: machine.instance.provider_id.clone(),
                    kind: InterruptionKind::Reclaimed,
                    at: moments.ends,
                    offering: machine.offering.clone(),
                    message: "the node class asks for spot machines that are taken back".to_owned(),
                });
            }
            let coming = [moments.told, moments.ends].into_iter().flatten().filter(|at| *at > now);
            next = coming.fold(next, Timestamp::min);
        }
        let wait = Duration::try_from(next.duration_since(now)).unwrap_or(LOOK);
        Err(wait.clamp(Duration::from_millis(1), LOOK))
    }

    fn moments(&mut self, name: &str, machine: &Standing) -> Moments {
        if let Some(drawn) = self.drawn.get(name) {
            return *drawn;
        }
        let spec = machine.class.as_deref().and_then(|class| self.provider.classes.spec(class));
        let behaviour = spec.and_then(|spec| Behaviour::of_spec(spec).ok());
        let drawn = match (behaviour, &machine.instance.claim_uid, machine.instance.created) {
            (Some(behaviour), Some(uid), Some(created)) => Moments::of(&behaviour, uid, machine, created),
            _ => Moments::default(),
        };
        self.drawn.insert(name.to_owned(), drawn);
        drawn
    }

    async fn vanish(&self, name: &str) -> Result<(), kube::Error> {
        let marks = json!({MACHINE_ANNOTATION: VANISHED, KUBELET_ANNOTATION: "stopped"});
        // KWOK's chaos stages go by this label.
        let labels = json!({"node-not-ready.stage.kwok.x-k8s.io": "true"});
        let patch = Patch::Merge(json!({"metadata": {"annotations": marks, "labels": labels}}));
        self.provider.nodes.patch(name, &PatchParams::default(), &patch).await?;
        self.provider.stock.give_back(name);
        Ok(())
    }
}

async fn pause(provider: &KwokProvider, time: Option<Duration>) {
    match time {
        Some(time) => provider.clock.sleep(time).await,
        None => std::future::pending().await,
    }
}
