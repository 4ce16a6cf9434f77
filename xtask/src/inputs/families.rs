//! The scenarios of the cost comparison: six families of workloads on real AWS types, each a few hundred pods.
//!
//! A scenario is named by its family and number; both, with the seed, name the stream it is drawn from. Sizes are such that the original
//! solves one in seconds, a few larger ones apart.

use std::io::Write;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::objects::{CAPACITY_TYPE, HOSTNAME, ZONE, affinity_term, is_in, pod, pool, spread};
use super::{Catalogue, Sink, services};

const FAMILY: &str = "karpenter.kwok.sh/instance-family";
const CPUS: &str = "karpenter.kwok.sh/instance-cpu";
const ARCH: &str = "kubernetes.io/arch";
const GPU: &str = "nvidia.com/gpu";

/// What the workloads of a scenario are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Sizes and nothing else.
    Unconstrained,
    /// A company's services: a bit of everything, daemons.
    Services,
    /// Nearly everything is spread over zones, hosts or both.
    Spread,
    /// Replicas that keep apart, and some that want company.
    AntiAffinity,
    /// Pools of different weight, some with limits or taints.
    Pools,
    /// Accelerated work beside ordinary pods.
    Gpu,
}

impl Family {
    /// All, in the order of tables.
    pub const ALL: [Family; 6] = [
        Family::Unconstrained,
        Family::Services,
        Family::Spread,
        Family::AntiAffinity,
        Family::Pools,
        Family::Gpu,
    ];

    /// As tables and directories call it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Unconstrained => "unconstrained",
            Family::Services => "services",
            Family::Spread => "spread",
            Family::AntiAffinity => "anti-affinity",
            Family::Pools => "pools",
            Family::Gpu => "gpu",
        }
    }

    /// Its instance types.
    pub fn catalogue(self) -> Catalogue {
        if self == Family::Gpu { Catalogue::AwsGpu } else { Catalogue::AwsGeneral }
    }
}

/// One input of the cost comparison.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its family.
    pub family: Family,
    /// Its number within the family, from 1.
    pub number: u32,
    /// Pending pods.
    pub pods: u32,
}

/// Scenarios of a family; the last ones are the large ones.
const PER_FAMILY: u32 = 34;
/// Sizes of the large ones.
const LARGE: [u32; 4] = [1_000, 1_000, 1_500, 2_000];
/// Sizes of the others, in turn.
const SMALL: [u32; 10] = [100, 300, 150, 200, 400, 120, 250, 200, 500, 160];

/// Pods that nothing holds back share a few large machines: with as many as elsewhere there would be one or two, and nothing to divide.
const FREE_TIMES: u32 = 4;

/// All scenarios, or one small one of each family.
pub fn scenarios(quick: bool) -> Vec<Scenario> {
    let numbers = if quick { 1..=1 } else { 1..=PER_FAMILY };
    Family::ALL
        .iter()
        .flat_map(|family| {
            let times = if *family == Family::Unconstrained { FREE_TIMES } else { 1 };
            let scenario = move |number| Scenario { family: *family, number, pods: times * size(number) };
            numbers.clone().map(scenario)
        })
        .collect()
}

fn size(number: u32) -> u32 {
    let small = PER_FAMILY - LARGE.len() as u32;
    match number.checked_sub(small + 1) {
        Some(large) => LARGE[large as usize % LARGE.len()],
        None => SMALL[(number - 1) as usize % SMALL.len()],
    }
}

impl Scenario {
    /// `spread-07`.
    pub fn name(&self) -> String {
        format!("{}-{:02}", self.family.name(), self.number)
    }

    /// Writes its manifests, the same bytes for the same seed.
    pub fn write(&self, seed: u64, out: &mut dyn Write) -> Result<()> {
        let family = Family::ALL.iter().position(|family| *family == self.family).unwrap_or(0) as u64;
        let mut draw = Draw::new(seed, 6_000_000 + 10_000 * family + u64::from(self.number));
        super::write_list(out, &mut |sink| self.objects(&mut draw, sink))
    }

