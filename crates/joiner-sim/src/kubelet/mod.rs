//! Kubelets that run nothing: nodes become ready, pods say that they run, jobs end, and what is deleted goes after its grace.
//!
//! The steps are those of KWOK's stock stages, and its annotations tune them; how long each takes is a [`Lifecycle`], or an annotation of the
//! pod or node (see [`annotations`]). A span between two bounds is drawn from the seed and the uid of the object, so it does not depend on
//! what else happens.
//!
//! Heartbeats are not written: they would be most of the traffic of a quiet cluster and say nothing. A node whose kubelet is meant to have
//! stopped says so in an annotation, and the node lifecycle controller goes by that.

pub mod annotations;
mod chaos;
mod node;
mod pod;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::is_finished;

/// Whether no kubelet has anything to do about a pod before somebody changes it: it runs and is to go on, or it has ended.
pub fn is_settled(pod: &Object) -> bool {
    pod::runs_on(pod) || (is_finished(pod) && !pod.is_deleting())
}

/// A time between two bounds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The shortest.
    pub least: SignedDuration,
    /// The longest.
    pub most: SignedDuration,
}

impl Span {
    /// No time at all.
    pub const NOTHING: Self = Self::exactly(SignedDuration::ZERO);

    /// Always the same time.
    pub const fn exactly(time: SignedDuration) -> Self {
        Self { least: time, most: time }
    }

    /// Between so many milliseconds.
    pub const fn millis(least: i64, most: i64) -> Self {
        Self { least: SignedDuration::from_millis(least), most: SignedDuration::from_millis(most) }
    }

    /// Between so many seconds.
    pub const fn seconds(least: i64, most: i64) -> Self {
        Self { least: SignedDuration::from_secs(least), most: SignedDuration::from_secs(most) }
    }

    /// The time for one purpose of one object.
    fn draw(self, seed: u64, uid: &str, purpose: &str) -> SignedDuration {
        let width = self.most.saturating_sub(self.least).as_millis();
        let Ok(width) = u64::try_from(width) else { return self.least };
        if width == 0 {
            return self.least;
        }
        let part = crate::json::chance(seed, uid, purpose, 0) % (width + 1);
        self.least.saturating_add(SignedDuration::from_millis(i64::try_from(part).unwrap_or(0)))
    }
}

/// Which nodes have one of these kubelets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Managed {
    /// All nodes.
    #[default]
    All,
    /// Those annotated `kwok.x-k8s.io/node: fake`, as on a cluster with KWOK.
    Annotated,
    /// None: somebody outside of the simulated cluster plays them.
    Nobody,
}

/// How nodes and pods live.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    /// Which nodes.
    pub managed: Managed,
    /// From the creation of a node until it is ready.
    pub node_boot: Span,
    /// From the binding of a pod until its containers are created; then once more for each init container.
    pub pod_create: Span,
    /// From there until it is ready.
    pub pod_ready: Span,
    /// From the start of a pod of a Job until it ends.
    pub job_duration: Span,
    /// From the wish to delete a pod until it is gone, but never longer than its grace.
    pub termination: Span,
}

impl Lifecycle {
    /// Everything at once, as KWOK's fast stages.
    pub fn fast() -> Self {
        Self {
            managed: Managed::All,
            node_boot: Span::NOTHING,
            pod_create: Span::NOTHING,
            pod_ready: Span::NOTHING,
            job_duration: Span::NOTHING,
            termination: Span::NOTHING,
        }
    }

    /// One to five seconds for every step, as KWOK's general stages.
    pub fn general() -> Self {
        let step = Span::seconds(1, 5);
        Self {
            managed: Managed::All,
            node_boot: Span::NOTHING,
            pod_create: step,
            pod_ready: step,
            job_duration: step,
            termination: step,
        }
    }
}

impl Default for Lifecycle {
    /// As [`Lifecycle::fast`], but ending takes a moment: clients that delete a pod look for it before they wait for its end, and a StatefulSet
    /// brings the next one of the same name at once.
    fn default() -> Self {
        Self { termination: Span::millis(500, 1000), ..Self::fast() }
    }
}

/// All kubelets of the cluster.
pub struct Kubelets {
    lifecycle: Lifecycle,
    seed: u64,
    addresses: u32,
    /// Since when pods are ending, by uid: what is written in the objects is in whole seconds.
    ending: BTreeMap<String, Timestamp>,
    /// Since when nodes are booting, by uid.
    booting: BTreeMap<String, Timestamp>,
}

