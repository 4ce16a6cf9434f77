//! Rules of persistent volumes.

use serde_json::{Value, json};

use super::claims::{access_modes, class_and_mode, positive};
use super::line_difference::{self, Lines};
use super::place::{Place, text};
use super::{names, scheduling};
use crate::fields::quantity_nanos;
use crate::rest::Cause;

const SPEC: Place<'_> = Place::Start("spec");

/// Kinds of volumes in the order in which they are looked for, and the name of each in Go.
const SOURCES: [(&str, &str); 22] = [
    ("hostPath", "HostPath"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("glusterfs", "Glusterfs"),
    ("flocker", "Flocker"),
    ("nfs", "NFS"),
    ("rbd", "RBD"),
    ("quobyte", "Quobyte"),
    ("cephfs", "CephFS"),
    ("iscsi", "ISCSI"),
    ("cinder", "Cinder"),
    ("fc", "FC"),
    ("flexVolume", "FlexVolume"),
    ("azureFile", "AzureFile"),
    ("vsphereVolume", "VsphereVolume"),
    ("photonPersistentDisk", "PhotonPersistentDisk"),
    ("portworxVolume", "PortworxVolume"),
    ("azureDisk", "AzureDisk"),
    ("scaleIO", "ScaleIO"),
    ("local", "Local"),
    ("storageos", "StorageOS"),
    ("csi", "CSI"),
];

/// Judges a volume, new or changed.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required("spec.accessModes", ""));
    }
    access_modes(spec, SPEC, causes);
    capacity(spec, causes);
    let policy = text(&spec["persistentVolumeReclaimPolicy"]);
    let known = ["Delete", "Recycle", "Retain"];
    if !policy.is_empty() && !known.contains(&policy) {
        let at = SPEC.field("persistentVolumeReclaimPolicy");
        causes.push(Cause::unsupported(at, &json!(policy), &known));
    }
    let affinity = spec.get("nodeAffinity");
    if let Some(affinity) = affinity {
        let at = SPEC.field("nodeAffinity");
        match affinity.get("required") {
            Some(required) => scheduling::node_selector(required, at.field("required"), causes),
            None => {
                causes.push(Cause::required(at.field("required"), "must specify required node constraints"));
            }
        }
    }
    source(spec, affinity.is_some(), causes);
    let root = text(&spec["hostPath"]["path"]).split('/').all(|part| matches!(part, "" | "."));
    if spec.get("hostPath").is_some() && root && policy == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        causes.push(Cause::forbidden("spec.persistentVolumeReclaimPolicy", detail));
    }
    class_and_mode(spec, SPEC, causes);
}

fn capacity(spec: &Value, causes: &mut Vec<Cause>) {
    let at = SPEC.field("capacity");
    let capacity = spec["capacity"].as_object().filter(|capacity| !capacity.is_empty());
    if capacity.is_none() {
        causes.push(Cause::required(at, ""));
    }
    if capacity.is_none_or(|capacity| capacity.len() > 1 || !capacity.contains_key("storage")) {
        let shown = spec.get("capacity").unwrap_or(&Value::Null);
        causes.push(Cause::unsupported(at, shown, &["storage"]));
    }
    for (name, amount) in capacity.into_iter().flatten() {
        let place = at.key(name);
        let whole = quantity_nanos(text(amount)).map_or(0, |nanos| nanos.div_euclid(1_000_000_000));
        if whole < 0 {
            let shown = i64::try_from(whole).unwrap_or(i64::MIN);
            causes.push(Cause::invalid(place, &json!(shown), "must be a valid resource quantity"));
        }
        positive(amount, place, causes);
    }
}

fn source(spec: &Value, has_affinity: bool, causes: &mut Vec<Cause>) {
    let mut found = SOURCES.iter().filter(|(field, _)| spec.get(field).is_some());
    let Some((first, _)) = found.next() else {
        causes.push(Cause::required("spec", "must specify a volume type"));
        return;
    };
    let source = &spec[first];
    let place = SPEC.field(first);
    let require = |field: &'static str, causes: &mut Vec<Cause>| {
        if text(&source[field]).is_empty() {
            causes.push(Cause::required(place.field(field), ""));
        }
    };
    let path = text(&source["path"]);
    let steps_back = |causes: &mut Vec<Cause>| {
        if path.split('/').any(|part| part == "..") {
            causes.push(Cause::invalid(place.field("path"), &json!(path), "must not contain '..'"));
        }
    };
    match *first {
        "hostPath" => {
            require("path", causes);
            steps_back(causes);
            host_path_type(source, place, causes);
        }
        "local" => {
            require("path", causes);
            steps_back(causes);
            if !has_affinity {
                let detail = "Local volume requires node affinity";
                causes.push(Cause::required("spec.nodeAffinity", detail));
            }
        }
        "nfs" => {
            require("server", causes);
            require("path", causes);
            if !path.starts_with('/') {
                let detail = "must be an absolute path";
                causes.push(Cause::invalid(place.field("path"), &json!(path), detail));
            }
        }
        "csi" => {
            require("driver", causes);
            driver_name(text(&source["driver"]), place.field("driver"), causes);
            require("volumeHandle", causes);
        }
        _ => {}
    }
    for (field, _) in found {
        // One name is spelled in its own way there.
        let field = if *field == "cephfs" { "cephFS" } else { field };
        causes.push(Cause::forbidden(SPEC.field(field), "may not specify more than 1 volume type"));
    }
}

