//! Rules that concern one node at a time: room, taints, ports, labels, volumes.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::predicates::{clash, untolerated};
use super::roster::full_name;
use super::seats::{Kind, Seat};
use super::surface::{Ask, all_together};
use crate::world::{Pod, Resources, World};

pub(super) fn check(world: &World, seats: &[Seat<'_>], violations: &mut Vec<Violation>) {
    for seat in seats.iter().filter(|seat| !seat.pods.is_empty()) {
        if let Kind::Real(node) = seat.kind {
            if node.cordoned || node.leaving {
                let why = if node.cordoned { "the node is cordoned" } else { "the node is leaving" };
                violations.push(Violation::new("node-closed", why).node(&node.name));
            }
            volume_limits(&node.volume_limits, seat, violations);
        }
        if let Kind::New { instance_type, .. } = seat.kind {
            volume_limits(&instance_type.volume_limits, seat, violations);
        }
        room(seat, violations);
        taints(world, seat, violations);
        ports(seat, violations);
        labels(seat, violations);
    }
}

/// The sum of several requests.
pub(super) fn total<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> Resources {
    let mut sum = Resources::new();
    for pod in pods {
        for (name, amount) in &pod.requests {
            *sum.entry(name.clone()).or_insert(0) += amount;
        }
    }
    sum
}

/// The first resource of which more is used than there is. A node short of anything, asked for or not, takes nothing.
pub(super) fn exceeded(used: &Resources, available: &Resources) -> Option<String> {
    used.keys().chain(available.keys()).find_map(|name| {
        let wanted = used.get(name).copied().unwrap_or(0);
        let there = available.get(name).copied().unwrap_or(0);
        (wanted > there).then(|| format!("{wanted} of `{name}` wanted, {there} there"))
    })
}

fn room(seat: &Seat<'_>, violations: &mut Vec<Violation>) {
    let placed = seat.pods.iter().map(|(_, pod)| *pod);
    let mut used = total(placed.chain(seat.bound.iter().copied()));
    let allocatable = match &seat.kind {
        Kind::Real(node) => &node.allocatable,
        Kind::New { instance_type, .. } => &instance_type.allocatable,
    };
    if let Some(what) = exceeded(&used, allocatable) {
        violations.push(Violation::new("resources", what).node(&seat.plan.name));
        return;
    }
    // Room is kept for daemons that belong here but have not come yet.
    let expected = total(seat.daemons.iter().copied());
    let present = total(seat.bound.iter().filter(|pod| pod.is_daemon).copied());
    for (name, amount) in expected {
        let lacking = (amount - present.get(&name).copied().unwrap_or(0)).max(0);
        *used.entry(name).or_insert(0) += lacking;
    }
    if let Some(what) = exceeded(&used, allocatable) {
        violations.push(Violation::new("daemon-room", format!("with daemons, {what}")).node(&seat.plan.name));
    }
}

fn taints(world: &World, seat: &Seat<'_>, violations: &mut Vec<Violation>) {
    for (name, pod) in &seat.pods {
        if let Some(taint) = untolerated(seat.taints(world), &pod.tolerations) {
            let message = format!("taint `{}={}:{}` is not tolerated", taint.key, taint.value, taint.effect);
            violations.push(Violation::new("taints", message).pod(name).node(&seat.plan.name));
        }
    }
}

/// Daemons still to come to a real node reserve no ports: kube-scheduler would let the pod bind first.
fn ports(seat: &Seat<'_>, violations: &mut Vec<Violation>) {
    let daemons = match seat.kind {
        Kind::Real(_) => &[],
        Kind::New { .. } => seat.daemons.as_slice(),
    };
    let mut taken: Vec<(String, &Pod)> =
        seat.bound.iter().chain(daemons).map(|pod| (full_name(pod), *pod)).collect();
    for (name, pod) in &seat.pods {
        let clashing = taken.iter().find(|(_, other)| {
            other.ports.iter().any(|theirs| pod.ports.iter().any(|ours| clash(ours, theirs)))
        });
        if let Some((other, _)) = clashing {
            let message = format!("a host port is already taken by `{other}`");
            violations.push(Violation::new("host-ports", message).pod(name).node(&seat.plan.name));
        }
        if !pod.ports.is_empty() {
            taken.push(((*name).to_owned(), pod));
        }
    }
}

fn labels(seat: &Seat<'_>, violations: &mut Vec<Violation>) {
    let mut verdicts: BTreeMap<String, bool> = BTreeMap::new();
    let mut alone = true;
    for (name, pod) in &seat.pods {
        let ask = Ask::of_pod(pod);
        if !*verdicts.entry(format!("{ask:?}")).or_insert_with(|| ask.fits(&seat.surface)) {
            let message = "node selector or required node affinity does not match the node";
            violations.push(Violation::new("node-affinity", message).pod(name).node(&seat.plan.name));
            alone = false;
        }
        for volume in pod.volumes.iter().filter(|volume| !volume.alternatives.is_empty()) {
            if !Ask(volume.alternatives.clone()).fits(&seat.surface) {
                let message =
                    format!("the volume of claim `{}` cannot be reached from the node", volume.claim);
                violations.push(Violation::new("volume-topology", message).pod(name).node(&seat.plan.name));
                alone = false;
            }
        }
    }
    if alone {
        match all_together(&seat.surface, &seat.asks()) {
            Some(true) => {}
            Some(false) => violations.push(
                Violation::new("joint-requirements", "no choice of labels suits all pods of the node")
                    .node(&seat.plan.name),
            ),
            None => violations.push(
                Violation::new("undecided", "too many combinations of node affinity terms")
                    .node(&seat.plan.name),
            ),
        }
    }
}

/// Attachments of a node: distinct claims per driver.
fn volume_limits(limits: &BTreeMap<String, u32>, seat: &Seat<'_>, violations: &mut Vec<Violation>) {
    let mut attached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut grown: BTreeSet<&str> = BTreeSet::new();
    let placed = seat.pods.iter().map(|(_, pod)| (*pod, true));
    for (pod, new) in seat.bound.iter().map(|pod| (*pod, false)).chain(placed) {
        for volume in &pod.volumes {
            if let Some(driver) = &volume.driver
                && attached.entry(driver).or_default().insert(&volume.claim)
                && new
            {
                grown.insert(driver);
            }
        }
    }
    for driver in grown {
        let count = attached.get(driver).map_or(0, BTreeSet::len);
        if let Some(limit) = limits.get(driver)
            && count > usize::try_from(*limit).unwrap_or(usize::MAX)
        {
            let message = format!("{count} volumes of `{driver}`, the node takes {limit}");
            violations.push(Violation::new("volume-limits", message).node(&seat.plan.name));
        }
    }
}
