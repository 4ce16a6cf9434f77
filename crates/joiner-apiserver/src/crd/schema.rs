//! A structural schema, read once.

use std::collections::BTreeMap;
use std::fmt;

use joiner_cel::Rules;
pub(super) use joiner_cel::join;
use serde_json::Value;

use super::Cause;
use super::checks::Checks;
use super::{embedded, own_defaults};
use crate::schema::{ListType, Schemas, TypeRef};

/// The schema of one version of a custom resource.
pub struct Structural {
    pub(super) root: Node,
    schemas: Schemas,
    place: crate::schema::Place,
    has_rules: bool,
    has_embedded: bool,
}

/// One place in a schema.
#[derive(Default)]
pub(super) struct Node {
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty where the type is open.
    pub kind: String,
    pub int_or_string: bool,
    pub nullable: bool,
    pub default: Option<Value>,
    pub properties: BTreeMap<String, Node>,
    pub additional: Option<Box<Node>>,
    /// `additionalProperties: true`.
    pub any_additional: bool,
    pub items: Option<Box<Node>>,
    pub preserve_unknown: bool,
    /// A whole object inside the object: it keeps `apiVersion`, `kind` and `metadata`.
    pub embedded: bool,
    /// The object is one value as a whole.
    pub atomic: bool,
    pub list: Option<ListType>,
    pub keys: Vec<String>,
    pub checks: Checks,
    pub rules: Option<Rules>,
}

impl fmt::Debug for Structural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Structural").field("properties", &self.root.properties.keys()).finish_non_exhaustive()
    }
}

impl Structural {
    /// Reads an `openAPIV3Schema`. `path` is where it stands in the definition, for the causes.
    pub(super) fn parse(schema: &Value, status_apart: bool, path: &str) -> Result<Structural, Vec<Cause>> {
        let mut causes = Vec::new();
        let root = Node::parse(schema, path, &mut causes);
        if root.kind.is_empty() {
            causes.push(Cause::required(&format!("{path}.type"), "must not be empty at the root"));
        } else if root.kind != "object" {
            causes.push(Cause::invalid(
                &format!("{path}.type"),
                &root.kind.clone().into(),
                "must be object at the root",
            ));
        }
        if causes.is_empty() && root.has_rules() {
            joiner_cel::check(schema, path, &mut causes);
        }
        if causes.is_empty() && own_defaults::any(&root) {
            own_defaults::check(&root, path, &mut causes);
        }
        if !causes.is_empty() {
            return Err(causes);
        }
        let (schemas, place) = Schemas::custom(schema, status_apart);
        let has_rules = root.has_rules();
        let has_embedded = root.has_embedded();
        Ok(Structural { root, schemas, place, has_rules, has_embedded })
    }

    /// The type of the objects, for patches, apply and field validation.
    pub fn type_ref(&self) -> TypeRef<'_> {
        self.schemas.at(self.place)
    }

    /// Drops fields that the schema does not declare. Returns their paths, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        super::prune::prune(&self.root, object)
    }

    /// The paths of fields that the schema does not declare, sorted.
    pub fn undeclared(&self, object: &Value) -> Vec<String> {
        super::prune::undeclared(&self.root, object)
    }

    /// Fills in defaults, and drops nulls where null is no value.
    pub fn default(&self, object: &mut Value) {
        super::default::default(&self.root, object, true);
    }

    /// What is wrong with an object. With the object it replaces, values that did not change are not judged again, and rules
    /// that compare both are run.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        super::validate::validate(&self.root, new, old, "", &mut causes);
        if self.has_embedded {
            embedded::check(&self.root, new, "", &mut causes);
        }
        let doubled = super::lists::check(&self.root, new);
        let doubled_before = || old.is_some_and(|old| !super::lists::check(&self.root, old).is_empty());
        if !doubled.is_empty() && !doubled_before() {
            causes.extend(doubled);
        }
        if self.has_rules {
            if causes.iter().any(Cause::blocks_rules) {
                let message = "some validation rules were not checked because the object was invalid; \
                    correct the existing errors to complete validation";
                causes.push(Cause::invalid("", &Value::Null, message));
            } else {
                super::rules::check(&self.root, new, old, &mut causes);
            }
        }
        causes
    }
}

