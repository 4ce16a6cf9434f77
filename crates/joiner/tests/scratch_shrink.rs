//! Scratch.
#![allow(missing_docs, dead_code, clippy::all)]
#[path = "planner/support.rs"]
mod support;
use joiner_oracle::generate::{Size, cluster};
use joiner_oracle::scheduler::{self, outcome_to_plan};
use joiner_oracle::world::World;
use serde_json::Value;

fn essence(plan: &Value) -> (Vec<String>, Vec<String>) {
    let mut nodes: Vec<String> = plan["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let mut pods: Vec<&str> =
                node["pods"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            pods.sort_unstable();
            let place = if node["existing"] == true {
                format!("existing {}", node["name"])
            } else {
                format!(
                    "{} {} {} {} {}",
                    node["nodePool"].as_str().unwrap_or(""),
                    node["instanceType"].as_str().unwrap_or(""),
                    node["zone"].as_str().unwrap_or(""),
                    node["capacityType"].as_str().unwrap_or(""),
                    node["instanceTypeOptions"]
                )
            };
            format!("{place}: {}", pods.join(" "))
        })
        .collect();
    nodes.sort_unstable();
    let mut refused: Vec<String> = plan["unschedulable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["pod"].as_str().unwrap_or("").to_owned())
        .collect();
    refused.sort_unstable();
    (nodes, refused)
}

fn differ(manifests: &[Value], types: &[Value], respect: bool, strict: bool) -> Option<String> {
    let world = match World::from_manifests(manifests, types) {
        Ok(w) => w,
        Err(e) => {
            if std::env::var("LOUD").is_ok() {
                println!("BAD {e}");
            }
            return None;
        }
    };
    let options = scheduler::Options { respect_preferences: respect, strict_min_values: strict };
    let expected = outcome_to_plan(&world, &scheduler::schedule(&world, &options));
    let mut extra = vec!["--no-lower-bound"];
    if !respect {
        extra.push("--preference-policy=Ignore");
    }
    if !strict {
        extra.push("--min-values-policy=BestEffort");
    }
    let plan = match joiner_provider_kwok::Catalogue::from_text_with(
        "types.json",
        &serde_json::to_string(types).unwrap(),
        joiner_provider_kwok::Availability::AsWritten,
    )
    .map_err(|e| e.to_string())
    .and_then(|c| support::plan_on(manifests, &c, &extra))
    {
        Ok(w) => w,
        Err(e) => {
            if std::env::var("LOUD").is_ok() {
                println!("BADP {e}");
            }
            return None;
        }
    };
    let (a, b) = (essence(&expected), essence(&plan));
    if a != b {
        let only = |a: &[String], b: &[String]| {
            a.iter().filter(|x| !b.contains(x)).cloned().collect::<Vec<_>>().join("\n    ")
        };
        return Some(format!(
            "only the oracle:\n    {}\n    refused {:?}\n  only the planner:\n    {}\n    refused {:?}",
            only(&a.0, &b.0),
            a.1,
            only(&b.0, &a.0),
            b.1
        ));
    }
    let policy = joiner_oracle::checker::Policy { best_effort_min_values: !strict };
    let v = joiner_oracle::checker::check_with(&world, &plan, policy);
    if !v.is_empty() {
        return Some(format!("checker {v:?}"));
    }
    None
}

struct R(u64);
impl R {
    fn n(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut m = self.0;
        m = (m ^ (m >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        m = (m ^ (m >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        m ^ (m >> 31)
    }
    fn c(&mut self, p: u64) -> bool {
        self.n() % 100 < p
    }
    fn p<'a>(&mut self, l: &[&'a str]) -> &'a str {
        l[(self.n() % l.len() as u64) as usize]
    }
}

fn keys(v: &mut Value, r: &mut R) {
    match v {
        Value::Object(m) => {
            for (k, v) in m.iter_mut() {
                if k == "topologyKey" && r.c(30) {
                    *v = r
                        .p(&[
                            "kubernetes.io/arch",
                            "node.kubernetes.io/instance-type",
                            "topology.kubernetes.io/region",
                            "karpenter.sh/nodepool",
                            "kubernetes.io/os",
                            "karpenter.kwok.sh/instance-family",
                            "example.com/team",
                            "example.com/tier",
                            "example.com/rack",
                            "topology.kubernetes.io/zone",
                            "node.kubernetes.io/windows-build",
                        ])
                        .into();
                } else {
                    keys(v, r)
                }
            }
        }
        Value::Array(l) => {
            for v in l {
                keys(v, r)
            }
        }
        _ => {}
    }
}

fn mutate(seed: u64, manifests: &mut Vec<Value>, types: &mut Vec<Value>) {
    if std::env::var("MUT").is_err() {
        return;
    }
    let r = &mut R(seed ^ 0xabcdef);
    if r.c(30) {
        let text = serde_json::to_string(manifests).unwrap().replace("\"data\"", "\"shop-b\"");
        *manifests = serde_json::from_str(&text).unwrap();
    }
    let (daemons, topo, pools, offers, nodes, pods, neg) =
        (r.c(20), r.c(40), r.c(40), r.c(30), r.c(20), r.c(40), r.c(10));
    for m in manifests.iter_mut() {
        let kind = m["kind"].as_str().unwrap_or("").to_owned();
        match kind.as_str() {
            "DaemonSet" if daemons => {
                let text = m
                    .to_string()
                    .replace("\"250m\"", "\"3\"")
                    .replace("\"100m\"", "\"1500m\"")
                    .replace("\"50m\"", "\"900m\"");
                *m = serde_json::from_str(&text).unwrap();
            }
            "NodePool" if pools => {
                let reqs = m["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap();
                let has = |reqs: &Vec<Value>, k: &str| reqs.iter().any(|r| r["key"] == k);
                if r.c(30) && !has(reqs, "example.com/team") {
                    reqs.push(serde_json::json!({"key": "example.com/team", "operator": r.p(&["Exists", "DoesNotExist"])}));
                }
                if r.c(30) && !has(reqs, "topology.kubernetes.io/region") {
                    reqs.push(serde_json::json!({"key": "topology.kubernetes.io/region", "operator": "In", "values": ["ra", "rb"]}));
                }
                if r.c(30) {
                    reqs.push(serde_json::json!({"key": "example.com/tier", "operator": "In", "values": ["ra", "rb"], "minValues": 2}));
                }
                if r.c(20) {
                    reqs.push(serde_json::json!({"key": "karpenter.sh/capacity-type", "operator": "Exists", "minValues": 2}));
                }
                if r.c(20) {
                    reqs.push(serde_json::json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}));
                }
            }
            "Node" if nodes => {
                if r.c(30) {
                    m["status"]["allocatable"]["cpu"] = "100m".into();
                }
                if r.c(20) {
                    m["status"]["allocatable"].as_object_mut().unwrap().remove("memory");
                }
            }
            "CSINode" if nodes => {
                m["spec"]["drivers"][0]["allocatable"]["count"] = (r.n() % 2).into();
            }
            "Deployment" | "StatefulSet" | "Job" if pods => {
                let spec = &mut m["spec"]["template"]["spec"];
                if r.c(30) && spec["nodeSelector"].is_null() {
                    spec["nodeSelector"] =
                        serde_json::json!({"kubernetes.io/arch": r.p(&["amd64", "arm64"])});
                } else if r.c(20) && spec["nodeSelector"].is_null() {
                    spec["nodeSelector"] =
                        serde_json::json!({"kubernetes.io/os": r.p(&["linux", "windows"])});
                } else if r.c(20) && spec["nodeSelector"].is_null() {
                    spec["nodeSelector"] = serde_json::json!({"example.com/team": r.p(&["red", "blue"])});
                }
                if r.c(30) {
                    spec["topologySpreadConstraints"] = serde_json::json!([{"maxSkew": 1, "topologyKey": r.p(&["topology.kubernetes.io/zone", "kubernetes.io/hostname", "karpenter.sh/capacity-type"]), "whenUnsatisfiable": r.p(&["DoNotSchedule", "ScheduleAnyway"]), "labelSelector": {}}]);
                }
            }
            _ => {}
        }
        if topo {
            keys(m, r);
        }
    }
    for t in types.iter_mut() {
        if neg && r.c(20) {
            t.as_object_mut().unwrap().remove("architecture");
        }
        if neg && r.c(30) {
            t["resources"]["cpu"] = "50m".into();
        }
        if offers {
            let zoneless = r.c(20);
            for o in t["offerings"].as_array_mut().unwrap() {
                if r.c(15) {
                    o["Available"] = false.into();
                }
                if zoneless {
                    o["Requirements"]
                        .as_array_mut()
                        .unwrap()
                        .retain(|q| q["key"] != "topology.kubernetes.io/zone");
                }
            }
        }
    }
}

fn size() -> Size {
    match std::env::var("SIZE").as_deref() {
        Ok("tiny") => Size::Tiny,
        Ok("large") => Size::Large,
        _ => Size::Small,
    }
}

#[test]
fn list() {
    let text = std::env::var("SEEDS").unwrap();
    let (a, b) = text.split_once("..").unwrap();
    for seed in a.parse::<u64>().unwrap()..b.parse::<u64>().unwrap() {
        let mut g = cluster(seed, size());
        mutate(seed, &mut g.manifests, &mut g.types);
        if differ(&g.manifests, &g.types, seed % 3 != 0, seed % 4 != 0).is_some() {
            use std::io::Write;
            println!("DIFF {seed}");
            let _ = std::io::stdout().flush();
        }
    }
}

/// All ways to remove one child somewhere in the value, at least as deep as useful.
fn paths(value: &Value, here: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (k, v) in map {
                here.push(k.clone());
                if !matches!(k.as_str(), "kind" | "apiVersion" | "name" | "namespace" | "uid")
                    || here.len() < 2
                {
                    if here.len() > 1 || k == "spec" || k == "status" {
                        out.push(here.clone());
                    }
                }
                paths(v, here, out);
                here.pop();
            }
        }
        Value::Array(list) => {
            for (i, v) in list.iter().enumerate() {
                here.push(i.to_string());
                out.push(here.clone());
                paths(v, here, out);
                here.pop();
            }
        }
        _ => {}
    }
}

