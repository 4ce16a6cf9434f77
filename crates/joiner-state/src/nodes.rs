//! Existing nodes and machines in flight, with what their pods leave free.

use std::collections::BTreeMap;

use joiner_api::names::{
    CAPACITY_TYPE_LABEL, DISRUPTED_TAINT, DISRUPTION_TAINT, HOSTNAME_LABEL, INITIALIZED_LABEL,
    INSTANCE_TYPE_LABEL, NODEPOOL_LABEL, REGISTERED_LABEL, ZONE_LABEL,
};
use joiner_core::model::node::{Bought, ShownNode};
use joiner_core::model::resources::{add_into, max_into, sub_into};
use joiner_core::model::{
    CatalogueIdx, Effect, GroupIdx, IdentityIdx, Node, NodeIdx, PoolIdx, Requirement, ResVec, Taint,
};

use crate::catalogues::nano_usd;
use crate::cluster::{NONE, PodRecord, Standing};
use crate::costs::is_commitment;
use crate::lower::Lowering;
use crate::machines::{self, ClaimKey, Machine, NodeKey};
use crate::node_digest::{ClaimDigest, Labels, NodeDigest, is_ephemeral};
use crate::pools::startup_taints;

/// A node or machine, settled from its Node and its claim.
#[derive(Debug)]
pub(crate) struct Place {
    pub name: String,
    pub labels: Labels,
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
    /// What it costs, if that is settled apart from the catalogue.
    pub agreed_price: Option<f64>,
    /// Still to be bought.
    pub bought: Option<Bought>,
    /// Limits of its type, for drivers that do not run there yet.
    pub type_limits: BTreeMap<Box<str>, u32>,
}

impl<'c> Lowering<'c> {
    /// Brings Nodes and claims together, in the order in which nodes are tried, and counts them against their pools' limits.
    pub(crate) fn settle_places(&mut self) -> Vec<Place> {
        let cluster = self.cluster;
        let nodes = cluster
            .nodes
            .iter()
            .map(|(name, node)| NodeKey { name, provider_id: node.provider_id.as_deref() });
        // In files written by hand a claim without status is often called like its Node.
        let claims = cluster.node_claims.iter().map(|(name, claim)| ClaimKey {
            name,
            provider_id: claim.provider_id.as_deref(),
            node_name: claim.node_name.as_deref().or(Some(name)),
        });
        let machines = machines::pair(claims, nodes);
        let mut claim_of: BTreeMap<&str, &ClaimDigest> = BTreeMap::new();
        let mut places = Vec::new();
        for (name, claim) in &cluster.node_claims {
            match machines.get(name.as_str()) {
                Some(Machine::Node(node)) => {
                    claim_of.insert(node, claim);
                }
                Some(Machine::Taken) => self.notes.push(format!(
                    "NodeClaim `{name}` means a node that another NodeClaim has; it is not counted"
                )),
                Some(Machine::NotJoined) | None => {
                    let place = self.place_of_claim(name, claim);
                    places.push(place);
                }
            }
        }
        for (name, node) in &cluster.nodes {
            let place = self.place_of_node(name, node, claim_of.get(name.as_str()).copied());
            places.push(place);
        }
        places.sort_by(|a, b| (!a.initialised, &a.name).cmp(&(!b.initialised, &b.name)));
        places
    }

