//! Why a pool, or the nodes that are there, can't take a pod.

use std::rc::Rc;

use crate::algebra::MachineValue;
use crate::explain::cause::{Amount, Cause, Counts, Listed, Shortage, TopologyRule};
use crate::explain::limits;
use crate::explain::{nearest, nearest_key};
use crate::model::ids::*;
use crate::model::names::{CPU, PODS};
use crate::model::resources::{fits, lane_of};
use crate::model::{GroupSpec, PodClass, Snapshot, taint};
use crate::offer_set;
use crate::pack::groups::World;
use crate::pack::place::Failure;
use crate::pack::scratch::Scratch;

/// Why one pool (or, without a pool, everything else) refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The pool; `None` for reasons that concern no pool.
    pub pool: Option<PoolIdx>,
    /// What decided.
    pub cause: Cause,
}

impl Reason {
    /// What kind of reason.
    pub fn code(&self) -> Reject {
        self.cause.code()
    }

    /// One sentence for people.
    pub fn message(&self) -> String {
        self.cause.to_string()
    }
}

/// The kinds of refusal, in the order in which questions are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reject {
    /// The pod itself can't be looked at.
    Pod,
    /// There is no pool at all.
    #[cfg_attr(feature = "serde", serde(rename = "NoNodePool"))]
    NoPool,
    /// The pool may not launch.
    #[cfg_attr(feature = "serde", serde(rename = "NodePoolNotReady"))]
    PoolNotReady,
    /// A taint is not tolerated.
    Taint,
    /// The pod asks for a label the pool's machines do not have.
    UndefinedLabel,
    /// The pod and the pool contradict each other on a key.
    Requirement,
    /// No volume alternative can be reached.
    Volume,
    /// No type matches the pool at all.
    NoInstanceType,
    /// No type has all that is asked for.
    Resources,
    /// Types match, but none of their offerings can be had.
    Offering,
    /// A host port is taken by a daemon.
    HostPort,
    /// A limit of the pool is reached.
    Limit,
    /// Too few distinct values for minValues.
    MinValues,
    /// Spread, affinity or anti-affinity forbids every place.
    Topology,
    /// Reserved capacity is used up for now.
    Reserved,
    /// Existing nodes have no room.
    #[cfg_attr(feature = "serde", serde(rename = "ExistingNodes"))]
    Existing,
}

impl Reject {
    /// The word in JSON and metrics.
    pub fn code(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::NoPool => "NoNodePool",
            Self::PoolNotReady => "NodePoolNotReady",
            Self::Taint => "Taint",
            Self::UndefinedLabel => "UndefinedLabel",
            Self::Requirement => "Requirement",
            Self::Volume => "Volume",
            Self::NoInstanceType => "NoInstanceType",
            Self::Resources => "Resources",
            Self::Offering => "Offering",
            Self::HostPort => "HostPort",
            Self::Limit => "Limit",
            Self::MinValues => "MinValues",
            Self::Topology => "Topology",
            Self::Reserved => "Reserved",
            Self::Existing => "ExistingNodes",
        }
    }
}

/// All reasons for a class, pool by pool.
pub fn refusal(scratch: &mut Scratch, class_idx: ClassIdx, failure: Failure) -> Vec<Reason> {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    if let Some(why) = &class.refused {
        return vec![Reason { pool: None, cause: Cause::Pod { message: why.to_string() } }];
    }
    let mut reasons = Vec::new();
    if snapshot.pools.is_empty() {
        reasons.push(Reason { pool: None, cause: Cause::NoPool });
    }
    for at in 0..snapshot.pools.len() {
        let pool = PoolIdx::new(at);
        // The rung that came furthest tells most.
        let furthest = (0..class.rungs.len())
            .map(|rung| pool_reject(scratch, class_idx, rung, pool, failure))
            .reduce(|best, next| if next.code() >= best.code() { next } else { best });
        reasons.extend(furthest.map(|cause| Reason { pool: Some(pool), cause }));
    }
    if !snapshot.nodes.is_empty() {
        reasons.push(Reason { pool: None, cause: existing(scratch, class_idx) });
    }
    reasons
}

