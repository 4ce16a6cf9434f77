//! Existing nodes and machines in flight, with what their pods leave free.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_api::names::{
    CAPACITY_TYPE_LABEL, DISRUPTED_TAINT, DISRUPTION_TAINT, EKS_CAPACITY_TYPE_LABEL, HOSTNAME_LABEL,
    INITIALIZED_LABEL, INSTANCE_TYPE_LABEL, NODEPOOL_LABEL, ON_DEMAND, REGISTERED_LABEL, SPOT, ZONE_LABEL,
};
use joiner_core::model::node::{Bought, ShownNode};
use joiner_core::model::resources::{add_into, max_into, sub_into};
use joiner_core::model::{
    CatalogueIdx, Effect, IdentityIdx, Node, OfferingIdx, PoolIdx, PriceSource, ReqId, Requirement, ResVec,
    Taint, ValueId,
};

use crate::catalogues::{NO_PRICE, nano_usd};
use crate::cluster::NONE;
use crate::lower::Lowering;
use crate::node_digest::{ClaimDigest, Labels, is_ephemeral};
use crate::pools::startup_taints;

/// A node or machine in flight: what its Node and its claim come to together.
#[derive(Debug)]
pub(crate) struct ResolvedNode {
    pub name: String,
    pub labels: Arc<Labels>,
    pub taints: Vec<Taint>,
    pub allocatable: ResVec,
    pub accepts_pods: bool,
    pub initialised: bool,
    pub pool: Option<String>,
    /// Being deleted or replaced.
    pub leaving: bool,
    /// Being deleted.
    pub deleting: bool,
    /// There is a machine.
    pub launched: bool,
    /// Its pool, by position, and what it counts there against limits.
    pub counts: Option<(usize, ResVec)>,
    /// It is not launched, and no type is known that it could be.
    pub unknown_type: bool,
    /// What it costs, if that does not follow from the catalogue.
    pub agreed_price: Option<f64>,
    /// Still to be bought.
    pub bought: Option<Bought>,
    /// Limits of its type, for drivers that do not run there yet.
    pub type_limits: BTreeMap<Box<str>, u32>,
}

impl<'c> Lowering<'c> {
    /// Brings Nodes and claims together, in the order in which nodes are tried, and counts them against their pools' limits; only those that
    /// `is_part` keeps.
    pub(crate) fn resolve_nodes(&mut self, is_part: impl Fn(&ResolvedNode) -> bool) -> Vec<ResolvedNode> {
        let cluster = self.cluster;
        for claim in cluster.machines.duplicates() {
            self.frame.notes.push(format!(
                "NodeClaim `{claim}` means a node that another NodeClaim has; it is not counted"
            ));
        }
        let claims = cluster.machines.claims.keys().filter_map(|name| self.resolve_claim(name));
        let mut resolved: Vec<ResolvedNode> = claims.collect();
        resolved.extend(cluster.machines.nodes.keys().filter_map(|name| self.resolve_node(name)));
        resolved.retain(is_part);
        for node in &resolved {
            if let Some((pool, amounts)) = &node.counts {
                self.use_up(*pool, amounts, 1);
            }
        }
        resolved.sort_by(|a, b| (!a.initialised, &a.name).cmp(&(!b.initialised, &b.name)));
        resolved
    }

    /// Whether the last step of relaxation exists.
    pub(crate) fn find_preferred_taints(&mut self, resolved: &[ResolvedNode]) {
        let of_nodes = resolved.iter().any(ResolvedNode::has_preferred_taints);
        self.frame.snapshot.has_preferred_taints = of_nodes || self.pools_have_preferred_taints();
    }

    pub(crate) fn pools_have_preferred_taints(&self) -> bool {
        let snapshot = &self.frame.snapshot;
        snapshot.pools.iter().any(|pool| has_preferred(snapshot.vocabulary.taints(pool.taints)))
    }

