//! The hash that tells whether a node was made from the pool's present template.
//!
//! It is written to the annotation `karpenter.sh/nodepool-hash` on pools and claims and compared as text, so
//! it has to be the same number, bit for bit, as the one already found on a cluster being taken over:
//! otherwise every node would count as drifted at once. That makes its oddities part of the format. Lists are
//! sets combined by exclusive or, hence order does not matter and a taint given twice cancels out; an empty
//! map or list is not the same as an absent one; zero values inside an object are skipped; names of types and
//! fields are hashed too.
//!
//! What is hashed: labels, annotations, taints, startup taints, the class reference and both durations. What
//! is not: requirements, and how a duration was spelled.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use crate::duration::{self, Duration, NillableDuration};
use crate::nodepool;

/// Version of the hash, written next to it; hashes of different versions are never compared.
pub const VERSION: &str = "v3";

/// The template of a pool, as far as the hash can see it. `None` and empty differ.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Template {
    /// Labels and annotations.
    pub metadata: Metadata,
    /// The rest.
    pub spec: Spec,
}

/// Metadata of the template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Labels every node gets.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations every node gets.
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Specification of the template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// Not hashed, but a specification that holds a list of requirements, even an empty one, is not an empty
    /// one.
    pub requirements: Option<serde::de::IgnoredAny>,
    /// Taints every node gets.
    pub taints: Option<Vec<Taint>>,
    /// Taints every node starts with.
    pub startup_taints: Option<Vec<Taint>>,
    /// The class of nodes.
    pub node_class_ref: Option<NodeClassReference>,
    /// How long a drain may take.
    pub termination_grace_period: Option<Duration>,
    /// How long a node lives.
    pub expire_after: Option<NillableDuration>,
}

/// A taint of the template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, empty when absent.
    pub value: String,
    /// Effect.
    pub effect: String,
    /// When it was added; nobody sets this in a template, but it counts.
    pub time_added: Option<Timestamp>,
}

/// The class of nodes a template names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeClassReference {
    /// API group of the class.
    pub group: String,
    /// Kind of the class.
    pub kind: String,
    /// Name of the class.
    pub name: String,
}

impl Template {
    /// The hashed part of a pool's template. Fails if one of its durations cannot be read.
    pub fn of(template: &nodepool::NodeClaimTemplate) -> Result<Template, duration::Error> {
        let nodepool::NodeClaimTemplate { metadata, spec } = template;
        let taints = |taints: &Option<Vec<k8s_openapi::api::core::v1::Taint>>| {
            taints.as_ref().map(|taints| taints.iter().map(Taint::of).collect())
        };
        let class = &spec.node_class_ref;
        Ok(Template {
            metadata: Metadata { labels: metadata.labels.clone(), annotations: metadata.annotations.clone() },
            spec: Spec {
                requirements: Some(serde::de::IgnoredAny),
                taints: taints(&spec.taints),
                startup_taints: taints(&spec.startup_taints),
                node_class_ref: Some(NodeClassReference {
                    group: class.group.clone(),
                    kind: class.kind.clone(),
                    name: class.name.clone(),
                }),
                termination_grace_period: spec
                    .termination_grace_period
                    .as_deref()
                    .map(Duration::parse)
                    .transpose()?,
                expire_after: spec.expire_after.as_deref().map(NillableDuration::parse).transpose()?,
            },
        })
    }
}

impl Taint {
    fn of(taint: &k8s_openapi::api::core::v1::Taint) -> Taint {
        Taint {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            effect: taint.effect.clone(),
            time_added: taint.time_added.as_ref().map(|time| time.0),
        }
    }
}

/// Hash of a template given as the JSON of a pool's `spec.template`.
pub fn hash_json(template: &serde_json::Value) -> Result<u64, serde_json::Error> {
    Template::deserialize(template).map(|template| hash(&template))
}

/// Hash of a template. The annotation holds it as a decimal number.
pub fn hash(template: &Template) -> u64 {
    let mut object = ObjectHash::new("NodeClaimTemplate");
    let metadata = &template.metadata;
    if metadata.labels.is_some() || metadata.annotations.is_some() {
        let mut inner = ObjectHash::new("ObjectMeta");
        inner.field("Labels", metadata.labels.as_ref().map(map));
        inner.field("Annotations", metadata.annotations.as_ref().map(map));
        object.field("ObjectMeta", Some(inner.finish()));
    }
    object.field("Spec", spec(&template.spec));
    object.finish()
}