    fn objects(&self, draw: &mut Draw, sink: &mut Sink) -> Result<()> {
        if self.family == Family::Services {
            return services::write_some((self.pods / 20).max(6), self.pods, draw, sink);
        }
        let workloads = self.workloads(draw);
        for pool in self.pools(&workloads, draw) {
            sink(pool)?;
        }
        for (number, workload) in workloads.iter().enumerate() {
            for replica in 0..workload.replicas {
                sink(workload.pod(number, replica, draw))?;
            }
        }
        Ok(())
    }

    fn workloads(&self, draw: &mut Draw) -> Vec<Workload> {
        let most = match self.family {
            Family::AntiAffinity => 12,
            Family::Spread => 24,
            _ => 40,
        };
        let style = draw.below(3);
        let mut left = self.pods;
        let mut workloads = Vec::new();
        while left > 0 {
            // Many small ones, few large ones.
            let replicas = (1 + draw.below(most).min(draw.below(most))).min(left);
            let (cpu, memory) = drawn_size(style, draw);
            let mut workload = Workload { cpu, memory, gpus: 0, replicas, spec: Map::new() };
            let own = json!({"app": app(workloads.len())});
            match self.family {
                Family::Spread => spread_out(&mut workload, &own, draw),
                Family::AntiAffinity => {
                    // The original's plans break affinity by zone as a rule: a third of the scenarios is enough.
                    keep_apart(&mut workload, &own, workloads.len(), self.number.is_multiple_of(3), draw)
                }
                Family::Pools => choose_pool(&mut workload, draw),
                Family::Gpu => accelerate(&mut workload, draw),
                Family::Unconstrained | Family::Services => {}
            }
            left -= workload.replicas;
            workloads.push(workload);
        }
        workloads
    }

    fn pools(&self, workloads: &[Workload], draw: &mut Draw) -> Vec<Value> {
        match self.family {
            Family::Pools => several_pools(workloads, draw),
            Family::Gpu => {
                let mut gpu = pool("gpu", None, &json!([linux(), is_in(ARCH, &["amd64"]), capacity(draw)]));
                gpu["spec"]["template"]["spec"]["taints"] =
                    json!([{"key": GPU, "value": "true", "effect": "NoSchedule"}]);
                vec![general_pool(draw), gpu]
            }
            _ => vec![general_pool(draw)],
        }
    }
}

/// Pods alike.
struct Workload {
    /// Millicores.
    cpu: u32,
    /// Mebibytes.
    memory: u32,
    gpus: u32,
    replicas: u32,
    spec: Map<String, Value>,
}

impl Workload {
    fn pod(&self, number: usize, replica: u32, draw: &mut Draw) -> Value {
        let name = app(number);
        let labels = json!({"app": name});
        let (cpu, memory) = (format!("{}m", self.cpu), format!("{}Mi", self.memory));
        let mut pod = pod(&format!("{name}-{replica:03}"), &draw.uid(), &labels, &cpu, &memory);
        if self.gpus > 0 {
            let resources = &mut pod["spec"]["containers"][0]["resources"];
            resources["requests"][GPU] = json!(self.gpus.to_string());
            resources["limits"] = json!({GPU: self.gpus.to_string()});
        }
        for (field, value) in &self.spec {
            pod["spec"][field.as_str()] = value.clone();
        }
        pod
    }
}

fn app(number: usize) -> String {
    format!("app-{number:03}")
}

