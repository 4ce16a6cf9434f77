//! One place in a type and what is known about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Schemas;
use super::field_index::{FieldIndex, ListedField};

/// Number of a node within its [`Schemas`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(super) u32);

/// One use of a type: the type itself plus what the field adds to it.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub shape: NodeShape,
    pub atomic: bool,
    pub list: Option<ListType>,
    pub keys: Vec<String>,
    pub strategy: PatchStrategy,
    pub merge_key: Option<String>,
    pub default: Option<Value>,
    pub zero: ZeroValue,
}

#[derive(Debug, Clone)]
pub(super) enum NodeShape {
    /// The same as another node; fields that add something to a named type have a node of their own.
    Same(NodeId),
    Any,
    Opaque,
    String,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Int32,
    Int64,
    Number,
    Boolean,
    Struct(usize),
    Map(NodeId),
    List(NodeId),
}

/// Fields of a struct.
#[derive(Debug, Default)]
pub(super) struct StructBody {
    /// Name as Go prints it: `v1.PodSpec`.
    pub name: String,
    pub fields: BTreeMap<String, NodeId>,
    /// The same fields, to be found fast; made when all are known.
    pub index: FieldIndex,
    /// Fields that are written even when nobody sent them.
    pub always: Vec<(String, NodeId)>,
    /// Fields for which the schema states a default that says something.
    pub stated: Vec<(String, NodeId)>,
    /// Fields that are not listed are kept, as values without a type.
    pub open: bool,
}

/// How elements of a list are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Each scalar stands for itself.
    Set,
    /// Elements are objects named by their key fields.
    Map,
}

/// What a strategic merge patch does with the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Elements are merged one by one.
    pub merge: bool,
    /// The value is replaced as a whole.
    pub replace: bool,
    /// The patch may list the keys that remain.
    pub retain_keys: bool,
}

/// What becomes of a field that holds the zero value of its type (`0`, `""`, `false`, empty).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroValue {
    /// Written as it was sent; absent stays absent.
    Kept,
    /// Left out.
    Dropped,
    /// Written even when nobody sent it.
    Always,
    /// Written as it was sent; absent is written as null.
    Null,
}

/// The form of a value.
#[derive(Debug, Clone, Copy)]
pub enum Shape<'a> {
    /// Anything; objects in it are followed field by field.
    Any,
    /// Anything, one value as a whole.
    Opaque,
    /// Text.
    String,
    /// Bytes in base64.
    Bytes,
    /// RFC 3339 with whole seconds.
    Time,
    /// RFC 3339 with six decimals.
    MicroTime,
    /// A resource quantity.
    Quantity,
    /// A number or text.
    IntOrString,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Number,
    /// True or false.
    Boolean,
    /// An object with named fields.
    Struct,
    /// An object with free keys, all values of one type.
    Map(TypeRef<'a>),
    /// A list, all elements of one type.
    List(TypeRef<'a>),
}

/// One place in a type: a field, an element or a whole object.
#[derive(Debug, Clone, Copy)]
pub struct TypeRef<'a> {
    schemas: &'a Schemas,
    node: NodeId,
}

impl<'a> TypeRef<'a> {
    pub(super) fn new(schemas: &'a Schemas, node: NodeId) -> Self {
        Self { schemas, node }
    }

