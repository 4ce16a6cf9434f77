//! Provisioner and Machine of v1alpha5.
//!
//! The defaults of that version were other ones: nodes lived for ever and were never consolidated unless asked. What
//! the old object left unsaid is therefore written out.

use serde_json::{Map, Value, json};

use super::v1beta1::{expire_after_of_pool, keep_kubelet};
use super::{Converted, Error, NodeClassKind, Options, Source, aws, old_names, v1};
use crate::names::{self, kinds};
use crate::nodepool::ConsolidationPolicy;

pub(super) fn provisioner(mut source: Source, options: &Options) -> Result<Converted, Error> {
    keep_identity(&mut source);
    source.status = Map::new();
    let mut old = std::mem::take(&mut source.spec);
    let mut template = Map::new();
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        if let Some(mut map) = source.take_map(&mut old, "spec", field)? {
            old_names::rename_keys(&mut map, &format!("spec.{field}"), &mut source.notes);
            metadata.insert(field.to_owned(), map.into());
        }
    }
    let mut template_spec = Map::new();
    let mut requirements = requirements_and_taints(&mut source, &mut old, &mut template_spec)?;
    drop_own_name(&mut source, &mut requirements, metadata.get_mut("labels"));
    let (reference, class) = node_class(&mut source, &mut old, options)?;
    if reference.kind.group == names::AWS_GROUP && !options.skip_aws_defaults {
        add_aws_defaults(&mut source, &mut requirements, metadata.get("labels"));
    }
    template_spec.insert("requirements".to_owned(), requirements.into());
    let NodeClassKind { group, kind } = reference.kind;
    template_spec
        .insert("nodeClassRef".to_owned(), json!({ "group": group, "kind": kind, "name": reference.name }));

    let expire_after = match source.take_seconds(&mut old, "spec", "ttlSecondsUntilExpired")? {
        Some(seconds) => format!("{seconds}s"),
        None => {
            source.note(
                "spec.ttlSecondsUntilExpired",
                "absent meant that nodes never expire, written as `Never`",
            );
            names::NEVER.to_owned()
        }
    };
    template_spec.insert("expireAfter".to_owned(), expire_after.into());
    let disruption = disruption(&mut source, &mut old)?;

    let mut spec = Map::new();
    if !metadata.is_empty() {
        template.insert("metadata".to_owned(), metadata.into());
    }
    template.insert("spec".to_owned(), template_spec.into());
    spec.insert("template".to_owned(), template.into());
    spec.insert("disruption".to_owned(), disruption);
    if let Some(mut limits) = source.take_map(&mut old, "spec", "limits")? {
        if let Some(resources) = source.take(&mut limits, "resources") {
            spec.insert("limits".to_owned(), resources);
        }
        source.note_leftovers("spec.limits", limits);
    }
    source.carry(&mut old, "weight", &mut spec);
    source.note_leftovers("spec", old);
    Ok(source.finish(names::API_VERSION, kinds::NODE_POOL, spec, class.into_iter().collect()))
}

/// Keeps what names an object and drops what the server wrote about it.
fn keep_identity(source: &mut Source) {
    let mut metadata = std::mem::take(&mut source.metadata);
    let mut kept = Map::new();
    for field in ["name", "generateName", "labels", "annotations", "finalizers"] {
        source.carry(&mut metadata, field, &mut kept);
    }
    for field in ["labels", "annotations"] {
        if let Some(map) = kept.get_mut(field).and_then(Value::as_object_mut) {
            // The record of `kubectl apply` describes the old object.
            map.remove("kubectl.kubernetes.io/last-applied-configuration");
            old_names::rename_keys(map, &format!("metadata.{field}"), &mut source.notes);
        }
    }
    kept.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    source.metadata = kept;
}