/// CPU and memory: usual round figures, odd figures as a recommender writes them, or large pods.
fn drawn_size(style: u32, draw: &mut Draw) -> (u32, u32) {
    match style {
        0 => {
            let cpus = [50, 100, 100, 250, 250, 500, 500, 1_000, 2_000, 4_000];
            let cpu = cpus[draw.below(cpus.len() as u32) as usize];
            let memory = [128, 256, 512, 512, 1_024, 1_024, 2_048, 4_096, 8_192];
            (cpu, memory[draw.below(memory.len() as u32) as usize])
        }
        1 => {
            let cpu = 25 + draw.below(1_500) * (1 + draw.below(3)) / 2;
            let mib_per_cpu = 400 + draw.below(7_600);
            (cpu, 64 + (u64::from(cpu) * u64::from(mib_per_cpu) / 1_000) as u32)
        }
        _ => {
            let cpu = 500 * (1 + draw.below(14));
            (cpu, cpu * (1 + draw.below(8)))
        }
    }
}

fn linux() -> Value {
    is_in("kubernetes.io/os", &["linux"])
}

fn capacity(draw: &mut Draw) -> Value {
    match draw.below(10) {
        0..3 => is_in(CAPACITY_TYPE, &["on-demand"]),
        3..5 => is_in(CAPACITY_TYPE, &["spot"]),
        _ => is_in(CAPACITY_TYPE, &["on-demand", "spot"]),
    }
}

/// One pool as people write it: most leave the families open, some name a few, some leave small machines out.
fn general_pool(draw: &mut Draw) -> Value {
    let mut requirements = vec![linux(), capacity(draw)];
    requirements.push(match draw.below(10) {
        0..2 => is_in(ARCH, &["arm64"]),
        2..5 => is_in(ARCH, &["amd64", "arm64"]),
        _ => is_in(ARCH, &["amd64"]),
    });
    match draw.below(10) {
        0..2 => requirements.push(is_in(FAMILY, &["c6i", "m6i", "r6i", "c7g", "m7g", "r7g"])),
        2 => requirements.push(is_in(FAMILY, &["m5", "m6a", "m6g"])),
        3..5 => requirements.push(json!({"key": CPUS, "operator": "Gt", "values": ["3"]})),
        _ => {}
    }
    pool("default", None, &Value::Array(requirements))
}

