//! Pods without a place: which of them count, and what is to be done for them. Pure: the cache and a moment in, a proposal out.
//!
//! A pod is planned for once. The machine bought for it carries its uid, and a pod told to use a standing node is remembered for a
//! while; until then it counts as if it were there, so a second batch neither buys for it again nor takes its room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::names::{self, conditions};
use joiner_api::nodepool::NodeClassReference;
use joiner_api::{NodeClaim, NodePool};
use joiner_core::explain::{Cause, Listed, Reject};
use joiner_core::model::Snapshot;
use joiner_core::model::ids::PodIdx;
use joiner_core::plan::{Plan, PlannedMachine};
use joiner_provider::{
    GroupKind, Growth, Health, Monotonic, NodeGroupKey, OfferingKey, RankedOffering, Registry, TypeSet,
};
use joiner_record::{Alternative, Machine, Reason};
use kube::ResourceExt;

use crate::cache::ClusterCache;
use crate::claims;
use crate::clock::Present;
use crate::command::Command;
use crate::observed_times::ObservedTimes;
use crate::offerings::{of_plan, planned_prices};
use crate::pods::{self, CachedPod};
use crate::room::Room;
use crate::settings::Settings;
use crate::steps::lifecycle::{condition, is_true, signed};
use crate::watch_health::WatchHealth;

/// Pods that need a place, by uid.
pub type InNeed = BTreeMap<String, Arc<CachedPod>>;

/// Where pods in need that were planned for are to go.
#[derive(Debug, Default)]
pub struct Places {
    /// The name of the place, by the pod's uid.
    pub expected: BTreeMap<String, String>,
    /// Of those pods, the ones that have no room there any more: others were put in their place.
    pub displaced: BTreeSet<String>,
}

/// Places that pods were told to use, by the pod's uid.
#[derive(Debug, Default)]
pub struct Nominations(BTreeMap<String, (String, Monotonic)>);

impl Nominations {
    /// A pod was told to use a place. Whether that is news.
    pub fn add(&mut self, uid: String, place: String, until: Monotonic) -> bool {
        let is_new = self.0.get(&uid).is_none_or(|(before, _)| *before != place);
        self.0.insert(uid, (place, until));
        is_new
    }

    /// Forgets what is over.
    pub fn forget(&mut self, is_waiting: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_waiting(uid));
    }

    /// Where each pod in need that was planned for is expected, by uid.
    pub fn expected(
        &self,
        cache: &ClusterCache,
        in_need: &InNeed,
        times: &ObservedTimes,
        present: Present,
        settings: &Settings,
    ) -> BTreeMap<String, String> {
        self.places(cache, in_need, times, present, settings).expected
    }

    /// The same, with those whose places others have taken.
    pub fn places(
        &self,
        cache: &ClusterCache,
        in_need: &InNeed,
        times: &ObservedTimes,
        present: Present,
        settings: &Settings,
    ) -> Places {
        let mut places = Places::default();
        let mut room = Room::default();
        for (uid, pod) in in_need {
            let nominated =
                self.0.get(uid).and_then(|(place, until)| standing(cache, place, present.monotonic < *until));
            // Of several claims the last with room counts.
            let planned = cache.planned_for(uid).rev().filter_map(|claim| {
                let times = times.of(claim.metadata.uid.as_deref(), present);
                let up = condition(claim, conditions::INITIALIZED);
                let waited = up.map(|of| present.wall.duration_since(times.past(of.last_transition_time.0)));
                let recent = waited.is_none_or(|waited| waited < signed(settings.nomination()));
                standing(cache, &claim.name_any(), recent)
            });
            let told: Vec<String> = planned.chain(nominated).collect();
            let free = told.iter().position(|place| room.take(cache, place, pod));
            if let Some(place) = told.into_iter().nth(free.unwrap_or_default()) {
                places.expected.insert(uid.clone(), place);
                if free.is_none() {
                    places.displaced.insert(uid.clone());
                }
            }
        }
        places
    }
}