fn removed(value: &Value, path: &[String]) -> Option<Value> {
    let mut copy = value.clone();
    let mut at = &mut copy;
    for step in &path[..path.len() - 1] {
        at = match at {
            Value::Object(m) => m.get_mut(step)?,
            Value::Array(l) => l.get_mut(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    let last = &path[path.len() - 1];
    match at {
        Value::Object(m) => {
            m.remove(last)?;
        }
        Value::Array(l) => {
            let i = last.parse::<usize>().ok()?;
            if i >= l.len() {
                return None;
            }
            l.remove(i);
        }
        _ => return None,
    }
    Some(copy)
}

#[test]
fn shrink() {
    let seed: u64 = std::env::var("SEED").unwrap().parse().unwrap();
    let mut g = cluster(seed, size());
    mutate(seed, &mut g.manifests, &mut g.types);
    let (respect, strict) = (seed % 3 != 0, seed % 4 != 0);
    let (mut manifests, mut types) = (g.manifests, g.types);
    let bad = |m: &[Value], t: &[Value]| {
        m.iter().any(|m| m["kind"] == "NodePool")
            && std::panic::catch_unwind(|| differ(m, t, respect, strict)).unwrap_or(None).is_some()
    };
    if !bad(&manifests, &types) {
        println!("SAME {seed}");
        return;
    }
    loop {
        let mut progress = false;
        let mut chunk = manifests.len() / 2;
        while chunk > 0 {
            let mut i = 0;
            while i + chunk <= manifests.len() {
                let mut fewer = manifests.clone();
                fewer.drain(i..i + chunk);
                if bad(&fewer, &types) {
                    manifests = fewer;
                    progress = true;
                } else {
                    i += chunk;
                }
            }
            chunk /= 2;
        }
        let mut i = 0;
        while i < types.len() {
            let mut fewer = types.clone();
            fewer.remove(i);
            if bad(&manifests, &fewer) {
                types = fewer;
                progress = true;
            } else {
                i += 1;
            }
        }
        for which in 0..2 {
            let count = if which == 0 { manifests.len() } else { types.len() };
            for i in 0..count {
                loop {
                    let mut all = Vec::new();
                    let current = if which == 0 { manifests[i].clone() } else { types[i].clone() };
                    paths(&current, &mut Vec::new(), &mut all);
                    if which == 1 {
                        all.retain(|p| p.len() == 2 && p[0] == "offerings");
                    }
                    all.retain(|p| {
                        !matches!(
                            p.last().unwrap().as_str(),
                            "operator"
                                | "topologyKey"
                                | "whenUnsatisfiable"
                                | "maxSkew"
                                | "key"
                                | "nodeClassRef"
                                | "weight"
                                | "effect"
                                | "labelSelector"
                                | "selector"
                                | "template"
                                | "requirements"
                                | "containers"
                        )
                    });
                    all.sort_by_key(|p| p.len());
                    all.reverse();
                    all.sort_by_key(|p| p.len());
                    let mut any = false;
                    let mut now = current;
                    for p in all {
                        let Some(less) = removed(&now, &p) else { continue };
                        let ok = if which == 0 {
                            let mut m = manifests.clone();
                            m[i] = less.clone();
                            bad(&m, &types)
                        } else {
                            let mut t = types.clone();
                            t[i] = less.clone();
                            bad(&manifests, &t)
                        };
                        if ok {
                            now = less;
                            any = true;
                            if which == 0 {
                                manifests[i] = now.clone();
                            } else {
                                types[i] = now.clone();
                            }
                        }
                    }
                    if !any {
                        break;
                    }
                    progress = true;
                }
            }
        }
        if !progress {
            break;
        }
    }
    println!("=== seed {seed} respect={respect} strict={strict}");
    for m in &manifests {
        println!("{m}");
    }
    println!("--- types");
    for m in &types {
        println!("{m}");
    }
    println!("--- {}", differ(&manifests, &types, respect, strict).unwrap());
}
