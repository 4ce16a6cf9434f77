//! Claims and volumes: a claim is bound to a volume that fits, or gets one made for it.
//!
//! Claims of a class that waits for its first consumer are left alone until the scheduler has chosen a node. Provisioners live outside a
//! real control plane; here one answers for every class that names one, and makes the volume in the zone of the chosen node.

mod protection;
mod provision;

use jiff::Timestamp;
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::object::{Fields, Key, Kind, Object};
use crate::write::Write;

const NAME: &str = "persistentvolume-controller";
const BOUND: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_US: &str = "pv.kubernetes.io/bound-by-controller";
/// The node that the scheduler chose for the claim's first consumer.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The controller.
pub struct Volumes;

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::PersistentVolumeClaim => {
                keys.push(event.key.clone());
                let volume = event.object.text(&["spec", "volumeName"]);
                if !volume.is_empty() {
                    keys.push(Key::new(Kind::PersistentVolume, "", volume));
                }
            }
            Kind::PersistentVolume => {
                keys.push(event.key.clone());
                let claim = event.object.at(&["spec", "claimRef"]);
                if claim.is_object() {
                    keys.push(Key::new(
                        Kind::PersistentVolumeClaim,
                        claim.text(&["namespace"]),
                        claim.text(&["name"]),
                    ));
                } else if event.change != Change::Deleted {
                    let waiting =
                        cache.all(Kind::PersistentVolumeClaim).filter(|(_, claim)| is_waiting(claim));
                    keys.extend(waiting.map(|(key, _)| key.clone()));
                }
            }
            Kind::StorageClass => {
                let waiting = cache.all(Kind::PersistentVolumeClaim).filter(|(_, claim)| is_waiting(claim));
                keys.extend(waiting.map(|(key, _)| key.clone()));
            }
            // A claim that is to go is held by the pods that use it.
            Kind::Pod if event.change == Change::Deleted || crate::workloads::is_finished(&event.object) => {
                keys.extend(protection::claims_of(&event.object));
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, _: Timestamp) -> Outcome {
        let Some(object) = cache.get(key) else { return Outcome::nothing() };
        match key.kind {
            Kind::PersistentVolumeClaim if object.is_deleting() => protection::claim(key, object, cache),
            Kind::PersistentVolumeClaim => claim(key, object, cache),
            Kind::PersistentVolume => {
                let outcome = volume(key, object, cache);
                match object.is_deleting() && outcome.writes.is_empty() {
                    true => protection::volume(key, object),
                    false => outcome,
                }
            }
            _ => Outcome::nothing(),
        }
    }
}

fn is_waiting(claim: &Value) -> bool {
    claim.text(&["spec", "volumeName"]).is_empty() && !claim.is_deleting()
}

/// Whether a volume's reference means this claim.
fn refers_to(volume: &Value, key: &Key, claim: &Value) -> bool {
    let reference = volume.at(&["spec", "claimRef"]);
    let uid = reference.text(&["uid"]);
    reference.text(&["namespace"]) == &*key.namespace
        && reference.text(&["name"]) == &*key.name
        && (uid.is_empty() || uid == claim.uid())
}

fn claim(key: &Key, claim: &Object, cache: &Cache) -> Outcome {
    let named = claim.text(&["spec", "volumeName"]);
    if claim.annotation(BOUND).is_some() {
        let found = cache.find(Kind::PersistentVolume, "", named);
        let lost = found.is_none_or(|volume| {
            volume.at(&["spec", "claimRef"]).is_object() && !refers_to(volume, key, claim)
        });
        return match (lost, claim.text(&["status", "phase"]), found) {
            (true, "Lost", _) => Outcome::nothing(),
            (true, ..) => {
                Outcome::writes(vec![Write::merge_status(key.clone(), json!({"status": {"phase": "Lost"}}))])
            }
            (false, "Bound", _) => Outcome::nothing(),
            (false, _, Some(volume)) => Outcome::writes(vec![bound_status(key, volume)]),
            (false, _, None) => Outcome::nothing(),
        };
    }
    if !named.is_empty() {
        // The user chose the volume.
        return match cache.find(Kind::PersistentVolume, "", named) {
            Some(volume)
                if !volume.at(&["spec", "claimRef"]).is_object() || refers_to(volume, key, claim) =>
            {
                Outcome::writes(bind(key, claim, volume, false))
            }
            _ => Outcome::nothing(),
        };
    }
    let class = claim.text(&["spec", "storageClassName"]);
    let class = cache.find(Kind::StorageClass, "", class);
    let waits = class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
    if let Some(volume) = reserved_for(key, claim, cache) {
        return Outcome::writes(bind(key, claim, volume, true));
    }
    if waits && claim.annotation(SELECTED_NODE).is_none() {
        return Outcome::nothing();
    }
    if let Some(volume) = smallest_fitting(claim, cache).filter(|_| !waits) {
        return Outcome::writes(bind(key, claim, volume, true));
    }
    match class {
        Some(class) => provision::volume_for(key, claim, class, cache),
        None => Outcome::nothing(),
    }
}

fn volumes(cache: &Cache) -> impl Iterator<Item = &Object> {
    cache.all(Kind::PersistentVolume).map(|(_, volume)| volume).filter(|volume| !volume.is_deleting())
}