/// The name under which a place is known to the planner, if pods may still be expected there.
fn standing(cache: &ClusterCache, place: &str, recent: bool) -> Option<String> {
    if recent && cache.node_groups.is_upcoming(place) {
        return Some(place.to_owned());
    }
    let node = cache.nodes.get(place);
    let claim = cache.claims.get(place).or_else(|| cache.claim_of(node?));
    let going = claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
        || node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
    let starting = claim.is_some_and(|claim| !is_true(claim, conditions::INITIALIZED));
    if going || (node.is_none() && claim.is_none()) || !(starting || recent) {
        return None;
    }
    let joined = claim.and_then(|claim| cache.nodes_of(claim).first().map(|node| node.name_any()));
    Some(joined.unwrap_or_else(|| place.to_owned()))
}

/// What a decision is made from, besides the cache.
pub struct Context<'a> {
    /// All providers.
    pub registry: &'a Registry,
    /// Choices.
    pub settings: &'a Settings,
    /// What could not be had of late.
    pub health: &'a Health,
    /// Where pods are expected, by uid.
    pub expected: &'a BTreeMap<String, String>,
    /// Pods that the scheduler found no place for, by key.
    pub provisionable: &'a BTreeSet<String>,
    /// Kinds that cannot be observed.
    pub watches: &'a WatchHealth,
    /// The present.
    pub now: Timestamp,
}

/// A claim to create.
#[derive(Debug)]
pub struct Planned {
    /// The claim.
    pub claim: NodeClaim,
    /// Keys of its pods.
    pub pods: Vec<String>,
    /// What it may be launched as, best first.
    pub offerings: Vec<RankedOffering>,
    /// What it will probably be.
    pub machine: Machine,
    /// Dollars per hour.
    pub price: f64,
}

/// A node group that is to grow.
#[derive(Debug)]
pub struct Growing {
    /// Which.
    pub key: NodeGroupKey,
    /// Its target when this was planned.
    pub from: u32,
    /// What it grows by, each with the keys of its pods.
    pub machines: Vec<(Machine, Vec<String>)>,
}

impl Growing {
    /// What carries it out.
    pub fn command(&self) -> Command {
        let more = u32::try_from(self.machines.len()).unwrap_or(u32::MAX);
        let to = self.from.saturating_add(more);
        let growth = Growth { group: self.key.name.clone(), from: self.from, to };
        Command::GrowGroup { provider: self.key.provider.clone(), growth }
    }
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Proposal {
    /// Claims to create.
    pub claims: Vec<Planned>,
    /// Groups that grow.
    pub growing: Vec<Growing>,
    /// Pods that go onto places that are there, by the place's name.
    pub on_nodes: Vec<(String, Vec<String>)>,
    /// Pods without a place, and why.
    pub refused: Vec<(String, Arc<[Reason]>)>,
    /// Pods that were decided on.
    pub pods: usize,
    /// Price of the new machines.
    pub price: f64,
    /// Plans that lost.
    pub alternatives: Vec<Alternative>,
}

/// Pods that wait for a decision, keys in order: those the scheduler refused, and those of nodes that go.
pub fn waiting(cache: &ClusterCache, context: &Context) -> Vec<Arc<CachedPod>> {
    let unexpected = |pod: &CachedPod| !context.expected.contains_key(&*pod.uid);
    let mut found: Vec<Arc<CachedPod>> = context
        .provisionable
        .iter()
        .filter_map(|key| cache.pods.get(key))
        .filter(|pod| unexpected(pod))
        .cloned()
        .collect();
    let leaving = moving(cache).filter(|pod| {
        unexpected(pod) && !pods::is_protected(pod, context.now) && !is_held(cache, pod, context.now)
    });
    found.extend(leaving.cloned());
    found
}

/// Pods that will need another place because their node goes.
pub fn moving(cache: &ClusterCache) -> impl Iterator<Item = &Arc<CachedPod>> {
    cache.going().flat_map(|node| cache.pods_on(node)).filter(|pod| pods::is_reschedulable(pod))
}

/// Whether budgets keep a pod where it is for good.
fn is_held(cache: &ClusterCache, pod: &CachedPod, now: Timestamp) -> bool {
    if !pods::is_evictable(pod, now) {
        return false;
    }
    let mut budgets = cache.budgets.in_namespace(&pod.common.namespace).filter(|budget| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|of| pods::selects(of, pod))
    });
    let Some(budget) = budgets.next() else { return false };
    if budgets.next().is_some() {
        return true;
    }
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let spec = budget.spec.as_ref();
    let none = match spec.and_then(|spec| spec.max_unavailable.as_ref()) {
        Some(IntOrString::Int(count)) => *count == 0,
        Some(IntOrString::String(text)) => text == "0%",
        None => false,
    };
    let all = matches!(spec.and_then(|spec| spec.min_available.as_ref()), Some(IntOrString::String(text)) if text == "100%");
    none || all
}