/// Moves taints, and returns the requirements for more to be added.
fn requirements_and_taints(
    source: &mut Source,
    old: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
) -> Result<Vec<Value>, Error> {
    for field in ["taints", "startupTaints"] {
        if let Some(mut taints) = source.take(old, field) {
            old_names::rename(&mut taints, &format!("spec.{field}"), &mut source.notes);
            spec.insert(field.to_owned(), taints);
        }
    }
    let mut requirements = source.take_list(old, "spec", "requirements")?.unwrap_or_default();
    v1::rewrite_paper_keys(&mut requirements, "spec.requirements", &mut source.notes);
    for (index, requirement) in requirements.iter_mut().enumerate() {
        old_names::rename(requirement, &format!("spec.requirements[{index}]"), &mut source.notes);
    }
    Ok(requirements)
}

/// A pool may not ask for its own name: its nodes always carry it.
fn drop_own_name(source: &mut Source, requirements: &mut Vec<Value>, labels: Option<&mut Value>) {
    let mut dropped = Vec::new();
    let mut index = 0;
    requirements.retain(|requirement| {
        let own = requirement.get("key").and_then(Value::as_str) == Some(names::NODEPOOL_LABEL);
        if own {
            dropped.push(format!("spec.requirements[{index}].key"));
        }
        index += 1;
        !own
    });
    if labels.and_then(Value::as_object_mut).is_some_and(|map| map.remove(names::NODEPOOL_LABEL).is_some()) {
        dropped.push("spec.labels".to_owned());
    }
    for path in dropped {
        // That it has another name now is of no interest any more.
        source.notes.retain(|note| note.path != path || !note.message.contains(names::NODEPOOL_LABEL));
        source.note(
            path,
            format!(
                "dropped: `{}` is not for pools to ask for; nodes always carry the name of their pool in it",
                names::NODEPOOL_LABEL
            ),
        );
    }
}

struct Reference {
    kind: NodeClassKind,
    name: String,
}

/// The reference to the node class, and the class itself where it stood inside the Provisioner.
fn node_class(
    source: &mut Source,
    old: &mut Map<String, Value>,
    options: &Options,
) -> Result<(Reference, Option<Value>), Error> {
    let kubelet = source.take_map(old, "spec", "kubeletConfiguration")?.map(|mut kubelet| {
        if source.take(&mut kubelet, "containerRuntime").is_some() {
            source.note(
                "spec.kubeletConfiguration.containerRuntime",
                "dropped: containerd is the only runtime left",
            );
        }
        kubelet
    });
    let inline = source.take_map(old, "spec", "provider")?;
    let reference = source.take_map(old, "spec", "providerRef")?;
    let (reference, class) = match (reference, inline) {
        (Some(_), Some(_)) => {
            return Err(source.inconvertible(
                "spec.provider",
                "`spec.providerRef` is set too",
                "keep one of the two",
            ));
        }
        (None, Some(inline)) => {
            let name = source.name().to_owned();
            let class = aws::inline_class(source, &name, inline, kubelet, options)?;
            let message =
                format!("node settings have their own object now: EC2NodeClass `{name}` was generated");
            source.note("spec.provider", message);
            return Ok((Reference { kind: aws::class_kind(), name }, Some(class)));
        }
        (Some(reference), None) => (provider_ref(source, reference)?, None),
        (None, None) => match &options.default_node_class {
            Some(kind) => {
                let message = format!("absent: the pool refers to {} `default` now", kind.kind);
                source.note("spec.providerRef", message);
                (Reference { kind: kind.clone(), name: "default".to_owned() }, None)
            }
            None => {
                return Err(source.inconvertible(
                    "spec.providerRef",
                    "neither `providerRef` nor `provider` is set",
                    "name the node class in `spec.providerRef`, or say which node class is the default",
                ));
            }
        },
    };
    if let Some(kubelet) = kubelet {
        keep_kubelet(source, "spec.kubeletConfiguration", &kubelet.into());
    }
    Ok((reference, class))
}

