//! Checks of fields that several kinds share, and the list they write to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::syntax::entry_path;
use super::{Problem, syntax};
use crate::duration::{self, Duration};
use crate::names::{self, Restriction};
use crate::nodepool::{Budget, NodeClassReference};
use crate::quantity::Quantity;
use crate::requirement::{NodeRequirement, Operator};
use crate::schedule;

/// Whose requirements are checked; the kinds differ in the keys they may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequirementsOf {
    Pool,
    Claim,
    Overlay,
}

/// Problems found so far.
#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn into_vec(self) -> Vec<Problem> {
        self.0
    }

    pub(super) fn add(&mut self, path: &str, value: impl fmt::Display, message: &str, remedy: &str) {
        self.0.push(Problem {
            path: path.to_owned(),
            value: value.to_string(),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    pub(super) fn object_name(&mut self, name: Option<&str>, max: usize, why: &str) {
        let name = name.unwrap_or_default();
        if let Some(fault) = syntax::object_name_fault(name, max) {
            let remedy = format!("use a DNS name of at most {max} characters ({why})");
            self.add("metadata.name", name, fault, &remedy);
        }
    }

    pub(super) fn not_empty(&mut self, path: &str, value: &str) {
        if value.is_empty() {
            self.add(path, value, "must not be empty", "fill it in");
        }
    }

    pub(super) fn label_value(&mut self, path: &str, value: &str) {
        if let Some(fault) = syntax::label_value_fault(value) {
            self.add(
                path,
                value,
                fault,
                "use at most 63 letters, digits, `-`, `_` and `.`, a letter or digit at both ends",
            );
        }
    }

    pub(super) fn range(&mut self, path: &str, value: Option<i64>, min: i64, max: i64) {
        if let Some(value) = value
            && !(min..=max).contains(&value)
        {
            let remedy = if max >= i64::from(i32::MAX) {
                format!("use a whole number not below {min}")
            } else {
                format!("use a whole number from {min} to {max}")
            };
            self.add(path, value, "out of range", &remedy);
        }
    }

    pub(super) fn duration(&mut self, path: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        if !duration::matches_grace_period_pattern(text) {
            self.add(path, text, "not a duration", "write whole hours, minutes and seconds, e.g. `1h30m`");
        } else if Duration::parse(text).is_err() {
            self.add(path, text, "the duration is too long", "use less than 292 years");
        }
    }

    pub(super) fn duration_or_never(&mut self, path: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        if text == names::NEVER {
            return;
        }
        if !duration::matches_nillable_pattern(text) {
            self.add(
                path,
                text,
                "neither a duration nor `Never`",
                "write whole hours, minutes and seconds, e.g. `1h30m`, or `Never`",
            );
        } else if Duration::parse(text).is_err() {
            self.add(path, text, "the duration is too long", "use `Never`");
        }
    }

    pub(super) fn quantities(&mut self, path: &str, quantities: Option<&BTreeMap<String, WireQuantity>>) {
        for (name, quantity) in quantities.into_iter().flatten() {
            if Quantity::parse(&quantity.0).is_err() {
                self.add(
                    &entry_path(path, name),
                    &quantity.0,
                    "not a quantity",
                    "write a number with an optional suffix, e.g. `100`, `500m` or `64Gi`",
                );
            }
        }
    }

    pub(super) fn node_class_ref(&mut self, path: &str, reference: &NodeClassReference) {
        self.not_empty(&format!("{path}.group"), &reference.group);
        self.not_empty(&format!("{path}.kind"), &reference.kind);
        self.not_empty(&format!("{path}.name"), &reference.name);
        if reference.group.contains('/') {
            self.add(
                &format!("{path}.group"),
                &reference.group,
                "holds a version",
                "write the group alone, the part before the slash",
            );
        }
    }

    pub(super) fn template_labels<'a>(
        &mut self,
        path: &str,
        labels: impl Iterator<Item = (&'a String, &'a String)> + Clone,
        extra: &BTreeSet<String>,
    ) {
        let count = labels.clone().count();
        if count > 100 {
            self.add(path, format_args!("{count} labels"), "too many labels", "use at most 100");
        }
        for (key, value) in labels {
            if let Some(fault) = syntax::qualified_name_fault(key) {
                self.add(path, key, fault, "use a key of the form `example.com/name`");
            }
            let own_path = &entry_path(path, key);
            if let Some(fault) = syntax::label_value_fault(value) {
                self.add(own_path, value, fault, "change the value");
            }
            if key == names::NODEPOOL_LABEL {
                self.add(
                    own_path,
                    value,
                    "label is restricted",
                    "remove it; it always carries the name of the pool",
                );
            } else if let Some(restriction) =
                schema_restriction(key, false).or(names::restriction(key, extra))
            {
                self.add(own_path, value, &restriction.to_string(), remedy_of(restriction));
            }
        }
    }

    pub(super) fn requirements(
        &mut self,
        path: &str,
        requirements: &[NodeRequirement],
        owner: RequirementsOf,
        extra: &BTreeSet<String>,
    ) {
        if requirements.len() > 100 {
            let count = format!("{} requirements", requirements.len());
            self.add(path, count, "too many requirements", "use at most 100");
        }
        for (index, requirement) in requirements.iter().enumerate() {
            self.requirement(&format!("{path}[{index}]"), requirement, owner, extra);
        }
    }

    fn requirement(
        &mut self,
        path: &str,
        requirement: &NodeRequirement,
        owner: RequirementsOf,
        extra: &BTreeSet<String>,
    ) {
        self.requirement_key(&format!("{path}.key"), &requirement.key, owner, extra);
        let values_path = format!("{path}.values");
        // What a number must look like is told below.
        let numeric = requirement.parsed_operator().is_some_and(Operator::is_numeric);
        for value in requirement.values.iter().filter(|_| !numeric) {
            if let Some(fault) = syntax::label_value_fault(value) {
                self.add(&values_path, value, fault, "change or remove the value");
            }
        }
        self.range(&format!("{path}.minValues"), requirement.min_values, 1, 50);
        let Some(operator) = requirement.parsed_operator() else {
            self.add(
                &format!("{path}.operator"),
                &requirement.operator,
                "not an operator",
                "use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte",
            );
            return;
        };
        let shown = || format!("[{}]", requirement.values.join(", "));
        let needs_value =
            operator == Operator::In || operator == Operator::NotIn && owner == RequirementsOf::Overlay;
        if needs_value && requirement.values.is_empty() {
            let message = format!("operator {operator} needs at least one value");
            self.add(&values_path, shown(), &message, "add a value, or use Exists or DoesNotExist");
        }
        if operator.is_numeric()
            && !matches!(requirement.values.as_slice(), [value] if syntax::is_natural(value))
        {
            let message = format!("operator {operator} needs exactly one value, a whole number not below 0");
            self.add(&values_path, shown(), &message, "write one number, quoted, e.g. `[\"4\"]`");
        }
        if operator == Operator::In {
            self.enough_values(path, requirement, &shown());
        }
    }

    /// With In, `values` must hold as many values as `minValues` asks for; of the capacity type, known ones.
    fn enough_values(&mut self, path: &str, requirement: &NodeRequirement, shown: &str) {
        let wanted = requirement.min_values.unwrap_or(0);
        let count = |values: usize| i64::try_from(values).unwrap_or(i64::MAX);
        if count(requirement.values.len()) < wanted {
            self.add(
                &format!("{path}.minValues"),
                wanted,
                &format!("more than the {} values listed", requirement.values.len()),
                "list more values or lower `minValues`",
            );
        }
        if requirement.stable_key() != names::CAPACITY_TYPE_LABEL || requirement.values.is_empty() {
            return;
        }
        let known =
            requirement.values.iter().filter(|value| names::CAPACITY_TYPES.contains(&value.as_str())).count();
        let remedy = "use on-demand, reserved or spot";
        if known == 0 {
            self.add(&format!("{path}.values"), shown, "holds no known capacity type", remedy);
        } else if count(known) < wanted {
            let message = format!("holds {known} known capacity types, fewer than `minValues` ({wanted})");
            self.add(&format!("{path}.values"), shown, &message, remedy);
        }
    }

    fn requirement_key(
        &mut self,
        path: &str,
        written: &str,
        owner: RequirementsOf,
        extra: &BTreeSet<String>,
    ) {
        if let Some(fault) = syntax::qualified_name_fault(written) {
            self.add(path, written, fault, "use a label key of the form `example.com/name`");
        }
        let stable = names::normalized_key(written);
        let key = names::paper_alias(stable).unwrap_or(stable);
        if key == names::NODEPOOL_LABEL && owner == RequirementsOf::Pool {
            self.add(
                path,
                written,
                "label is restricted",
                "remove it; it always carries the name of the pool",
            );
            return;
        }
        let by_schema =
            if written == key { schema_restriction(key, owner != RequirementsOf::Overlay) } else { None };
        if let Some(restriction) = by_schema.or(names::restriction(key, extra)) {
            self.add(path, written, &restriction.to_string(), remedy_of(restriction));
        }
    }

    pub(super) fn taints(&mut self, taints: (&str, Option<&[Taint]>), startup: (&str, Option<&[Taint]>)) {
        let mut seen = BTreeSet::new();
        for (path, list) in [taints, startup] {
            for (index, taint) in list.into_iter().flatten().enumerate() {
                let path = format!("{path}[{index}]");
                self.taint(&path, taint);
                if !seen.insert((&taint.key, &taint.effect)) {
                    self.add(
                        &path,
                        format_args!("{}:{}", taint.key, taint.effect),
                        "the same key and effect occur before, in taints or startupTaints",
                        "keep one of them",
                    );
                }
            }
        }
    }

    fn taint(&mut self, path: &str, taint: &Taint) {
        if let Some(fault) = syntax::qualified_name_fault(&taint.key) {
            self.add(&format!("{path}.key"), &taint.key, fault, "use a key of the form `example.com/name`");
        }
        if let Some(value) = &taint.value
            && let Some(fault) = syntax::qualified_name_fault(value)
        {
            self.add(&format!("{path}.value"), value, fault, "change the value, or leave it out");
        }
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&taint.effect.as_str()) {
            self.add(
                &format!("{path}.effect"),
                &taint.effect,
                "not a taint effect",
                "use NoSchedule, PreferNoSchedule or NoExecute",
            );
        }
    }

    pub(super) fn budgets(&mut self, path: &str, budgets: &[Budget]) {
        if budgets.len() > 50 {
            self.add(path, format_args!("{} budgets", budgets.len()), "too many budgets", "use at most 50");
        }
        for (index, budget) in budgets.iter().enumerate() {
            self.budget(&format!("{path}[{index}]"), budget);
        }
    }

    fn budget(&mut self, path: &str, budget: &Budget) {
        if !syntax::is_budget_nodes(&budget.nodes) {
            self.add(
                &format!("{path}.nodes"),
                &budget.nodes,
                "neither a number of nodes nor a percentage up to 100%",
                "write e.g. `5` or `10%`",
            );
        }
        let mut seen = BTreeSet::new();
        for reason in budget.reasons.iter().flatten() {
            if !["Underutilized", "Empty", "Drifted"].contains(&reason.as_str()) {
                let remedy = "use Underutilized, Empty or Drifted";
                self.add(&format!("{path}.reasons"), reason, "not a reason a budget can name", remedy);
            }
            if !seen.insert(reason) {
                self.add(&format!("{path}.reasons"), reason, "listed twice", "keep one of them");
            }
        }
        if let Some(text) = &budget.schedule
            && !schedule::matches_pattern(text)
        {
            let remedy = "write five cron fields or a macro such as `@daily`";
            self.add(&format!("{path}.schedule"), text, "not a cron schedule", remedy);
        }
        if let Some(text) = &budget.duration {
            if !duration::matches_budget_pattern(text) {
                let remedy = "write whole hours and minutes, e.g. `8h` or `1h30m`";
                self.add(&format!("{path}.duration"), text, "not a duration of hours and minutes", remedy);
            } else if Duration::parse(text).is_err() {
                self.add(
                    &format!("{path}.duration"),
                    text,
                    "the duration is too long",
                    "use less than 292 years",
                );
            }
        }
        if budget.schedule.is_some() != budget.duration.is_some() {
            let (has, lacks, value) = match &budget.schedule {
                Some(schedule) => ("schedule", "duration", schedule),
                None => ("duration", "schedule", budget.duration.as_ref().unwrap_or(&budget.nodes)),
            };
            self.add(
                &format!("{path}.{has}"),
                value,
                &format!("`{has}` is set without `{lacks}`"),
                &format!("set `{lacks}` too, or remove `{has}`"),
            );
        }
    }
}

/// What the rules of the served schema refuse beyond [`names::restriction`]: they compare the end of the domain
/// without looking for a dot, so `xkarpenter.sh/a` is refused as well.
fn schema_restriction(key: &str, with_kwok: bool) -> Option<Restriction> {
    let first = key.split('/').next().unwrap_or_default();
    let allowed = [names::CAPACITY_TYPE_LABEL, names::NODEPOOL_LABEL];
    if first.ends_with(names::GROUP) && !allowed.contains(&key) {
        return Some(Restriction::Domain(names::GROUP));
    }
    let allowed = key == names::KWOK_NODE_CLASS_LABEL || names::KWOK_WELL_KNOWN_LABELS.contains(&key);
    (with_kwok && first.ends_with(names::KWOK_GROUP) && !allowed)
        .then_some(Restriction::Domain(names::KWOK_GROUP))
}

fn remedy_of(restriction: Restriction) -> &'static str {
    match restriction {
        Restriction::Label(_) => "remove it; its value differs from node to node",
        Restriction::Domain(_) => "use a well-known label, or a label in a domain of your own",
    }
}