fn pool_reject(
    scratch: &mut Scratch,
    class_idx: ClassIdx,
    rung_at: usize,
    pool: PoolIdx,
    failure: Failure,
) -> Cause {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let rung = &class.rungs[rung_at];
    let row = &snapshot.pools[pool.at()];
    if let Some(why) = &row.not_ready {
        return Cause::PoolNotReady { message: why.to_string() };
    }
    let tolerations = snapshot.vocabulary.tolerations(class.tolerations);
    if let Some(taint) =
        taint::untolerated(snapshot.vocabulary.taints(row.taints), tolerations, rung.spare_preferred)
    {
        return Cause::Taint { taint: taint.to_string() };
    }
    let template = scratch.templates[pool.at()].requirements;
    if let Some(found) = contradiction(scratch, template, rung.ask, pool) {
        return found;
    }
    let Some(met) = scratch.algebra.meet(template, rung.ask) else {
        return Cause::Contradiction;
    };
    let mut met = met;
    if !class.volume_alternatives.is_empty() {
        match class.volume_alternatives.iter().find_map(|a| scratch.algebra.meet(met, *a)) {
            Some(narrowed) => met = narrowed,
            None => return Cause::VolumesUnreachable,
        }
    }
    offerings_reject(scratch, class_idx, rung_at, pool, met, failure)
}

/// Which key of an ask the pool's template contradicts.
fn contradiction(scratch: &Scratch, template: ReqId, ask: ReqId, pool: PoolIdx) -> Option<Cause> {
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    for (key, asked) in algebra.items(ask) {
        let asked_rq = algebra.requirement(*asked);
        let text = asked_rq.text(names, *key);
        if asked_rq.is_empty() {
            return Some(Cause::OwnContradiction { key: names.key_text(*key).to_owned() });
        }
        match algebra.machine_value(template, *key) {
            MachineValue::Open => {}
            MachineValue::Missing if asked_rq.may_be_absent => {}
            MachineValue::Missing => {
                let known = known_keys(scratch, pool);
                let nearest = nearest_key(names.key_text(*key), known.iter().map(String::as_str));
                return Some(Cause::UndefinedLabel { asked: text, nearest: nearest.map(str::to_owned) });
            }
            MachineValue::Defined(have) => {
                if have.intersect(asked_rq, names, *key).is_empty() {
                    let nearest = nearest_value(scratch, *key, *asked, &allowed_values(scratch, pool, *key));
                    return Some(Cause::PoolDisagrees {
                        asked: text,
                        pool_has: have.text(names, *key),
                        nearest,
                    });
                }
            }
        }
    }
    None
}

fn offerings_reject(
    scratch: &mut Scratch,
    class_idx: ClassIdx,
    rung_at: usize,
    pool: PoolIdx,
    met: ReqId,
    failure: Failure,
) -> Cause {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let row = &snapshot.pools[pool.at()];
    let base = scratch.templates[pool.at()].base.clone();
    if offer_set::is_empty(&base) {
        let matching = scratch.offers.of(snapshot, &scratch.algebra, row.catalogue, row.requirements);
        return if offer_set::is_empty(&matching) { no_type(scratch, pool) } else { no_base(scratch, pool) };
    }
    let allowed = scratch.offers.of(snapshot, &scratch.algebra, row.catalogue, met);
    let mut set = base.to_vec();
    offer_set::and_into(&mut set, &allowed);
    if offer_set::is_empty(&set) {
        return no_offering(scratch, class, rung_at, pool, &base, &allowed);
    }
    let matching = set.clone();
    scratch.templates[pool.at()].keep_fitting(&mut set, &class.requests);
    if offer_set::is_empty(&set) {
        return resources(scratch, class, pool, &matching);
    }
    scratch.templates[pool.at()].remove_port_clashes(&mut set, &class.ports);
    if offer_set::is_empty(&set) {
        let ports = class.ports.iter().map(|p| format!("{}/{}", p.port, p.protocol)).collect();
        return Cause::HostPort { ports };
    }
    if let Some(cause) = limits::nodes(scratch, pool) {
        return cause;
    }
    let kept = limits::kept(scratch, pool, &set);
    if offer_set::is_empty(&kept) {
        return limits::too_small(scratch, pool, &set);
    }
    if let Some(cause) = too_many_volumes(scratch, class, pool, &kept) {
        return cause;
    }
    for key in scratch.templates[pool.at()].min_values.clone() {
        let (have, need) = scratch.distinct_values(pool, met, &set, key);
        if have < need {
            let key = scratch.algebra.names().key_text(key).to_owned();
            return Cause::MinValues { key, left: u64::from(have), needed: u64::from(need) };
        }
        let (have, _) = scratch.distinct_values(pool, met, &kept, key);
        if have < need {
            return limits::too_few(scratch, pool, met, &set, key);
        }
    }
    if failure != Failure::Reserved && scratch.only_limits_refuse(class_idx, rung_at, pool) {
        return limits::too_small(scratch, pool, &set);
    }
    if failure == Failure::Reserved {
        return Cause::Reserved;
    }
    if let Some((key, have, need)) = scratch.min_values_if_pinned(class_idx, rung_at, pool, met, &kept) {
        let key = scratch.algebra.names().key_text(key).to_owned();
        return Cause::MinValues { key, left: u64::from(have), needed: u64::from(need) };
    }
    topology(scratch, class_idx, rung_at)
}

