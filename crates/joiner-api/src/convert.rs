//! Older API versions and other spellings, rewritten as `v1`.
//!
//! [`to_v1`] takes any object and returns what stands for it today: a v1beta1 NodePool or NodeClaim, a v1alpha5
//! Provisioner or Machine, an AWSNodeTemplate, a v1beta1 EC2NodeClass, or a v1 object with names that exist on paper only. Everything else
//! passes through untouched. Conversion works on JSON values and takes each field out of the old object by name, so a
//! field nobody thought of ends in a [`Note`] instead of vanishing.
//!
//! A note is written for each thing whose meaning changed, that was dropped, or that the reader must finish by hand;
//! not for fields that merely moved. What has no equivalent is an [`Error`].

mod aws;
mod kubelet;
mod old_names;
mod v1;
mod v1alpha5;
mod v1beta1;

use std::collections::BTreeMap;
use std::fmt;

pub use kubelet::settle_kubelets;

use serde_json::{Map, Value};

use crate::names::{self, kinds};

/// What the caller knows beside the object.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Leave out the requirements that the AWS defaulting webhook of v1alpha5 used to add.
    pub skip_aws_defaults: bool,
    /// The provider's first node class, for references that do not say group or kind.
    pub default_node_class: Option<NodeClassKind>,
    /// Name of the cluster, for tags and roles that were once found by it. Unset leaves `${CLUSTER_NAME}` to fill in.
    pub cluster_name: Option<String>,
    /// Minor version of Kubernetes (33 for 1.33): decides which image family takes the place of an absent one.
    pub kubernetes_minor: Option<u32>,
    /// `expireAfter` by pool name, for claims of versions in which it stood in the pool only.
    pub expire_after_by_pool: BTreeMap<String, String>,
    /// Also rewrite v1alpha5 labels, annotations and taints on pods, nodes and workloads. Off by default: on a cluster
    /// of today they mean nothing, and reading it must not give them a meaning.
    pub rename_on_workloads: bool,
}

/// Group and kind of a node class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClassKind {
    /// API group, without a version.
    pub group: String,
    /// Kind.
    pub kind: String,
}

/// Something the reader of a converted object should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// Field of the original object.
    pub path: String,
    /// What became of it.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path, self.message)
    }
}

