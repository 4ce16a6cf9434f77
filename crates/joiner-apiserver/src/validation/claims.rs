//! Rules of persistent volume claims.

use serde_json::{Map, Value, json};

use super::line_difference;
use super::place::{Place, list, text};
use super::{names, selectors};
use crate::fields::quantity_nanos;
use crate::rest::Cause;

const SPEC: Place<'_> = Place::Start("spec");
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Judges a claim, new or changed.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    check_spec(&object["spec"], SPEC, causes);
}

/// Judges what a claim asks for, also where it is the template of one.
pub(super) fn check_spec(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if list(&spec["accessModes"]).is_empty() {
        causes.push(Cause::required(place.field("accessModes"), "at least 1 access mode is required"));
    }
    selectors::check(&spec["selector"], place.field("selector"), causes);
    access_modes(spec, place, causes);
    let at = place.field("resources");
    let at = at.key("storage");
    match spec["resources"]["requests"].get("storage") {
        None => causes.push(Cause::required(at, "")),
        Some(size) => {
            positive(size, at, causes);
        }
    }
    class_and_mode(spec, place, causes);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.get(field) {
            data_source(source, place.field(field), causes);
        }
    }
    if let (Some(one), Some(other)) = (spec.get("dataSource"), spec.get("dataSourceRef")) {
        let differ = ["apiGroup", "kind", "name"].iter().any(|field| one.get(field) != other.get(field));
        let detail = if !text(&other["namespace"]).is_empty() {
            "may not be specified when dataSourceRef.namespace is specified"
        } else if differ {
            "must match dataSourceRef"
        } else {
            return;
        };
        // The value shown is a path, which has nothing to show.
        causes.push(Cause::invalid_shown(place, "{}", detail));
    }
}

/// Judges the modes in which a claim or a volume is used.
pub(super) fn access_modes(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let at = place.field("accessModes");
    let modes = list(&spec["accessModes"]);
    for mode in modes.iter().filter(|mode| !MODES.contains(&text(mode))) {
        causes.push(Cause::unsupported(at, mode, &MODES));
    }
    let alone = |mode: &&Value| **mode == "ReadWriteOncePod";
    let known = modes.iter().filter(|mode| MODES.contains(&text(mode)));
    let (single, other): (Vec<&Value>, Vec<&Value>) = known.partition(alone);
    if !single.is_empty() && !other.is_empty() {
        causes.push(Cause::forbidden(at, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Judges what a claim and a volume say about their kind of storage.
pub(super) fn class_and_mode(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = text(&spec[field]);
        if !class.is_empty() {
            names::check_subdomain(class, place.field(field), causes);
        }
    }
    if let Some(mode) = spec.get("volumeMode") {
        let known = ["Block", "Filesystem"];
        if !known.contains(&text(mode)) {
            causes.push(Cause::unsupported(place.field("volumeMode"), mode, &known));
        }
    }
}

/// Judges an amount that must be more than nothing.
pub(super) fn positive(amount: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if quantity_nanos(text(amount)).is_some_and(|nanos| nanos <= 0) {
        causes.push(Cause::invalid(place, amount, "must be greater than zero"));
    }
}

fn data_source(source: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for field in ["name", "kind"] {
        if text(&source[field]).is_empty() {
            causes.push(Cause::required(place.field(field), ""));
        }
    }
    let group = text(&source["apiGroup"]);
    if group.is_empty() {
        if source["kind"] != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            causes.push(Cause::invalid(place, &json!(text(&source["kind"])), detail));
        }
    } else {
        names::check_subdomain(group, place.field("apiGroup"), causes);
    }
    let namespace = text(&source["namespace"]);
    if !namespace.is_empty() {
        names::check_label(namespace, place.field("namespace"), causes);
    }
}

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What of a claim may change: it gets its volume and its class once; a bound one may ask for more.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (mut before, mut after) = (old["spec"].clone(), new["spec"].clone());
    if text(&before["volumeName"]).is_empty() {
        take_over(&mut before, &after, "volumeName");
    }
    let annotation = |claim: &Value| claim["metadata"]["annotations"].get(BETA_CLASS).cloned();
    if before.get("storageClassName").is_none()
        && after.get("storageClassName").is_some()
        && annotation(old).is_none_or(|class| class == after["storageClassName"])
    {
        take_over(&mut after, &before, "storageClassName");
    } else if annotation(old) != annotation(new) {
        let value = annotation(new).unwrap_or_else(|| json!(""));
        let at = format!("metadata.annotations[{BETA_CLASS}]");
        causes.push(Cause::invalid(at, &value, "field is immutable"));
    }
    let size = |spec: &Value| spec["resources"]["requests"].get("storage").cloned();
    let (old_size, new_size) = (size(&before), size(&after));
    if new["status"]["phase"] == "Bound" {
        if let (Some(requests), Some(size)) =
            (after["resources"].get_mut("requests").and_then(Value::as_object_mut), &old_size)
        {
            requests.insert("storage".to_owned(), size.clone());
        }
        take_over(&mut after, &before, "volumeAttributesClassName");
    }
    if after != before {
        let lines = line_difference::unified(&shown(&before), &shown(&after));
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{lines}"
        );
        causes.push(Cause::forbidden("spec", &detail));
    }
    let nanos = |size: &Option<Value>| size.as_ref().and_then(|size| quantity_nanos(text(size))).unwrap_or(0);
    if nanos(&new_size) < nanos(&old_size) {
        // Growth that failed may be taken back, but not below what the volume has.
        let has = nanos(&old["status"]["capacity"].get("storage").cloned());
        if nanos(&new_size) <= has {
            let detail = "field can not be less than status.capacity";
            causes.push(Cause::forbidden("spec.resources.requests.storage", detail));
        }
    }
    let mode = |claim: &Value| claim["spec"].get("volumeMode").cloned().unwrap_or_default();
    if mode(old) != mode(new) {
        causes.push(Cause::invalid("volumeMode", &mode(new), "field is immutable"));
    }
    causes
}

fn take_over(spec: &mut Value, from: &Value, field: &str) {
    let Some(fields) = spec.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// A spec by the names of its fields in Go, one to a line.
fn shown(spec: &Value) -> String {
    let get = |field: &str| spec.get(field).cloned().unwrap_or_default();
    let of_source = |source: &Value, with_namespace: bool| {
        if source.is_null() {
            return Value::Null;
        }
        let mut fields = Map::new();
        for (name, field) in [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")] {
            fields.insert(name.to_owned(), source.get(field).cloned().unwrap_or_default());
        }
        if with_namespace {
            fields.insert("Namespace".to_owned(), source.get("namespace").cloned().unwrap_or_default());
        }
        Value::Object(fields)
    };
    let resources = &spec["resources"];
    let amounts = |side: &str| resources.get(side).cloned().unwrap_or_default();
    line_difference::pretty(&[
        ("AccessModes", get("accessModes")),
        ("Selector", get("selector")),
        ("Resources", json!({"Limits": amounts("limits"), "Requests": amounts("requests")})),
        ("VolumeName", json!(text(&spec["volumeName"]))),
        ("StorageClassName", get("storageClassName")),
        ("VolumeMode", get("volumeMode")),
        ("DataSource", of_source(&get("dataSource"), false)),
        ("DataSourceRef", of_source(&get("dataSourceRef"), true)),
        ("VolumeAttributesClassName", get("volumeAttributesClassName")),
    ])
}
