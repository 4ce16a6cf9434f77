//! Checks of one value: bounds, patterns, formats, enumerations, combinations of schemas.

use regex::Regex;
use serde_json::{Number, Value};

use super::Cause;
use super::schema::Node;
use super::validate::validate;

/// What a schema asks of a value beside its type.
#[derive(Default)]
pub(super) struct Checks {
    pub required: Vec<String>,
    values: Vec<Value>,
    pub format: String,
    pattern: Option<Regex>,
    minimum: Option<Number>,
    maximum: Option<Number>,
    exclusive_minimum: bool,
    exclusive_maximum: bool,
    multiple_of: Option<Number>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Box<Node>>,
}

impl Checks {
    pub fn parse(schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Checks {
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let number = |name: &str| match schema.get(name) {
            Some(Value::Number(number)) => Some(number.clone()),
            _ => None,
        };
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool) == Some(true);
        let list = |name: &str| schema.get(name).and_then(Value::as_array).into_iter().flatten();
        // Inside combinations there are no types, and nothing to complain about.
        let nested = |schema: &Value| Node::parse(schema, path, &mut Vec::new());
        let pattern = schema.get("pattern").and_then(Value::as_str).filter(|pattern| !pattern.is_empty());
        let pattern = pattern.and_then(|pattern| match Regex::new(pattern) {
            Ok(regex) => Some(regex),
            Err(error) => {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                causes.push(Cause::invalid(&format!("{path}.pattern"), &pattern.into(), &detail));
                None
            }
        });
        Checks {
            required: list("required").filter_map(Value::as_str).map(str::to_owned).collect(),
            values: list("enum").cloned().collect(),
            format: schema.get("format").and_then(Value::as_str).unwrap_or_default().to_owned(),
            pattern,
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: list("allOf").map(nested).collect(),
            any_of: list("anyOf").map(nested).collect(),
            one_of: list("oneOf").map(nested).collect(),
            not: schema.get("not").map(|schema| Box::new(nested(schema))),
        }
    }

    /// Checks a value of the right type; `path` names it.
    pub fn check(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        match value {
            Value::String(text) => self.check_text(text, path, causes),
            Value::Number(number) => self.check_number(number, path, causes),
            Value::Array(items) => {
                if let Some(max) = self.max_items.filter(|max| items.len() as u64 > *max) {
                    causes.push(Cause::too_many(path, items.len(), max));
                }
                if let Some(min) = self.min_items.filter(|min| (items.len() as u64) < *min) {
                    let detail = format!("{path} in body should have at least {min} items");
                    causes.push(Cause::invalid(path, &items.len().into(), &detail));
                }
            }
            Value::Object(map) => {
                if let Some(max) = self.max_properties.filter(|max| map.len() as u64 > *max) {
                    causes.push(Cause::too_many(path, map.len(), max));
                }
                if let Some(min) = self.min_properties.filter(|min| (map.len() as u64) < *min) {
                    let detail = format!("{path} in body should have at least {min} properties");
                    causes.push(Cause::invalid(path, &map.len().into(), &detail));
                }
            }
            _ => {}
        }
        if !self.values.is_empty() && !self.values.contains(value) {
            causes.push(Cause::not_supported(path, value, &self.values));
        }
        self.check_combinations(value, path, causes);
    }

