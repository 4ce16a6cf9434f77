//! Volumes of a pod: which claim, which driver, and where the data can be reached. A broken claim refuses the pod.

use std::collections::BTreeMap;

use serde_json::Value;

use super::expressions::{node_expressions, one_of};
use super::field::{at, list, stable_key, strings, text};
use crate::world::{Expr, Volume};

/// Storage objects by name (`namespace/name` for claims).
#[derive(Debug, Default)]
pub(super) struct Storage {
    pub claims: BTreeMap<String, Value>,
    pub volumes: BTreeMap<String, Value>,
    pub classes: BTreeMap<String, Value>,
}

/// The claims of a pod, or the sentence that refuses it.
pub(super) enum Resolved {
    Volumes(Vec<Volume>),
    Refused(String),
}

/// Resolves every claim of a pod. `Err` is malformed input; a broken claim is [`Resolved::Refused`].
pub(super) fn resolve(
    namespace: &str,
    pod: &str,
    spec: &Value,
    storage: &Storage,
) -> Result<Resolved, String> {
    let mut volumes = Vec::new();
    for volume in list(spec, &["volumes"])? {
        let (claim, template) = if let Some(claim) = text(volume, &["persistentVolumeClaim", "claimName"]) {
            (format!("{namespace}/{claim}"), None)
        } else if let Some(template) = at(volume, &["ephemeral", "volumeClaimTemplate"]) {
            let name = text(volume, &["name"]).ok_or("a volume has no `name`")?;
            (format!("{namespace}/{pod}-{name}"), Some(template))
        } else {
            continue;
        };
        let Some(object) = storage.claims.get(&claim).or(template) else {
            return Ok(Resolved::Refused(format!("claim `{claim}` does not exist")));
        };
        match resolve_claim(&claim, object, storage)? {
            Ok(volume) => volumes.push(volume),
            Err(why) => return Ok(Resolved::Refused(why)),
        }
    }
    Ok(Resolved::Volumes(volumes))
}

fn resolve_claim(name: &str, claim: &Value, storage: &Storage) -> Result<Result<Volume, String>, String> {
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
        return Ok(Ok(Volume {
            claim: name.to_owned(),
            driver: volume_driver(volume),
            alternatives: volume_terms(volume)?,
        }));
    }
    let class_name = match at(claim, &["spec", "storageClassName"]).and_then(Value::as_str) {
        Some("") => None,
        Some(class) => Some(class),
        // Admission fills in the default class when a claim does not name one.
        None => storage
            .classes
            .iter()
            .find(|(_, class)| {
                at(class, &["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"])
                    .and_then(Value::as_str)
                    == Some("true")
            })
            .map(|(class, _)| class.as_str()),
    };
    let Some(class_name) = class_name else {
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
    let driver = text(class, &["provisioner"]).map(|name| csi_name(name).to_owned());
    Ok(Ok(Volume { claim: name.to_owned(), driver, alternatives }))
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
