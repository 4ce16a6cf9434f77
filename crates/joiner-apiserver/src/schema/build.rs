//! Builds types from OpenAPI schemas: the packed document of built-in kinds, or the schema of a custom resource.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Schemas;
use super::field_index::FieldIndex;
use super::types::{ListType, Node, NodeId, NodeShape, PatchStrategy, StructBody, ZeroValue};

/// The first two nodes of every set are always these.
pub(super) const ANY: NodeId = NodeId(0);
pub(super) const OPAQUE: NodeId = NodeId(1);

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Types of all definitions of the packed document.
pub(super) fn from_definitions(definitions: &Map<String, Value>) -> Schemas {
    let mut builder = Builder::new(definitions);
    for (name, schema) in definitions {
        let node = builder.named(name);
        let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        // Options and statuses are listed under every group; they are no kinds of their own.
        if let Some([kind]) = kinds.map(Vec::as_slice) {
            let part = |name: &str| kind[name].as_str().unwrap_or_default().to_owned();
            let versions = builder.schemas.kinds.entry(part("group")).or_default();
            versions.entry(part("version")).or_default().insert(part("kind"), node);
        }
    }
    builder.finish()
}

/// Types of one custom resource: the definition's schema with the fields every object has.
pub(super) fn custom(definitions: &Map<String, Value>, schema: &Value) -> (Schemas, NodeId) {
    let mut builder = Builder::new(definitions);
    let root = builder.inline(schema, false);
    builder.add_object_fields(root);
    (builder.finish(), root)
}

/// Zero values as defaults only say that the field is no pointer.
fn is_telling(default: &Value) -> bool {
    match default {
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(value) => *value,
        _ => false,
    }
}

struct Builder<'a> {
    definitions: &'a Map<String, Value>,
    schemas: Schemas,
    named: BTreeMap<String, NodeId>,
}

impl<'a> Builder<'a> {
    fn new(definitions: &'a Map<String, Value>) -> Self {
        let mut builder = Self { definitions, schemas: Schemas::default(), named: BTreeMap::new() };
        builder.add(NodeShape::Any);
        builder.add(NodeShape::Opaque);
        builder
    }

    fn finish(mut self) -> Schemas {
        self.schemas.definitions = self.named;
        let Schemas { nodes, structs, .. } = &mut self.schemas;
        for body in structs {
            body.index = FieldIndex::new(body.fields.iter().map(|(name, id)| (name, *id)));
            for (name, id) in &body.fields {
                let node = &nodes[id.0 as usize];
                if matches!(node.zero, ZeroValue::Always | ZeroValue::Null) {
                    body.always.push((name.clone(), *id));
                }
                if node.default.as_ref().is_some_and(is_telling) {
                    body.stated.push((name.clone(), *id));
                }
            }
        }
        self.schemas
    }

    fn add(&mut self, shape: NodeShape) -> NodeId {
        let id = NodeId(u32::try_from(self.schemas.nodes.len()).unwrap_or(u32::MAX));
        self.schemas.nodes.push(Node {
            shape,
            atomic: false,
            list: None,
            keys: Vec::new(),
            strategy: PatchStrategy::default(),
            merge_key: None,
            default: None,
            zero: ZeroValue::Kept,
        });
        id
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.schemas.nodes[id.0 as usize]
    }

    /// The node of a definition. It is entered before its fields are read: types may contain themselves.
    fn named(&mut self, name: &str) -> NodeId {
        if let Some(&node) = self.named.get(name) {
            return node;
        }
        let id = self.add(NodeShape::Any);
        self.named.insert(name.to_owned(), id);
        let definitions = self.definitions;
        let Some(schema) = definitions.get(name) else { return id };
        let mut parts = name.rsplit('.');
        let short = parts.next().unwrap_or_default();
        let shape = match short {
            "Quantity" => NodeShape::Quantity,
            "Time" => NodeShape::Time,
            "MicroTime" => NodeShape::MicroTime,
            "IntOrString" => NodeShape::IntOrString,
            "RawExtension" => NodeShape::Opaque,
            _ => {
                let go_name = format!("{}.{short}", parts.next().unwrap_or_default());
                self.shape(schema, &go_name, false)
            }
        };
        self.node(id).shape = shape;
        self.describe(id, schema);
        id
    }

    /// The node of a property, an element or a root.
    fn inline(&mut self, schema: &Value, open: bool) -> NodeId {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let shape = match reference {
            Some(name) => NodeShape::Same(self.named(name)),
            None => self.shape(schema, "", open),
        };
        let id = self.add(shape);
        self.describe(id, schema);
        id
    }

