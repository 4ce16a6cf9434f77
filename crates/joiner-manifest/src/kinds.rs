//! Which kind a value is, and reading it as that.

use joiner_api::convert;
use joiner_api::{CapacityBuffer, CostModel, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController,
    Service,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::Value;

use crate::Fault;
use crate::typed::typed;
use crate::words::one_line;

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
    /// What machines really cost.
    CostModel(Box<CostModel>),
    /// A pod.
    Pod(Box<Pod>),
    /// A template that buffers refer to.
    PodTemplate(Box<PodTemplate>),
    /// A deployment.
    Deployment(Box<Deployment>),
    /// A replica set.
    ReplicaSet(Box<ReplicaSet>),
    /// A replication controller.
    ReplicationController(Box<ReplicationController>),
    /// A service.
    Service(Box<Service>),
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
    /// A node class: its group, kind and name, and the object as it is.
    NodeClass(String, String, String, Box<Value>),
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
    if let Some(items) = list_items(value) {
        let within = if value.is_array() { "" } else { "items" };
        return items.iter().enumerate().try_for_each(|(at, item)| {
            let place = |fault: Fault| {
                let inner = if fault.within.is_empty() || fault.within.starts_with('[') { "" } else { "." };
                Fault { within: format!("{within}[{at}]{inner}{}", fault.within), ..fault }
            };
            let had_unknown = read.unknown.is_some();
            one_or_list(item, find_unknown, read).map_err(place)?;
            if !had_unknown {
                read.unknown = read.unknown.take().map(place);
            }
            Ok(())
        });
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() || api_version.is_empty() {
        return Err(no_object(value, if kind.is_empty() { "kind" } else { "apiVersion" }));
    }
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    if group == "karpenter.sh" || group.starts_with("karpenter.") {
        return ours(value, find_unknown, read);
    }
    let object = builtin(value, api_version, kind, lost(find_unknown, &mut read.unknown))?;
    read.objects.push((name_of(value), object));
    Ok(())
}

/// The items of a list, of whatever kind.
fn list_items(value: &Value) -> Option<&Vec<Value>> {
    if let Some(items) = value.as_array() {
        return Some(items);
    }
    let is_list = value.get("apiVersion").is_some() && value.get("kind")?.as_str()?.ends_with("List");
    is_list.then(|| value.get("items")?.as_array()).flatten()
}

/// Where an object stands in a value: `items[3]` for an item of a list, nothing for the value itself. The object is named by kind and
/// name, as in messages; a missing namespace is `default`.
pub fn place_in(value: &Value, object: &str) -> Option<String> {
    let Some(items) = list_items(value) else {
        let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
        let mine = name_of(value);
        let found =
            mine == object || mine == format!("{kind} {}", name.strip_prefix("default/").unwrap_or(name));
        return found.then(String::new);
    };
    let within = if value.is_array() { "" } else { "items" };
    items.iter().enumerate().find_map(|(at, item)| {
        let inner = place_in(item, object)?;
        let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
        Some(format!("{within}[{at}]{dot}{inner}"))
    })
}

fn no_object(value: &Value, field: &str) -> Fault {
    let named = value.pointer("/metadata/name").is_some();
    let (path, message) = match value.get(field) {
        _ if !value.is_object() => (String::new(), "this is no Kubernetes object".to_owned()),
        Some(given) if !given.is_null() && given != "" => (field.to_owned(), "expected text".to_owned()),
        _ => (String::new(), format!("this is no Kubernetes object: it has no `{field}`")),
    };
    Fault {
        object: if named { name_of(value) } else { String::new() },
        value: (!path.is_empty()).then(|| value[field].to_string()),
        path,
        message,
        remedy: "every object names its `apiVersion` and `kind`".to_owned(),
        ..Fault::default()
    }
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
    let converted =
        convert::to_v1(value.clone(), &options).map_err(|error| conversion_fault(&name, error))?;
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
                let name = class.metadata.name.unwrap_or_default();
                Object::NodeClass(group, "KWOKNodeClass".to_owned(), name, Box::new(value.clone()))
            }
            (_, kind) if group == "karpenter.sh" => {
                return Err(unknown_kind(value, kind, &["NodePool", "NodeClaim", "NodeOverlay"]));
            }
            // What another provider's class means is the provider's to say.
            (_, kind) => {
                let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("").to_owned();
                Object::NodeClass(group, kind.to_owned(), name, Box::new(value.clone()))
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
            ..Fault::default()
        },
        convert::Error::Malformed { object, path, value, expected } => Fault {
            object,
            path,
            value: Some(value),
            message: format!("expected {expected}"),
            remedy: "correct it".to_owned(),
            ..Fault::default()
        },
        convert::Error::Inconvertible { object, path, message, remedy } => Fault {
            object,
            path,
            value: None,
            message: format!("cannot be converted to v1: {message}"),
            remedy,
            ..Fault::default()
        },
    }
}