/// Types match the pool, but there is nothing to launch: what is out, or that daemons need more than there is.
fn no_base(scratch: &Scratch, pool: PoolIdx) -> Cause {
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    let row = &scratch.snapshot.pools[pool.at()];
    if !offer_set::is_empty(&scratch.templates[pool.at()].offered) {
        return Cause::DaemonsTooLarge;
    }
    let offerings = &scratch.snapshot.catalogues[row.catalogue.at()].offerings;
    let mut there = offer_set::empty(offer_set::words(offerings.len()));
    for (at, _) in offerings.iter().enumerate().filter(|(_, offering)| offering.available) {
        there[at / 64] |= 1 << (at % 64);
    }
    for (key, asked) in algebra.items(row.requirements) {
        let values = values_in(scratch, row.catalogue, *key, &there);
        let asked = algebra.requirement(*asked);
        if !values.is_empty() && !values.iter().any(|value| asked.allows_text(names, *key, value)) {
            return Cause::PoolUnavailable {
                asked: Some(asked.text(names, *key)),
                key: Some(names.key_text(*key).to_owned()),
                available: listed(&values),
            };
        }
    }
    Cause::PoolUnavailable { asked: None, key: None, available: Listed::default() }
}

/// Nothing matches the pool: which of its requirements alone leaves nothing?
fn no_type(scratch: &Scratch, pool: PoolIdx) -> Cause {
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    let row = &scratch.snapshot.pools[pool.at()];
    let offerings = scratch.snapshot.catalogues[row.catalogue.at()].offerings.len();
    let mut all = offer_set::empty(offer_set::words(offerings));
    (0..offerings).for_each(|at| offer_set::insert(&mut all, at));
    for (key, rq) in algebra.items(row.requirements) {
        let values = values_in(scratch, row.catalogue, *key, &all);
        let asked = algebra.requirement(*rq);
        if !values.is_empty()
            && !asked.may_be_absent
            && !values.iter().any(|value| asked.allows_text(names, *key, value))
        {
            let nearest = nearest_value(scratch, *key, *rq, &values);
            return Cause::NoInstanceType { alone: Some(asked.text(names, *key)), nearest };
        }
    }
    Cause::NoInstanceType { alone: None, nearest: None }
}

/// The driver of which the pod brings more volumes than any of the types attaches.
fn too_many_volumes(scratch: &Scratch, class: &PodClass, pool: PoolIdx, set: &[u64]) -> Option<Cause> {
    let catalogue = &scratch.snapshot.catalogues[scratch.snapshot.pools[pool.at()].catalogue.at()];
    let limit = |at: usize, driver: &str| {
        let limits = &catalogue.types[catalogue.offerings[at].instance_type.at()].volume_limits;
        limits.iter().find(|(other, _)| **other == *driver).map(|(_, limit)| *limit as usize)
    };
    class.volumes.iter().find_map(|volume| {
        let wanted = class.volumes.iter().filter(|other| other.driver == volume.driver).count();
        let most = offer_set::iter(set).map(|at| limit(at, &volume.driver).unwrap_or(usize::MAX)).max()?;
        (wanted > most).then(|| Cause::TooManyVolumes {
            driver: volume.driver.to_string(),
            wanted: wanted as u64,
            most: most as u64,
        })
    })
}

