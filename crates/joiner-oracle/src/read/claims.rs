//! Volumes of a pod: which claim, which driver, and where the data can be reached. A broken claim refuses the pod.

use std::collections::BTreeMap;

use serde_json::Value;

use super::expressions::{node_expressions, one_of};
use super::field::{at, labels, list, stable_key, strings, text};
use crate::world::{Expr, Volume};

/// Storage objects by name (`namespace/name` for claims).
#[derive(Debug, Default)]
pub(super) struct Storage {
    pub claims: BTreeMap<String, Value>,
    pub volumes: BTreeMap<String, Value>,
    pub classes: BTreeMap<String, Value>,
}

/// The claims of a pod, and the sentence that refuses it if one of them is broken. A broken claim may be attached all the same,
/// where its pod runs already.
pub(super) struct Resolved {
    pub volumes: Vec<Volume>,
    pub refused: Option<String>,
}

/// Resolves every claim of a pod. `Err` is malformed input; a broken claim is [`Resolved::refused`].
pub(super) fn resolve(
    namespace: &str,
    pod: &str,
    spec: &Value,
    storage: &Storage,
) -> Result<Resolved, String> {
    let mut resolved = Resolved { volumes: Vec::new(), refused: None };
    for volume in list(spec, &["volumes"])? {
        let (claim, template) = if let Some(claim) = text(volume, &["persistentVolumeClaim", "claimName"]) {
            (format!("{namespace}/{claim}"), None)
        } else if let Some(template) = at(volume, &["ephemeral", "volumeClaimTemplate"]) {
            let name = text(volume, &["name"]).ok_or("a volume has no `name`")?;
            (format!("{namespace}/{pod}-{name}"), Some(template))
        } else {
            continue;
        };
        let there = storage.claims.get(&claim);
        let Some(object) = there.or(template) else {
            resolved.refused.get_or_insert(format!("claim `{claim}` does not exist"));
            continue;
        };
        let held =
            |alternatives| Volume { claim: claim.clone(), driver: driver_of(object, storage), alternatives };
        match resolve_claim(&claim, object, there.is_some(), storage)? {
            Ok(alternatives) => resolved.volumes.extend(alternatives.into_iter().map(held)),
            Err(why) => {
                resolved.volumes.push(held(Vec::new()));
                resolved.refused.get_or_insert(why);
            }
        }
    }
    Ok(resolved)
}

/// The driver that attaches a claim, where it is known.
fn driver_of(claim: &Value, storage: &Storage) -> Option<String> {
    match text(claim, &["spec", "volumeName"]) {
        Some(volume) => storage.volumes.get(volume).and_then(volume_driver),
        None => {
            let class = storage.classes.get(class_of(claim, storage)?)?;
            text(class, &["provisioner"]).map(|name| csi_name(name).to_owned())
        }
    }
}

/// The storage class of a claim; admission fills in the default class when a claim does not name one.
fn class_of<'v>(claim: &'v Value, storage: &'v Storage) -> Option<&'v str> {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let is_default = |class: &Value| {
        at(class, &["metadata", "annotations", DEFAULT]).and_then(Value::as_str) == Some("true")
    };
    match at(claim, &["spec", "storageClassName"]).and_then(Value::as_str) {
        Some("") => None,
        Some(class) => Some(class),
        None => storage.classes.iter().find(|(_, class)| is_default(class)).map(|(name, _)| name.as_str()),
    }
}

/// What a claim asks of its node: any of the terms of each list. `is_object`: it is there, not only described in a template.
type Terms = Vec<Vec<Vec<Expr>>>;

