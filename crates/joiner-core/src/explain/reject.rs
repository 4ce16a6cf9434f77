//! Why a pool, or the nodes that are there, can't take a pod.

use std::rc::Rc;

use crate::algebra::MachineValue;
use crate::explain::nearest;
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
    /// What kind of reason.
    pub code: Reject,
    /// One sentence for people.
    pub message: String,
}

/// The kinds of refusal, in the order in which questions are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// The pod itself can't be looked at.
    Pod,
    /// There is no pool at all.
    NoPool,
    /// The pool may not launch.
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
        return vec![Reason { pool: None, code: Reject::Pod, message: why.to_string() }];
    }
    let mut reasons = Vec::new();
    if snapshot.pools.is_empty() {
        let message = "there is no NodePool to launch machines from".to_owned();
        reasons.push(Reason { pool: None, code: Reject::NoPool, message });
    }
    for at in 0..snapshot.pools.len() {
        let pool = PoolIdx::new(at);
        // The rung that came furthest tells most.
        let furthest = (0..class.rungs.len())
            .map(|rung| pool_reject(scratch, class_idx, rung, pool, failure))
            .reduce(|best, next| if next.0 >= best.0 { next } else { best });
        if let Some((code, message)) = furthest {
            reasons.push(Reason { pool: Some(pool), code, message });
        }
    }
    if !snapshot.nodes.is_empty() {
        let message = existing_summary(scratch, class_idx);
        reasons.push(Reason { pool: None, code: Reject::Existing, message });
    }
    reasons
}

fn pool_reject(
    scratch: &mut Scratch,
    class_idx: ClassIdx,
    rung_at: usize,
    pool: PoolIdx,
    failure: Failure,
) -> (Reject, String) {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let rung = &class.rungs[rung_at];
    let row = &snapshot.pools[pool.at()];
    if let Some(why) = &row.not_ready {
        return (Reject::PoolNotReady, why.to_string());
    }
    let tolerations = snapshot.vocabulary.tolerations(class.tolerations);
    if let Some(taint) =
        taint::untolerated(snapshot.vocabulary.taints(row.taints), tolerations, rung.spare_preferred)
    {
        return (Reject::Taint, format!("does not tolerate taint `{taint}`"));
    }
    let template = scratch.templates[pool.at()].requirements;
    if let Some(found) = contradiction(scratch, template, rung.ask, pool) {
        return found;
    }
    let Some(met) = scratch.algebra.meet(template, rung.ask) else {
        return (Reject::Requirement, "its requirements contradict the pool's".to_owned());
    };
    let mut met = met;
    if !class.volume_alternatives.is_empty() {
        match class.volume_alternatives.iter().find_map(|a| scratch.algebra.meet(met, *a)) {
            Some(narrowed) => met = narrowed,
            None => {
                let message = "its volumes can't be reached from the pool's zones or labels".to_owned();
                return (Reject::Volume, message);
            }
        }
    }
    offerings_reject(scratch, class_idx, rung_at, pool, met, failure)
}