/// A heavier pool is the one people would rather use: spot, arm64 or the families they have a discount for; it has a limit, most of the time.
fn several_pools(workloads: &[Workload], draw: &mut Draw) -> Vec<Value> {
    let cpus: u32 = workloads.iter().map(|workload| workload.cpu * workload.replicas / 1_000).sum();
    let amd64 = is_in(ARCH, &["amd64"]);
    let preferred = match draw.below(3) {
        0 => json!([linux(), amd64, is_in(CAPACITY_TYPE, &["spot"])]),
        1 => json!([linux(), is_in(ARCH, &["arm64"]), is_in(CAPACITY_TYPE, &["on-demand"])]),
        _ => json!([linux(), is_in(FAMILY, &["c6a", "m6a", "r6a"]), is_in(CAPACITY_TYPE, &["on-demand"])]),
    };
    let mut first = pool("first", Some(50), &preferred);
    if draw.below(4) > 0 {
        let limit = 16 + cpus * (20 + draw.below(60)) / 100;
        first["spec"]["limits"] = json!({"cpu": limit.to_string()});
    }
    let mut last = pool(
        "last",
        Some(1 + draw.below(40)),
        &json!([linux(), amd64, is_in(CAPACITY_TYPE, &["on-demand"])]),
    );
    if draw.below(3) == 0 {
        // Two pools of one weight, with different families.
        last["spec"]["weight"] = json!(50);
    }
    let mut dedicated = pool("dedicated", Some(10), &json!([linux(), amd64, capacity(draw)]));
    dedicated["spec"]["template"]["metadata"] = json!({"labels": {"example.com/dedicated": "batch"}});
    dedicated["spec"]["template"]["spec"]["taints"] =
        json!([{"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}]);
    vec![first, last, dedicated]
}

fn choose_pool(workload: &mut Workload, draw: &mut Draw) {
    match draw.below(10) {
        0..2 => {
            workload.spec.insert("nodeSelector".into(), json!({"example.com/dedicated": "batch"}));
            workload.spec.insert(
                "tolerations".into(),
                json!([{"key": "example.com/dedicated", "operator": "Exists", "effect": "NoSchedule"}]),
            );
        }
        2 => {
            workload.spec.insert("nodeSelector".into(), json!({CAPACITY_TYPE: "on-demand"}));
        }
        _ => {}
    }
}

fn spread_out(workload: &mut Workload, own: &Value, draw: &mut Draw) {
    let by_zone = |draw: &mut Draw| spread(ZONE, 1 + draw.below(2), "DoNotSchedule", own);
    let by_host = |draw: &mut Draw| spread(HOSTNAME, 1 + draw.below(3), "DoNotSchedule", own);
    let constraints = match draw.below(10) {
        0..4 => vec![by_zone(draw)],
        4..6 => vec![by_host(draw)],
        6..8 => vec![by_zone(draw), by_host(draw)],
        8 => vec![spread(ZONE, 1, "ScheduleAnyway", own)],
        _ => return,
    };
    workload.spec.insert("topologySpreadConstraints".into(), Value::Array(constraints));
}

fn keep_apart(workload: &mut Workload, own: &Value, number: usize, by_zone: bool, draw: &mut Draw) {
    let required = |term: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let affinity = match draw.below(10) {
        0..5 => json!({"podAntiAffinity": required(affinity_term(HOSTNAME, own))}),
        // There are four zones.
        5 if by_zone && workload.replicas <= 3 => {
            json!({"podAntiAffinity": required(affinity_term(ZONE, own))})
        }
        6 if number > 0 => {
            let other = json!({"app": app(draw.below(number as u32) as usize)});
            json!({"podAntiAffinity": required(affinity_term(HOSTNAME, &other))})
        }
        7 if by_zone => json!({"podAffinity": required(affinity_term(ZONE, own))}),
        _ => return,
    };
    workload.spec.insert("affinity".into(), affinity);
}

fn accelerate(workload: &mut Workload, draw: &mut Draw) {
    if draw.below(10) >= 4 {
        return;
    }
    workload.gpus = [1, 1, 1, 1, 2, 4, 8][draw.below(7) as usize];
    workload.replicas = workload.replicas.min(6);
    workload.cpu = (1_000 + 500 * draw.below(6)) * workload.gpus;
    workload.memory = (4_096 + 2_048 * draw.below(5)) * workload.gpus;
    workload
        .spec
        .insert("tolerations".into(), json!([{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(scenario: &Scenario, seed: u64) -> String {
        let mut bytes = Vec::new();
        scenario.write(seed, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn there_are_two_hundred_of_six_families_with_their_number_of_pods() {
        let all = scenarios(false);
        assert!(all.len() >= 200);
        assert_eq!(scenarios(true).len(), 6);
        for scenario in all.iter().filter(|scenario| scenario.number <= 3) {
            let list: Value = serde_json::from_str(&text(scenario, 1)).unwrap();
            let pods = list["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "Pod").count();
            assert_eq!(pods, scenario.pods as usize, "{}", scenario.name());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        for scenario in scenarios(true) {
            assert_eq!(text(&scenario, 5), text(&scenario, 5));
            assert_ne!(text(&scenario, 5), text(&scenario, 6));
        }
    }

    #[test]
    fn families_have_what_they_are_named_for() {
        let of = |family: Family| -> String {
            scenarios(false)
                .iter()
                .filter(|s| s.family == family && s.number < 6)
                .map(|s| text(s, 1))
                .collect()
        };
        for (family, what) in [
            (Family::Spread, "topologySpreadConstraints"),
            (Family::AntiAffinity, "podAntiAffinity"),
            (Family::Pools, "\"weight\":50"),
            (Family::Gpu, GPU),
            (Family::Services, "DaemonSet"),
        ] {
            assert!(of(family).contains(what), "{}: no {what}", family.name());
        }
        assert!(!of(Family::Unconstrained).contains("ffinity"));
    }
}