/// No offering matches: which key alone leaves none?
fn no_offering(
    scratch: &mut Scratch,
    class: &PodClass,
    rung_at: usize,
    pool: PoolIdx,
    base: &[u64],
    allowed: &[u64],
) -> Cause {
    let snapshot = scratch.snapshot;
    let row = &snapshot.pools[pool.at()];
    if !offer_set::is_empty(allowed) {
        // The types are right but not in the base: unavailable now, or too small for their daemons.
        let unavailable = offer_set::iter(allowed)
            .all(|at| !snapshot.catalogues[row.catalogue.at()].offerings[at].available);
        if unavailable {
            return Cause::OfferingsUnavailable;
        }
    }
    let ask = class.rungs[rung_at].ask;
    let asked_for = scratch.offers.of(snapshot, &scratch.algebra, row.catalogue, ask);
    let mut without_volumes = base.to_vec();
    offer_set::and_into(&mut without_volumes, &asked_for);
    if !class.volume_alternatives.is_empty() && !offer_set::is_empty(&without_volumes) {
        return Cause::VolumesWithoutOffering;
    }
    for (key, asked) in scratch.algebra.items(ask).to_vec() {
        let names = scratch.algebra.names();
        let values = allowed_values_in(scratch, pool, key, base);
        let wanted = scratch.algebra.requirement(asked);
        if !values.iter().any(|v| wanted.allows_text(names, key, v)) && !wanted.may_be_absent {
            let asked_values = wanted.value_texts(names, key);
            let told = if wanted.complement { &[][..] } else { &asked_values[..] };
            return Cause::NoOffering {
                key: names.key_text(key).to_owned(),
                asked: wanted.text(names, key),
                values: told.iter().map(|value| (*value).to_owned()).collect(),
                offered: listed(&values),
                nearest: nearest_value(scratch, key, asked, &values),
            };
        }
    }
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    let asked = algebra.items(ask).iter().map(|(key, rq)| algebra.requirement(*rq).text(names, *key));
    Cause::NoOfferingTogether { asked: asked.collect() }
}

fn resources(scratch: &Scratch, class: &PodClass, pool: PoolIdx, matching: &[u64]) -> Cause {
    let names = scratch.algebra.names();
    let template = &scratch.templates[pool.at()];
    let mut short = Vec::new();
    for (lane, asked) in class.requests.iter().enumerate().filter(|(_, asked)| **asked > 0) {
        let largest = template.largest_room(matching, lane);
        if *asked > largest {
            short.push(Shortage { resource: names.lane_text(lane).to_owned(), asked: *asked, largest });
        }
    }
    let unit_doubtful = lane_of(&class.requests, CPU) >= 1_000_000_000;
    if !short.is_empty() || unit_doubtful {
        return Cause::Resources { short, unit_doubtful };
    }
    let wanted = class
        .requests
        .iter()
        .enumerate()
        .filter(|(lane, want)| **want > 0 && *lane != PODS)
        .map(|(lane, want)| Amount { resource: names.lane_text(lane).to_owned(), amount: *want });
    Cause::ResourcesTogether { wanted: wanted.collect() }
}

fn topology(scratch: &mut Scratch, class_idx: ClassIdx, rung_at: usize) -> Cause {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let mut rules = Vec::new();
    for group in class.rungs[rung_at].groups.iter() {
        let spec = snapshot.group(*group);
        let key = scratch.algebra.names().key_text(spec.key()).to_owned();
        let domains = domains_of(scratch, class_idx, rung_at, *group);
        rules.push(match spec {
            GroupSpec::Spread { max_skew, min_domains, .. } => TopologyRule::Spread {
                key,
                max_skew: *max_skew,
                min_domains: *min_domains,
                counts: counts(scratch, *group, &domains),
            },
            GroupSpec::Affinity { .. } => TopologyRule::Affinity { key },
            GroupSpec::AntiAffinity { .. } => {
                TopologyRule::AntiAffinity { key, counts: counts(scratch, *group, &domains) }
            }
        });
    }
    let selected = scratch.groups.selected(snapshot, &scratch.algebra, class.identity);
    let others_refuse = selected.inverse.iter().any(|g| !class.rungs[rung_at].groups.contains(g));
    Cause::Topology { rules, others_refuse }
}

/// Pods per value, fewest first. Of a spread all values it counts over, also those without a pod: the fewest decide.
fn counts(scratch: &Scratch, group: GroupIdx, domains: &[ValueId]) -> Counts {
    const SHOWN: usize = 8;
    const MOST: usize = 2;
    let key = scratch.snapshot.group(group).key();
    let names = scratch.algebra.names();
    let counted = scratch.groups.state(group).counts.iter().enumerate();
    let mut seen: Vec<(u32, &str)> = counted
        .filter(|(at, count)| **count > 0 && !domains.contains(&ValueId::new(*at)))
        .map(|(at, count)| (*count, names.value_text(key, ValueId::new(at))))
        .collect();
    seen.extend(
        domains.iter().map(|value| (scratch.groups.count(group, *value), names.value_text(key, *value))),
    );
    seen.sort();
    let owned = |list: &[(u32, &str)]| {
        list.iter().map(|(count, value)| ((*value).to_owned(), *count)).collect::<Vec<_>>()
    };
    if seen.len() <= SHOWN {
        return Counts { fewest: owned(&seen), more: 0, most: Vec::new() };
    }
    Counts {
        fewest: owned(&seen[..SHOWN - MOST]),
        more: (seen.len() - SHOWN) as u64,
        most: owned(&seen[seen.len() - MOST..]),
    }
}

