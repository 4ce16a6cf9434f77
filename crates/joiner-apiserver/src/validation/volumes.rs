//! Volumes of pods.

use serde_json::{Map, Value, json};

use super::names;
use super::place::{Place, list, text};
use crate::fields::quantity_nanos;
use crate::rest::Cause;

/// Kinds of volumes in the order in which they are looked for, and how the fault of a second one names it.
const KINDS: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// Judges volumes. Returns the names of those that are right.
pub(super) fn check<'a>(volumes: &'a [Value], place: Place<'_>, causes: &mut Vec<Cause>) -> Vec<&'a str> {
    let mut right = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let place = place.index(index);
        let before = causes.len();
        check_source(volume, place, causes);
        let name = text(&volume["name"]);
        if name.is_empty() {
            causes.push(Cause::required(place.field("name"), ""));
        } else {
            names::check_label(name, place.field("name"), causes);
        }
        if right.contains(&name) {
            causes.push(Cause::duplicate(place.field("name"), &json!(name).to_string(), ""));
        }
        if causes.len() == before {
            right.push(name);
        }
    }
    right
}

fn check_source(volume: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    // A volume has two fields or three, so that looking at these is less than looking for thirty.
    let has = |kind: &str| volume.as_object().into_iter().flat_map(Map::keys).any(|field| field == kind);
    let mut found = KINDS.iter().filter(|(field, _)| has(field));
    let Some((first, _)) = found.next() else {
        causes.push(Cause::required(place, "must specify a volume type"));
        return;
    };
    for (_, name) in found {
        causes.push(Cause::forbidden(place.field(name), "may not specify more than 1 volume type"));
    }
    let source = &volume[*first];
    let place = place.field(first);
    let mut required = |field: &'static str| {
        if text(&source[field]).is_empty() {
            causes.push(Cause::required(place.field(field), ""));
        }
    };
    match *first {
        "hostPath" => required("path"),
        "secret" => required("secretName"),
        "persistentVolumeClaim" => required("claimName"),
        "configMap" => required("name"),
        "csi" => required("driver"),
        "nfs" => {
            required("server");
            required("path");
        }
        "emptyDir" => {
            let size = source.get("sizeLimit").and_then(|size| quantity_nanos(text(size)));
            if size.is_some_and(|size| size < 0) {
                let detail = "SizeLimit field must be a valid resource quantity";
                causes.push(Cause::forbidden(place.field("sizeLimit"), detail));
            }
        }
        "ephemeral" if !source["volumeClaimTemplate"].is_object() => {
            causes.push(Cause::required(place.field("volumeClaimTemplate"), ""));
        }
        _ => {}
    }
}

/// Names of volumes that claim templates of a stateful set bring along.
pub(super) fn of_templates(spec: &Value) -> Vec<&str> {
    list(&spec["volumeClaimTemplates"]).iter().map(|claim| text(&claim["metadata"]["name"])).collect()
}
