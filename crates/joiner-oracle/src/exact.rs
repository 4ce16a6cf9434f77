//! The cheapest plan there is, for a dozen pods at most: every way to divide them over new machines is looked at.
//!
//! Machines are known by what is on them: for every set of pods and every zone the cheapest offering that takes the set is found; the cheapest way to
//! cut a set into machines of one zone follows by going through its subsets; and every way to give pods to zones is tried, those that break a rule about zones
//! left out. So the answer is the optimum and not an estimate.
//!
//! | covered | how |
//! |---|---|
//! | pool requirements, labels and taints, node selectors, required node affinity | against the concrete labels of a bought machine |
//! | room less daemons, host ports | sums over the set |
//! | anti-affinity, spread and affinity by host and by zone | counted on the finished plan |
//!
//! What is judged on the finished plan only is as strict as binding one by one as long as pods of a group are alike: constraints select the pods that carry them,
//! affinity selects its own group or pods without affinity. Anything else the solver would have to guess at is an [`Err`]:
//! existing nodes, volumes, limits, minValues, reservations, preferences, and pools of different weight.

mod drawn;

use std::collections::{BTreeMap, BTreeSet};

pub use self::drawn::{Drawn, Theme, drawn};
use crate::checker::covers;
use crate::world::{
    Expr, InstanceType, Labels, Offering, Pod, Pool, Port, Resources, Selector, Taint, World,
};

