//! Facts about fields: which exist, of what type, how lists are merged.
//!
//! Strategic merge patches, server-side apply and field validation all walk an object along its type. For built-in kinds the types
//! come from the published OpenAPI of Kubernetes, packed without prose in `data/openapi.json.zst` and read once, at first use. For custom
//! resources the same structure is built from the definition's schema. A [`TypeRef`] is one place in such a structure and
//! costs nothing to copy.

mod build;
mod field_index;
mod types;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use serde_json::{Map, Value};

pub(crate) use types::NodeId as Place;
pub use types::{ListType, PatchStrategy, Shape, TypeRef, ZeroValue};
use types::{Node, NodeId, StructBody};

/// Types of a set of kinds.
#[derive(Debug, Default)]
pub struct Schemas {
    nodes: Vec<Node>,
    structs: Vec<StructBody>,
    definitions: BTreeMap<String, NodeId>,
    /// By group, version and kind.
    kinds: BTreeMap<String, BTreeMap<String, BTreeMap<String, NodeId>>>,
    /// Whether writes to an object leave its status alone.
    status_apart: bool,
}

static DOCUMENT: LazyLock<Map<String, Value>> =
    LazyLock::new(|| match unpack(include_bytes!("../../data/openapi.json.zst")) {
        Value::Object(definitions) => definitions,
        _ => Map::new(),
    });
static BUILTIN: LazyLock<Schemas> =
    LazyLock::new(|| Schemas { status_apart: true, ..build::from_definitions(&DOCUMENT) });
static DISCOVERY: LazyLock<Value> = LazyLock::new(|| unpack(include_bytes!("../../data/discovery.json.zst")));

impl Schemas {
    /// Types of the kinds that Kubernetes has built in.
    pub fn builtin() -> &'static Schemas {
        &BUILTIN
    }

    /// The type of a kind; `group` is empty for the core group.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeRef<'_>> {
        self.kinds.get(group)?.get(version)?.get(kind).map(|&node| TypeRef::new(self, node))
    }

    /// A type by the name of its definition, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn definition(&self, name: &str) -> Option<TypeRef<'_>> {
        self.definitions.get(name).map(|&node| TypeRef::new(self, node))
    }

    /// Group, version and kind of everything that has a type of its own, in order.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.kinds.iter().flat_map(|(group, versions)| {
            versions.iter().flat_map(move |(version, kinds)| {
                kinds.keys().map(move |kind| (group.as_str(), version.as_str(), kind.as_str()))
            })
        })
    }

    /// The type of things without a type: everything goes.
    pub fn any() -> TypeRef<'static> {
        TypeRef::new(&BUILTIN, build::ANY)
    }

    /// Types of one custom resource, as its definition's schema describes them.
    pub(crate) fn custom(schema: &Value, status_apart: bool) -> (Schemas, Place) {
        let (mut schemas, root) = build::custom(&DOCUMENT, schema);
        schemas.status_apart = status_apart;
        (schemas, root)
    }

    /// A place by its number.
    pub(crate) fn at(&self, node: Place) -> TypeRef<'_> {
        TypeRef::new(self, node)
    }
}

/// The OpenAPI definitions of built-in kinds without prose, by name. References (`$ref`) are bare names.
pub fn openapi_definitions() -> &'static Map<String, Value> {
    &DOCUMENT
}

/// The aggregated discovery document of Kubernetes 1.35.4 (`/apis` and `/api` in one).
pub fn packed_discovery() -> &'static Value {
    &DISCOVERY
}

/// Reads packed data that is part of the binary: a fault in it is a fault of the build, and the tests read all of it.
fn unpack(packed: &[u8]) -> Value {
    let mut text = Vec::new();
    let read =
        zstd::stream::read::Decoder::new(packed).and_then(|mut decoder| decoder.read_to_end(&mut text));
    debug_assert!(read.is_ok(), "packed data is whole");
    serde_json::from_slice(&text).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(ty: TypeRef<'a>, path: &str) -> TypeRef<'a> {
        path.split('.').fold(ty, |ty, part| match part {
            "[]" => ty.element().unwrap(),
            name => ty.field(name).unwrap_or_else(|| panic!("no field {name}")),
        })
    }

    #[test]
    fn packed_data_is_whole() {
        assert!(Schemas::builtin().kinds().count() > 150);
        assert_eq!(packed_discovery()["kind"], "APIGroupDiscoveryList");
        let unknown: Vec<_> = Schemas::builtin()
            .definitions
            .iter()
            .filter(|(name, _)| name.ends_with("PodSpec"))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(unknown, ["io.k8s.api.core.v1.PodSpec"]);
    }

    #[test]
    fn lists_know_how_they_merge() {
        let pod = Schemas::builtin().kind("", "v1", "Pod").unwrap();
        let ports = at(pod, "spec.containers.[].ports");
        assert_eq!(ports.list_type(), Some(ListType::Map));
        assert_eq!(ports.map_keys(), ["containerPort", "protocol"]);
        assert_eq!(ports.patch_merge_key(), Some("containerPort"));
        assert_eq!(ports.patch_strategy(), PatchStrategy { merge: true, ..PatchStrategy::default() });
        assert_eq!(at(ports, "[].protocol").default_value(), Some(&Value::from("TCP")));

        let volumes = at(pod, "spec.volumes");
        assert!(volumes.patch_strategy().merge && volumes.patch_strategy().retain_keys);
        assert_eq!(at(pod, "spec.tolerations").list_type(), Some(ListType::Atomic));
        assert_eq!(at(pod, "metadata.finalizers").list_type(), Some(ListType::Set));
        assert!(at(pod, "spec.nodeSelector").is_atomic());
        assert!(!at(pod, "metadata.labels").is_atomic());

        let node = Schemas::builtin().kind("", "v1", "Node").unwrap();
        assert_eq!(at(node, "spec.taints").list_type(), Some(ListType::Atomic));
        let deployment = Schemas::builtin().kind("apps", "v1", "Deployment").unwrap();
        assert!(at(deployment, "spec.strategy").patch_strategy().retain_keys);
        assert!(at(deployment, "spec.selector").is_atomic());
    }

    #[test]
    fn scalars_know_their_shape_and_their_zero() {
        let deployment = Schemas::builtin().kind("apps", "v1", "Deployment").unwrap();
        assert!(matches!(at(deployment, "spec.replicas").shape(), Shape::Int32));
        assert_eq!(at(deployment, "spec.replicas").zero(), ZeroValue::Kept);
        assert_eq!(at(deployment, "spec.minReadySeconds").zero(), ZeroValue::Dropped);
        let container = at(deployment, "spec.template.spec.containers.[]");
        assert!(matches!(at(container, "resources.requests.[]").shape(), Shape::Quantity));
        assert!(matches!(at(container, "livenessProbe.httpGet.port").shape(), Shape::IntOrString));
        assert_eq!(at(container, "resources").zero(), ZeroValue::Always);
        assert_eq!(at(deployment, "metadata.creationTimestamp").zero(), ZeroValue::Dropped);
        assert!(matches!(at(deployment, "metadata.creationTimestamp").shape(), Shape::Time));
        assert!(deployment.field("nope").is_none());
        assert_eq!(deployment.go_name(), "v1.Deployment");
    }
}