    /// What a node comes to with its claim.
    pub(crate) fn resolve_node(&self, name: &str) -> Option<ResolvedNode> {
        let machines = &self.cluster.machines;
        let node = &**machines.nodes.get(name)?;
        let claim = machines.claim_of(name).map(|claim| &**claim);
        let pool = node.pool().or_else(|| claim?.pool());
        let managed = pool.is_some() || claim.is_some();
        let initialised = !managed || node.has_true(INITIALIZED_LABEL);
        // Until a node has registered, its claim knows better than its kubelet.
        let unregistered = claim.filter(|_| !node.has_true(REGISTERED_LABEL));
        let mut taints = unregistered.map_or(&node.taints, |claim| &claim.taints).clone();
        let (mut allocatable, mut capacity) = (self.lanes(&node.allocatable), self.lanes(&node.capacity));
        if !initialised {
            let startup = match (claim, pool) {
                (Some(claim), _) => claim.startup_taints.clone(),
                (None, Some(pool)) => self.cluster.pools.get(pool).map(startup_taints).unwrap_or_default(),
                (None, None) => Vec::new(),
            };
            drop_starting(&mut taints, &startup);
            if let Some(claim) = claim {
                fill_gaps(&mut allocatable, &self.lanes(&claim.allocatable));
                fill_gaps(&mut capacity, &self.lanes(&claim.capacity));
            }
        }
        let type_limits = if initialised {
            BTreeMap::new()
        } else {
            let class = claim.map(|claim| &claim.class).cloned().or_else(|| self.class_of_pool(pool?));
            let name =
                node.labels.get(INSTANCE_TYPE_LABEL).or_else(|| claim?.labels.get(INSTANCE_TYPE_LABEL));
            name.map(|name| self.type_limits(class.as_ref(), |other| other == &**name)).unwrap_or_default()
        };
        let leaving = node.deleting || claim.is_some_and(|claim| claim.deleting);
        let disrupted = [&node.taints, &taints].into_iter().flatten().any(is_disrupted);
        let counted = pool.filter(|_| self.cluster.options.strict_limits || !leaving && !disrupted);
        let counts = counted.and_then(|pool| Some((*self.frame.pool_index.get(pool)?, capacity)));
        Some(ResolvedNode {
            name: name.to_owned(),
            unknown_type: false,
            counts,
            labels: unregistered.map_or(&node.labels, |claim| &claim.labels).clone(),
            taints,
            allocatable,
            accepts_pods: !(node.cordoned || leaving || disrupted),
            initialised,
            pool: pool.map(str::to_owned),
            type_limits,
            leaving: leaving || disrupted,
            deleting: leaving,
            launched: true,
            agreed_price: None,
            bought: None,
        })
    }

    fn class_of_pool(&self, pool: &str) -> Option<(String, String, String)> {
        let class = &self.cluster.pools.get(pool)?.spec.template.spec.node_class_ref;
        Some((class.group.clone(), class.kind.clone(), class.name.clone()))
    }

    /// What a claim without a node comes to.
    pub(crate) fn resolve_claim(&self, name: &str) -> Option<ResolvedNode> {
        let machines = &self.cluster.machines;
        let claim = &**machines.claims.get(name)?;
        if !machines.has_not_joined(name) {
            return None;
        }
        let mut labels = claim.labels.clone();
        let (mut allocatable, mut capacity) = (self.lanes(&claim.allocatable), self.lanes(&claim.capacity));
        let mut unknown_type = false;
        if claim.provider_id.is_none() || claim.allocatable.is_empty() {
            for requirement in &claim.requirements {
                if let ("In", [value]) = (requirement.operator.as_str(), requirement.values.as_slice()) {
                    Arc::make_mut(&mut labels)
                        .entry(requirement.stable_key().into())
                        .or_insert_with(|| value.as_str().into());
                }
            }
            match self.candidates(claim) {
                Some((least, most)) => (allocatable, capacity) = (least, most),
                None => unknown_type = true,
            }
        }
        let mut taints = claim.taints.clone();
        drop_starting(&mut taints, &claim.startup_taints);
        let counted = claim.pool().filter(|_| self.cluster.options.strict_limits || !claim.deleting);
        let counts = counted.and_then(|pool| Some((*self.frame.pool_index.get(pool)?, capacity)));
        Some(ResolvedNode {
            counts,
            unknown_type,
            name: claim.node_name.as_deref().unwrap_or(name).to_owned(),
            accepts_pods: !claim.deleting && !taints.iter().any(is_disrupted),
            leaving: claim.deleting || taints.iter().any(is_disrupted),
            deleting: claim.deleting,
            launched: claim.provider_id.is_some(),
            agreed_price: None,
            bought: None,
            taints,
            allocatable,
            initialised: false,
            pool: claim.pool().map(str::to_owned),
            type_limits: match names_type(claim) {
                true => self.type_limits(Some(&claim.class), |name| may_become(claim, name)),
                false => BTreeMap::new(),
            },
            labels,
        })
    }

