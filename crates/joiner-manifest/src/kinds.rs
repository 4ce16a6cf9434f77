//! Which kind a value is, and reading it as that.

use joiner_api::convert;
use joiner_api::{CapacityBuffer, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::Value;

use crate::Fault;
use crate::typed::typed;

/// An object that matters for placement, or the name of one that does not.
#[derive(Debug)]
pub enum Object {
    /// A pool, converted to v1 where it was older.
    NodePool(Box<NodePool>),
    /// A claim.
    NodeClaim(Box<NodeClaim>),
    /// A price or capacity adjustment.
    NodeOverlay(Box<NodeOverlay>),
    /// Headroom.
    CapacityBuffer(Box<CapacityBuffer>),
    /// A pod.
    Pod(Box<Pod>),
    /// A deployment.
    Deployment(Box<Deployment>),
    /// A replica set.
    ReplicaSet(Box<ReplicaSet>),
    /// A stateful set.
    StatefulSet(Box<StatefulSet>),
    /// A job.
    Job(Box<Job>),
    /// A cron job.
    CronJob(Box<CronJob>),
    /// A daemon set.
    DaemonSet(Box<DaemonSet>),
    /// A node.
    Node(Box<Node>),
    /// A volume.
    PersistentVolume(Box<PersistentVolume>),
    /// A claim on a volume.
    PersistentVolumeClaim(Box<PersistentVolumeClaim>),
    /// A storage class.
    StorageClass(Box<StorageClass>),
    /// A priority class.
    PriorityClass(Box<PriorityClass>),
    /// A namespace.
    Namespace(Box<Namespace>),
    /// Volume limits of a node.
    CsiNode(Box<CSINode>),
    /// A node class: its group, kind and name.
    NodeClass(String, String, String),
    /// A kind that does not matter for placement.
    Skipped(String),
}

/// What a value gave.
#[derive(Debug, Default)]
pub struct Read {
    /// Its objects, each with kind and name.
    pub objects: Vec<(String, Object)>,
    /// Remarks: the object, the field and what became of it.
    pub notes: Vec<(String, convert::Note)>,
    /// The first field that no kind has, if unknown fields were asked for.
    pub unknown: Option<Fault>,
}

/// Reads a value; lists give several objects. With `find_unknown` the first unknown field is reported too.
pub fn read(value: &Value, find_unknown: bool) -> Result<Read, Fault> {
    let mut read = Read::default();
    one_or_list(value, find_unknown, &mut read)?;
    Ok(read)
}

fn one_or_list(value: &Value, find_unknown: bool, read: &mut Read) -> Result<(), Fault> {
    if let Some(items) = value.as_array() {
        return items.iter().try_for_each(|item| one_or_list(item, find_unknown, read));
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() || api_version.is_empty() {
        let field = if kind.is_empty() { "kind" } else { "apiVersion" };
        let message = match value {
            Value::Object(_) => format!("this is no Kubernetes object: it has no `{field}`"),
            _ => "this is no Kubernetes object".to_owned(),
        };
        return Err(Fault {
            object: if value.is_object() { name_of(value) } else { String::new() },
            path: String::new(),
            value: None,
            message,
            remedy: "every object names its `apiVersion` and `kind`".to_owned(),
        });
    }
    if kind.ends_with("List")
        && let Some(items) = value.get("items").and_then(Value::as_array)
    {
        return items.iter().try_for_each(|item| one_or_list(item, find_unknown, read));
    }
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    if group == "karpenter.sh" || group.starts_with("karpenter.") {
        return ours(value, find_unknown, read);
    }
    let object = builtin(value, api_version, kind, lost(find_unknown, &mut read.unknown))?;
    read.objects.push((name_of(value), object));
    Ok(())
}

fn lost(find_unknown: bool, slot: &mut Option<Fault>) -> Option<&mut Option<Fault>> {
    (find_unknown && slot.is_none()).then_some(slot)
}

/// Kinds of Karpenter and its providers: brought to the current version first.
fn ours(value: &Value, find_unknown: bool, read: &mut Read) -> Result<(), Fault> {
    let name = name_of(value);
    let options = convert::Options {
        default_node_class: Some(convert::NodeClassKind {
            group: "karpenter.kwok.sh".to_owned(),
            kind: "KWOKNodeClass".to_owned(),
        }),
        ..convert::Options::default()
    };
    let converted = convert::to_v1(value.clone(), &options).map_err(|error| conversion_fault(&name, error))?;
    read.notes.extend(converted.notes.into_iter().map(|note| (name.clone(), note)));
    for value in &converted.objects {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("");
        let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let lost = lost(find_unknown, &mut read.unknown);
        let object = match (text("apiVersion"), text("kind")) {
            ("karpenter.sh/v1", "NodePool") => Object::NodePool(typed(value, lost)?),
            ("karpenter.sh/v1", "NodeClaim") => Object::NodeClaim(typed(value, lost)?),
            ("karpenter.sh/v1alpha1", "NodeOverlay") => Object::NodeOverlay(typed(value, lost)?),
            ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass") => {
                let class: Box<KwokNodeClass> = typed(value, lost)?;
                Object::NodeClass(group, "KWOKNodeClass".to_owned(), class.metadata.name.unwrap_or_default())
            }
            (_, kind) if group == "karpenter.sh" => {
                return Err(unknown_kind(value, kind, &["NodePool", "NodeClaim", "NodeOverlay"]));
            }
            // Another provider's class is opaque: the catalogue stands for what it can launch.
            (_, kind) => {
                let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("").to_owned();
                Object::NodeClass(group, kind.to_owned(), name)
            }
        };
        read.objects.push((name_of(value), object));
    }
    Ok(())
}

fn conversion_fault(name: &str, error: convert::Error) -> Fault {
    match error {
        convert::Error::NotAnObject(field) => Fault {
            object: name.to_owned(),
            path: field.to_owned(),
            value: None,
            message: "is missing or not text".to_owned(),
            remedy: "name it".to_owned(),
        },
        convert::Error::Malformed { object, path, value, expected } => Fault {
            object,
            path,
            value: Some(value),
            message: format!("expected {expected}"),
            remedy: "correct it".to_owned(),
        },
        convert::Error::Inconvertible { object, path, message, remedy } => Fault {
            object,
            path,
            value: None,
            message: format!("cannot be converted to v1: {message}"),
            remedy,
        },
    }
}

/// Kubernetes' own kinds that decide nothing about placement.
const WITHOUT_EFFECT: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "ConfigMap", "Endpoints", "Event", "LimitRange", "PodTemplate", "ReplicationController", "ResourceQuota",
            "Secret", "Service", "ServiceAccount", "Binding", "ComponentStatus",
        ],
    ),
    ("apps", &["ControllerRevision"]),
    ("storage.k8s.io", &["CSIDriver", "VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"]),
];