impl Kubelets {
    /// Kubelets with these habits.
    pub fn new(lifecycle: Lifecycle, seed: u64) -> Self {
        Self { lifecycle, seed, addresses: 0, ending: BTreeMap::new(), booting: BTreeMap::new() }
    }

    fn manages(&self, node: &Value) -> bool {
        match self.lifecycle.managed {
            Managed::All => node.annotation(annotations::KWOK_NODE) != Some("real"),
            Managed::Annotated => node.annotation(annotations::KWOK_NODE) == Some("fake"),
            Managed::Nobody => false,
        }
    }

    /// A time from an annotation, or the usual one.
    fn time(&self, object: &Value, annotation: &str, stage: &str, usual: Span) -> SignedDuration {
        if let Some(time) = annotations::duration(object, annotation) {
            return time;
        }
        annotations::stage_delay(object, stage, usual).draw(self.seed, object.uid(), stage)
    }

    /// Somebody has this address: those given from now on are higher. Addresses of other networks count for nothing.
    pub fn address_is_taken(&mut self, address: &str) {
        let Ok(address) = address.parse::<Ipv4Addr>() else { return };
        if let [10, a, b, c] = address.octets() {
            self.addresses = self.addresses.max(u32::from_be_bytes([0, a, b, c]));
        }
    }

    fn next_address(&mut self) -> String {
        self.addresses = (self.addresses + 1) & 0x00ff_ffff;
        let [_, a, b, c] = self.addresses.to_be_bytes();
        format!("10.{a}.{b}.{c}")
    }
}

impl Controller for Kubelets {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        if event.change == Change::Deleted {
            match event.key.kind {
                Kind::Pod if !self.ending.is_empty() => drop(self.ending.remove(event.object.uid())),
                Kind::Node => drop(self.booting.remove(event.object.uid())),
                _ => {}
            }
            return;
        }
        match event.key.kind {
            Kind::Node => {
                keys.push(event.key.clone());
                let running = |node: &Value| node.condition_is_true("Ready") && !node::has_stopped(node);
                let before = event.previous.as_ref().is_some_and(|node| running(node));
                if running(&event.object) && !before {
                    keys.extend(cache.pods_on(&event.key.name).map(|(key, _)| key.clone()));
                }
            }
            Kind::Pod
                if !event.object.text(&["spec", "nodeName"]).is_empty() && !pod::runs_on(&event.object) =>
            {
                keys.push(event.key.clone());
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(object) = cache.get(key) else { return Outcome::nothing() };
        match key.kind {
            Kind::Node if self.manages(object) => self.node(key, object, now),
            Kind::Pod => {
                let node = cache.find(Kind::Node, "", object.text(&["spec", "nodeName"]));
                match node.filter(|node| self.manages(node) && !node::has_stopped(node)) {
                    Some(node) => self.pod(key, object, node, now),
                    None => Outcome::nothing(),
                }
            }
            _ => Outcome::nothing(),
        }
    }

    fn patience(&self) -> SignedDuration {
        SignedDuration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_somebody_has_are_not_given_again() {
        let mut kubelets = Kubelets::new(Lifecycle::fast(), 1);
        assert_eq!(kubelets.next_address(), "10.0.0.1");
        for taken in ["10.0.1.7", "10.0.0.200", "192.168.200.1", "", "fd00::1"] {
            kubelets.address_is_taken(taken);
        }
        assert_eq!(kubelets.next_address(), "10.0.1.8");
    }

    #[test]
    fn a_span_is_drawn_within_its_bounds() {
        let span = Span::seconds(1, 5);
        let times: Vec<SignedDuration> =
            (0..200).map(|number| span.draw(7, &number.to_string(), "start")).collect();
        assert!(times.iter().all(|time| *time >= span.least && *time <= span.most));
        assert!(times.iter().any(|time| *time < SignedDuration::from_secs(2)));
        assert!(times.iter().any(|time| *time > SignedDuration::from_secs(4)));
        assert_eq!(span.draw(7, "x", "start"), span.draw(7, "x", "start"));
        assert_eq!(Span::NOTHING.draw(7, "x", "start"), SignedDuration::ZERO);
    }
}