    /// Over the types a claim may become: the least that pods can use, and the most that counts against limits.
    fn candidates(&self, claim: &ClaimDigest) -> Option<(ResVec, ResVec)> {
        let (group, kind, name) = &claim.class;
        let of_pool = claim.pool().and_then(|pool| self.frame.pool_index.get(pool));
        let of_pool = of_pool.and_then(|at| self.frame.pool_catalogues[*at]).map(CatalogueIdx::at);
        let at = of_pool.or_else(|| self.catalogue_of((group, kind, name)))?;
        let catalogue = &self.frame.snapshot.catalogues[at];
        let details = &self.frame.type_details[at];
        // A claim names few of many types: each is looked up.
        let listed: Vec<&str> = match (claim.labels.get(INSTANCE_TYPE_LABEL), named_types(claim).next()) {
            (Some(label), _) => vec![label],
            (None, Some(list)) => list.iter().map(String::as_str).collect(),
            (None, None) => catalogue.types.iter().map(|of| &*of.name).collect(),
        };
        let mut found: Option<(ResVec, ResVec)> = None;
        for name in listed.into_iter().filter(|name| may_become(claim, name)) {
            let Ok(of) = catalogue.types.binary_search_by(|of| (*of.name).cmp(name)) else { continue };
            let (room, capacity) = (&details[of].least, &catalogue.types[of].capacity);
            match &mut found {
                None => found = Some((room.clone(), capacity.clone())),
                Some((least, most)) => {
                    min_into(least, room);
                    max_into(most, capacity);
                }
            }
        }
        found
    }

    /// Nodes: labels anybody asks about, room left, ports, volumes and the pods selectors see.
    pub(crate) fn lower_nodes(&mut self, resolved: Vec<ResolvedNode>) -> Vec<Arc<Node>> {
        let cluster = self.cluster;
        // By id of the node's name.
        let mut is_known = vec![false; cluster.node_names.len()];
        let mut nodes = Vec::with_capacity(resolved.len());
        for resolved in resolved {
            if resolved.unknown_type {
                self.frame.notes.push(format!(
                    "NodeClaim `{}` is not launched and names no known instance type; nothing is placed on it",
                    resolved.name
                ));
            }
            let mut node = self.node(&resolved);
            if let Some(id) = cluster.node_names.find(resolved.name.as_bytes()) {
                is_known[id as usize] = true;
                self.load(&mut node, id);
            }
            nodes.push(Arc::new(node));
        }
        let homeless = (0u32..).zip(&cluster.on_node).filter(|(id, _)| !is_known[*id as usize]);
        let homeless: BTreeMap<u32, usize> =
            homeless.map(|(id, rows)| (id, rows.len())).filter(|(_, count)| *count > 0).collect();
        if let Some((first, _)) = homeless.first_key_value() {
            let count: usize = homeless.values().sum();
            let node = cluster.node_names.text(*first);
            self.frame.notes.push(match (count, homeless.len()) {
                (1, _) => format!("a pod is bound to node `{node}`, which is not known; it is not counted"),
                (_, 1) => {
                    format!("{count} pods are bound to node `{node}`, which is not known; they are not counted")
                }
                (_, nodes) => format!(
                    "{count} pods are bound to {nodes} nodes that are not known, e.g. `{node}`; they are not counted"
                ),
            });
        }
        nodes
    }