/// Which key of an ask the pool's template contradicts.
fn contradiction(scratch: &Scratch, template: ReqId, ask: ReqId, pool: PoolIdx) -> Option<(Reject, String)> {
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    for (key, asked) in algebra.items(ask) {
        let asked_rq = algebra.requirement(*asked);
        let text = asked_rq.text(names, *key);
        if asked_rq.is_empty() {
            let key = names.key_text(*key);
            return Some((
                Reject::Requirement,
                format!("its own requirements on `{key}` contradict each other"),
            ));
        }
        match algebra.machine_value(template, *key) {
            MachineValue::Open => {}
            MachineValue::Missing if asked_rq.may_be_absent => {}
            MachineValue::Missing => {
                let known = known_keys(scratch, pool);
                let hint = match nearest(names.key_text(*key), known.iter().map(String::as_str)) {
                    Some(near) => format!("; did you mean `{near}`?"),
                    None => "; add it to the pool's template labels or requirements".to_owned(),
                };
                return Some((
                    Reject::UndefinedLabel,
                    format!("asks for `{text}`, a label the pool does not define{hint}"),
                ));
            }
            MachineValue::Defined(have) => {
                if have.intersect(asked_rq, names, *key).is_empty() {
                    let have = have.text(names, *key);
                    let hint = value_hint(scratch, *key, *asked, &allowed_values(scratch, pool, *key));
                    return Some((
                        Reject::Requirement,
                        format!("asks for `{text}`, but the pool has `{have}`{hint}"),
                    ));
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
) -> (Reject, String) {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let row = &snapshot.pools[pool.at()];
    let base = scratch.templates[pool.at()].base.clone();
    if offer_set::is_empty(&base) {
        let matching = scratch.offers.of(snapshot, &scratch.algebra, row.catalogue, row.requirements);
        return if offer_set::is_empty(&matching) {
            (Reject::NoInstanceType, "the pool's requirements match no instance type".to_owned())
        } else {
            (Reject::Offering, no_base(scratch, pool))
        };
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
        return (Reject::Resources, resources_message(scratch, class, pool, &matching));
    }
    scratch.templates[pool.at()].remove_port_clashes(&mut set, &class.ports);
    if offer_set::is_empty(&set) {
        let ports =
            class.ports.iter().map(|p| format!("{}/{}", p.port, p.protocol)).collect::<Vec<_>>().join(", ");
        return (Reject::HostPort, format!("host port {ports} is taken by a daemon on every instance type"));
    }
    if scratch.no_node_left(pool) {
        return (Reject::Limit, "the pool's limit on `nodes` is reached".to_owned());
    }
    scratch.refresh_holds(pool);
    let kept = scratch.limited(pool, &set);
    if offer_set::is_empty(&kept) {
        return (Reject::Limit, limit_message(scratch, pool, &set));
    }
    if let Some(message) = volume_limit_message(scratch, class, pool, &kept) {
        return (Reject::Volume, message);
    }
    for key in scratch.templates[pool.at()].min_values.clone() {
        let (have, need) = scratch.distinct_values(pool, met, &kept, key);
        if have < need {
            let key = scratch.algebra.names().key_text(key);
            return (
                Reject::MinValues,
                format!(
                    "distinct values of `{key}` left for it: {have}; the pool's minValues asks for {need}"
                ),
            );
        }
    }
    if failure == Failure::Reserved {
        return (Reject::Reserved, "waits for reserved capacity that is used up for now".to_owned());
    }
    (Reject::Topology, topology_message(scratch, class_idx, rung_at))
}

/// Types match the pool, but there is nothing to launch: what is out, or that daemons need more than there is.
fn no_base(scratch: &Scratch, pool: PoolIdx) -> String {
    let (algebra, names) = (&scratch.algebra, scratch.algebra.names());
    let row = &scratch.snapshot.pools[pool.at()];
    if !offer_set::is_empty(&scratch.templates[pool.at()].offered) {
        return "none of the pool's instance types holds its daemons".to_owned();
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
            let plural = plural_name(names.key_text(*key));
            let asked = asked.text(names, *key);
            return format!(
                "the pool asks for `{asked}`, of which nothing can be had now; {plural} that can: {}",
                list(&values)
            );
        }
    }
    "no offering of the pool's instance types can be had now".to_owned()
}

/// The driver of which the pod brings more volumes than any of the types attaches.
fn volume_limit_message(scratch: &Scratch, class: &PodClass, pool: PoolIdx, set: &[u64]) -> Option<String> {
    let catalogue = &scratch.snapshot.catalogues[scratch.snapshot.pools[pool.at()].catalogue.at()];
    let limit = |at: usize, driver: &str| {
        let limits = &catalogue.types[catalogue.offerings[at].instance_type.at()].volume_limits;
        limits.iter().find(|(other, _)| **other == *driver).map(|(_, limit)| *limit as usize)
    };
    class.volumes.iter().find_map(|volume| {
        let wanted = class.volumes.iter().filter(|other| other.driver == volume.driver).count();
        let most = offer_set::iter(set).map(|at| limit(at, &volume.driver).unwrap_or(usize::MAX)).max()?;
        (wanted > most).then(|| {
            format!(
                "volumes of driver `{}` it brings: {wanted}; the most that an instance type attaches: {most}",
                volume.driver
            )
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
) -> (Reject, String) {
    let snapshot = scratch.snapshot;
    let row = &snapshot.pools[pool.at()];
    if !offer_set::is_empty(allowed) {
        // The types are right but not in the base: unavailable now, or too small for their daemons.
        let unavailable = offer_set::iter(allowed)
            .all(|at| !snapshot.catalogues[row.catalogue.at()].offerings[at].available);
        if unavailable {
            return (Reject::Offering, "the offerings it could use can't be had now".to_owned());
        }
    }
    let ask = class.rungs[rung_at].ask;
    let asked_for = scratch.offers.of(snapshot, &scratch.algebra, row.catalogue, ask);
    let mut without_volumes = base.to_vec();
    offer_set::and_into(&mut without_volumes, &asked_for);
    if !class.volume_alternatives.is_empty() && !offer_set::is_empty(&without_volumes) {
        return (Reject::Volume, "no offering is where its volumes can be reached".to_owned());
    }
    for (key, asked) in scratch.algebra.items(ask).to_vec() {
        let names = scratch.algebra.names();
        let values = allowed_values_in(scratch, pool, key, base);
        let wanted = scratch.algebra.requirement(asked);
        if !values.iter().any(|v| wanted.allows_text(names, key, v)) && !wanted.may_be_absent {
            let (word, plural) = (short_name(names.key_text(key)), plural_name(names.key_text(key)));
            let asked_values = wanted.value_texts(names, key).join("`, `");
            let hint = value_hint(scratch, key, asked, &values);
            let message = if asked_values.is_empty() || wanted.complement {
                format!("no offering satisfies `{}`", wanted.text(names, key))
            } else {
                format!("no offering has {word} `{asked_values}`; {plural}: {}", list(&values))
            };
            let hint = if hint.starts_with("; did") { hint } else { String::new() };
            return (Reject::Requirement, message + &hint);
        }
    }
    let texts: Vec<String> = scratch
        .algebra
        .items(ask)
        .iter()
        .map(|(key, rq)| {
            format!("`{}`", scratch.algebra.requirement(*rq).text(scratch.algebra.names(), *key))
        })
        .collect();
    (Reject::Requirement, format!("no offering satisfies {} at once", texts.join(" and ")))
}

fn resources_message(scratch: &Scratch, class: &PodClass, pool: PoolIdx, matching: &[u64]) -> String {
    let names = scratch.algebra.names();
    let template = &scratch.templates[pool.at()];
    let mut parts = Vec::new();
    for (lane, want) in class.requests.iter().enumerate().filter(|(_, want)| **want > 0) {
        let largest = template.largest_room(matching, lane);
        if *want > largest {
            let short = amount(lane, names.lane_text(lane), want.saturating_sub(largest));
            parts.push(format!(
                "asks for {} {}, the largest instance type has room for {} ({short} short)",
                amount(lane, names.lane_text(lane), *want),
                names.lane_text(lane),
                amount(lane, names.lane_text(lane), largest),
            ));
        }
    }
    if lane_of(&class.requests, CPU) >= 1_000_000_000 {
        parts.push("a CPU request that large is often `M` written for `m`".to_owned());
    }
    if parts.is_empty() {
        let wants: Vec<String> = class
            .requests
            .iter()
            .enumerate()
            .filter(|(lane, want)| **want > 0 && *lane != PODS)
            .map(|(lane, want)| {
                format!("{} {}", amount(lane, names.lane_text(lane), *want), names.lane_text(lane))
            })
            .collect();
        return format!("no single instance type has {} together", wants.join(" and "));
    }
    parts.join("; ")
}

fn limit_message(scratch: &Scratch, pool: PoolIdx, set: &[u64]) -> String {
    let names = scratch.algebra.names();
    let row = &scratch.snapshot.pools[pool.at()];
    let catalogue = &scratch.snapshot.catalogues[row.catalogue.at()];
    let mut parts = Vec::new();
    for (limit, left) in row.limits.iter().zip(&scratch.limits[pool.at()]) {
        let Some(lane) = limit.lane else { continue };
        let smallest = offer_set::iter(set)
            .map(|at| lane_of(&catalogue.types[catalogue.offerings[at].instance_type.at()].capacity, lane))
            .min()
            .unwrap_or(0);
        if smallest > *left || *left < 0 {
            let name = names.lane_text(lane);
            parts.push(format!(
                "the pool's limit of {} {name} leaves {}, the smallest instance type that holds the pod has {}",
                amount(lane, name, limit.most),
                amount(lane, name, (*left).max(0)),
                amount(lane, name, smallest),
            ));
        }
    }
    if parts.is_empty() {
        return "the pool's limits together leave no instance type that holds the pod".to_owned();
    }
    parts.join("; ")
}

fn topology_message(scratch: &mut Scratch, class_idx: ClassIdx, rung_at: usize) -> String {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let names = scratch.algebra.names();
    let mut parts: Vec<String> = class.rungs[rung_at]
        .groups
        .iter()
        .map(|group| {
            let spec = snapshot.group(*group);
            let key = names.key_text(spec.key());
            let domains = domains_of(scratch, class_idx, rung_at, *group);
            match spec {
                GroupSpec::Spread { max_skew, min_domains, .. } => {
                    let min = min_domains.map_or(String::new(), |n| format!(", minDomains {n}"));
                    let counts = counts_text(scratch, *group, &domains);
                    format!("spread over `{key}` (maxSkew {max_skew}{min}) allows no value it could be placed in{counts}")
                }
                GroupSpec::Affinity { .. } => {
                    format!("pod affinity over `{key}` finds no matching pod it could join")
                }
                GroupSpec::AntiAffinity { .. } => {
                    let counts = counts_text(scratch, *group, &domains);
                    format!("pod anti-affinity over `{key}` leaves no value without a matching pod{counts}")
                }
            }
        })
        .collect();
    let selected = scratch.groups.selected(snapshot, &scratch.algebra, class.identity);
    if selected.inverse.iter().any(|g| !class.rungs[rung_at].groups.contains(g)) {
        parts.push("required anti-affinity of other pods keeps it away".to_owned());
    }
    if parts.is_empty() {
        return "no machine can be opened for it together with the pods already placed".to_owned();
    }
    parts.join("; ")
}

/// Pods per value, fewest first. Of a spread all values it counts over, also those without a pod: the fewest decide.
fn counts_text(scratch: &Scratch, group: GroupIdx, domains: &[ValueId]) -> String {
    const SHOWN: usize = 8;
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
    let mut texts: Vec<String> = seen.iter().map(|(count, value)| format!("{value} {count}")).collect();
    if texts.len() > SHOWN {
        let more = texts.len() - SHOWN;
        texts.splice(SHOWN - 2..texts.len() - 2, [format!("{more} more")]);
    }
    if texts.is_empty() { String::new() } else { format!(" (pods now: {})", texts.join(", ")) }
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

fn existing_summary(scratch: &mut Scratch, class_idx: ClassIdx) -> String {
    let snapshot: &Snapshot = scratch.snapshot;
    let class = &snapshot.classes[class_idx.at()];
    let rung = &class.rungs[class.rungs.len() - 1];
    let mut tally = [0usize; 5];
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
    let words = [
        "cordoned or leaving",
        "with an untolerated taint",
        "without the labels asked for",
        "without room",
        "ruled out by topology, ports or volumes",
    ];
    let parts: Vec<String> =
        tally.iter().zip(words).filter(|(n, _)| **n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let nodes = if snapshot.nodes.len() == 1 { "node" } else { "nodes" };
    format!("{} existing {nodes}: {}", snapshot.nodes.len(), parts.join(", "))
}

// ---- words ----

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

fn value_hint(scratch: &Scratch, key: KeyId, asked: RqId, known: &[String]) -> String {
    let names = scratch.algebra.names();
    let asked = scratch.algebra.requirement(asked);
    if asked.complement {
        return String::new();
    }
    let near = asked
        .value_texts(names, key)
        .into_iter()
        .filter(|value| !known.iter().any(|k| k == value))
        .find_map(|value| nearest(value, known.iter().map(String::as_str)));
    near.map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

fn list(values: &[String]) -> String {
    const SHOWN: usize = 8;
    if values.is_empty() {
        return "none".to_owned();
    }
    let shown = values.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if values.len() > SHOWN { format!("{shown} and {} more", values.len() - SHOWN) } else { shown }
}

fn short_name(key: &str) -> &str {
    match key {
        "topology.kubernetes.io/zone" => "zone",
        "topology.kubernetes.io/region" => "region",
        "karpenter.sh/capacity-type" => "capacity type",
        "node.kubernetes.io/instance-type" => "instance type",
        "kubernetes.io/arch" => "architecture",
        "kubernetes.io/os" => "operating system",
        other => other,
    }
}

fn plural_name(key: &str) -> String {
    match short_name(key) {
        word if word.contains('/') => "values".to_owned(),
        word => format!("{word}s"),
    }
}

/// An amount with its unit: CPU in cores, bytes in binary units, the rest as it is.
pub(crate) fn amount(lane: usize, resource: &str, value: i64) -> String {
    if lane == CPU {
        return if value % 1000 == 0 { format!("{}", value / 1000) } else { format!("{value}m") };
    }
    let bytes = matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if !bytes {
        return value.to_string();
    }
    for (unit, size) in [("Ti", 1i64 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)] {
        if value >= size {
            return if value % size == 0 {
                format!("{}{unit}", value / size)
            } else {
                format!("{:.1}{unit}", value as f64 / size as f64)
            };
        }
    }
    value.to_string()
}