/// The values that a spread of a class counts over; none for hosts, which are counted as they come.
fn domains_of(scratch: &mut Scratch, class_idx: ClassIdx, rung_at: usize, group: GroupIdx) -> Rc<[ValueId]> {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let rung = &class.rungs[rung_at];
    let spec = snapshot.group(group);
    if !matches!(spec, GroupSpec::Spread { .. }) || Some(spec.key()) == snapshot.hostname {
        return Rc::from([]);
    }
    let mut world = World {
        snapshot,
        algebra: &mut scratch.algebra,
        offers: &mut scratch.offers,
        templates: scratch.templates,
    };
    scratch.groups.spread_domains(&mut world, group, rung.strict, class.tolerations, rung.spare_preferred)
}

fn existing(scratch: &mut Scratch, class_idx: ClassIdx) -> Cause {
    let snapshot: &Snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let rung = &class.rungs[class.rungs.len() - 1];
    let mut tally = [0u64; 5];
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let slot = if !node.accepts_pods {
            0
        } else if !scratch.algebra.tolerates(node.taints, class.tolerations, rung.spare_preferred) {
            1
        } else if !scratch.algebra.node_accepts(node.labels, rung.ask) {
            2
        } else if !fits(&class.requests, &scratch.room[at]) || scratch.room[at].iter().any(|left| *left < 0) {
            3
        } else {
            4
        };
        tally[slot] += 1;
    }
    let [cordoned, tainted, unlabelled, full, ruled_out] = tally;
    Cause::Existing { cordoned, tainted, unlabelled, full, ruled_out }
}

fn known_keys(scratch: &Scratch, pool: PoolIdx) -> Vec<String> {
    let algebra = &scratch.algebra;
    let row = &scratch.snapshot.pools[pool.at()];
    let mut keys: Vec<String> = algebra
        .items(row.requirements)
        .iter()
        .map(|(k, _)| algebra.names().key_text(*k).to_owned())
        .collect();
    let all = (0..algebra.names().key_count()).map(KeyId::new);
    keys.extend(
        all.filter(|k| algebra.vocabulary.is_well_known(*k)).map(|k| algebra.names().key_text(k).to_owned()),
    );
    keys.sort();
    keys.dedup();
    keys
}

fn allowed_values(scratch: &Scratch, pool: PoolIdx, key: KeyId) -> Vec<String> {
    allowed_values_in(scratch, pool, key, &scratch.templates[pool.at()].base)
}

/// The values of a key that a set of offerings (else the pool itself) can give, sorted.
fn allowed_values_in(scratch: &Scratch, pool: PoolIdx, key: KeyId, set: &[u64]) -> Vec<String> {
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    let row = &scratch.snapshot.pools[pool.at()];
    let mut values = values_in(scratch, row.catalogue, key, set);
    if values.is_empty()
        && let MachineValue::Defined(have) = algebra.machine_value(row.requirements, key)
        && !have.complement
    {
        values.extend(have.value_texts(names, key).into_iter().map(str::to_owned));
        values.sort();
        values.dedup();
    }
    values
}

/// The values of a key that a set of offerings says, sorted.
fn values_in(scratch: &Scratch, catalogue: CatalogueIdx, key: KeyId, set: &[u64]) -> Vec<String> {
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    let mut values = Vec::new();
    for at in offer_set::iter(set) {
        let rq = crate::pack::template::offering_requirement(
            scratch.snapshot,
            algebra,
            catalogue,
            OfferingIdx::new(at),
            key,
        );
        if let Some(rq) = rq {
            let requirement = algebra.requirement(rq);
            if !requirement.complement {
                values.extend(requirement.values.iter().map(|v| names.value_text(key, *v).to_owned()));
            }
        }
        if values.len() > 4096 {
            values.sort();
            values.dedup();
        }
    }
    values.sort();
    values.dedup();
    values
}

/// A known value that is spelt nearly like one that is asked for.
fn nearest_value(scratch: &Scratch, key: KeyId, asked: RqId, known: &[String]) -> Option<String> {
    let names = scratch.algebra.names();
    let asked = scratch.algebra.requirement(asked);
    if asked.complement {
        return None;
    }
    let mut unknown =
        asked.value_texts(names, key).into_iter().filter(|value| !known.iter().any(|k| k == value));
    unknown.find_map(|value| nearest(value, known.iter().map(String::as_str))).map(str::to_owned)
}

fn listed(values: &[String]) -> Listed {
    const SHOWN: usize = 8;
    let shown = values[..values.len().min(SHOWN)].to_vec();
    Listed { more: (values.len() - shown.len()) as u64, shown }
}