    fn shape(&mut self, schema: &Value, go_name: &str, open: bool) -> NodeShape {
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool) == Some(true);
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        // A place that keeps unknown fields passes that on to everything below it.
        let open = open || flag("x-kubernetes-preserve-unknown-fields");
        if flag("x-kubernetes-int-or-string") {
            return NodeShape::IntOrString;
        }
        match (text("type"), text("format")) {
            ("string", "byte") => NodeShape::Bytes,
            ("string", _) => NodeShape::String,
            ("integer", "int32") => NodeShape::Int32,
            ("integer", _) => NodeShape::Int64,
            ("number", _) => NodeShape::Number,
            ("boolean", _) => NodeShape::Boolean,
            ("array", _) => match schema.get("items") {
                Some(items) => NodeShape::List(self.inline(items, open)),
                None => NodeShape::List(ANY),
            },
            _ => self.object(schema, go_name, open),
        }
    }

    fn object(&mut self, schema: &Value, go_name: &str, open: bool) -> NodeShape {
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties");
        match (properties, additional) {
            (None, Some(element)) if element.is_object() => NodeShape::Map(self.inline(element, open)),
            (Some(properties), _) if !properties.is_empty() || go_name.contains('.') => {
                let mut fields = BTreeMap::new();
                for (name, property) in properties {
                    fields.insert(name.clone(), self.inline(property, open));
                }
                let open = open || additional.is_some_and(|value| value != &Value::Bool(false));
                self.schemas.structs.push(StructBody {
                    name: go_name.to_owned(),
                    fields,
                    open,
                    ..StructBody::default()
                });
                NodeShape::Struct(self.schemas.structs.len() - 1)
            }
            _ => NodeShape::Any,
        }
    }

    /// What stands beside the type: how lists merge, what a patch does, the default.
    fn describe(&mut self, id: NodeId, schema: &Value) {
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let mut strategy = PatchStrategy::default();
        for word in text("x-kubernetes-patch-strategy").unwrap_or_default().split(',') {
            match word {
                "merge" => strategy.merge = true,
                "replace" => strategy.replace = true,
                "retainKeys" => strategy.retain_keys = true,
                _ => {}
            }
        }
        let merge_key = text("x-kubernetes-patch-merge-key").map(str::to_owned);
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        let mut keys: Vec<String> =
            keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let list = (text("type") == Some("array")).then(|| match text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map,
            Some(_) => ListType::Atomic,
            // Older fields say only how a patch merges them; apply follows that.
            None if strategy.merge => match &merge_key {
                Some(key) => {
                    keys = vec![key.clone()];
                    ListType::Map
                }
                None => ListType::Set,
            },
            None => ListType::Atomic,
        });
        let default = schema.get("default").cloned();
        // Go leaves no struct out, however empty; every named definition is one, times and quantities too.
        let is_struct = schema.get("$ref").is_some();
        let zero = match text("x-go") {
            Some("always") => ZeroValue::Always,
            Some("null") => ZeroValue::Null,
            Some("dropStruct") => ZeroValue::Dropped,
            Some("drop") if is_struct => ZeroValue::Always,
            Some("drop") => ZeroValue::Dropped,
            _ => ZeroValue::Kept,
        };
        let atomic = text("x-kubernetes-map-type") == Some("atomic");
        let node = self.node(id);
        node.atomic = atomic;
        node.list = list;
        node.keys = keys;
        node.strategy = strategy;
        node.merge_key = merge_key;
        node.default = default;
        node.zero = zero;
    }

    /// Every object has these, whatever its schema says about them.
    fn add_object_fields(&mut self, root: NodeId) {
        let meta = self.named(OBJECT_META);
        let text = self.add(NodeShape::String);
        let body = match self.node(root).shape {
            NodeShape::Struct(body) => body,
            ref other => {
                let open = matches!(other, NodeShape::Any | NodeShape::Map(_));
                self.schemas.structs.push(StructBody { open, ..StructBody::default() });
                let body = self.schemas.structs.len() - 1;
                self.node(root).shape = NodeShape::Struct(body);
                body
            }
        };
        let fields = &mut self.schemas.structs[body].fields;
        fields.insert("apiVersion".to_owned(), text);
        fields.insert("kind".to_owned(), text);
        fields.insert("metadata".to_owned(), meta);
    }
}