/// Kubernetes' own kinds that decide nothing about placement.
const WITHOUT_EFFECT: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "ResourceQuota",
            "Secret",
            "ServiceAccount",
            "Binding",
            "ComponentStatus",
        ],
    ),
    ("apps", &["ControllerRevision"]),
    ("storage.k8s.io", &["CSIDriver", "VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"]),
];

const APPS: &[&str] = &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"];
const BATCH: &[&str] = &["CronJob", "Job"];
const CORE: &[&str] = &[
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "Service",
];

fn builtin(
    value: &Value,
    api_version: &str,
    kind: &str,
    lost: Option<&mut Option<Fault>>,
) -> Result<Object, Fault> {
    let (group, _) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    Ok(match (api_version, kind) {
        ("v1", "Pod") => Object::Pod(typed(value, lost)?),
        ("v1", "PodTemplate") => Object::PodTemplate(typed(value, lost)?),
        ("v1", "Node") => Object::Node(typed(value, lost)?),
        ("v1", "Namespace") => Object::Namespace(typed(value, lost)?),
        ("v1", "PersistentVolume") => Object::PersistentVolume(typed(value, lost)?),
        ("v1", "PersistentVolumeClaim") => Object::PersistentVolumeClaim(typed(value, lost)?),
        ("v1", "ReplicationController") => Object::ReplicationController(typed(value, lost)?),
        ("v1", "Service") => Object::Service(typed(value, lost)?),
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
        ("joiner.sh/v1alpha1", "CostModel") => Object::CostModel(typed(value, lost)?),
        _ if WITHOUT_EFFECT.iter().any(|(of, kinds)| *of == group && kinds.contains(&kind)) => {
            Object::Skipped(one_line(kind))
        }
        _ => {
            let known: &[&str] = match group {
                "" => CORE,
                "apps" => APPS,
                "batch" => BATCH,
                "storage.k8s.io" => &["StorageClass", "CSINode"],
                "scheduling.k8s.io" => &["PriorityClass"],
                "joiner.sh" => &["CostModel"],
                _ => return Ok(Object::Skipped(one_line(kind))),
            };
            return Err(unknown_kind(value, kind, known));
        }
    })
}

/// Every kind that is read, with its current version.
const CURRENT: &[(&str, &[&str])] = &[
    ("v1", CORE),
    ("apps/v1", APPS),
    ("batch/v1", BATCH),
    ("storage.k8s.io/v1", &["StorageClass", "CSINode"]),
    ("scheduling.k8s.io/v1", &["PriorityClass"]),
    ("karpenter.sh/v1", &["NodePool", "NodeClaim"]),
    ("karpenter.sh/v1alpha1", &["NodeOverlay"]),
    ("karpenter.kwok.sh/v1alpha1", &["KWOKNodeClass"]),
    ("autoscaling.x-k8s.io/v1beta1", &["CapacityBuffer"]),
    ("joiner.sh/v1alpha1", &["CostModel"]),
];

fn unknown_kind(value: &Value, kind: &str, known: &[&str]) -> Fault {
    let api_version = one_line(value.get("apiVersion").and_then(Value::as_str).unwrap_or(""));
    if let Some((current, _)) = CURRENT.iter().find(|(_, kinds)| kinds.contains(&kind)) {
        let message = match known.contains(&kind) {
            true => format!("there is no such version of {kind}"),
            false => format!("{kind} is not one of its kinds"),
        };
        return Fault {
            object: name_of(value),
            path: "apiVersion".to_owned(),
            value: Some(api_version),
            message,
            remedy: format!("write `{current}`"),
            ..Fault::default()
        };
    }
    let mut all: Vec<&str> = known.to_vec();
    all.extend(WITHOUT_EFFECT.iter().flat_map(|(_, kinds)| kinds.iter()));
    let remedy = match joiner_core::explain::nearest(&one_line(kind), all.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("kinds of `{api_version}` that matter here: {}", known.join(", ")),
    };
    Fault {
        object: name_of(value),
        path: "kind".to_owned(),
        value: Some(kind.to_owned()),
        message: format!("`{api_version}` has no such kind"),
        remedy,
        ..Fault::default()
    }
}

/// Kind and name, for messages.
pub fn name_of(value: &Value) -> String {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or("object");
    match (text("/metadata/namespace"), text("/metadata/name").or(text("/metadata/generateName"))) {
        (Some(namespace), Some(name)) => one_line(&format!("{kind} {namespace}/{name}")),
        (None, Some(name)) => one_line(&format!("{kind} {name}")),
        _ => one_line(kind),
    }
}