/// A volume that says already for which claim it is.
fn reserved_for<'a>(key: &Key, claim: &Value, cache: &'a Cache) -> Option<&'a Object> {
    volumes(cache)
        .find(|volume| volume.at(&["spec", "claimRef"]).is_object() && refers_to(volume, key, claim))
}

/// The smallest volume that nobody has and that gives the claim what it asks for.
fn smallest_fitting<'a>(claim: &Value, cache: &'a Cache) -> Option<&'a Object> {
    let size = |text: &str| quantity(text).unwrap_or(0.0);
    let wanted = size(claim.text(&["spec", "resources", "requests", "storage"]));
    let selector = claim.at(&["spec", "selector"]);
    let selector = LabelSelector::from_object(selector);
    let mode = |object: &Value| match object.text(&["spec", "volumeMode"]) {
        "" => "Filesystem".to_owned(),
        mode => mode.to_owned(),
    };
    let mut fitting: Vec<(&Object, f64)> = volumes(cache)
        .filter(|volume| !volume.at(&["spec", "claimRef"]).is_object())
        .filter(|volume| !matches!(volume.text(&["status", "phase"]), "Released" | "Failed" | "Bound"))
        .filter(|volume| {
            volume.text(&["spec", "storageClassName"]) == claim.text(&["spec", "storageClassName"])
                && mode(volume) == mode(claim)
                && selector.as_ref().is_none_or(|selector| selector.matches(volume))
                && claim
                    .items(&["spec", "accessModes"])
                    .iter()
                    .all(|mode| volume.items(&["spec", "accessModes"]).contains(mode))
        })
        .map(|volume| (volume, size(volume.text(&["spec", "capacity", "storage"]))))
        .filter(|(_, size)| *size >= wanted)
        .collect();
    fitting.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.name().cmp(other.0.name())));
    fitting.first().map(|(volume, _)| *volume)
}

/// Writes both sides of a binding, the volume's first.
fn bind(key: &Key, claim: &Value, volume: &Object, chosen_by_us: bool) -> Vec<Write> {
    let volume_key = Key::of(Kind::PersistentVolume, volume);
    let mut writes = Vec::new();
    let reference = volume.at(&["spec", "claimRef"]);
    if reference.text(&["uid"]) != claim.uid() {
        let ours = !reference.is_object();
        let mut patch = json!({"spec": {"claimRef": {
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": *key.namespace, "name": *key.name,
            "uid": claim.uid(), "resourceVersion": claim.text(&["metadata", "resourceVersion"]),
        }}});
        if ours {
            patch["metadata"] = json!({"annotations": {BOUND_BY_US: "yes"}});
        }
        writes.push(Write::merge(volume_key.clone(), patch));
    }
    if volume.text(&["status", "phase"]) != "Bound" {
        writes.push(Write::merge_status(volume_key, json!({"status": {"phase": "Bound"}})));
    }
    let mut annotations = json!({BOUND: "yes"});
    if chosen_by_us {
        annotations[BOUND_BY_US] = "yes".into();
    }
    let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name()}});
    writes.push(Write::merge(key.clone(), patch));
    writes.push(bound_status(key, volume));
    writes
}

fn bound_status(key: &Key, volume: &Value) -> Write {
    let status = json!({
        "phase": "Bound", "accessModes": volume.at(&["spec", "accessModes"]),
        "capacity": volume.at(&["spec", "capacity"]),
    });
    Write::merge_status(key.clone(), json!({"status": status}))
}

/// A volume is available, bound, or released by a claim that is gone.
fn volume(key: &Key, volume: &Object, cache: &Cache) -> Outcome {
    let phase = volume.text(&["status", "phase"]);
    let set = |wanted: &str| match phase == wanted {
        true => Outcome::nothing(),
        false => {
            Outcome::writes(vec![Write::merge_status(key.clone(), json!({"status": {"phase": wanted}}))])
        }
    };
    let reference = volume.at(&["spec", "claimRef"]);
    if !reference.is_object() || reference.text(&["uid"]).is_empty() {
        return set("Available");
    }
    let claim =
        cache.find(Kind::PersistentVolumeClaim, reference.text(&["namespace"]), reference.text(&["name"]));
    if claim.is_some_and(|claim| claim.uid() == reference.text(&["uid"])) {
        return set("Bound");
    }
    if volume.text(&["spec", "persistentVolumeReclaimPolicy"]) == "Delete" && provision::is_ours(volume) {
        let mut outcome = set("Released");
        if volume.is_deleting() {
            return outcome;
        }
        outcome.writes.push(Write::delete(key.clone(), volume.uid()));
        return outcome;
    }
    set("Released")
}

/// The size of a quantity: `10Gi`, `500M`, `1e9`.
pub(crate) fn quantity(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 13] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
        ("m", 1e-3),
    ];
    let found = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)));
    let (number, factor) = found.unwrap_or((text, &1.0));
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_compared_as_numbers() {
        assert_eq!(quantity("1Gi"), Some(1_073_741_824.0));
        assert!(quantity("1G") < quantity("1Gi"));
        assert_eq!(quantity("100m"), Some(0.1));
        assert_eq!(quantity("many"), None);
    }
}