/// What stands for the original object today.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// The objects, usually one. A generated node class follows the pool it was taken from.
    pub objects: Vec<Value>,
    /// Remarks, in the order of the fields.
    pub notes: Vec<Note>,
}

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The value is no Kubernetes object.
    #[error(
        "not a Kubernetes object: `{0}` is missing or not text; every object names its `apiVersion` and `kind`"
    )]
    NotAnObject(&'static str),
    /// A field has another shape than its version allows.
    #[error("{object}: `{path}` is `{value}`, expected {expected}")]
    Malformed {
        /// Kind and name of the object.
        object: String,
        /// Field at fault.
        path: String,
        /// Its value, as JSON.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A field says something that cannot be said today.
    #[error("{object}: `{path}` cannot be converted: {message}; {remedy}")]
    Inconvertible {
        /// Kind and name of the object.
        object: String,
        /// Field at fault.
        path: String,
        /// Why not.
        message: String,
        /// What to do.
        remedy: String,
    },
}

/// Rewrites an object as `v1`; lists are rewritten item by item.
pub fn to_v1(value: Value, options: &Options) -> Result<Converted, Error> {
    let text = |field: &'static str| {
        value.get(field).and_then(Value::as_str).map(str::to_owned).ok_or(Error::NotAnObject(field))
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    if kind.ends_with("List") && value.get("items").is_some_and(Value::is_array) {
        return list_to_v1(value, &api_version, options);
    }
    match (api_version.as_str(), kind.as_str()) {
        (
            names::API_VERSION | names::OVERLAY_API_VERSION,
            kinds::NODE_POOL | kinds::NODE_CLAIM | kinds::NODE_OVERLAY,
        ) => Ok(v1::normalized(value)),
        ("karpenter.sh/v1beta1", kinds::NODE_POOL) => v1beta1::node_pool(Source::new(value)?, options),
        ("karpenter.sh/v1beta1", kinds::NODE_CLAIM) => v1beta1::node_claim(Source::new(value)?, options),
        ("karpenter.sh/v1alpha5", "Provisioner") => v1alpha5::provisioner(Source::new(value)?, options),
        ("karpenter.sh/v1alpha5", "Machine") => v1alpha5::machine(Source::new(value)?, options),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate") => aws::node_template(Source::new(value)?, options),
        ("karpenter.k8s.aws/v1beta1", kinds::EC2_NODE_CLASS) => aws::node_class(Source::new(value)?, options),
        _ if options.rename_on_workloads => {
            let mut value = value;
            let mut notes = Vec::new();
            old_names::rename(&mut value, "", &mut notes);
            v1::rewrite_paper_selectors(&mut value, "", false, &mut notes);
            Ok(Converted { objects: vec![value], notes })
        }
        _ => Ok(Converted { objects: vec![value], notes: Vec::new() }),
    }
}

fn list_to_v1(mut value: Value, api_version: &str, options: &Options) -> Result<Converted, Error> {
    let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) else {
        return Ok(Converted { objects: vec![value], notes: Vec::new() });
    };
    // Items of a typed list may leave out what the list says already.
    let item_kind =
        value["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default().to_owned();
    let mut converted = Converted::default();
    for (index, mut item) in items.into_iter().enumerate() {
        if !item_kind.is_empty()
            && let Some(item) = item.as_object_mut()
        {
            item.entry("apiVersion").or_insert_with(|| api_version.into());
            item.entry("kind").or_insert_with(|| item_kind.as_str().into());
        }
        let one = to_v1(item, options)?;
        converted.objects.extend(one.objects);
        converted.notes.extend(
            one.notes
                .into_iter()
                .map(|note| Note { path: format!("items[{index}].{}", note.path), message: note.message }),
        );
    }
    Ok(converted)
}

/// An old object being taken apart, and what was remarked on the way.
struct Source {
    /// Kind and name, for errors.
    object: String,
    metadata: Map<String, Value>,
    spec: Map<String, Value>,
    status: Map<String, Value>,
    notes: Vec<Note>,
}

impl Source {
    fn new(value: Value) -> Result<Self, Error> {
        let kind = value["kind"].as_str().unwrap_or_default();
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let object = format!("{kind} `{name}`");
        let Value::Object(mut fields) = value else { return Err(Error::NotAnObject("kind")) };
        let mut source =
            Self { object, metadata: Map::new(), spec: Map::new(), status: Map::new(), notes: Vec::new() };
        source.metadata = source.take_map(&mut fields, "", "metadata")?.unwrap_or_default();
        source.spec = source.take_map(&mut fields, "", "spec")?.unwrap_or_default();
        source.status = source.take_map(&mut fields, "", "status")?.unwrap_or_default();
        Ok(source)
    }

    fn name(&self) -> &str {
        self.metadata.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    fn note(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.notes.push(Note { path: path.into(), message: message.into() });
    }

    fn malformed(&self, path: String, value: &Value, expected: &'static str) -> Error {
        Error::Malformed { object: self.object.clone(), path, value: value.to_string(), expected }
    }

    fn inconvertible(&self, path: &str, message: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Inconvertible {
            object: self.object.clone(),
            path: path.to_owned(),
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    /// Takes a field out of `from`; null counts as absent.
    fn take(&self, from: &mut Map<String, Value>, field: &str) -> Option<Value> {
        from.remove(field).filter(|value| !value.is_null())
    }

    fn take_map(
        &self,
        from: &mut Map<String, Value>,
        parent: &str,
        field: &str,
    ) -> Result<Option<Map<String, Value>>, Error> {
        match self.take(from, field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(self.malformed(join(parent, field), &other, "an object")),
        }
    }

    fn take_list(
        &self,
        from: &mut Map<String, Value>,
        parent: &str,
        field: &str,
    ) -> Result<Option<Vec<Value>>, Error> {
        match self.take(from, field) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(self.malformed(join(parent, field), &other, "a list")),
        }
    }

    fn take_text(
        &self,
        from: &mut Map<String, Value>,
        parent: &str,
        field: &str,
    ) -> Result<Option<String>, Error> {
        match self.take(from, field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.malformed(join(parent, field), &other, "text")),
        }
    }

    fn take_seconds(
        &self,
        from: &mut Map<String, Value>,
        parent: &str,
        field: &str,
    ) -> Result<Option<u64>, Error> {
        match self.take(from, field) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| {
                self.malformed(join(parent, field), &value, "a whole number of seconds, not below 0")
            }),
        }
    }

    /// Moves a field as it is.
    fn carry(&self, from: &mut Map<String, Value>, field: &str, to: &mut Map<String, Value>) {
        if let Some(value) = self.take(from, field) {
            to.insert(field.to_owned(), value);
        }
    }

    /// Notes the fields nobody asked for.
    fn note_leftovers(&mut self, parent: &str, rest: Map<String, Value>) {
        for (field, value) in rest {
            if !value.is_null() {
                self.note(join(parent, &field), "dropped: v1 has no such field");
            }
        }
    }

    fn annotate(&mut self, key: &str, value: String) {
        let annotations = self.metadata.entry("annotations").or_insert_with(|| Map::new().into());
        if !annotations.is_object() {
            *annotations = Map::new().into();
        }
        annotations[key] = value.into();
    }

    /// Conditions lose their `severity`, which v1 does not have.
    fn drop_severity(&mut self) {
        for condition in self.status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if let Some(condition) = condition.as_object_mut() {
                condition.remove("severity");
            }
        }
    }

    /// The finished object; metadata and status are those of the source.
    fn finish(self, api_version: &str, kind: &str, spec: Map<String, Value>, more: Vec<Value>) -> Converted {
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
        object.insert("metadata".to_owned(), self.metadata.into());
        object.insert("spec".to_owned(), spec.into());
        if !self.status.is_empty() {
            object.insert("status".to_owned(), self.status.into());
        }
        let mut objects = vec![object.into()];
        objects.extend(more);
        Converted { objects, notes: self.notes }
    }
}

fn join(parent: &str, field: &str) -> String {
    if parent.is_empty() { field.to_owned() } else { format!("{parent}.{field}") }
}

/// JSON text with sorted keys, whatever order the map keeps.
fn sorted_json(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), sorted_json(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(sorted_json).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