fn provider_ref(source: &mut Source, mut reference: Map<String, Value>) -> Result<Reference, Error> {
    let path = "spec.providerRef";
    let name = source.take_text(&mut reference, path, "name")?.unwrap_or_default();
    if name.is_empty() {
        return Err(source.inconvertible("spec.providerRef.name", "it is empty", "name the node template"));
    }
    let kind = source.take_text(&mut reference, path, "kind")?.unwrap_or_default();
    let api_version = source.take_text(&mut reference, path, "apiVersion")?.unwrap_or_default();
    source.note_leftovers(path, reference);
    if kind.is_empty() || kind == "AWSNodeTemplate" {
        return Ok(Reference { kind: aws::class_kind(), name });
    }
    let Some((group, _)) = api_version.split_once('/') else {
        return Err(source.inconvertible(
            "spec.providerRef.apiVersion",
            format!("`{api_version}` has no group"),
            "write it as `group/version`",
        ));
    };
    Ok(Reference { kind: NodeClassKind { group: group.to_owned(), kind }, name })
}

/// What the AWS webhook of that time wrote into each Provisioner.
fn add_aws_defaults(source: &mut Source, requirements: &mut Vec<Value>, labels: Option<&Value>) {
    let given: Vec<String> = requirements
        .iter()
        .filter_map(|requirement| requirement["key"].as_str())
        .chain(
            labels
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(|labels| labels.keys().map(String::as_str)),
        )
        .map(|key| names::normalized_key(key).to_owned())
        .collect();
    let lacks = |key: &str| !given.iter().any(|given| given == key);
    let mut added = Vec::new();
    for (key, value) in [
        (names::OS_LABEL, "linux"),
        (names::ARCH_LABEL, "amd64"),
        (names::CAPACITY_TYPE_LABEL, names::ON_DEMAND),
    ] {
        if lacks(key) {
            added.push(json!({ "key": key, "operator": "In", "values": [value] }));
        }
    }
    let by_type = [
        names::INSTANCE_TYPE_LABEL,
        names::AWS_INSTANCE_FAMILY_LABEL,
        names::AWS_INSTANCE_CATEGORY_LABEL,
        names::AWS_INSTANCE_GENERATION_LABEL,
    ];
    if by_type.into_iter().all(lacks) {
        let key = names::AWS_INSTANCE_CATEGORY_LABEL;
        added.push(json!({ "key": key, "operator": "In", "values": ["c", "m", "r"] }));
        let key = names::AWS_INSTANCE_GENERATION_LABEL;
        added.push(json!({ "key": key, "operator": "Gt", "values": ["2"] }));
    }
    for requirement in added {
        let values: Vec<_> =
            requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let key = requirement["key"].as_str().unwrap_or_default();
        let operator = requirement["operator"].as_str().unwrap_or_default();
        let message =
            format!("added `{key}` {operator} {}, which was a default of that version", values.join(", "));
        source.note("spec.requirements", message);
        requirements.push(requirement);
    }
}

fn disruption(source: &mut Source, old: &mut Map<String, Value>) -> Result<Value, Error> {
    let empty = source.take_seconds(old, "spec", "ttlSecondsAfterEmpty")?;
    let mut consolidation = source.take_map(old, "spec", "consolidation")?.unwrap_or_default();
    let enabled = match source.take(&mut consolidation, "enabled") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(other) => {
            return Err(source.malformed("spec.consolidation.enabled".to_owned(), &other, "true or false"));
        }
    };
    source.note_leftovers("spec.consolidation", consolidation);
    let (policy, after) = match (empty, enabled) {
        (Some(_), true) => {
            return Err(source.inconvertible(
                "spec.ttlSecondsAfterEmpty",
                "`spec.consolidation.enabled` is set too",
                "keep one of the two",
            ));
        }
        (Some(seconds), false) => (ConsolidationPolicy::WhenEmpty, format!("{seconds}s")),
        (None, true) => (ConsolidationPolicy::WhenEmptyOrUnderutilized, "0s".to_owned()),
        (None, false) => {
            source.note(
                "spec.consolidation",
                "was off, written as policy `WhenEmpty` with `consolidateAfter: Never`",
            );
            (ConsolidationPolicy::WhenEmpty, names::NEVER.to_owned())
        }
    };
    source.note(
        "spec.disruption.budgets",
        "did not exist; v1 disrupts at most 10% of the nodes at a time by default",
    );
    Ok(json!({ "consolidationPolicy": policy.as_str(), "consolidateAfter": after }))
}

