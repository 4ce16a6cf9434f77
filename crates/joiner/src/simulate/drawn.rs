//! A cluster, what people do to it, and what goes wrong, all drawn from a seed.
//!
//! For a while there is trouble: workloads come, grow and shrink, people and other controllers meddle, joiner's process dies, calls fail. Then all that is over, and the
//! rest of the time the cluster comes to rest. Invariants are watched all the time; in the end it must be as if there had been no trouble.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use joiner_provider::Clock as _;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::simulate::happening::{is_leaving, key, text};
use crate::simulate::outside::Trouble;
use crate::simulate::play::Process;
use crate::simulate::rest;
use crate::simulate::runs::{Outcome, in_virtual_time, rests};
use crate::simulate::scenario::pool;
use crate::simulate::stage::{Stage, begin};
use crate::simulate::weather::{Spell, Weather};

/// The last part of the time belongs to peace: longer than a machine may take before it is given up, and than an offering is left alone.
const PEACE: Duration = Duration::from_secs(35 * 60);

/// Something that somebody does.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// A service gets so many replicas.
    Scale(usize, u32),
    /// Somebody deletes a pod.
    DeletePod,
    /// Somebody evicts a pod.
    EvictPod,
    /// Somebody deletes a claim.
    DeleteClaim,
    /// Somebody deletes a node.
    DeleteNode,
    /// A kubelet falls silent.
    Silence,
    /// Another controller taints a node.
    Taint,
    /// Somebody takes labels from a node that joiner put there.
    Unlabel,
    /// The clock on the wall is set by so many seconds.
    SetClock(i64),
    /// The server forgets its history: watches begin anew.
    Forget,
    /// The process dies and comes back after so many seconds.
    Crash(u64),
    /// The process is asked to end and comes back after so many seconds.
    Stop(u64),
    /// The cloud has accidents.
    Chaos(Value),
    /// The limited pool gets another limit.
    Limit(u32),
}

/// What a seed makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// Its seed.
    pub seed: u64,
    /// Objects that are there from the beginning.
    pub objects: Vec<Value>,
    /// What is done when, in the order of time.
    pub deeds: Vec<(Duration, Deed)>,
    /// What goes wrong when.
    pub spells: Vec<Spell>,
    /// How long there is trouble.
    pub trouble: Duration,
    /// How long the whole takes.
    pub length: Duration,
}

impl Drawn {
    /// Draws a run of so many hours, the last 35 minutes of which are peace.
    pub fn new(seed: u64, hours: f64) -> Self {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let length = Duration::from_secs_f64(hours.clamp(0.75, 24.0 * 365.0) * 3600.0);
        let trouble = length.saturating_sub(PEACE);
        let (objects, services) = objects(&mut chance);
        let rate = trouble.as_secs() / 60;
        let count = chance.random_range(rate / 2..=rate.max(2) * 3 / 2);
        let mut deeds: Vec<(Duration, Deed)> = (0..count)
            .map(|_| {
                let at = Duration::from_millis(
                    chance.random_range(0..u64::try_from(trouble.as_millis()).unwrap_or(1).max(1)),
                );
                (at, deed(&mut chance, services))
            })
            .collect();
        deeds.sort_by_key(|(at, _)| *at);
        let spells = Weather::draw(&mut chance, begin(), trouble);
        Self { seed, objects, deeds, spells, trouble, length }
    }

    /// Lives it. Says what came of it, and how many calls met a fault; with a trace, every single thing that happened, too.
    ///
    /// # Errors
    /// The cluster cannot be set up.
    pub fn live(&self, keep_trace: bool) -> anyhow::Result<(Outcome, usize, Vec<String>)> {
        let settings = crate::commands::run::settings_of(&[], self.seed)?;
        in_virtual_time(async || {
            let (stage, mut world) = Stage::new(settings, self.seed, Trouble::Nothing)?;
            let weather = Weather::new(stage.clock.clone(), self.spells.clone(), self.seed);
            let weather = Arc::new(Mutex::new(weather));
            stage.set_trouble(Trouble::Weather(weather.clone()));
            if keep_trace {
                stage.referee.keep_trace();
            }
            let script = async {
                let failure = self.script(&stage).await.err().map(|error| crate::report::chain(&error));
                stage.referee.look();
                Outcome {
                    failure,
                    violations: stage.referee.violations(),
                    rest: rest::summary(&stage.referee.cluster()),
                    calls: stage.referee.calls().values().sum(),
                    claims_made: stage.referee.claims_made(),
                    met: None,
                }
            };
            let outcome = tokio::select! {
                biased;
                outcome = script => outcome,
                () = world.run() => unreachable!("a world lives until it is dropped"),
                () = stage.tend() => unreachable!("it tends for ever"),
            };
            stage.kill().await?;
            let met = weather.lock().unwrap_or_else(std::sync::PoisonError::into_inner).met;
            Ok((outcome, met, stage.referee.trace()))
        })
    }