    /// Puts its pods on a node; `name` is the id of its name.
    pub(crate) fn load(&mut self, node: &mut Node, name: u32) {
        let cluster = self.cluster;
        let has_limits = !self.frame.limited_drivers.is_empty();
        let mut seen: Vec<IdentityIdx> = Vec::new();
        for row in &cluster.on_node[name as usize] {
            let Some(pod) = cluster.pods.get(*row) else { continue };
            let (standing, _) = pod.counted();
            let requests = self.requests_of(pod.spec);
            sub_into(&mut node.available, requests);
            if standing.is_of_daemon() {
                add_into(&mut node.daemons_present, requests);
            }
            node.ports.extend(cluster.specs[pod.spec as usize].ports.iter().cloned());
            if has_limits && pod.claims != NONE {
                let reach = self.reach_id(pod.claims, *row);
                let uses = self.frame.reaches.get(reach).uses.iter();
                node.volumes.extend(uses.map(|usage| (usage.driver.clone(), usage.volume)));
            }
            if standing.is_seen() {
                let reduced = self.reduce_bound(pod.labels);
                seen.push(self.identity(pod.spec, reduced));
                node.anti_affinity.extend(self.bound_anti_affinity(pod.spec, pod.labels));
            }
        }
        node.ports.sort();
        node.ports.dedup();
        node.volumes.sort();
        node.volumes.dedup();
        node.anti_affinity.sort_unstable();
        seen.sort_unstable();
        node.pods = seen.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect();
    }

    /// A node without its pods.
    pub(crate) fn node(&mut self, resolved: &ResolvedNode) -> Node {
        let volume_limits = self.node_limits(&resolved.name, &resolved.type_limits);
        let (labels, hostname) = self.node_labels(resolved);
        let (shown, offering) = self.shown(resolved);
        let price = resolved.agreed_price.or(shown.price);
        let vocabulary = &mut self.frame.snapshot.vocabulary;
        Node {
            labels,
            hostname,
            taints: vocabulary.taint_list(resolved.taints.clone()),
            available: resolved.allocatable.clone(),
            daemons_present: ResVec::from_elem(0, vocabulary.names.lane_count()),
            accepts_pods: resolved.accepts_pods,
            initialised: resolved.initialised,
            ports: Vec::new(),
            volumes: Vec::new(),
            volume_limits,
            pods: Vec::new(),
            anti_affinity: Vec::new(),
            pool: resolved
                .pool
                .as_deref()
                .and_then(|pool| self.frame.pool_index.get(pool))
                .map(|at| PoolIdx::new(*at)),
            bought: resolved.bought.clone(),
            offering,
            price_nano_usd: price.map(nano_usd),
            shown: shown.into(),
            name: resolved.name.as_str().into(),
        }
    }

    /// The labels of a node that something asks about, and its value of the hostname key.
    pub(crate) fn node_labels(&mut self, resolved: &ResolvedNode) -> (ReqId, Option<ValueId>) {
        let vocabulary = &mut self.frame.snapshot.vocabulary;
        let hostname = resolved.labels.get(HOSTNAME_LABEL).map_or(resolved.name.as_str(), |label| label);
        let hostname_key = vocabulary.names.key(HOSTNAME_LABEL);
        let mut labels = Vec::new();
        for (key, value) in resolved.labels.iter() {
            if let Some(key) = vocabulary.names.known_key(key)
                && key != hostname_key
                && self.frame.asked.contains(&key)
            {
                labels.push((key, Requirement::is(vocabulary.names.value(key, value))));
            }
        }
        let named = self.frame.asked.contains(&hostname_key);
        let hostname = named.then(|| vocabulary.names.value(hostname_key, hostname));
        // One label set per host is dear; only requirements need it, topology goes by the node itself.
        if let Some(value) = hostname.filter(|_| self.frame.hostname_required) {
            labels.push((hostname_key, Requirement::is(value)));
        }
        (vocabulary.set(labels), hostname)
    }

    fn shown(&self, resolved: &ResolvedNode) -> (ShownNode, Option<(CatalogueIdx, OfferingIdx)>) {
        let label = |key: &str| resolved.labels.get(key).cloned();
        let mut shown = ShownNode {
            pool: resolved.pool.as_deref().map(Into::into).or_else(|| label(NODEPOOL_LABEL)),
            instance_type: label(INSTANCE_TYPE_LABEL),
            zone: label(ZONE_LABEL),
            capacity_type: label(CAPACITY_TYPE_LABEL).or_else(|| managed_capacity_type(&resolved.labels)),
            price: None,
            price_source: PriceSource::default(),
            allocatable: resolved.allocatable.clone(),
        };
        let own = resolved.pool.as_deref().and_then(|pool| self.frame.pool_index.get(pool));
        let own = own.map(|at| self.frame.snapshot.pools[*at].catalogue.at());
        // A node of no pool costs what the first pool that knows its type would pay: overlays and costs are those of pools.
        let pools = self.frame.snapshot.pools.iter().map(|pool| pool.catalogue.at());
        let all = 0..self.frame.type_details.len();
        let offering = own.into_iter().chain(pools).chain(all).find_map(|at| self.offering(at, &shown));
        let listed = offering
            .map(|(catalogue, at)| &self.frame.snapshot.catalogues[catalogue.at()].offerings[at.at()]);
        shown.price = resolved.agreed_price.or(listed.map(|offering| offering.price));
        if let (None, Some(offering)) = (resolved.agreed_price, listed) {
            shown.price_source = offering.price_source;
        }
        (shown, offering)
    }