/// Pools that machines may be launched for: of a class that somebody serves, not going, not of a fixed size.
pub fn pools<'w>(cache: &'w ClusterCache, registry: &'w Registry) -> impl Iterator<Item = &'w Arc<NodePool>> {
    cache.pools.values().filter(move |pool| {
        pool.metadata.deletion_timestamp.is_none()
            && pool.spec.replicas.is_none()
            && registry.serves(&pool.spec.template.spec.node_class_ref)
    })
}

/// Why pools of node classes that nobody serves help nobody.
fn pools_of_others(cache: &ClusterCache, registry: &Registry) -> Vec<Reason> {
    let pools = cache.pools.values().map(|pool| (pool, &pool.spec.template.spec.node_class_ref));
    let of_others = pools.filter(|(_, class)| !registry.serves(class));
    of_others
        .map(|(pool, class)| {
            let cause = Cause::ClassNotServed { kind: class.kind.clone(), group: class.group.clone() };
            Reason::new(Some(pool.name_any()), cause)
        })
        .collect()
}

/// The node class of a pool as stored.
pub fn class_of(cache: &ClusterCache, pool: &NodePool) -> Option<Arc<serde_json::Value>> {
    stored_class(cache, &pool.spec.template.spec.node_class_ref)
}

/// A node class as stored.
pub fn stored_class(cache: &ClusterCache, class: &NodeClassReference) -> Option<Arc<serde_json::Value>> {
    let stored = cache.classes.get(&GroupKind::from(class))?.get(&class.name)?;
    serde_json::to_value(&**stored).ok().map(Arc::new)
}

/// The plan in terms of objects.
pub fn raise(
    cache: &ClusterCache,
    snapshot: &Snapshot,
    plan: &Plan,
    waiting: &[Arc<CachedPod>],
    context: &Context,
    overlaid: &BTreeMap<String, Arc<TypeSet>>,
    is_taken: impl Fn(&str) -> bool,
) -> Proposal {
    let name = |pod: &PodIdx| snapshot.pods[pod.at()].name.to_string();
    let uids: BTreeMap<String, String> = waiting.iter().map(|pod| (pod.key(), pod.uid.to_string())).collect();
    let mut claims: Vec<Planned> = Vec::new();
    let mut growing: BTreeMap<String, Growing> = cache
        .node_groups
        .iter()
        .map(|(key, group)| {
            (key.to_string(), Growing { key: key.clone(), from: group.target, machines: Vec::new() })
        })
        .collect();
    let mut prices: BTreeMap<usize, BTreeMap<OfferingKey, f64>> = BTreeMap::new();
    for machine in &plan.machines {
        let pool = &snapshot.pools[machine.pool.at()];
        let mut pods: Vec<String> = machine.pods.iter().map(name).collect();
        pods.sort_unstable();
        if let Some(group) = growing.get_mut(&*pool.name) {
            let machine = Machine {
                node_pool: None,
                node_group: Some(pool.name.to_string()),
                ..described(snapshot, machine, None, &pods)
            };
            group.machines.push((machine, pods));
            continue;
        }
        let Some(object) = cache.pools.get(&pool.name) else { continue };
        let pod_uids: Vec<String> = pods.iter().filter_map(|pod| uids.get(pod).cloned()).collect();
        let is_used =
            |name: &str| is_taken(name) || claims.iter().any(|planned| planned.claim.name_any() == name);
        let claim = claims::claim_of(snapshot, machine, object, &pod_uids, context.settings.seed, is_used);
        let at = pool.catalogue.at();
        let prices = prices.entry(at).or_insert_with(|| planned_prices(snapshot, &snapshot.catalogues[at]));
        let types = overlaid.get(&*pool.name).map(|types| &**types);
        let offerings = of_plan(prices, &claim, types, context);
        let machine = described(snapshot, machine, Some(claim.name_any()), &pods);
        claims.push(Planned { claim, pods, offerings, price: machine.usd_per_hour, machine });
    }
    let on_nodes = plan
        .on_nodes
        .iter()
        .map(|(node, pods)| (snapshot.nodes[node.at()].name.to_string(), pods.iter().map(name).collect()));
    let growing: Vec<Growing> = growing.into_values().filter(|of| !of.machines.is_empty()).collect();
    Proposal {
        price: price(&claims, &growing),
        growing,
        on_nodes: on_nodes.collect(),
        refused: refusals(cache, snapshot, plan, context),
        alternatives: alternatives(plan),
        pods: waiting.len(),
        claims,
    }
}