fn resolve_claim(
    name: &str,
    claim: &Value,
    is_object: bool,
    storage: &Storage,
) -> Result<Result<Terms, String>, String> {
    if at(claim, &["metadata", "deletionTimestamp"]).is_some() {
        return Ok(Err(format!("claim `{name}` is being deleted")));
    }
    if text(claim, &["status", "phase"]) == Some("Lost") {
        return Ok(Err(format!("claim `{name}` has lost its volume")));
    }
    if let Some(bound) = text(claim, &["spec", "volumeName"]) {
        let Some(volume) = storage.volumes.get(bound) else {
            return Ok(Err(format!("volume `{bound}` of claim `{name}` does not exist")));
        };
        if at(volume, &["metadata", "deletionTimestamp"]).is_some() {
            return Ok(Err(format!("volume `{bound}` of claim `{name}` is being deleted")));
        }
        if is_object && at(claim, &["metadata", "annotations", "pv.kubernetes.io/bind-completed"]).is_none() {
            return Ok(Err(format!("claim `{name}` is not bound to its volume `{bound}` yet")));
        }
        let mut terms = vec![volume_terms(volume)?];
        terms.extend(zone_terms(volume)?);
        return Ok(Ok(terms));
    }
    let Some(class_name) = class_of(claim, storage) else {
        return Ok(Err(format!("claim `{name}` is not bound and has no storage class")));
    };
    let Some(class) = storage.classes.get(class_name) else {
        return Ok(Err(format!("storage class `{class_name}` of claim `{name}` does not exist")));
    };
    if text(class, &["volumeBindingMode"]) != Some("WaitForFirstConsumer") {
        return Ok(Err(format!("claim `{name}` is not bound and its class `{class_name}` binds at once")));
    }
    let mut alternatives = Vec::new();
    for term in list(class, &["allowedTopologies"])? {
        let mut exprs = Vec::new();
        for item in list(term, &["matchLabelExpressions"])? {
            let key = text(item, &["key"]).ok_or("a topology of a storage class has no `key`")?;
            let values = strings(item, &["values"])?;
            exprs.push(one_of(stable_key(key), values.iter().map(String::as_str)));
        }
        alternatives.push(exprs);
    }
    Ok(Ok(vec![alternatives]))
}

/// What zone and region labels of a volume ask for: a listed value each, or a node with neither label.
fn zone_terms(volume: &Value) -> Result<Option<Vec<Vec<Expr>>>, String> {
    const KEYS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let mut listed = Vec::new();
    for (key, value) in labels(volume, &["metadata", "labels"])? {
        let key = stable_key(&key);
        let values: Vec<&str> = value.split("__").map(str::trim).collect();
        if KEYS.contains(&key) && !values.contains(&"") {
            listed.push(one_of(key, values));
        }
    }
    let absent = |key: &str| Expr {
        key: key.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: Vec::new(),
        min_values: None,
    };
    Ok((!listed.is_empty()).then(|| vec![listed, KEYS.map(absent).into()]))
}

fn volume_driver(volume: &Value) -> Option<String> {
    if let Some(driver) = text(volume, &["spec", "csi", "driver"]) {
        return Some(driver.to_owned());
    }
    at(volume, &["spec", "awsElasticBlockStore"]).map(|_| "ebs.csi.aws.com".to_owned())
}

fn volume_terms(volume: &Value) -> Result<Vec<Vec<Expr>>, String> {
    let path = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
    if at(volume, &["spec", "nodeAffinity", "required"]).is_none() {
        return Ok(Vec::new());
    }
    let forget_host = at(volume, &["spec", "local"]).is_some() || at(volume, &["spec", "hostPath"]).is_some();
    let mut alternatives = Vec::new();
    for term in list(volume, &path)? {
        let mut exprs = node_expressions(list(term, &["matchExpressions"])?)?;
        // In Kubernetes a term that says nothing matches nothing; only dropping the host leaves a free one.
        if exprs.is_empty() {
            continue;
        }
        if forget_host {
            exprs.retain(|expr| expr.key != "kubernetes.io/hostname");
        }
        alternatives.push(exprs);
    }
    if alternatives.is_empty() {
        alternatives.push(vec![one_of("kubernetes.io/hostname", [])]);
    }
    Ok(alternatives)
}

/// The CSI driver that took over from a built-in provisioner.
fn csi_name(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        other => other,
    }
}