    fn check_text(&self, text: &str, path: &str, causes: &mut Vec<Cause>) {
        let length = text.chars().count() as u64;
        let value = Value::from(text);
        // Of length and pattern the first fault is told.
        if let Some(max) = self.max_length.filter(|max| length > *max) {
            causes.push(Cause::too_long(path, max));
        } else if let Some(min) = self.min_length.filter(|min| length < *min) {
            let detail = format!("{path} in body should be at least {min} chars long");
            causes.push(Cause::invalid(path, &value, &detail));
        } else if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            let detail = format!("{path} in body should match '{}'", pattern.as_str());
            causes.push(Cause::invalid(path, &value, &detail));
        }
        if !joiner_cel::has_format(&self.format, text) {
            let detail = format!("{path} in body must be of type {}: {text:?}", self.format);
            causes.push(Cause::type_invalid(path, &value, &detail));
        }
    }

    /// Whole numbers are held against bounds without their fraction, as Kubernetes does.
    fn check_number(&self, number: &Number, path: &str, causes: &mut Vec<Cause>) {
        let value = Value::Number(number.clone());
        let bound = |bound: &Number| match (number.as_i64(), bound.as_f64()) {
            #[allow(clippy::cast_possible_truncation, reason = "the fraction is what goes")]
            (Some(_), Some(fractional)) if bound.is_f64() => Number::from(fractional as i64),
            _ => bound.clone(),
        };
        let mut refuse = |value: &Value, detail: String| causes.push(Cause::invalid(path, value, &detail));
        if let Some(factor) = self.multiple_of.as_ref().map(bound) {
            if factor.as_f64().is_some_and(|factor| factor <= 0.0) {
                let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
                refuse(&Value::Number(factor), detail);
            } else if !is_multiple(number, &factor) {
                refuse(&value, format!("{path} in body should be a multiple of {factor}"));
            }
        }
        if let Some(max) = self.maximum.as_ref().map(bound) {
            match (compare(number, &max), self.exclusive_maximum) {
                (Order::Greater, false) => {
                    refuse(&value, format!("{path} in body should be less than or equal to {max}"));
                }
                (Order::Greater | Order::Equal, true) => {
                    refuse(&value, format!("{path} in body should be less than {max}"));
                }
                _ => {}
            }
        }
        if let Some(min) = self.minimum.as_ref().map(bound) {
            match (compare(number, &min), self.exclusive_minimum) {
                (Order::Less, false) => {
                    refuse(&value, format!("{path} in body should be greater than or equal to {min}"));
                }
                (Order::Less | Order::Equal, true) => {
                    refuse(&value, format!("{path} in body should be greater than {min}"));
                }
                _ => {}
            }
        }
    }

    fn check_combinations(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let faults = |node: &Node| {
            let mut causes = Vec::new();
            validate(node, value, None, path, &mut causes);
            causes
        };
        let empty = Value::from("");
        if !self.any_of.is_empty() {
            let tried: Vec<Vec<Cause>> = self.any_of.iter().map(faults).collect();
            if tried.iter().all(|faults| !faults.is_empty()) {
                let message = format!("{path:?} must validate at least one schema (anyOf)");
                causes.push(Cause::invalid("", &empty, &message));
                causes.extend(tried.into_iter().min_by_key(Vec::len).into_iter().flatten());
            }
        }
        if !self.one_of.is_empty() {
            let tried: Vec<Vec<Cause>> = self.one_of.iter().map(faults).collect();
            let valid = tried.iter().filter(|faults| faults.is_empty()).count();
            if valid != 1 {
                let found = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                let message = format!("{path:?} must validate one and only one schema (oneOf). {found}");
                causes.push(Cause::invalid("", &empty, &message));
                if valid == 0 {
                    causes.extend(tried.into_iter().min_by_key(Vec::len).into_iter().flatten());
                }
            }
        }
        if !self.all_of.is_empty() {
            let tried: Vec<Vec<Cause>> = self.all_of.iter().map(faults).collect();
            let valid = tried.iter().filter(|faults| faults.is_empty()).count();
            causes.extend(tried.into_iter().flatten());
            if valid < self.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                let message = format!("{path:?} must validate all the schemas (allOf){none}");
                causes.push(Cause::invalid("", &empty, &message));
            }
        }
        if let Some(not) = &self.not
            && faults(not).is_empty()
        {
            let message = format!("{path:?} must not validate the schema (not)");
            causes.push(Cause::invalid("", &empty, &message));
        }
    }
}

enum Order {
    Less,
    Equal,
    Greater,
}

fn compare(left: &Number, right: &Number) -> Order {
    let ordering = match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64().partial_cmp(&right.as_f64()),
    };
    match ordering {
        Some(std::cmp::Ordering::Less) => Order::Less,
        Some(std::cmp::Ordering::Greater) => Order::Greater,
        _ => Order::Equal,
    }
}

fn is_multiple(number: &Number, factor: &Number) -> bool {
    match (number.as_i64(), factor.as_i64()) {
        (Some(number), Some(factor)) if factor != 0 => number % factor == 0,
        _ => match (number.as_f64(), factor.as_f64()) {
            (Some(number), Some(factor)) if factor != 0.0 => (number / factor).fract() == 0.0,
            _ => true,
        },
    }
}
