//! Label expressions and selectors as they stand in manifests.

use serde_json::Value;

use super::field::{at, labels, list, required, stable_key, strings};
use crate::world::{Expr, Labels, Selector};

/// `key In values`.
pub(super) fn one_of<'a>(key: &str, values: impl IntoIterator<Item = &'a str>) -> Expr {
    Expr {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: values.into_iter().map(str::to_owned).collect(),
        min_values: None,
    }
}

/// Expressions on node labels (old keys are renamed).
pub(super) fn node_expressions(items: &[Value]) -> Result<Vec<Expr>, String> {
    items
        .iter()
        .map(|item| {
            let mut expr = expression(item)?;
            expr.key = stable_key(&expr.key).to_owned();
            Ok(expr)
        })
        .collect()
}

fn expression(item: &Value) -> Result<Expr, String> {
    let min_values = match at(item, &["minValues"]) {
        None => None,
        Some(number) => Some(
            number
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| format!("`minValues` must be a small whole number, not `{number}`"))?,
        ),
    };
    Ok(Expr {
        key: required(item, &["key"])?.to_owned(),
        operator: required(item, &["operator"])?.to_owned(),
        values: strings(item, &["values"])?,
        min_values,
    })
}

/// A label selector on pods or namespaces: `None` when absent, no expressions when it is `{}`.
pub(super) fn selector(value: Option<&Value>) -> Result<Option<Selector>, String> {
    let Some(value) = value else { return Ok(None) };
    let mut expressions: Vec<Expr> =
        labels(value, &["matchLabels"])?.iter().map(|(key, value)| one_of(key, [value.as_str()])).collect();
    for item in list(value, &["matchExpressions"])? {
        expressions.push(expression(item)?);
    }
    Ok(Some(tidy(expressions)))
}

/// A pod's selector with `matchLabelKeys` and `mismatchLabelKeys` folded in, for keys the pod has.
pub(super) fn folded_selector(holder: &Value, pod_labels: &Labels) -> Result<Option<Selector>, String> {
    let Some(mut selector) = selector(at(holder, &["labelSelector"]))? else { return Ok(None) };
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in strings(holder, &[field])? {
            if let Some(value) = pod_labels.get(&key) {
                let mut expr = one_of(&key, [value.as_str()]);
                operator.clone_into(&mut expr.operator);
                selector.expressions.push(expr);
            }
        }
    }
    Ok(Some(tidy(selector.expressions)))
}

/// A selector of expressions that all hold.
pub(super) fn joined(expressions: Vec<Expr>) -> Selector {
    tidy(expressions)
}

/// One order and no repetition, so that equal selectors compare equal however they were written.
fn tidy(mut expressions: Vec<Expr>) -> Selector {
    for expr in &mut expressions {
        expr.values.sort();
        expr.values.dedup();
    }
    expressions.sort_by(|a, b| (&a.key, &a.operator, &a.values).cmp(&(&b.key, &b.operator, &b.values)));
    expressions.dedup();
    Selector { expressions }
}