    /// What a node with these labels was bought as: the cheapest offering that they fit.
    fn offering(&self, at: usize, shown: &ShownNode) -> Option<(CatalogueIdx, OfferingIdx)> {
        let name = shown.instance_type.as_deref()?;
        let snapshot = &self.frame.snapshot;
        // Catalogues may end with an empty one that was not given.
        let (catalogue, details) = (&snapshot.catalogues[at], self.frame.type_details.get(at)?);
        let of = catalogue.types.binary_search_by(|of| (*of.name).cmp(name)).ok()?;
        let names = &snapshot.vocabulary.names;
        let is = |key: &str, label: Option<&str>, value: Option<ValueId>| {
            let key = names.known_key(key);
            value.is_none_or(|value| {
                label.zip(key).is_some_and(|(text, key)| names.value_text(key, value) == text)
            })
        };
        let found = details[of].offerings.iter().find(|offering| {
            let offering = &catalogue.offerings[offering.at()];
            // Who has a commitment was settled before.
            !offering.reservation.is_some_and(|r| snapshot.reservations[r.at()].commitment)
                && is(ZONE_LABEL, shown.zone.as_deref(), offering.zone)
                && is(CAPACITY_TYPE_LABEL, shown.capacity_type.as_deref(), offering.capacity_type)
        })?;
        (catalogue.offerings[found.at()].price_nano_usd != NO_PRICE).then(|| (CatalogueIdx::new(at), *found))
    }
}

impl ResolvedNode {
    pub(crate) fn has_preferred_taints(&self) -> bool {
        has_preferred(&self.taints)
    }
}

/// What the label of managed node groups says in words of its own.
fn managed_capacity_type(labels: &Labels) -> Option<Box<str>> {
    match labels.get(EKS_CAPACITY_TYPE_LABEL).map(|value| &**value)? {
        "ON_DEMAND" => Some(ON_DEMAND.into()),
        "SPOT" => Some(SPOT.into()),
        _ => None,
    }
}

fn has_preferred(taints: &[Taint]) -> bool {
    taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule)
}

/// The lists of types that a claim's requirements name.
fn named_types(claim: &ClaimDigest) -> impl Iterator<Item = &[String]> {
    let named = claim.requirements.iter().filter(|requirement| {
        requirement.stable_key() == INSTANCE_TYPE_LABEL && requirement.operator == "In"
    });
    named.map(|requirement| requirement.values.as_slice())
}

/// Whether a claim says at all which type it is or may become.
fn names_type(claim: &ClaimDigest) -> bool {
    claim.labels.contains_key(INSTANCE_TYPE_LABEL) || named_types(claim).next().is_some()
}

fn may_become(claim: &ClaimDigest, name: &str) -> bool {
    named_types(claim).all(|types| types.iter().any(|other| other == name))
        && claim.labels.get(INSTANCE_TYPE_LABEL).is_none_or(|label| **label == *name)
}

fn is_disrupted(taint: &Taint) -> bool {
    matches!(&*taint.key, DISRUPTED_TAINT | DISRUPTION_TAINT)
}

/// Takes out what goes away by itself while a node starts.
fn drop_starting(taints: &mut Vec<Taint>, startup: &[Taint]) {
    taints.retain(|taint| {
        !is_ephemeral(taint) && !startup.iter().any(|s| s.key == taint.key && s.effect == taint.effect)
    });
}

fn fill_gaps(amounts: &mut ResVec, from: &[i64]) {
    for (have, other) in amounts.iter_mut().zip(from) {
        if *have == 0 {
            *have = *other;
        }
    }
}

pub(crate) fn min_into(a: &mut ResVec, b: &[i64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).min(*b);
    }
}