    async fn script(&self, stage: &Stage) -> anyhow::Result<()> {
        let mut chance = ChaCha8Rng::seed_from_u64(self.seed ^ 0x5eed);
        for object in &self.objects {
            stage.hands.apply(object).await?;
        }
        stage.start().await?;
        for (at, deed) in &self.deeds {
            stage.clock.sleep_until(begin() + SignedDuration::try_from(*at)?).await;
            self.act(stage, deed, &mut chance).await?;
        }
        stage.clock.sleep_until(begin() + SignedDuration::try_from(self.trouble)?).await;
        self.make_peace(stage).await?;
        stage.clock.sleep_until(begin() + SignedDuration::try_from(self.length)?).await;
        let events = stage.hands.list("Event").await?;
        let told: BTreeSet<&str> = events
            .iter()
            .filter(|event| {
                event["reason"] == "FailedScheduling" && event["source"]["component"] == "karpenter"
            })
            .map(|event| text(&event["involvedObject"]["uid"]))
            .collect();
        let is_servable = |pod: &Value| pod["metadata"]["labels"]["served"] == "always";
        let is_told = |pod: &Value| told.contains(text(&pod["metadata"]["uid"]));
        let cluster = stage.referee.cluster();
        let wall = joiner_provider::Clock::now(&stage.wall);
        for (invariant, text) in rest::problems(&cluster, wall, is_servable, is_told) {
            stage.referee.found(invariant, text);
        }
        rests(stage).await;
        Ok(())
    }

    /// No more trouble: whatever was broken on purpose is mended.
    async fn make_peace(&self, stage: &Stage) -> anyhow::Result<()> {
        stage.set_trouble(Trouble::Nothing);
        let class = json!({"kind": "KWOKNodeClass", "metadata": {"name": "default"}});
        stage.hands.patch(&class, &json!({"spec": {"chaos": null}})).await?;
        for node in stage.hands.list("Node").await? {
            stage
                .hands
                .patch(&node, &json!({"metadata": {"annotations": {"joiner.sh/kubelet": null}}}))
                .await?;
        }
        stage.start().await
    }

    async fn act(&self, stage: &Stage, deed: &Deed, chance: &mut ChaCha8Rng) -> anyhow::Result<()> {
        let hands = &stage.hands;
        let mut one_of = async |kind: &str| -> anyhow::Result<Option<Value>> {
            let mut all = hands.list(kind).await?;
            all.retain(|object| !is_leaving(object));
            all.sort_by_key(key);
            let at = chance.random_range(0..all.len().max(1));
            Ok((at < all.len()).then(|| all.swap_remove(at)))
        };
        match deed {
            Deed::Scale(service, replicas) => {
                hands.scale("Deployment", &format!("app-{service}"), *replicas).await?;
            }
            Deed::DeletePod => {
                if let Some(pod) = one_of("Pod").await? {
                    hands.delete(&pod).await?;
                }
            }
            Deed::EvictPod => {
                if let Some(pod) = one_of("Pod").await? {
                    // Two budgets on a pod, or one that says no: nothing happens.
                    let _ = hands.evict(&pod).await;
                }
            }
            Deed::DeleteClaim => {
                if let Some(claim) = one_of("NodeClaim").await? {
                    hands.delete(&claim).await?;
                }
            }
            Deed::DeleteNode => {
                if let Some(node) = one_of("Node").await? {
                    hands.delete(&node).await?;
                }
            }
            Deed::Silence => {
                if let Some(node) = one_of("Node").await? {
                    let silent = json!({"metadata": {"annotations": {"joiner.sh/kubelet": "stopped"}}});
                    hands.patch(&node, &silent).await?;
                }
            }
            Deed::Taint => {
                if let Some(node) = one_of("Node").await? {
                    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                    taints.push(json!({"key": "example.com/other", "effect": "NoSchedule"}));
                    // Whoever was faster has tainted it already.
                    let _ = hands.patch(&node, &json!({"spec": {"taints": taints}})).await;
                }
            }
            Deed::Unlabel => {
                if let Some(node) = one_of("Node").await? {
                    let labels = json!({"karpenter.kwok.sh/kwoknodeclass": null});
                    hands.patch(&node, &json!({"metadata": {"labels": labels}})).await?;
                }
            }
            Deed::SetClock(seconds) => stage.wall.set(*seconds),
            Deed::Forget => {
                stage.referee.look();
                stage.server.forget_history();
            }
            Deed::Crash(away) => {
                stage.kill().await?;
                stage.clock.sleep(Duration::from_secs(*away)).await;
                stage.start().await?;
            }
            Deed::Stop(away) => {
                stage.stop().await?;
                stage.clock.sleep(Duration::from_secs(*away)).await;
                stage.start().await?;
            }
            Deed::Chaos(chaos) => {
                let class = json!({"kind": "KWOKNodeClass", "metadata": {"name": "default"}});
                hands.patch(&class, &json!({"spec": {"chaos": chaos}})).await?;
            }
            Deed::Limit(cpu) => {
                let limited = json!({"kind": "NodePool", "metadata": {"name": "limited"}});
                hands.patch(&limited, &json!({"spec": {"limits": {"cpu": cpu.to_string()}}})).await?;
            }
        }
        Ok(())
    }
}

