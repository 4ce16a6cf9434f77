//! Pieces of OpenAPI schema that the kinds share: patterns, rules, and lists that deriving cannot describe.
//!
//! Derived schemas know the shape of a field; limits, patterns and cross-field rules are attached here, next to each
//! other, so that the served schema and the checks in [`validation`](crate::validation) can be compared by eye.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::requirement::Operator;
use crate::{names, quantity};

/// A name, optionally after a DNS domain and a slash.
pub const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label value, perhaps empty.
pub const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A share of nodes in percent, or a number of nodes.
pub const BUDGET_NODES: &str = r"^((100|[0-9]{1,2})%|[0-9]+)$";
/// An absolute price.
pub const PRICE: &str = r"^\d+(\.\d+)?$";
/// A signed change of price, absolute or in percent, not below -100 %.
pub const PRICE_ADJUSTMENT: &str =
    r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const CONDITION_REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const OPTIONAL_CONDITION_REASON: &str = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";

/// Rules in the form of `x-kubernetes-validations`, from pairs of CEL text and message.
pub fn rules(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect()
}

/// A rule that keeps a text from being empty.
pub fn not_empty(field: &str) -> Value {
    rules(&[("self != ''", &format!("{field} must not be empty"))])
}

/// Amounts by resource name.
pub fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": quantity::SCHEMA_PATTERN,
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// Amounts of resources an overlay may add: not those that every instance type defines itself.
pub fn overlay_capacity(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = quantities(generator);
    schema.insert(
        "x-kubernetes-validations".into(),
        rules(&[(
            "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
            "cpu, memory, ephemeral-storage and pods come from the instance type and cannot be overlaid",
        )]),
    );
    schema
}

/// A list of taints.
pub fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "A mark on a node that keeps away pods which do not tolerate it.",
            "required": ["effect", "key"],
            "properties": {
                "effect": {
                    "type": "string",
                    "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
                    "description": "What happens to pods without a matching toleration.",
                },
                "key": {
                    "type": "string",
                    "minLength": 1,
                    "pattern": QUALIFIED_NAME,
                    "description": "Name of the taint.",
                },
                "timeAdded": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the taint was added.",
                },
                "value": {
                    "type": "string",
                    "pattern": QUALIFIED_NAME,
                    "description": "Value of the taint.",
                },
            },
        },
    })
}

/// Conditions, one per type, each with a reason.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    condition_list(true)
}

/// Conditions, one per type; reason and message may be left out.
pub fn loose_conditions(_: &mut SchemaGenerator) -> Schema {
    condition_list(false)
}

pub(super) fn condition_list(strict: bool) -> Schema {
    let mut reason = json!({
        "type": "string",
        "maxLength": 1024,
        "pattern": if strict { CONDITION_REASON } else { OPTIONAL_CONDITION_REASON },
        "description": "Why the condition has this status, as one word in CamelCase.",
    });
    let mut required = vec!["lastTransitionTime", "status", "type"];
    if strict {
        reason["minLength"] = json!(1);
        required.extend(["message", "reason"]);
    }
    required.sort_unstable();
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the state of the object.",
            "required": required,
            "properties": {
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "message": {
                    "type": "string",
                    "maxLength": 32768,
                    "description": "Details for people.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "Generation of the object that the condition speaks of.",
                },
                "reason": reason,
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds.",
                },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE,
                    "description": "Name of the condition.",
                },
            },
        },
    })
}

/// Labels of a pool's nodes.
pub fn template_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 100,
        "x-kubernetes-map-type": "atomic",
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
        "x-kubernetes-validations": rules(&[
            (
                r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#,
                "label domain karpenter.sh is restricted; use a domain of your own",
            ),
            (
                r#"self.all(x, x != "karpenter.sh/nodepool")"#,
                "label karpenter.sh/nodepool is restricted; it always carries the name of the pool",
            ),
            (
                r#"self.all(x, x != "kubernetes.io/hostname")"#,
                "label kubernetes.io/hostname is restricted; it differs from node to node",
            ),
        ]),
    })
}

/// Annotations of a pool's nodes.
pub fn template_annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "granular",
        "additionalProperties": { "type": "string" },
    })
}

