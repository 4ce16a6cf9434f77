//! The plan as it is printed, read without judging it. Only a shape that cannot be read at all is an error.

use serde_json::Value;

/// One node of a plan.
#[derive(Debug, Clone)]
pub(super) struct PlanNode {
    pub name: String,
    pub pool: Option<String>,
    pub instance_type: Option<String>,
    pub zone: Option<String>,
    pub capacity_type: Option<String>,
    pub price: Option<f64>,
    pub pods: Vec<String>,
    /// Virtual pods of buffers.
    pub virtual_pods: Vec<String>,
    pub existing: bool,
    /// Kept by a pool of a fixed size.
    pub kept: bool,
    pub options: Vec<String>,
}

/// A pod the plan could not place, with the number of reasons given.
#[derive(Debug, Clone)]
pub(super) struct Unplaced {
    pub pod: String,
    pub reasons: usize,
}

/// The totals line.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub new_nodes: Option<u64>,
    pub price: Option<f64>,
    pub lower_bound: Option<f64>,
    pub pods: Option<u64>,
    pub unschedulable: Option<u64>,
}

/// A whole plan.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub nodes: Vec<PlanNode>,
    pub unplaced: Vec<Unplaced>,
    pub totals: Totals,
    /// Buffer → virtual pods, on existing nodes, on new ones, without a place.
    pub buffers: Vec<(String, [u64; 4])>,
}

/// Reads a plan; the errors say what is wrong with its shape.
pub(super) fn read(plan: &Value) -> Result<Plan, Vec<String>> {
    let mut errors = Vec::new();
    for (field, wanted) in [("apiVersion", "joiner.sh/v1alpha1"), ("kind", "Plan")] {
        if plan.get(field).and_then(Value::as_str) != Some(wanted) {
            errors.push(format!("field `{field}` must be `{wanted}`"));
        }
    }
    let items = |field: &str, errors: &mut Vec<String>| match plan.get(field) {
        Some(Value::Array(items)) => items.clone(),
        _ => {
            errors.push(format!("field `{field}` must be a list"));
            Vec::new()
        }
    };
    let word = |value: &Value, field: &str| {
        value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let words = |value: &Value, field: &str| -> Vec<String> {
        let list = value.get(field).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };

    let mut nodes = Vec::new();
    for item in items("nodes", &mut errors) {
        let Some(name) = word(&item, "name") else {
            errors.push("a node has no `name`".to_owned());
            continue;
        };
        let Some(existing) = item.get("existing").and_then(Value::as_bool) else {
            errors.push(format!("node `{name}` does not say whether it is `existing`"));
            continue;
        };
        nodes.push(PlanNode {
            pool: word(&item, "nodePool"),
            instance_type: word(&item, "instanceType"),
            zone: word(&item, "zone"),
            capacity_type: word(&item, "capacityType"),
            price: item.get("pricePerHour").and_then(Value::as_f64),
            pods: words(&item, "pods"),
            virtual_pods: words(&item, "bufferPods"),
            kept: item.get("static").and_then(Value::as_bool).unwrap_or(false),
            options: words(&item, "instanceTypeOptions"),
            existing,
            name,
        });
    }
    let mut unplaced = Vec::new();
    for item in items("unschedulable", &mut errors) {
        match word(&item, "pod") {
            Some(pod) => {
                let reasons = item.get("reasons").and_then(Value::as_array).map_or(0, Vec::len);
                unplaced.push(Unplaced { pod, reasons });
            }
            None => errors.push("an unschedulable entry has no `pod`".to_owned()),
        }
    }
    let mut buffers = Vec::new();
    for item in plan.get("buffers").and_then(Value::as_array).into_iter().flatten() {
        let number = |field: &str| item.get(field).and_then(Value::as_u64).unwrap_or(u64::MAX);
        let numbers = ["replicas", "onExistingNodes", "onNewNodes", "unplaced"].map(number);
        buffers.push((word(item, "buffer").unwrap_or_default(), numbers));
    }
    let totals = match plan.get("totals").filter(|totals| totals.is_object()) {
        Some(totals) => Totals {
            new_nodes: totals.get("newNodes").and_then(Value::as_u64),
            price: totals.get("pricePerHour").and_then(Value::as_f64),
            lower_bound: totals.get("lowerBoundPerHour").and_then(Value::as_f64),
            pods: totals.get("pods").and_then(Value::as_u64),
            unschedulable: totals.get("unschedulable").and_then(Value::as_u64),
        },
        None => {
            errors.push("field `totals` must be an object".to_owned());
            Totals::default()
        }
    };
    if errors.is_empty() { Ok(Plan { nodes, unplaced, totals, buffers }) } else { Err(errors) }
}
