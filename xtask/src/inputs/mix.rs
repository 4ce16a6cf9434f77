//! The pods of the original's scheduling benchmark, drawn once to a file so that both programs get the same.

use anyhow::Result;
use serde_json::{Value, json};

use super::Sink;
use super::draw::Draw;
use super::objects::{HOSTNAME, ZONE, affinity_term, is_in, pod, pool, spread};

const CPU: [&str; 5] = ["100m", "250m", "500m", "1", "1500m"];
const MEMORY: [&str; 6] = ["100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi"];
const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// From so many pods on the original's limits (10M CPUs, 10M Gi) would bind: every open machine holds the largest type it may still
/// become, and AWS sells one of 896 CPUs and 24 TiB.
const LIMITS_BIND_FROM: u32 = 50_000;

/// A fifth each of plain pods, zone spread, host spread, zone self-affinity and host anti-affinity; the rest plain.
pub fn write(pods: u32, draw: &mut Draw, sink: &mut Sink) -> Result<()> {
    let mut pool = pool("default", None, &json!([]));
    if LIMITS_BIND_FROM <= pods {
        pool["spec"]["limits"] = json!({"cpu": "1000000000", "memory": "1000000000Gi"});
    }
    sink(pool)?;
    let fifth = pods / 5;
    let mut number = 0;
    for _ in 0..fifth {
        sink(plain(&mut number, draw))?;
    }
    for key in [ZONE, HOSTNAME] {
        for _ in 0..fifth {
            let mut pod = plain(&mut number, draw);
            let watched = json!({"my-label": draw.pick(&LETTERS)});
            pod["spec"]["topologySpreadConstraints"] = json!([spread(key, 1, "DoNotSchedule", &watched)]);
            sink(pod)?;
        }
    }
    for _ in 0..fifth {
        // The label is spelled as in the original's benchmark.
        let labels = json!({"my-affininity": draw.pick(&LETTERS)});
        let mut pod = sized(&mut number, &labels, draw);
        pod["spec"]["affinity"] = json!({"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(ZONE, &labels)],
        }});
        sink(pod)?;
    }
    let nginx = json!({"app": "nginx"});
    for _ in 0..fifth {
        let mut pod = sized(&mut number, &nginx, draw);
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(HOSTNAME, &nginx)],
        }});
        sink(pod)?;
    }
    while number < pods {
        sink(plain(&mut number, draw))?;
    }
    Ok(())
}

/// Equal pods that prefer a zone, prefer to be alone in their zone (which cannot hold) and on their host.
pub fn write_preferences(pods: u32, draw: &mut Draw, sink: &mut Sink) -> Result<()> {
    sink(pool("default", None, &json!([])))?;
    let (cpu, memory) = (draw.pick(&CPU), draw.pick(&MEMORY));
    let nginx = json!({"app": "nginx"});
    for number in 0..pods {
        let mut pod = pod(&name(number), &draw.uid(), &nginx, cpu, memory);
        pod["spec"]["affinity"] = json!({
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [is_in(ZONE, &["test-zone-1"])]}},
            ]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": affinity_term(ZONE, &nginx)},
                {"weight": 1, "podAffinityTerm": affinity_term(HOSTNAME, &nginx)},
            ]},
        });
        sink(pod)?;
    }
    Ok(())
}

fn plain(number: &mut u32, draw: &mut Draw) -> Value {
    let labels = json!({"my-label": draw.pick(&LETTERS)});
    sized(number, &labels, draw)
}

fn sized(number: &mut u32, labels: &Value, draw: &mut Draw) -> Value {
    let (cpu, memory) = (draw.pick(&CPU), draw.pick(&MEMORY));
    let pod = pod(&name(*number), &draw.uid(), labels, cpu, memory);
    *number += 1;
    pod
}

fn name(number: u32) -> String {
    format!("pod-{number:06}")
}