/// Requirements of a pool: no pool label.
pub fn pool_requirements(_: &mut SchemaGenerator) -> Schema {
    let mut keys = vec![restricted_core_domain()];
    keys.push((
        r#"self != "karpenter.sh/nodepool""#.to_owned(),
        "label karpenter.sh/nodepool is restricted; it always carries the name of the pool",
    ));
    keys.push(restricted_hostname());
    keys.push(restricted_kwok_domain());
    requirement_list(&keys, true)
}

/// Requirements of a claim.
pub fn claim_requirements(_: &mut SchemaGenerator) -> Schema {
    requirement_list(&[restricted_core_domain(), restricted_hostname(), restricted_kwok_domain()], true)
}

/// Requirements of an overlay: without `minValues`, and NotIn needs a value.
pub fn overlay_requirements(_: &mut SchemaGenerator) -> Schema {
    requirement_list(&[restricted_core_domain(), restricted_hostname()], false)
}

type KeyRule = (String, &'static str);

fn restricted_core_domain() -> KeyRule {
    // The third key exists on paper only; it is let through and read as the real one.
    let allowed = [names::CAPACITY_TYPE_LABEL, names::NODEPOOL_LABEL, names::PAPER_INSTANCE_MEMORY_LABEL];
    (
        restricted_domain(names::GROUP, &allowed),
        "label domain karpenter.sh is restricted to karpenter.sh/capacity-type; use a domain of your own",
    )
}

fn restricted_kwok_domain() -> KeyRule {
    let mut allowed = vec![names::KWOK_NODE_CLASS_LABEL];
    allowed.extend(names::KWOK_WELL_KNOWN_LABELS);
    // Exists on paper only; it is let through and read as the real one.
    allowed.push(names::PAPER_INSTANCE_TYPE_LABEL);
    allowed.sort_unstable();
    (
        restricted_domain(names::KWOK_GROUP, &allowed),
        "label domain karpenter.kwok.sh is restricted to the labels the provider sets: instance-cpu, \
         instance-memory, instance-family, instance-size, kwoknodeclass",
    )
}

fn restricted_domain(domain: &str, allowed: &[&str]) -> String {
    let allowed: Vec<_> = allowed.iter().map(|key| format!("\"{key}\"")).collect();
    format!(r#"self in [{}] || !self.find("^([^/]+)").endsWith("{domain}")"#, allowed.join(", "))
}

fn restricted_hostname() -> KeyRule {
    (
        r#"self != "kubernetes.io/hostname""#.to_owned(),
        "label kubernetes.io/hostname is restricted; it differs from node to node",
    )
}

fn requirement_list(key_rules: &[KeyRule], with_min_values: bool) -> Schema {
    let mut list_rules = vec![
        (
            "self.all(x, x.operator == 'In' ? (has(x.values) && x.values.size() != 0) : true)",
            "operator In needs at least one value",
        ),
        (
            "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            "operators Gt, Lt, Gte and Lte need exactly one value, a whole number not below 0",
        ),
    ];
    if with_min_values {
        list_rules.push((
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? (has(x.values) && x.values.size() >= x.minValues) : true)",
            "a requirement with minValues and operator In needs at least that many values",
        ));
    } else {
        list_rules.push((
            "self.all(x, x.operator == 'NotIn' ? (has(x.values) && x.values.size() != 0) : true)",
            "operator NotIn needs at least one value",
        ));
    }
    let key_rules: Vec<_> = key_rules.iter().map(|(rule, message)| (rule.as_str(), *message)).collect();
    let mut item = json!({
        "type": "object",
        "description": "A requirement on one node label.",
        "required": ["key", "operator"],
        "properties": {
            "key": {
                "type": "string",
                "maxLength": 316,
                "pattern": QUALIFIED_NAME,
                "description": "Label key the requirement is about.",
                "x-kubernetes-validations": rules(&key_rules),
            },
            "operator": {
                "type": "string",
                "enum": Operator::ALL.map(Operator::as_str),
                "description": "How the label must relate to the values.",
            },
            "values": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
                "description": "Values to compare with. Gt, Lt, Gte and Lte need exactly one whole number.",
            },
        },
    });
    if with_min_values {
        item["properties"]["minValues"] = json!({
            "type": "integer",
            "minimum": 1,
            "maximum": 50,
            "description": "How many different values of the key the instance types offered for one node must span.",
        });
    }
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "items": item,
        "x-kubernetes-validations": rules(&list_rules),
    })
}
