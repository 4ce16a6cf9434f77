//! Limit ranges: what containers get that ask for nothing, and the least and most that containers, pods and claims may ask for.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::amounts::{self, Amount, Amounts, containers};
use crate::resources::Resource;
use crate::rest::{Failure, meta_mut, meta_text};
use crate::store::{Listed, ResourceName, Session};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The limit ranges of a namespace.
pub(super) fn of_namespace(session: &Session<'_>, namespace: &str) -> Listed {
    session.list(&ResourceName::new("", "limitranges"), Some(namespace), None)
}

fn items<'r>(range: &'r Value, kind: &'r str) -> impl Iterator<Item = &'r Value> {
    let items = range.pointer("/spec/limits").and_then(Value::as_array).into_iter().flatten();
    items.filter(move |item| item["type"] == kind)
}

/// Containers get the defaults of what they do not say.
pub(super) fn fill(ranges: &Listed, pod: &mut Value) {
    for (_, range) in ranges {
        let mut defaults = json!({"requests": {}, "limits": {}});
        for item in items(range, "Container") {
            for (field, side) in [("defaultRequest", "requests"), ("default", "limits")] {
                for (name, amount) in item.get(field).and_then(Value::as_object).into_iter().flatten() {
                    defaults[side][name] = amount.clone();
                }
            }
        }
        let mut told = Vec::new();
        for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
            let of_list =
                pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
            for container in of_list.into_iter().flatten() {
                for (side, singular) in [("requests", "request"), ("limits", "limit")] {
                    let added = fill_side(container, side, &defaults[side]);
                    if !added.is_empty() {
                        let name = container["name"].as_str().unwrap_or_default();
                        told.push(format!("{} {singular} for {word} {name}", added.join(", ")));
                    }
                }
            }
        }
        if !told.is_empty() {
            let annotations = meta_mut(pod).entry("annotations").or_insert_with(|| json!({}));
            if !annotations.is_object() {
                *annotations = json!({});
            }
            annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", told.join("; ")).into();
        }
    }
}

/// The names of what was added, in order.
fn fill_side(container: &mut Value, side: &str, defaults: &Value) -> Vec<String> {
    let mut added = Vec::new();
    for (name, amount) in defaults.as_object().into_iter().flatten() {
        if container.pointer(&format!("/resources/{side}")).is_some_and(|given| given.get(name).is_some()) {
            continue;
        }
        container["resources"][side][name] = amount.clone();
        added.push(name.clone());
    }
    added
}

/// Whether a new pod or claim keeps within all bounds.
///
/// # Errors
/// It does not; of several ranges the first that it breaks is told.
pub(super) fn check(ranges: &Listed, resource: &Resource, object: &Value) -> Result<(), Failure> {
    for (_, range) in ranges {
        let faults = if resource.is("", "pods") {
            faults_of_pod(range, object)
        } else {
            faults_of_claim(range, object)
        };
        let mut seen = BTreeSet::new();
        let faults: Vec<String> = faults.into_iter().filter(|fault| seen.insert(fault.clone())).collect();
        let message = match faults.as_slice() {
            [] => continue,
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        return Err(Failure::forbidden(resource, meta_text(object, "name"), &message));
    }
    Ok(())
}

/// What somebody asks for.
struct Asked {
    requests: Amounts,
    limits: Amounts,
}

fn faults_of_pod(range: &Value, pod: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for item in range.pointer("/spec/limits").and_then(Value::as_array).into_iter().flatten() {
        match item["type"].as_str() {
            Some(kind @ "Container") => {
                for container in containers(pod, "containers").chain(containers(pod, "initContainers")) {
                    let side = |side: &str| amounts::read(container["resources"].get(side));
                    let asked = Asked { requests: side("requests"), limits: side("limits") };
                    faults.extend(asked.faults(item, kind));
                }
            }
            Some(kind @ "Pod") => {
                let side = |side: &str| amounts::of_pod(pod, side);
                let asked = Asked { requests: side("requests"), limits: side("limits") };
                faults.extend(asked.faults(item, kind));
            }
            _ => {}
        }
    }
    faults
}

fn faults_of_claim(range: &Value, claim: &Value) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    let requests = amounts::read(claim.pointer("/spec/resources/requests"));
    let asked = Asked { requests, limits: Amounts::new() };
    let mut faults = Vec::new();
    for item in items(range, kind) {
        faults.extend(
            amounts::read(item.get("min")).iter().filter_map(|(name, least)| asked.least(kind, name, *least)),
        );
        for (name, most) in amounts::read(item.get("max")) {
            let bound = format!("maximum {name} usage per {kind} is {}", most.written());
            match asked.requests.get(&name) {
                None => faults.push(format!("{bound}.  No request is specified")),
                Some(given) if given.milli() > most.milli() => {
                    faults.push(format!("{bound}, but request is {}", given.written()));
                }
                Some(_) => {}
            }
        }
    }
    faults
}

impl Asked {
    fn faults(&self, item: &Value, kind: &str) -> Vec<String> {
        let of = |field: &str| amounts::read(item.get(field));
        let least = of("min").into_iter().filter_map(|(name, least)| self.least(kind, &name, least));
        let most = of("max").into_iter().filter_map(|(name, most)| self.most(kind, &name, most));
        let ratios = of("maxLimitRequestRatio");
        let ratios = ratios.into_iter().filter_map(|(name, ratio)| self.ratio(kind, &name, ratio));
        least.chain(most).chain(ratios).collect()
    }

    fn least(&self, kind: &str, name: &str, least: Amount) -> Option<String> {
        let bound = format!("minimum {name} usage per {kind} is {}", least.written());
        let below = |given: &&Amount| given.milli() < least.milli();
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{bound}.  No request is specified"));
        };
        if below(&request) {
            return Some(format!("{bound}, but request is {}", request.written()));
        }
        let limit = self.limits.get(name).filter(below)?;
        Some(format!("{bound}, but limit is {}", limit.written()))
    }

    fn most(&self, kind: &str, name: &str, most: Amount) -> Option<String> {
        let bound = format!("maximum {name} usage per {kind} is {}", most.written());
        let above = |given: &&Amount| given.milli() > most.milli();
        let Some(limit) = self.limits.get(name) else {
            return Some(format!("{bound}.  No limit is specified"));
        };
        if above(&limit) {
            return Some(format!("{bound}, but limit is {}", limit.written()));
        }
        let request = self.requests.get(name).filter(above)?;
        Some(format!("{bound}, but request is {}", request.written()))
    }

    fn ratio(&self, kind: &str, name: &str, most: Amount) -> Option<String> {
        let bound = format!("{name} max limit to request ratio per {kind} is {}", most.written());
        let given = |side: &Amounts| side.get(name).map(|amount| amount.milli()).filter(|milli| *milli != 0);
        let Some(request) = given(&self.requests) else {
            return Some(format!("{bound}, but no request is specified or request is 0"));
        };
        let Some(limit) = given(&self.limits) else {
            return Some(format!("{bound}, but no limit is specified or limit is 0"));
        };
        #[allow(
            clippy::cast_precision_loss,
            reason = "a ratio is shown and compared as Kubernetes does, in floating point"
        )]
        let (ratio, most) = (limit as f64 / request as f64, most.milli() as f64);
        (ratio * 1000.0 > most).then(|| format!("{bound}, but provided ratio is {ratio:.6}"))
    }
}