fn host_path_type(source: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let known =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = text(&source["type"]);
    if !known.contains(&kind) {
        causes.push(Cause::unsupported(place.field("type"), &json!(kind), &known));
    }
}

fn driver_name(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if name.is_empty() {
        return;
    }
    if name.len() > 63 {
        causes.push(Cause::too_long(place, 63));
    }
    for broken in names::subdomain_breaks(&name.to_lowercase()) {
        causes.push(Cause::invalid(place, &json!(name), &broken));
    }
}

/// What of a volume may not change: where it is.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (old, new) = (&old["spec"], &new["spec"]);
    let mut after = new.clone();
    // The secret for growing may be told later.
    if let (Some(before), Some(after)) = (old.get("csi"), after.get_mut("csi").and_then(Value::as_object_mut))
        && before.get("controllerExpandSecretRef").is_none()
    {
        after.remove("controllerExpandSecretRef");
    }
    if SOURCES.iter().any(|(field, _)| old.get(field) != after.get(field)) {
        let lines = line_difference::unified(&shown(old), &shown(&after));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{lines}");
        causes.push(Cause::forbidden("spec.persistentvolumesource", &detail));
    }
    if old.get("volumeMode") != new.get("volumeMode") {
        let mode = new.get("volumeMode").unwrap_or(&Value::Null);
        causes.push(Cause::invalid("volumeMode", mode, "field is immutable"));
    }
    causes
}

/// The sources by their names in Go, one to a line.
fn shown(spec: &Value) -> String {
    const ORDER: [&str; 22] = [
        "GCEPersistentDisk",
        "AWSElasticBlockStore",
        "HostPath",
        "Glusterfs",
        "NFS",
        "RBD",
        "Quobyte",
        "ISCSI",
        "FlexVolume",
        "Cinder",
        "CephFS",
        "FC",
        "Flocker",
        "AzureFile",
        "VsphereVolume",
        "AzureDisk",
        "PhotonPersistentDisk",
        "PortworxVolume",
        "ScaleIO",
        "Local",
        "StorageOS",
        "CSI",
    ];
    let fields = ORDER.map(|name| {
        let source = SOURCES.iter().find(|(_, known)| *known == name).and_then(|(field, _)| spec.get(field));
        (name, source.map_or_else(Lines::default, |source| source_lines(name, source)))
    });
    line_difference::of_fields(&fields, 0)
}

/// A source; of those used most, by the names of their fields in Go.
fn source_lines(name: &str, source: &Value) -> Lines {
    let word = |field: &str| json!(text(&source[field]));
    let flag = |field: &str| json!(source[field] == true);
    let get = |field: &str| source.get(field).cloned().unwrap_or_default();
    let secret = |field: &str| match source.get(field) {
        Some(secret) => json!({"Name": text(&secret["name"]), "Namespace": text(&secret["namespace"])}),
        None => Value::Null,
    };
    let fields = match name {
        "CSI" => vec![
            ("Driver", word("driver")),
            ("VolumeHandle", word("volumeHandle")),
            ("ReadOnly", flag("readOnly")),
            ("FSType", word("fsType")),
            ("VolumeAttributes", get("volumeAttributes")),
            ("ControllerPublishSecretRef", secret("controllerPublishSecretRef")),
            ("NodeStageSecretRef", secret("nodeStageSecretRef")),
            ("NodePublishSecretRef", secret("nodePublishSecretRef")),
            ("ControllerExpandSecretRef", secret("controllerExpandSecretRef")),
            ("NodeExpandSecretRef", secret("nodeExpandSecretRef")),
        ],
        "HostPath" => vec![("Path", word("path")), ("Type", get("type"))],
        "NFS" => vec![("Server", word("server")), ("Path", word("path")), ("ReadOnly", flag("readOnly"))],
        "Local" => vec![("Path", word("path")), ("FSType", get("fsType"))],
        _ => return Lines::of(source, 1),
    };
    Lines::of_fields(&fields, 1)
}