/// More pods than this take too long.
pub const MOST_PODS: usize = 12;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The lowest price of all pods' machines with `charge` added per machine, in dollars per hour, of plans with `most` machines or fewer;
/// `Ok(None)` if there is none.
pub fn optimum(world: &World, charge: f64, most: usize) -> Result<Option<f64>, String> {
    supported(world)?;
    let pods: Vec<&Pod> = world.pods.iter().collect();
    let most = most.min(pods.len());
    let offers = offers(world)?;
    let zones: Vec<String> =
        offers.iter().map(|offer| offer.zone.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    // Per zone, number of machines and set of pods.
    let by_zone: Vec<Vec<Vec<f64>>> = zones
        .iter()
        .map(|zone| cuts(&machines(&pods, offers.iter().filter(|offer| offer.zone == *zone), charge), most))
        .collect();
    let rules = ZoneRules::new(world, &pods, &offers, &zones);
    let mut least = f64::INFINITY;
    let mut given = vec![0usize; pods.len()];
    loop {
        let mut sets = vec![0usize; zones.len()];
        for (pod, zone) in given.iter().enumerate() {
            sets[*zone] |= 1 << pod;
        }
        // As many machines as there are pods in every zone: no plan of these zones costs less.
        let unlimited: f64 = sets.iter().zip(&by_zone).map(|(set, costs)| costs[most][*set]).sum();
        if unlimited < least && rules.kept(&given) {
            least = least.min(shared_out(&by_zone, &sets, most));
        }
        // The next way to give pods to zones, counting up.
        let Some(at) = given.iter().position(|zone| zone + 1 < zones.len()) else { break };
        given[at] += 1;
        given[..at].fill(0);
    }
    Ok(least.is_finite().then_some(least))
}

/// The lowest cost of all zones with so many machines to share out among them.
fn shared_out(by_zone: &[Vec<Vec<f64>>], sets: &[usize], machines: usize) -> f64 {
    let Some(((first, others), (set, sets))) = by_zone.split_first().zip(sets.split_first()) else {
        return 0.0;
    };
    (0..=machines)
        .map(|here| first[here][*set] + shared_out(others, sets, machines - here))
        .fold(f64::INFINITY, f64::min)
}

/// What a node is charged with by default: 0.4 CPUs where a CPU costs least.
pub fn default_charge(world: &World) -> f64 {
    let per_cpu = world.types.iter().flat_map(|instance_type| {
        let cpus = instance_type.capacity.get("cpu").copied().unwrap_or(0).max(1000) as f64 / 1000.0;
        let open =
            instance_type.offerings.iter().filter(|offering| offering.available && offering.price > 0.0);
        open.map(move |offering| offering.price / cpus)
    });
    let least = per_cpu.fold(f64::INFINITY, f64::min);
    if least.is_finite() { 0.4 * least } else { 0.0 }
}

fn supported(world: &World) -> Result<(), String> {
    let refuse = |what: &str| Err(format!("no optimum with {what}"));
    if world.pods.len() > MOST_PODS {
        return refuse("so many pods");
    }
    if !world.nodes.is_empty() {
        return refuse("existing nodes");
    }
    if world.pools.windows(2).any(|pair| pair[0].weight != pair[1].weight) {
        return refuse("pools of different weight");
    }
    if world.pools.iter().any(|pool| {
        !pool.limits.is_empty()
            || pool.taints.iter().any(|taint| taint.effect == "PreferNoSchedule")
            || pool.requirements.iter().any(|expr| expr.min_values.is_some())
    }) {
        return refuse("limits, minValues or soft taints");
    }
    for pod in &world.pods {
        if pod.refused.is_some() || !pod.volumes.is_empty() || pod.uses_resource_claims {
            return refuse("volumes or refused pods");
        }
        if !pod.preferred_terms.is_empty()
            || !pod.preferred_affinity.is_empty()
            || !pod.preferred_anti_affinity.is_empty()
            || pod.spread.iter().any(|spread| !spread.hard || spread.min_domains.is_some())
        {
            return refuse("preferences or minDomains");
        }
        let keys = pod.spread.iter().map(|spread| &spread.key);
        let keys = keys.chain(pod.affinity.iter().chain(&pod.anti_affinity).map(|term| &term.key));
        if keys.into_iter().any(|key| key != ZONE && key != HOSTNAME) {
            return refuse("topology other than zones and hosts");
        }
    }
    Ok(())
}

/// An offering of a pool with everything that is the same whatever goes onto it.
struct Offer {
    zone: String,
    price: f64,
    /// Pods that may be on it as far as labels and taints go, as bits.
    takes: usize,
    /// Room less daemons, in the order of [`resource_names`].
    room: Vec<i128>,
    /// Ports of daemons.
    ports: Vec<Port>,
}

fn resource_names(world: &World) -> BTreeSet<&String> {
    world.pods.iter().flat_map(|pod| pod.requests.keys()).collect()
}

/// Everything that can be bought, cheapest first.
fn offers(world: &World) -> Result<Vec<Offer>, String> {
    let names = resource_names(world);
    let mut offers = Vec::new();
    for pool in &world.pools {
        for instance_type in &world.types {
            for offering in instance_type.offerings.iter().filter(|offering| offering.available) {
                if offering.reservation.is_some() {
                    return Err("no optimum with reservations".to_owned());
                }
                let labels = labels(pool, instance_type, offering)?;
                if !pool.requirements.iter().all(|expr| holds(expr, &labels)) {
                    continue;
                }
                let may = |pod: &Pod| tolerates(pod, &pool.taints) && wants(pod, &labels);
                let daemons: Vec<&Pod> = world.daemons.iter().filter(|daemon| may(daemon)).collect();
                let taken = |name: &String| -> i128 {
                    daemons.iter().map(|daemon| daemon.requests.get(name).copied().unwrap_or(0)).sum()
                };
                let has = |resources: &Resources, name: &String| resources.get(name).copied().unwrap_or(0);
                // Daemons that do not fit leave no room for anything.
                let all: BTreeSet<&String> =
                    daemons.iter().flat_map(|daemon| daemon.requests.keys()).collect();
                if all.into_iter().any(|name| taken(name) > has(&instance_type.allocatable, name)) {
                    continue;
                }
                let takes = world.pods.iter().enumerate().filter(|(_, pod)| may(pod));
                offers.push(Offer {
                    zone: labels.get(ZONE).cloned().ok_or("no optimum for offerings without a zone")?,
                    price: offering.price,
                    takes: takes.fold(0, |bits, (at, _)| bits | 1 << at),
                    room: names
                        .iter()
                        .map(|name| has(&instance_type.allocatable, name) - taken(name))
                        .collect(),
                    ports: daemons.iter().flat_map(|daemon| daemon.ports.clone()).collect(),
                });
            }
        }
    }
    offers.sort_by(|a, b| a.price.total_cmp(&b.price));
    Ok(offers)
}

/// The labels of a bought machine.
fn labels(pool: &Pool, instance_type: &InstanceType, offering: &Offering) -> Result<Labels, String> {
    let mut labels = pool.labels.clone();
    labels.insert("karpenter.sh/nodepool".to_owned(), pool.name.clone());
    labels.insert("karpenter.sh/registered".to_owned(), "true".to_owned());
    labels.insert("karpenter.sh/initialized".to_owned(), "true".to_owned());
    for expr in offering.requirements.iter().chain(&instance_type.requirements) {
        match (expr.operator.as_str(), expr.values.as_slice()) {
            ("DoesNotExist", _) => {}
            // A type lists all zones it is offered in; the offering says which.
            ("In", values) if labels.get(&expr.key).is_some_and(|value| values.contains(value)) => {}
            ("In", [value]) if !labels.contains_key(&expr.key) => {
                labels.insert(expr.key.clone(), value.clone());
            }
            _ => {
                let name = &instance_type.name;
                return Err(format!(
                    "no optimum where label `{}` of `{name}` is open or contradicted",
                    expr.key
                ));
            }
        }
    }
    Ok(labels)
}

fn holds(expr: &Expr, labels: &Labels) -> bool {
    let value = labels.get(&expr.key);
    let number = |text: &String| text.parse::<i64>().ok();
    let bound = expr.values.first().and_then(number);
    let compared = |holds: fn(&i64, &i64) -> bool| match (value.and_then(number), bound) {
        (Some(value), Some(bound)) => holds(&value, &bound),
        _ => false,
    };
    match expr.operator.as_str() {
        "In" => value.is_some_and(|value| expr.values.contains(value)),
        "NotIn" => value.is_none_or(|value| !expr.values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(i64::gt),
        "Lt" => compared(i64::lt),
        "Gte" => compared(i64::ge),
        "Lte" => compared(i64::le),
        _ => false,
    }
}

fn wants(pod: &Pod, labels: &Labels) -> bool {
    let selected = pod.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let terms = pod.required_terms.as_ref().is_none_or(|terms| {
        terms.iter().any(|term| !term.is_empty() && term.iter().all(|expr| holds(expr, labels)))
    });
    selected && terms
}

fn tolerates(pod: &Pod, taints: &[Taint]) -> bool {
    taints.iter().all(|taint| pod.tolerations.iter().any(|toleration| covers(toleration, taint)))
}

fn picks(selector: Option<&Selector>, pod: &Pod) -> bool {
    selector.is_some_and(|selector| selector.expressions.iter().all(|expr| holds(expr, &pod.labels)))
}

/// Whether every term picks the pod; terms are about the namespace of their owner.
fn all_pick(owner: &Pod, key: &str, other: &Pod) -> bool {
    let mut terms = owner.affinity.iter().filter(|term| term.key == key).peekable();
    terms.peek().is_some()
        && owner.namespace == other.namespace
        && terms.all(|term| picks(term.selector.as_ref(), other))
}

/// Whether two pods must not meet under a key.
fn repels(owner: &Pod, key: &str, other: &Pod) -> bool {
    owner.namespace == other.namespace
        && owner.anti_affinity.iter().any(|term| term.key == key && picks(term.selector.as_ref(), other))
}

/// For every set of pods the cheapest machine that takes it, charge included.
fn machines<'o>(pods: &[&Pod], offers: impl Iterator<Item = &'o Offer>, charge: f64) -> Vec<f64> {
    let offers: Vec<&Offer> = offers.collect();
    let names: BTreeSet<&String> = pods.iter().flat_map(|pod| pod.requests.keys()).collect();
    let requests: Vec<Vec<i128>> = pods
        .iter()
        .map(|pod| names.iter().map(|name| pod.requests.get(*name).copied().unwrap_or(0)).collect())
        .collect();
    let mut costs = vec![f64::INFINITY; 1 << pods.len()];
    for (set, cost) in costs.iter_mut().enumerate().skip(1) {
        let members: Vec<usize> = (0..pods.len()).filter(|pod| set & (1 << pod) != 0).collect();
        if !get_along(pods, &members) {
            continue;
        }
        let sums: Vec<i128> =
            (0..names.len()).map(|lane| members.iter().map(|pod| requests[*pod][lane]).sum()).collect();
        let ports: Vec<&Port> = members.iter().flat_map(|pod| &pods[*pod].ports).collect();
        let cheapest = offers.iter().find(|offer| {
            offer.takes & set == set
                && sums.iter().zip(&offer.room).all(|(want, have)| want <= have)
                && !ports.iter().any(|port| offer.ports.iter().any(|taken| clash(port, taken)))
        });
        if let Some(offer) = cheapest {
            *cost = offer.price + charge;
        }
    }
    costs
}

/// Rules of pods that share a host.
fn get_along(pods: &[&Pod], members: &[usize]) -> bool {
    let host = || members.iter().map(|at| pods[*at]);
    for (at, member) in members.iter().enumerate() {
        let pod = pods[*member];
        let others =
            || members.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| pods[*other]);
        if others().any(|other| repels(pod, HOSTNAME, other)) {
            return false;
        }
        if others().any(|other| other.ports.iter().any(|a| pod.ports.iter().any(|b| clash(a, b)))) {
            return false;
        }
        for spread in pod.spread.iter().filter(|spread| spread.key == HOSTNAME) {
            let count = host().filter(|other| picks(spread.selector.as_ref(), other)).count();
            if count > usize::try_from(spread.max_skew).unwrap_or(0) {
                return false;
            }
        }
        if pod.affinity.iter().any(|term| term.key == HOSTNAME) {
            let here = host().filter(|other| all_pick(pod, HOSTNAME, other)).count();
            let kept = if all_pick(pod, HOSTNAME, pod) {
                // A group that wants its own company is on one host, all of it.
                pods.iter().filter(|other| all_pick(pod, HOSTNAME, other)).count() == here
            } else {
                here > 0
            };
            if !kept {
                return false;
            }
        }
    }
    true
}