/// What new machines cost.
pub fn price(claims: &[Planned], growing: &[Growing]) -> f64 {
    let of_groups = growing.iter().flat_map(|of| &of.machines).map(|(machine, _)| machine.usd_per_hour);
    claims.iter().map(|planned| planned.price).chain(of_groups).sum()
}

/// A machine of the plan, in names.
fn described(
    snapshot: &Snapshot,
    machine: &PlannedMachine,
    claim: Option<String>,
    pods: &[String],
) -> Machine {
    const SHOWN: usize = 16;
    let pool = &snapshot.pools[machine.pool.at()];
    let catalogue = &snapshot.catalogues[pool.catalogue.at()];
    let offering = &catalogue.offerings[machine.offering.at()];
    let vocabulary = &snapshot.vocabulary.names;
    let text = |key: &str, value: Option<_>| {
        let (key, value) = (vocabulary.known_key(key)?, value?);
        Some(vocabulary.value_text(key, value).to_owned())
    };
    Machine {
        claim,
        node_pool: Some(pool.name.to_string()),
        node_group: None,
        instance_type: catalogue.types[offering.instance_type.at()].name.to_string(),
        zone: text(names::ZONE_LABEL, offering.zone),
        capacity_type: text(names::CAPACITY_TYPE_LABEL, offering.capacity_type),
        usd_per_hour: offering.price,
        other_types: machine.types.len().saturating_sub(1) as u64,
        pods: Listed {
            shown: pods.iter().take(SHOWN).cloned().collect(),
            more: pods.len().saturating_sub(SHOWN) as u64,
        },
    }
}

/// Pods without a place; those of one class share their reasons.
fn refusals(
    cache: &ClusterCache,
    snapshot: &Snapshot,
    plan: &Plan,
    context: &Context,
) -> Vec<(String, Arc<[Reason]>)> {
    let of_others = pools_of_others(cache, context.registry);
    let mut shared: BTreeMap<*const joiner_core::explain::Reason, Arc<[Reason]>> = BTreeMap::new();
    let refused = plan.refused.iter().map(|refused| {
        let reasons = shared.entry(refused.reasons.as_ptr()).or_insert_with(|| {
            let known = refused.reasons.iter();
            // There are pools, and what is wrong with them follows.
            let known = known.filter(|of| of.code() != Reject::NoPool || of_others.is_empty());
            known.map(|of| Reason::of(snapshot, of)).chain(of_others.iter().cloned()).collect()
        });
        (snapshot.pods[refused.pod.at()].name.to_string(), reasons.clone())
    });
    refused.collect()
}

/// What else the plan could have been.
fn alternatives(plan: &Plan) -> Vec<Alternative> {
    let usd = |nano: i64| nano as f64 / 1e9;
    let original = plan.original.map(|bill| Alternative::OriginalPacking {
        machines: bill.machines as u64,
        usd_per_hour: usd(bill.price_nano_usd),
    });
    let preferences = plan.given_up.as_ref().map(|given_up| Alternative::PreferencesKept {
        pods: given_up.pods as u64,
        machines: given_up.kept.machines as u64,
        usd_per_hour: usd(given_up.kept.price_nano_usd),
        dearer_by_share: Some(given_up.would_cost).filter(|share| share.is_finite()),
    });
    original.into_iter().chain(preferences).collect()
}