    /// Whether the last step of relaxation exists.
    pub(crate) fn find_preferred_taints(&mut self, places: &[Place]) {
        let preferred =
            |taints: &[Taint]| taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule);
        let vocabulary = &self.snapshot.vocabulary;
        self.snapshot.has_preferred_taints = places.iter().any(|place| preferred(&place.taints))
            || self.snapshot.pools.iter().any(|pool| preferred(vocabulary.taints(pool.taints)));
    }

    fn place_of_node(&mut self, name: &str, node: &NodeDigest, claim: Option<&ClaimDigest>) -> Place {
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
        if !leaving
            && !disrupted
            && let Some(at) = pool.and_then(|pool| self.pool_index.get(pool))
        {
            self.use_up(*at, &capacity);
        }
        Place {
            name: name.to_owned(),
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
        }
    }

    fn class_of_pool(&self, pool: &str) -> Option<(String, String, String)> {
        let class = &self.cluster.pools.get(pool)?.spec.template.spec.node_class_ref;
        Some((class.group.clone(), class.kind.clone(), class.name.clone()))
    }

    fn place_of_claim(&mut self, name: &str, claim: &ClaimDigest) -> Place {
        let mut labels = claim.labels.clone();
        let (mut allocatable, mut capacity) = (self.lanes(&claim.allocatable), self.lanes(&claim.capacity));
        if claim.provider_id.is_none() || claim.allocatable.is_empty() {
            for requirement in &claim.requirements {
                if let ("In", [value]) = (requirement.operator.as_str(), requirement.values.as_slice()) {
                    labels.entry(requirement.stable_key().into()).or_insert_with(|| value.as_str().into());
                }
            }
            match self.candidates(claim) {
                Some((least, most)) => (allocatable, capacity) = (least, most),
                None => self.notes.push(format!(
                    "NodeClaim `{name}` is not launched and names no known instance type; nothing is placed on it"
                )),
            }
        }
        let mut taints = claim.taints.clone();
        drop_starting(&mut taints, &claim.startup_taints);
        if !claim.deleting
            && let Some(at) = claim.pool().and_then(|pool| self.pool_index.get(pool))
        {
            self.use_up(*at, &capacity);
        }
        Place {
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
        }
    }

    /// Over the types a claim may become: the least that pods can use, and the most that counts against limits.
    fn candidates(&self, claim: &ClaimDigest) -> Option<(ResVec, ResVec)> {
        let (group, kind, name) = &claim.class;
        let of_pool = claim.pool().and_then(|pool| self.pool_index.get(pool));
        let of_pool = of_pool.and_then(|at| self.pool_catalogues[*at]).map(CatalogueIdx::at);
        let types = &self.catalogue_types[of_pool.or_else(|| self.catalogue_of((group, kind, name)))?];
        let mut found: Option<(ResVec, ResVec)> = None;
        for candidate in types.iter() {
            if !may_become(claim, &candidate.name) || candidate.capacity.is_empty() {
                continue;
            }
            let mut room = self.quantities(&candidate.allocatable());
            for offering in
                candidate.offerings.iter().filter(|offering| !offering.capacity_override.is_empty())
            {
                min_into(&mut room, &self.quantities(&candidate.allocatable_for(offering)));
            }
            let capacity = self.quantities(&candidate.capacity);
            match &mut found {
                None => found = Some((room, capacity)),
                Some((least, most)) => {
                    min_into(least, &room);
                    max_into(most, &capacity);
                }
            }
        }
        found
    }

    /// Fills in nodes: labels anybody asks about, room left, ports, volumes and the pods selectors see.
    pub(crate) fn lower_nodes(&mut self, places: Vec<Place>, pods: &[PodRecord], owners: &[(u32, GroupIdx)]) {
        let cluster = self.cluster;
        // By id of the node's name.
        let mut row_of = vec![NONE; cluster.node_names.len()];
        for place in places {
            let at = self.snapshot.nodes.len() as u32;
            if let Some(id) = cluster.node_names.find(place.name.as_bytes()) {
                row_of[id as usize] = at;
            }
            let node = self.node(place);
            self.snapshot.nodes.push(node);
        }
        let mut homeless: BTreeMap<u32, usize> = BTreeMap::new();
        let mut seen: Vec<Vec<IdentityIdx>> = vec![Vec::new(); self.snapshot.nodes.len()];
        for (row, pod) in pods.iter().enumerate() {
            if pod.node == NONE || pod.standing == Standing::Ignored {
                continue;
            }
            let at = row_of[pod.node as usize];
            if at == NONE {
                *homeless.entry(pod.node).or_default() += 1;
                continue;
            }
            let at = at as usize;
            let requests = self.requests_of(pod.spec).clone();
            let reach = (!self.limited_drivers.is_empty()).then(|| self.reach_id(pod.claims, row as u32));
            let node = &mut self.snapshot.nodes[at];
            sub_into(&mut node.available, &requests);
            if matches!(pod.standing, Standing::BoundDaemon | Standing::LeavingDaemon) {
                add_into(&mut node.daemons_present, &requests);
            }
            node.ports.extend(cluster.specs[pod.spec as usize].ports.iter().cloned());
            if let Some(reach) = reach {
                let uses = self.reaches.get(reach).uses.iter();
                node.volumes.extend(uses.map(|usage| (usage.driver.clone(), usage.volume)));
            }
            if matches!(pod.standing, Standing::Bound | Standing::BoundDaemon) {
                let reduced = self.reduce(pod.labels);
                seen[at].push(self.identity(pod.spec, reduced));
            }
        }
        for (node, mut seen) in self.snapshot.nodes.iter_mut().zip(seen) {
            node.ports.sort();
            node.ports.dedup();
            node.volumes.sort();
            node.volumes.dedup();
            seen.sort_unstable();
            node.pods = seen.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect();
        }
        for (row, group) in owners {
            let at = row_of[pods[*row as usize].node as usize];
            if at != NONE {
                self.snapshot.bound_anti_affinity.push((*group, NodeIdx(at)));
            }
        }
        if let Some((first, _)) = homeless.first_key_value() {
            let count: usize = homeless.values().sum();
            let node = cluster.node_names.text(*first);
            self.notes.push(match (count, homeless.len()) {
                (1, _) => format!("a pod is bound to node `{node}`, which is not known; it is not counted"),
                (_, 1) => {
                    format!("{count} pods are bound to node `{node}`, which is not known; they are not counted")
                }
                (_, nodes) => format!(
                    "{count} pods are bound to {nodes} nodes that are not known, e.g. `{node}`; they are not counted"
                ),
            });
        }
    }

    fn node(&mut self, place: Place) -> Node {
        let volume_limits = self.node_limits(&place.name, &place.type_limits);
        let vocabulary = &mut self.snapshot.vocabulary;
        let hostname = place.labels.get(HOSTNAME_LABEL).map_or(place.name.as_str(), |label| label);
        let hostname_key = vocabulary.names.key(HOSTNAME_LABEL);
        let mut labels = Vec::new();
        for (key, value) in &place.labels {
            if let Some(key) = vocabulary.names.known_key(key)
                && key != hostname_key
                && self.asked.contains(&key)
            {
                labels.push((key, Requirement::is(vocabulary.names.value(key, value))));
            }
        }
        let named = self.asked.contains(&hostname_key);
        let hostname = named.then(|| vocabulary.names.value(hostname_key, hostname));
        // One label set per host is dear; only requirements need it, topology goes by the node itself.
        if let Some(value) = hostname.filter(|_| self.hostname_required) {
            labels.push((hostname_key, Requirement::is(value)));
        }
        let shown = self.shown(&place);
        let vocabulary = &mut self.snapshot.vocabulary;
        Node {
            labels: vocabulary.set(labels),
            hostname,
            taints: vocabulary.taint_list(place.taints),
            available: place.allocatable,
            daemons_present: ResVec::from_elem(0, vocabulary.names.lane_count()),
            accepts_pods: place.accepts_pods,
            initialised: place.initialised,
            ports: Vec::new(),
            volumes: Vec::new(),
            volume_limits,
            pods: Vec::new(),
            pool: place
                .pool
                .as_deref()
                .and_then(|pool| self.pool_index.get(pool))
                .map(|at| PoolIdx::new(*at)),
            bought: place.bought,
            shown,
            name: place.name.into(),
        }
    }

    fn shown(&self, place: &Place) -> ShownNode {
        let label = |key: &str| place.labels.get(key).cloned();
        let mut shown = ShownNode {
            pool: place.pool.as_deref().map(Into::into).or_else(|| label(NODEPOOL_LABEL)),
            instance_type: label(INSTANCE_TYPE_LABEL),
            zone: label(ZONE_LABEL),
            capacity_type: label(CAPACITY_TYPE_LABEL),
            price: None,
            allocatable: place.allocatable.clone(),
        };
        let own = place.pool.as_deref().and_then(|pool| self.pool_index.get(pool));
        let own = own.map(|at| self.snapshot.pools[*at].catalogue.at());
        let all = 0..self.snapshot.catalogues.len();
        shown.price =
            place.agreed_price.or_else(|| own.into_iter().chain(all).find_map(|at| self.price(at, &shown)));
        shown
    }

    fn price(&self, catalogue: usize, shown: &ShownNode) -> Option<f64> {
        let name = shown.instance_type.as_deref()?;
        // Catalogues may end with an empty one that was not given.
        let types = self.catalogue_types.get(catalogue)?;
        let found =
            self.snapshot.catalogues[catalogue].types.binary_search_by(|t| (*t.name).cmp(name)).is_ok();
        let offerings = types.iter().find(|t| found && t.name == name)?.offerings.iter();
        let matching = offerings.filter(|offering| {
            // Who has a commitment was settled before.
            !offering.reservation.as_ref().is_some_and(|r| is_commitment(&r.id))
                && offering.zone().is_none_or(|zone| shown.zone.as_deref() == Some(zone))
                && offering.capacity_type().is_none_or(|kind| shown.capacity_type.as_deref() == Some(kind))
        });
        let cheapest = matching.min_by_key(|offering| nano_usd(offering.price))?;
        (nano_usd(cheapest.price) != nano_usd(f64::NAN)).then_some(cheapest.price)
    }
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

fn min_into(a: &mut ResVec, b: &[i64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).min(*b);
    }
}