const APPS: &[&str] = &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"];
const BATCH: &[&str] = &["CronJob", "Job"];
const CORE: &[&str] = &["Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"];


fn builtin(value: &Value, api_version: &str, kind: &str, lost: Option<&mut Option<Fault>>) -> Result<Object, Fault> {
    let (group, _) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    Ok(match (api_version, kind) {
        ("v1", "Pod") => Object::Pod(typed(value, lost)?),
        ("v1", "Node") => Object::Node(typed(value, lost)?),
        ("v1", "Namespace") => Object::Namespace(typed(value, lost)?),
        ("v1", "PersistentVolume") => Object::PersistentVolume(typed(value, lost)?),
        ("v1", "PersistentVolumeClaim") => Object::PersistentVolumeClaim(typed(value, lost)?),
        ("apps/v1", "Deployment") => Object::Deployment(typed(value, lost)?),
        ("apps/v1", "ReplicaSet") => Object::ReplicaSet(typed(value, lost)?),
        ("apps/v1", "StatefulSet") => Object::StatefulSet(typed(value, lost)?),
        ("apps/v1", "DaemonSet") => Object::DaemonSet(typed(value, lost)?),
        ("batch/v1", "Job") => Object::Job(typed(value, lost)?),
        ("batch/v1", "CronJob") => Object::CronJob(typed(value, lost)?),
        ("storage.k8s.io/v1", "StorageClass") => Object::StorageClass(typed(value, lost)?),
        ("storage.k8s.io/v1", "CSINode") => Object::CsiNode(typed(value, lost)?),
        ("scheduling.k8s.io/v1", "PriorityClass") => Object::PriorityClass(typed(value, lost)?),
        ("autoscaling.x-k8s.io/v1beta1" | "autoscaling.x-k8s.io/v1alpha1", "CapacityBuffer") => {
            Object::CapacityBuffer(typed(value, lost)?)
        }
        _ if WITHOUT_EFFECT.iter().any(|(of, kinds)| *of == group && kinds.contains(&kind)) => {
            Object::Skipped(kind.to_owned())
        }
        _ => {
            let known: &[&str] = match group {
                "" => CORE,
                "apps" => APPS,
                "batch" => BATCH,
                "storage.k8s.io" => &["StorageClass", "CSINode"],
                "scheduling.k8s.io" => &["PriorityClass"],
                _ => return Ok(Object::Skipped(kind.to_owned())),
            };
            return Err(unknown_kind(value, kind, known));
        }
    })
}

fn unknown_kind(value: &Value, kind: &str, known: &[&str]) -> Fault {
    let api_version = value.get("apiVersion").and_then(Value::as_str).unwrap_or("");
    if known.contains(&kind) {
        let current = match kind {
            "NodePool" | "NodeClaim" => "karpenter.sh/v1",
            "NodeOverlay" => "karpenter.sh/v1alpha1",
            "CronJob" | "Job" => "batch/v1",
            "StorageClass" | "CSINode" => "storage.k8s.io/v1",
            "PriorityClass" => "scheduling.k8s.io/v1",
            kind if APPS.contains(&kind) => "apps/v1",
            _ => "v1",
        };
        return Fault {
            object: name_of(value),
            path: "apiVersion".to_owned(),
            value: Some(api_version.to_owned()),
            message: format!("there is no such version of {kind}"),
            remedy: format!("write `{current}`"),
        };
    }
    let mut all: Vec<&str> = known.to_vec();
    all.extend(WITHOUT_EFFECT.iter().flat_map(|(_, kinds)| kinds.iter()));
    let remedy = match joiner_core::explain::nearest(kind, all.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("kinds of `{api_version}` that matter here: {}", known.join(", ")),
    };
    Fault {
        object: String::new(),
        path: "kind".to_owned(),
        value: Some(kind.to_owned()),
        message: format!("`{api_version}` has no such kind"),
        remedy,
    }
}

/// Kind and name, for messages.
pub fn name_of(value: &Value) -> String {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or("object");
    match (text("/metadata/namespace"), text("/metadata/name").or(text("/metadata/generateName"))) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        _ => kind.to_owned(),
    }
}