    fn node(self) -> &'a Node {
        &self.schemas.nodes[self.node.0 as usize]
    }

    fn at(self, node: NodeId) -> Self {
        Self { schemas: self.schemas, node }
    }

    /// The node with the form, past the ones that only add to it.
    fn formed(self) -> Self {
        match self.node().shape {
            NodeShape::Same(other) => self.at(other).formed(),
            _ => self,
        }
    }

    fn body(self) -> Option<&'a StructBody> {
        match self.formed().node().shape {
            NodeShape::Struct(body) => Some(&self.schemas.structs[body]),
            _ => None,
        }
    }

    /// The form of values here.
    pub fn shape(self) -> Shape<'a> {
        match self.formed().node().shape {
            NodeShape::Any | NodeShape::Same(_) => Shape::Any,
            NodeShape::Opaque => Shape::Opaque,
            NodeShape::String => Shape::String,
            NodeShape::Bytes => Shape::Bytes,
            NodeShape::Time => Shape::Time,
            NodeShape::MicroTime => Shape::MicroTime,
            NodeShape::Quantity => Shape::Quantity,
            NodeShape::IntOrString => Shape::IntOrString,
            NodeShape::Int32 => Shape::Int32,
            NodeShape::Int64 => Shape::Int64,
            NodeShape::Number => Shape::Number,
            NodeShape::Boolean => Shape::Boolean,
            NodeShape::Struct(_) => Shape::Struct,
            NodeShape::Map(element) => Shape::Map(self.at(element)),
            NodeShape::List(element) => Shape::List(self.at(element)),
        }
    }

    /// The type of a field: a named one, the values of a map, or anything where everything goes.
    pub fn field(self, name: &str) -> Option<TypeRef<'a>> {
        match self.shape() {
            Shape::Struct => {
                let body = self.body()?;
                match body.index.find(name) {
                    Some(field) => Some(self.at(field.node)),
                    None => body.open.then(|| self.at(super::build::ANY)),
                }
            }
            Shape::Map(element) => Some(element),
            Shape::Any => Some(self.at(super::build::ANY)),
            _ => None,
        }
    }

    /// Whether a struct lists the field.
    pub fn has_field(self, name: &str) -> bool {
        self.listed(name).is_some()
    }

    fn listed(self, name: &str) -> Option<&'a ListedField> {
        self.body()?.index.find(name)
    }

    /// As [`TypeRef::field`], with the name that a listed field has in sets of owned fields.
    pub(crate) fn member(self, name: &str) -> Option<(TypeRef<'a>, Option<&'a Arc<str>>)> {
        match self.listed(name) {
            Some(field) => Some((self.at(field.node), Some(&field.element))),
            None => self.field(name).map(|ty| (ty, None)),
        }
    }

    /// The type of a listed field.
    pub(crate) fn listed_field(self, name: &str) -> Option<TypeRef<'a>> {
        self.listed(name).map(|field| self.at(field.node))
    }

    /// Listed fields that are written even when nobody sent them.
    pub(crate) fn fields_always_written(self) -> impl Iterator<Item = (&'a str, TypeRef<'a>)> {
        let fields = self.body().map(|body| &body.always).into_iter().flatten();
        fields.map(move |(name, node)| (name.as_str(), self.at(*node)))
    }

    /// Listed fields for which the schema states a default that is not just the zero of its type.
    pub(crate) fn fields_with_default(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let fields = self.body().map(|body| &body.stated).into_iter().flatten();
        fields.filter_map(move |(name, node)| Some((name.as_str(), self.at(*node).default_value()?)))
    }

    /// Listed fields of a struct, by name.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, TypeRef<'a>)> {
        let fields = self.body().map(|body| &body.fields).into_iter().flatten();
        fields.map(move |(name, &node)| (name.as_str(), self.at(node)))
    }

    /// The type of list elements or map values.
    pub fn element(self) -> Option<TypeRef<'a>> {
        match self.shape() {
            Shape::Map(element) | Shape::List(element) => Some(element),
            Shape::Any => Some(self.at(super::build::OPAQUE)),
            _ => None,
        }
    }

    /// How elements of a list are told apart; none if this is no list.
    pub fn list_type(self) -> Option<ListType> {
        self.formed().node().list
    }

    /// Key fields of a list of objects.
    pub fn map_keys(self) -> &'a [String] {
        &self.formed().node().keys
    }

    /// What a strategic merge patch does here.
    pub fn patch_strategy(self) -> PatchStrategy {
        self.node().strategy
    }

    /// The field by which a strategic merge patch finds list elements.
    pub fn patch_merge_key(self) -> Option<&'a str> {
        self.node().merge_key.as_deref()
    }

    /// Whether an object here is one value as a whole.
    pub fn is_atomic(self) -> bool {
        self.node().atomic || self.formed().node().atomic
    }

    /// Whether the kind's status has a path of its own, so that writes to the object leave it alone.
    pub(crate) fn status_apart(self) -> bool {
        self.schemas.status_apart && self.has_field("status")
    }

    /// The default that the schema states.
    pub fn default_value(self) -> Option<&'a Value> {
        self.node().default.as_ref()
    }

    /// What becomes of a zero value here.
    pub fn zero(self) -> ZeroValue {
        self.node().zero
    }

    /// The name of a struct as Go prints it (`v1.PodSpec`), else the name of the form.
    pub fn go_name(self) -> String {
        match self.shape() {
            Shape::Struct => self.body().map(|body| body.name.clone()).unwrap_or_default(),
            Shape::Map(element) => format!("map[string]{}", element.go_name()),
            Shape::List(element) => format!("[]{}", element.go_name()),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Time => "v1.Time".to_owned(),
            Shape::MicroTime => "v1.MicroTime".to_owned(),
            Shape::Quantity => "resource.Quantity".to_owned(),
            Shape::IntOrString => "intstr.IntOrString".to_owned(),
            Shape::Int32 => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Number => "float64".to_owned(),
            Shape::Boolean => "bool".to_owned(),
            Shape::String => "string".to_owned(),
            Shape::Any | Shape::Opaque => "interface {}".to_owned(),
        }
    }
}
