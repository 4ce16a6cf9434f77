//! Pools of a fixed size (`spec.replicas`): the machines they lack are part of every plan, and pods may go there.
//!
//! A machine that is missing will be bought whatever pods there are, so it is lowered as a node that has not joined yet: the cheapest offering
//! the template allows, as the provider would choose, with the labels and taints it will have. What a pool has too many of is only said.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::NodePool;
use joiner_api::names::{INITIALIZED_LABEL, NODES_RESOURCE, REGISTERED_LABEL, conditions};
use joiner_core::model::node::Bought;
use joiner_core::model::{KeyId, OfferingIdx, ReqId, Requirement};

use crate::cluster::{NONE, Standing};
use crate::lower::Lowering;
use crate::node_digest::{self, Labels};
use crate::nodes::ResolvedNode;
use crate::requests::read_amounts;

impl Lowering<'_> {
    /// Adds the machines that static pools lack, and says what they have too many of.
    pub(crate) fn keep_static_pools(&mut self, nodes: &mut Vec<ResolvedNode>) {
        let cluster = self.cluster;
        for name in self.frame.pool_order.clone() {
            let pool = &cluster.pools[&*name];
            let name = &*name;
            let Some(replicas) = pool.spec.replicas else { continue };
            if pool.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let wanted = usize::try_from(replicas).unwrap_or(0);
            let own = || nodes.iter().filter(|node| node.pool.as_deref() == Some(name));
            let active = own().filter(|node| !node.leaving).count();
            // A node being replaced still stands in for its successor.
            let replaced = own().filter(|node| node.leaving && !node.deleting).count();
            let all = own().count();
            if active > wanted {
                let note = self.excess(name, wanted, active - wanted, nodes);
                self.frame.notes.push(note);
            }
            if active + replaced >= wanted {
                continue;
            }
            let mut missing = wanted - active;
            if let Some(limit) = node_limit(pool) {
                let room = usize::try_from(limit).unwrap_or(0).saturating_sub(all);
                if room < missing {
                    self.frame.notes.push(format!(
                        "NodePool `{name}` should keep {wanted} nodes and has {active}, but its limit of {limit} nodes leaves room for {room} more"
                    ));
                    missing = room;
                }
            }
            // A replica count like this is a typing mistake; refusing keeps memory bounded.
            let most = cluster.options.max_pods;
            if missing > most {
                self.frame.notes.push(format!("NodePool `{name}` lacks {missing} nodes, more than the {most} that are planned for; none is"));
                continue;
            }
            if let Some(why) = unready(pool) {
                self.frame
                    .notes
                    .push(format!("NodePool `{name}` lacks {missing} nodes, but none is launched: {why}"));
                continue;
            }
            self.add_missing(name, missing, nodes);
        }
        nodes.sort_by(|a, b| (!a.initialised, &a.name).cmp(&(!b.initialised, &b.name)));
    }

    fn add_missing(&mut self, name: &str, missing: usize, nodes: &mut Vec<ResolvedNode>) {
        let at = self.frame.pool_index[name];
        let candidates = self.template_offerings(at);
        let pool = &self.cluster.pools[name].spec.template.spec;
        let taints = node_digest::taints(pool.taints.as_deref(), "").unwrap_or_default();
        let mut number = 0usize;
        let mut taken: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
        for made in 0..missing {
            let catalogue = &self.frame.snapshot.catalogues[self.frame.snapshot.pools[at].catalogue.at()];
            let has_unit = |offering: &&usize| {
                let reservation = catalogue.offerings[**offering].reservation;
                reservation.is_none_or(|r| self.frame.snapshot.reservations[r.at()].capacity > 0)
            };
            let left: Vec<usize> = candidates.iter().filter(has_unit).copied().collect();
            let Some(chosen) = left.first().copied() else {
                self.frame.notes.push(format!(
                    "NodePool `{name}` lacks {} nodes, but no offering that can be had matches its template",
                    missing - made
                ));
                return;
            };
            let offering = &catalogue.offerings[chosen];
            let bought =
                Bought { offering: OfferingIdx::new(chosen), price_nano_usd: offering.price_nano_usd };
            let (allocatable, price, drawn) =
                (offering.allocatable.clone(), offering.price, offering.reservation);
            let type_limits =
                catalogue.types[offering.instance_type.at()].volume_limits.iter().cloned().collect();
            let labels = self.future_labels(at, chosen);
            if let Some(reservation) = drawn {
                self.frame.snapshot.reservations[reservation.at()].capacity -= 1;
            }
            let fresh = loop {
                number += 1;
                let fresh = format!("{name}-{number}");
                if taken.insert(fresh.clone()) {
                    break fresh;
                }
            };
            nodes.push(ResolvedNode {
                name: fresh,
                labels: labels.into(),
                taints: taints.clone(),
                allocatable,
                accepts_pods: true,
                initialised: false,
                pool: Some(name.to_owned()),
                leaving: false,
                deleting: false,
                launched: false,
                counts: None,
                unknown_type: false,
                agreed_price: Some(price),
                bought: Some(bought),
                type_limits,
            });
        }
    }

    /// Offerings that can be had and match a pool's template, cheapest first.
    fn template_offerings(&mut self, pool: usize) -> Vec<usize> {
        let row = &self.frame.snapshot.pools[pool];
        let catalogue = &self.frame.snapshot.catalogues[row.catalogue.at()];
        let contradicts =
            |set: ReqId| self.frame.snapshot.vocabulary.set_items(set).any(|(_, rq)| rq.is_empty());
        if contradicts(row.requirements) {
            return Vec::new();
        }
        let template: BTreeMap<KeyId, &Requirement> =
            self.frame.snapshot.vocabulary.set_items(row.requirements).collect();
        let names = &self.frame.snapshot.vocabulary.names;
        let overlaps = |set: ReqId| {
            self.frame.snapshot.vocabulary.set_items(set).all(|(key, own)| {
                template.get(&key).is_none_or(|wanted| !own.intersect(wanted, names, key).is_empty())
            })
        };
        let type_fits: Vec<bool> = catalogue.types.iter().map(|t| overlaps(t.requirements)).collect();
        let offerings = catalogue.offerings.iter().enumerate();
        offerings
            .filter(|(_, o)| o.available && type_fits[o.instance_type.at()] && overlaps(o.requirements))
            .map(|(at, _)| at)
            .collect()
    }

    /// Labels that template, type and offering together list values of.
    fn future_labels(&self, pool: usize, offering: usize) -> Labels {
        let row = &self.frame.snapshot.pools[pool];
        let catalogue = &self.frame.snapshot.catalogues[row.catalogue.at()];
        let offering = &catalogue.offerings[offering];
        let vocabulary = &self.frame.snapshot.vocabulary;
        let mut all: BTreeMap<KeyId, Requirement> = BTreeMap::new();
        let of_type = catalogue.types[offering.instance_type.at()].requirements;
        for set in [row.requirements, of_type, offering.requirements] {
            for (key, requirement) in vocabulary.set_items(set) {
                let met = match all.get(&key) {
                    Some(have) => have.intersect(requirement, &vocabulary.names, key),
                    None => requirement.clone(),
                };
                all.insert(key, met);
            }
        }
        let mut labels = Labels::new();
        for (key, requirement) in all {
            if requirement.complement {
                continue;
            }
            // Of several the first by name, so that equal input gives an equal plan.
            if let Some(value) = requirement.value_texts(&vocabulary.names, key).first() {
                labels.insert(vocabulary.names.key_text(key).into(), (*value).into());
            }
        }
        // It will have joined by the time pods and daemons come.
        for key in [REGISTERED_LABEL, INITIALIZED_LABEL] {
            labels.insert(key.into(), "true".into());
        }
        labels
    }

    /// Which nodes a pool with too many would give up: those not launched, then the empty ones, then those with the fewest pods.
    fn excess(&self, name: &str, wanted: usize, count: usize, nodes: &[ResolvedNode]) -> String {
        let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
        let bound = self.cluster.pods.iter().map(|(_, pod)| pod);
        for pod in bound.filter(|pod| pod.node != NONE && pod.standing == Standing::Bound) {
            *on_node.entry(self.cluster.node_names.text(pod.node)).or_insert(0) += 1;
        }
        let own = nodes.iter().filter(|node| node.pool.as_deref() == Some(name) && !node.leaving);
        let mut order: Vec<(bool, usize, &str)> = own
            .map(|node| {
                let pods = on_node.get(node.name.as_str()).copied().unwrap_or(0);
                (node.launched, pods, node.name.as_str())
            })
            .collect();
        order.sort_unstable();
        let shown: Vec<String> = order
            .iter()
            .take(count)
            .take(5)
            .map(|(launched, pods, node)| match (launched, pods) {
                (false, _) => format!("`{node}` (not launched)"),
                (true, 0) => format!("`{node}` (empty)"),
                (true, 1) => format!("`{node}` (1 pod)"),
                (true, pods) => format!("`{node}` ({pods} pods)"),
            })
            .collect();
        let more = if count > 5 { format!(" and {} more", count - 5) } else { String::new() };
        format!(
            "NodePool `{name}` should keep {wanted} nodes and has {}: it would remove {}{more}; this plan removes nothing",
            wanted + count,
            shown.join(", ")
        )
    }
}

fn node_limit(pool: &NodePool) -> Option<i64> {
    let amounts = read_amounts(pool.spec.limits.as_ref()?, "").ok()?;
    amounts.get(NODES_RESOURCE).copied()
}

fn unready(pool: &NodePool) -> Option<String> {
    let conditions = pool.status.iter().flat_map(|status| &status.conditions);
    let mut unready = conditions.filter(|c| c.type_ == conditions::READY && c.status == "False");
    unready.next().map(|c| format!("its condition `Ready` is False ({})", c.reason))
}