pub(super) fn machine(mut source: Source, options: &Options) -> Result<Converted, Error> {
    keep_identity(&mut source);
    let mut old = std::mem::take(&mut source.spec);
    let mut spec = Map::new();
    let requirements = requirements_and_taints(&mut source, &mut old, &mut spec)?;
    spec.insert("requirements".to_owned(), requirements.into());
    source.carry(&mut old, "resources", &mut spec);
    let kubelet = source.take(&mut old, "kubelet");
    let reference = match source.take_map(&mut old, "spec", "machineTemplateRef")? {
        Some(mut reference) => {
            // The reference has the fields of a Provisioner's, under another name.
            let missing_name = source.take_text(&mut reference, "spec.machineTemplateRef", "name")?;
            let Some(name) = missing_name.filter(|name| !name.is_empty()) else {
                let path = "spec.machineTemplateRef.name";
                return Err(source.inconvertible(path, "it is empty", "name the node template"));
            };
            reference.insert("name".to_owned(), name.into());
            provider_ref(&mut source, reference)?
        }
        None => class_of_provisioner(&mut source)?,
    };
    let NodeClassKind { group, kind } = reference.kind;
    spec.insert("nodeClassRef".to_owned(), json!({ "group": group, "kind": kind, "name": reference.name }));
    if let Some(kubelet) = kubelet {
        keep_kubelet(&mut source, "spec.kubelet", &kubelet);
    }
    expire_after_of_pool(&mut source, &mut spec, options);
    source.note_leftovers("spec", old);
    rename_conditions(&mut source);
    source.drop_severity();
    Ok(source.finish(names::API_VERSION, kinds::NODE_CLAIM, spec, Vec::new()))
}

/// A Machine without a reference came from a Provisioner with an inline provider; its class bears that one's name.
fn class_of_provisioner(source: &mut Source) -> Result<Reference, Error> {
    let pool = source.metadata.get("labels").and_then(|labels| labels[names::NODEPOOL_LABEL].as_str());
    let Some(pool) = pool.map(str::to_owned) else {
        return Err(source.inconvertible(
            "spec.machineTemplateRef",
            "it is missing and no label names the Provisioner",
            "name the node template",
        ));
    };
    source.note(
        "spec.machineTemplateRef",
        format!("absent: refers to the class generated for Provisioner `{pool}`"),
    );
    Ok(Reference { kind: aws::class_kind(), name: pool })
}

fn rename_conditions(source: &mut Source) {
    let Some(Value::Array(mut conditions)) = source.status.remove("conditions") else { return };
    conditions.retain_mut(|condition| {
        let Some(old) = condition["type"].as_str().map(str::to_owned) else { return true };
        match old.strip_prefix("Machine") {
            Some(now @ ("Launched" | "Registered" | "Initialized" | "Drifted")) => {
                if condition["reason"].as_str() == Some(&old) {
                    condition["reason"] = now.into();
                }
                condition["type"] = now.into();
                true
            }
            Some(_) => {
                source.notes.push(super::Note {
                    path: "status.conditions".to_owned(),
                    message: format!("condition `{old}` dropped: v1 has no such condition"),
                });
                false
            }
            None => true,
        }
    });
    source.status.insert("conditions".to_owned(), conditions.into());
}