fn clash(a: &Port, b: &Port) -> bool {
    let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
    a.port == b.port
        && a.protocol == b.protocol
        && (any(&a.host_ip) || any(&b.host_ip) || a.host_ip == b.host_ip)
}

/// For every number of machines up to `most` and every set of pods, the cheapest way to cut the set into no more machines than that.
fn cuts(machines: &[f64], most: usize) -> Vec<Vec<f64>> {
    let mut none = vec![f64::INFINITY; machines.len()];
    none[0] = 0.0;
    let mut layers = vec![none];
    for at in 1..=most {
        let mut least = layers[at - 1].clone();
        for (set, least) in least.iter_mut().enumerate().skip(1) {
            // The lowest pod is on some machine, with some of the others.
            let first = set & set.wrapping_neg();
            let others = set ^ first;
            let mut with = others;
            loop {
                *least = least.min(machines[with | first] + layers[at - 1][others ^ with]);
                if with == 0 {
                    break;
                }
                with = (with - 1) & others;
            }
        }
        layers.push(least);
    }
    layers
}

/// Rules about zones.
struct ZoneRules<'w> {
    pods: Vec<&'w Pod>,
    /// Per pod: zones that count for its spread.
    domains: Vec<Vec<usize>>,
}

impl<'w> ZoneRules<'w> {
    fn new(world: &World, pods: &[&'w Pod], offers: &[Offer], zones: &[String]) -> Self {
        // Neither size nor daemons are asked for domains, so a machine too small for the pod gives one too.
        let mut domains: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (at, _) in world.pods.iter().enumerate() {
            let usable = offers.iter().filter(|offer| offer.takes & (1 << at) != 0);
            let usable = usable.filter_map(|offer| zones.iter().position(|zone| *zone == offer.zone));
            domains.insert(at, usable.collect());
        }
        let domains = domains.into_values().map(|zones| zones.into_iter().collect()).collect();
        Self { pods: pods.to_vec(), domains }
    }

    /// Whether pods given to zones keep the rules.
    fn kept(&self, given: &[usize]) -> bool {
        let pods = || self.pods.iter().enumerate();
        for (at, pod) in pods() {
            let zone = given[at];
            if pods().any(|(other, q)| other != at && given[other] == zone && repels(pod, ZONE, q)) {
                return false;
            }
            for spread in pod.spread.iter().filter(|spread| spread.key == ZONE) {
                let count = |zone: usize| {
                    let counted = |(other, q): &(usize, &&Pod)| {
                        given[*other] == zone
                            && q.namespace == pod.namespace
                            && picks(spread.selector.as_ref(), q)
                    };
                    pods().filter(counted).count() as i32
                };
                let least = self.domains[at].iter().map(|zone| count(*zone)).min().unwrap_or(0);
                if count(zone) - least > spread.max_skew {
                    return false;
                }
            }
            if pod.affinity.iter().any(|term| term.key == ZONE) {
                let mut picked = pods().filter(|(_, q)| all_pick(pod, ZONE, q)).peekable();
                let kept = if all_pick(pod, ZONE, pod) {
                    picked.all(|(other, _)| given[other] == zone)
                } else {
                    picked.any(|(other, _)| given[other] == zone)
                };
                if !kept {
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