fn spec(spec: &Spec) -> Option<u64> {
    let expire_after = spec.expire_after.as_ref().and_then(NillableDuration::duration);
    let is_zero = spec.requirements.is_none()
        && spec.taints.is_none()
        && spec.startup_taints.is_none()
        && spec.node_class_ref.is_none()
        && spec.termination_grace_period.is_none()
        && expire_after.is_none();
    if is_zero {
        return None;
    }
    let mut object = ObjectHash::new("NodeClaimTemplateSpec");
    object.field("Taints", spec.taints.as_deref().map(taints));
    object.field("StartupTaints", spec.startup_taints.as_deref().map(taints));
    object.field("NodeClassRef", spec.node_class_ref.as_ref().map(node_class));
    // A grace period of zero is an object whose only field is zero and skipped; an expiry of zero is hashed
    // as a number.
    object.field(
        "TerminationGracePeriod",
        spec.termination_grace_period.map(|duration| {
            let mut inner = ObjectHash::new("Duration");
            inner.field("Duration", (duration != Duration::ZERO).then(|| integer(duration.nanos())));
            inner.finish()
        }),
    );
    object.field(
        "ExpireAfter",
        expire_after.map(|duration| {
            let mut inner = ObjectHash::new("NillableDuration");
            inner.field("Duration", Some(integer(duration.nanos())));
            inner.finish()
        }),
    );
    Some(object.finish())
}

fn taints(taints: &[Taint]) -> u64 {
    taints.iter().map(taint).fold(0, |sum, taint| sum ^ taint)
}

fn taint(taint: &Taint) -> u64 {
    let mut object = ObjectHash::new("Taint");
    object.text("Key", &taint.key);
    object.text("Value", &taint.value);
    object.text("Effect", &taint.effect);
    object.field(
        "TimeAdded",
        taint.time_added.map(|instant| {
            let mut inner = ObjectHash::new("Time");
            inner.field("Time", Some(fnv(&binary_instant(instant))));
            inner.finish()
        }),
    );
    object.finish()
}

fn node_class(reference: &NodeClassReference) -> u64 {
    let mut object = ObjectHash::new("NodeClassReference");
    object.text("Kind", &reference.kind);
    object.text("Name", &reference.name);
    object.text("Group", &reference.group);
    object.finish()
}

fn map(entries: &BTreeMap<String, String>) -> u64 {
    let pairs = entries.iter().map(|(key, value)| pair(fnv(key.as_bytes()), fnv(value.as_bytes())));
    finish(pairs.fold(0, |sum, entry| sum ^ entry))
}

/// An object under construction: its type's name, then each field that is not zero, in the order of
/// declaration.
struct ObjectHash(u64);

impl ObjectHash {
    fn new(type_name: &str) -> ObjectHash {
        ObjectHash(fnv(type_name.as_bytes()))
    }

    fn field(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.0 = finish(self.0 ^ pair(fnv(name.as_bytes()), value));
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        self.field(name, (!value.is_empty()).then(|| fnv(value.as_bytes())));
    }

    fn finish(self) -> u64 {
        self.0
    }
}

/// FNV-1 with 64 bits: multiply first, then the byte.
fn fnv(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

fn integer(value: i64) -> u64 {
    fnv(&value.to_le_bytes())
}

fn pair(left: u64, right: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&left.to_le_bytes());
    bytes[8..].copy_from_slice(&right.to_le_bytes());
    fnv(&bytes)
}

fn finish(hash: u64) -> u64 {
    fnv(&hash.to_le_bytes())
}

/// An instant in the 15 bytes that are hashed: version, seconds since the year 1, nanoseconds, offset in
/// minutes.
fn binary_instant(instant: Timestamp) -> [u8; 15] {
    const YEAR_ONE: i64 = -62_135_596_800;
    // Times in a template have whole seconds; the offset is that of a controller running in UTC.
    let (second, nanosecond, offset) = (instant.as_second() - YEAR_ONE, 0_i32, 0_i16);
    let mut bytes = [1; 15];
    bytes[1..9].copy_from_slice(&second.to_be_bytes());
    bytes[9..13].copy_from_slice(&nanosecond.to_be_bytes());
    bytes[13..].copy_from_slice(&offset.to_be_bytes());
    bytes
}