fn deed(chance: &mut ChaCha8Rng, services: usize) -> Deed {
    match chance.random_range(0..100) {
        0..44 => Deed::Scale(chance.random_range(0..services), chance.random_range(0..14)),
        44..50 => Deed::DeletePod,
        50..55 => Deed::EvictPod,
        55..62 => Deed::DeleteClaim,
        62..67 => Deed::DeleteNode,
        67..71 => Deed::Silence,
        71..74 => Deed::Taint,
        74..77 => Deed::Unlabel,
        77..79 => Deed::SetClock(if chance.random_bool(0.5) { 3600 } else { -3600 }),
        79..83 => Deed::Forget,
        83..89 => Deed::Crash(chance.random_range(0..40)),
        89..91 => Deed::Stop(chance.random_range(0..40)),
        91..97 => {
            let percent = [0, 20, 60, 100][chance.random_range(0..4)];
            Deed::Chaos(match chance.random_range(0..3) {
                0 => json!({"launchFailurePercent": percent}),
                1 => json!({"noCapacityPercent": percent}),
                _ => json!({"neverRegisterPercent": percent / 2}),
            })
        }
        _ => Deed::Limit(chance.random_range(0..40)),
    }
}

/// Pools, a class and services. Services of the general pool can always be served.
fn objects(chance: &mut ChaCha8Rng) -> (Vec<Value>, usize) {
    let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let requirements = json!([
        requirement("kubernetes.io/os", &["linux"]),
        requirement("kubernetes.io/arch", &["amd64"]),
        requirement("karpenter.sh/capacity-type", &["spot", "on-demand"]),
        requirement("karpenter.kwok.sh/instance-cpu", &["2", "4", "8"]),
    ]);
    let after = ["20s", "1m", "4m"][chance.random_range(0..3)];
    let nodes = ["100%", "50%", "1"][chance.random_range(0..3)];
    let grace = [Value::Null, json!("90s")][chance.random_range(0..2)].clone();
    let disruption = json!({"consolidateAfter": after, "budgets": [{"nodes": nodes}]});
    let general = json!({"spec": {
        "template": {"spec": {"requirements": requirements, "terminationGracePeriod": grace}}, "disruption": disruption,
    }});
    let taint = json!([{"key": "example.com/limited", "effect": "NoSchedule"}]);
    let limited = json!({"spec": {
        "limits": {"cpu": chance.random_range(0..40).to_string()},
        "template": {"spec": {"requirements": requirements, "taints": taint}}, "disruption": disruption,
    }});
    let broken = json!({"spec": {"weight": 80, "template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}}});
    let delay = ["0s", "5s", "40s"][chance.random_range(0..3)];
    let class = json!({"nodeRegistrationDelay": delay, "nodeRegistrationDelayJitter": "10s"});
    let mut objects = vec![
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": class}),
        pool("general", &general),
        pool("limited", &limited),
        pool("broken", &broken),
    ];
    let services = chance.random_range(2..=5);
    for number in 0..services {
        objects.extend(service(number, chance));
    }
    let huge = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "huge", "namespace": "default", "labels": {"app": "huge", "served": "never"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "4000"}}}]},
    });
    objects.push(huge);
    (objects, services)
}

fn service(number: usize, chance: &mut ChaCha8Rng) -> Vec<Value> {
    let app = format!("app-{number}");
    let is_limited = chance.random_bool(0.2);
    let cpu = ["200m", "500m", "1", "1500m"][chance.random_range(0..4)];
    let mut labels = json!({"app": app});
    let mut spec = json!({
        "terminationGracePeriodSeconds": chance.random_range(0..5),
        "containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}],
    });
    if is_limited {
        labels["served"] = "perhaps".into();
        spec["tolerations"] = json!([{"key": "example.com/limited", "operator": "Exists"}]);
        spec["nodeSelector"] = json!({"karpenter.sh/nodepool": "limited"});
    } else {
        labels["served"] = "always".into();
    }
    let selector = json!({"matchLabels": {"app": app}});
    match chance.random_range(0..5) {
        0 => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector, "matchLabelKeys": ["pod-template-hash"],
            }]);
        }
        1 => {
            let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
            spec["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        _ => {}
    }
    let mut metadata = json!({"labels": labels});
    if chance.random_bool(0.1) {
        metadata["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    }
    let mut objects = vec![json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "replicas": chance.random_range(0..8), "selector": selector, "template": {"metadata": metadata, "spec": spec},
        },
    })];
    if chance.random_bool(0.4) {
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
            "spec": {"maxUnavailable": chance.random_range(0..3), "selector": selector},
        }));
    }
    objects
}
