//! Workloads turned into the pods their controllers would make: `NAME-0` up to `NAME-(n-1)`.

use serde_json::{Map, Value, json};

use super::field::{at, list, required, text, whole};

/// Pods of a workload and the claims made for them (`namespace/name` → claim).
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub pods: Vec<Value>,
    pub claims: Vec<(String, Value)>,
}

/// Expands a Deployment, ReplicaSet, ReplicationController, StatefulSet, Job or CronJob; nothing for other kinds and for workloads another one controls.
pub(super) fn expand(object: &Value) -> Result<Expanded, String> {
    let mut expanded = Expanded::default();
    let owners = list(object, &["metadata", "ownerReferences"])?;
    if owners.iter().any(|owner| at(owner, &["controller"]).and_then(Value::as_bool) == Some(true)) {
        return Ok(expanded);
    }
    let (template, count) = match text(object, &["kind"]).unwrap_or_default() {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => {
            (at(object, &["spec", "template"]), whole(object, &["spec", "replicas"])?.unwrap_or(1))
        }
        "Job" => (at(object, &["spec", "template"]), at_once(at(object, &["spec"]))?),
        "CronJob" => {
            let run = at(object, &["spec", "jobTemplate", "spec"]);
            let suspended = at(object, &["spec", "suspend"]).and_then(Value::as_bool) == Some(true);
            (run.and_then(|run| at(run, &["template"])), if suspended { 0 } else { at_once(run)? })
        }
        _ => return Ok(expanded),
    };
    let template = template.ok_or("the pod template is missing")?;
    let name = required(object, &["metadata", "name"])?;
    let namespace = text(object, &["metadata", "namespace"]).unwrap_or("default");
    let claims = match text(object, &["kind"]) {
        Some("StatefulSet") => list(object, &["spec", "volumeClaimTemplates"])?,
        _ => &[],
    };
    for index in 0..count {
        let pod_name = format!("{name}-{index}");
        let mut pod = from_template(template, namespace, &pod_name)?;
        if text(object, &["kind"]) == Some("Deployment") {
            // Only whether two are equal matters: the template itself stands for its hash.
            pod["metadata"]["labels"]["pod-template-hash"] = template.to_string().into();
        }
        pod["metadata"]["ownerReferences"] =
            json!([{ "kind": object["kind"], "name": name, "controller": true }]);
        for claim in claims {
            let volume = required(claim, &["metadata", "name"])?;
            let claim_name = format!("{volume}-{pod_name}");
            mount(&mut pod, volume, &claim_name);
            expanded.claims.push((format!("{namespace}/{claim_name}"), as_if_bound(claim)));
        }
        expanded.pods.push(pod);
    }
    Ok(expanded)
}

/// A pod object made of a template.
pub(super) fn from_template(template: &Value, namespace: &str, name: &str) -> Result<Value, String> {
    let spec = at(template, &["spec"]).ok_or("the pod template has no `spec`")?;
    let labels = at(template, &["metadata", "labels"]).cloned().unwrap_or_else(|| Value::Object(Map::new()));
    Ok(json!({ "metadata": { "namespace": namespace, "name": name, "labels": labels }, "spec": spec }))
}

/// A claim made of a template; if that names a volume, the claim will be bound to it by the time its pod is scheduled.
fn as_if_bound(template: &Value) -> Value {
    let mut claim = template.clone();
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
    claim
}

/// How many pods of a job run at the same time.
fn at_once(job: Option<&Value>) -> Result<i64, String> {
    let Some(job) = job else { return Ok(0) };
    if at(job, &["suspend"]).and_then(Value::as_bool) == Some(true) {
        return Ok(0);
    }
    let parallelism = whole(job, &["parallelism"])?.unwrap_or(1);
    Ok(whole(job, &["completions"])?.map_or(parallelism, |completions| completions.min(parallelism)))
}

/// Adds the volume of a claim template; it wins over a volume of the same name in the pod template.
fn mount(pod: &mut Value, volume: &str, claim: &str) {
    let entry = json!({ "name": volume, "persistentVolumeClaim": { "claimName": claim } });
    let spec = &mut pod["spec"];
    match spec.get_mut("volumes").and_then(Value::as_array_mut) {
        Some(volumes) => {
            volumes.retain(|existing| text(existing, &["name"]) != Some(volume));
            volumes.push(entry);
        }
        None => spec["volumes"] = json!([entry]),
    }
}