impl Node {
    pub(super) fn parse(schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Node {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool) == Some(true);
        let mut node = Node {
            kind: text("type"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            nullable: flag("nullable"),
            default: schema.get("default").cloned(),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            ..Node::default()
        };
        node.atomic = text("x-kubernetes-map-type") == "atomic";
        let known = ["", "object", "array", "string", "integer", "number", "boolean"];
        if !known.contains(&node.kind.as_str()) {
            let supported: Vec<Value> =
                ["array", "boolean", "integer", "number", "object", "string"].map(Value::from).to_vec();
            causes.push(Cause::not_supported(&format!("{path}.type"), &node.kind.clone().into(), &supported));
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path = format!("{path}.properties[{name}]");
            let property = Node::parse(property, &path, causes);
            // Anything but an open type is needed to prune and to default.
            if property.kind.is_empty() && !property.int_or_string && !property.preserve_unknown {
                causes.push(Cause::required(
                    &format!("{path}.type"),
                    "must not be empty for specified object fields",
                ));
            }
            node.properties.insert(name.clone(), property);
        }
        match schema.get("additionalProperties") {
            Some(Value::Bool(any)) => node.any_additional = *any,
            Some(inner) if inner.is_object() => {
                let path = format!("{path}.additionalProperties");
                node.additional = Some(Box::new(Node::parse(inner, &path, causes)));
            }
            _ => {}
        }
        if let Some(items) = schema.get("items") {
            node.items = Some(Box::new(Node::parse(items, &format!("{path}.items"), causes)));
        } else if node.kind == "array" {
            causes.push(Cause::required(&format!("{path}.items"), "must be specified"));
        }
        node.list = match text("x-kubernetes-list-type").as_str() {
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map),
            "atomic" => Some(ListType::Atomic),
            _ => None,
        };
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        node.keys = keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if node.list == Some(ListType::Map) && node.keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            causes.push(Cause::required(&format!("{path}.x-kubernetes-list-map-keys"), detail));
        }
        node.checks = Checks::parse(schema, path, causes);
        node.rules = Rules::parse(schema, path, causes);
        node
    }

    fn has_rules(&self) -> bool {
        self.rules.is_some()
            || self.properties.values().any(Node::has_rules)
            || self.items.as_ref().is_some_and(|items| items.has_rules())
            || self.additional.as_ref().is_some_and(|values| values.has_rules())
    }

    fn has_embedded(&self) -> bool {
        self.embedded
            || self.properties.values().any(Node::has_embedded)
            || self.items.as_ref().is_some_and(|items| items.has_embedded())
            || self.additional.as_ref().is_some_and(|values| values.has_embedded())
    }

    /// The schema of a member of an object.
    pub(super) fn member(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    /// The element of the old list that a new element continues; only lists with keys have one.
    pub(super) fn continued<'v>(&self, item: &Value, old: Option<&'v Value>) -> Option<&'v Value> {
        if self.list != Some(ListType::Map) {
            return None;
        }
        let key = self.key_of(item).filter(|key| self.is_whole_key(key))?;
        old?.as_array()?.iter().find(|other| self.key_of(other).is_some_and(|other| other == key))
    }

    fn is_whole_key(&self, key: &Value) -> bool {
        let scalar = |value: &Value| !value.is_null() && !value.is_object() && !value.is_array();
        self.keys.iter().all(|name| key.get(name).is_some_and(scalar))
    }

    /// The old value that the value of a field continues.
    pub(super) fn continued_field<'v>(&self, name: &str, old: Option<&'v Value>) -> Option<&'v Value> {
        if self.atomic { None } else { old.and_then(|old| old.get(name)) }
    }

    /// Whether a value is the same as before, as far as the schema can tell: what it does not declare counts as changed, and the
    /// order of a list with keys does not count.
    pub(super) fn is_unchanged(&self, new: &Value, old: &Value) -> bool {
        match (new, old) {
            (Value::Array(new), Value::Array(before)) => match (&self.items, self.list) {
                (Some(items), Some(ListType::Map)) => {
                    let same = |item: &Value| {
                        self.continued(item, Some(old)).is_some_and(|before| items.is_unchanged(item, before))
                    };
                    new.len() == before.len() && new.iter().all(same)
                }
                _ => new == before,
            },
            (Value::Object(new), Value::Object(before)) => {
                let same = |(name, value): (&String, &Value)| match (before.get(name), self.member(name)) {
                    (Some(before), Some(member)) => member.is_unchanged(value, before),
                    _ => false,
                };
                new.len() == before.len() && new.iter().all(same)
            }
            _ => new == old,
        }
    }

    /// The keys of an element of a list with keys, defaults included.
    pub(super) fn key_of(&self, item: &Value) -> Option<Value> {
        let item = item.as_object()?;
        let mut key = serde_json::Map::new();
        for name in &self.keys {
            let default = || self.items.as_ref()?.properties.get(name)?.default.as_ref();
            if let Some(value) = item.get(name).or_else(default) {
                key.insert(name.clone(), value.clone());
            }
        }
        Some(Value::Object(key))
    }
}
