//! Rules of jobs beyond those of their pods: how many at once, when one has failed, when it has succeeded.

use serde_json::{Value, json};

use super::names;
use super::place::{Place, list, text};
use crate::rest::Cause;

/// So many pods of an indexed job may run at once, and so many indexes fail.
const MOST_AT_ONCE: i64 = 100_000;
/// Above so many completions, limits for each index ask for smaller numbers.
const MANY_COMPLETIONS: i64 = 100_000;
/// The smaller number.
const MOST_OF_MANY: i64 = 10_000;
const LONGEST_MANAGER: usize = 63;
const MOST_RULES: usize = 20;
const MOST_VALUES: usize = 255;

/// Judges the numbers of an indexed job against each other.
pub(super) fn indexed(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let number = |field: &str| spec[field].as_i64();
    let mut at_most = |field: &'static str, most: i64, further: &str| {
        if let Some(value) = number(field).filter(|value| *value > most) {
            let detail = format!("must be less than or equal to {most}{further}");
            causes.push(Cause::invalid(place.field(field), &json!(value), &detail));
        }
    };
    at_most("parallelism", MOST_AT_ONCE, " when completion mode is Indexed");
    at_most("maxFailedIndexes", MOST_AT_ONCE, "");
    let completions = number("completions");
    let many = completions.is_some_and(|completions| completions > MANY_COMPLETIONS)
        && number("backoffLimitPerIndex").is_some();
    if many {
        let further =
            format!(" when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most("parallelism", MOST_OF_MANY, &further);
        at_most("maxFailedIndexes", MOST_OF_MANY, &further);
    }
    match (number("maxFailedIndexes"), completions) {
        (None, _) if many => {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            causes.push(Cause::required(place.field("maxFailedIndexes"), &detail));
        }
        (Some(failed), Some(completions)) if failed > completions => {
            let detail = "must be less than or equal to completions";
            causes.push(Cause::invalid(place.field("maxFailedIndexes"), &json!(failed), detail));
        }
        _ => {}
    }
}

/// Judges the policies of a job and the name of who looks after it.
pub(super) fn policies(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if let Some(manager) = spec["managedBy"].as_str() {
        managed_by(manager, place.field("managedBy"), causes);
    }
    let failure = spec.get("podFailurePolicy");
    if let Some(failure) = failure {
        let at = place.field("podFailurePolicy");
        let at = at.field("rules");
        let rules = list(&failure["rules"]);
        too_many(rules.len(), MOST_RULES, at, causes);
        for (index, rule) in rules.iter().enumerate() {
            failure_rule(spec, rule, at.index(index), causes);
        }
    }
    if let Some(success) = spec.get("successPolicy") {
        success_policy(spec, success, place.field("successPolicy"), causes);
    }
    if let Some(replacement) = spec["podReplacementPolicy"].as_str() {
        let known: &[&str] = if failure.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        if !known.contains(&replacement) {
            let at = place.field("podReplacementPolicy");
            causes.push(Cause::unsupported(at, &json!(replacement), known));
        }
    }
}

fn managed_by(manager: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut refuse = |shown: &str, detail: &str| causes.push(Cause::invalid(place, &json!(shown), detail));
    match manager.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty()) {
        _ if manager.is_empty() => causes.push(Cause::required(place, "")),
        None => refuse(manager, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
        Some((domain, path)) => {
            for broken in names::subdomain_breaks(domain) {
                refuse(domain, &broken);
            }
            let allowed =
                |letter: char| letter.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(letter);
            if !path.chars().all(allowed) {
                refuse(
                    path,
                    r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')",
                );
            }
        }
    }
    if manager.len() > LONGEST_MANAGER {
        causes.push(Cause::too_long(place, LONGEST_MANAGER));
    }
}

fn too_many(found: usize, most: usize, place: Place<'_>, causes: &mut Vec<Cause>) {
    if found > most {
        causes.push(Cause {
            reason: "FieldValueTooMany".to_owned(),
            message: format!("Too many: {found}: must have at most {most} items"),
            field: place.into(),
        });
    }
}

/// Judges a text that must be there and among a few.
fn choice(value: &Value, known: &[&str], place: Place<'_>, causes: &mut Vec<Cause>) {
    match text(value) {
        "" => {
            let quoted: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
            causes.push(Cause::required(place, &format!("valid values: [{}]", quoted.join(" "))));
        }
        given if known.contains(&given) => {}
        given => causes.push(Cause::unsupported(place, &json!(given), known)),
    }
}

fn failure_rule(spec: &Value, rule: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let at = place.field("action");
    choice(&rule["action"], &["Count", "FailIndex", "FailJob", "Ignore"], at, causes);
    if rule["action"] == "FailIndex" && spec.get("backoffLimitPerIndex").is_none() {
        let detail = "requires the backoffLimitPerIndex to be set";
        causes.push(Cause::invalid(at, &rule["action"], detail));
    }
    let conditions = list(&rule["onPodConditions"]);
    let codes = rule.get("onExitCodes");
    if let Some(codes) = codes {
        exit_codes(spec, codes, place.field("onExitCodes"), causes);
    }
    let at = place.field("onPodConditions");
    too_many(conditions.len(), MOST_RULES, at, causes);
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let kind = text(&condition["type"]);
        for broken in names::qualified_name_breaks(kind) {
            causes.push(Cause::invalid(at.field("type"), &json!(kind), &broken));
        }
        choice(&condition["status"], &["False", "True", "Unknown"], at.field("status"), causes);
    }
    // The rule itself is not shown.
    let refused = match (codes.is_some(), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    causes.push(Cause::invalid_shown(place, refused, ""));
}

fn exit_codes(spec: &Value, codes: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    choice(&codes["operator"], &["In", "NotIn"], place.field("operator"), causes);
    if let Some(name) = codes["containerName"].as_str() {
        let pod = &spec["template"]["spec"];
        let mut all = list(&pod["containers"]).iter().chain(list(&pod["initContainers"]));
        if !all.any(|container| container["name"] == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            causes.push(Cause::invalid(place.field("containerName"), &json!(name), detail));
        }
    }
    let at = place.field("values");
    let values = list(&codes["values"]);
    if values.is_empty() {
        causes.push(Cause::invalid(at, &json!([]), "at least one value is required"));
    }
    too_many(values.len(), MOST_VALUES, at, causes);
    for (index, value) in values.iter().enumerate() {
        let at = at.index(index);
        if codes["operator"] == "In" && value.as_i64() == Some(0) {
            causes.push(Cause::invalid(at, value, "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            causes.push(Cause::duplicate(at, &value.to_string(), ""));
        }
    }
    if !values.iter().map(Value::as_i64).is_sorted() {
        causes.push(Cause::invalid(at, &codes["values"], "must be ordered"));
    }
}

fn success_policy(spec: &Value, policy: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let rules = list(&policy["rules"]);
    if spec["completionMode"] != "Indexed" {
        // Shown by the names of its fields in Go.
        let shown: Vec<String> = rules
            .iter()
            .map(|rule| {
                let get = |field: &str| rule.get(field).unwrap_or(&Value::Null);
                let (indexes, count) = (get("succeededIndexes"), get("succeededCount"));
                format!("{{\"SucceededIndexes\":{indexes},\"SucceededCount\":{count}}}")
            })
            .collect();
        let shown = format!("{{\"Rules\":[{}]}}", shown.join(","));
        causes.push(Cause::invalid_shown(place, &shown, "requires indexed completion mode"));
        return;
    }
    let at = place.field("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        causes.push(Cause::required(at, detail));
    }
    too_many(rules.len(), MOST_RULES, at, causes);
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        let at = at.index(index);
        let (indexes, count) = (rule["succeededIndexes"].as_str(), rule["succeededCount"].as_i64());
        if indexes.is_none() && count.is_none() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            causes.push(Cause::required(at, detail));
        }
        let named = indexes.map(|indexes| {
            count_indexes(indexes, completions).unwrap_or_else(|complaint| {
                let detail = format!("error parsing succeededIndexes: {complaint}");
                causes.push(Cause::invalid(at.field("succeededIndexes"), &json!(indexes), &detail));
                0
            })
        });
        let Some(count) = count else { continue };
        super::containers::not_negative(rule, "succeededCount", at, causes);
        let limits = [
            (Some(completions), "specified completions"),
            (named, "indexes in the specified succeededIndexes field"),
        ];
        for (limit, of) in limits {
            if let Some(limit) = limit.filter(|limit| count > *limit) {
                let detail = format!("must be less than or equal to {limit} (the number of {of})");
                causes.push(Cause::invalid(at.field("succeededCount"), &json!(count), &detail));
            }
        }
    }
}

/// How many indexes a text like `0,3-5` names.
fn count_indexes(given: &str, completions: i64) -> Result<i64, String> {
    let read = |index: &str| {
        let number: i64 = index
            .parse()
            .ok()
            .filter(|number| (0..=i64::from(i32::MAX)).contains(number))
            .ok_or_else(|| format!("cannot convert string to integer for index: {index:?}"))?;
        if number >= completions { Err(format!("too large index: {index:?}")) } else { Ok(number) }
    };
    let (mut total, mut previous): (i64, Option<i64>) = (0, None);
    for part in given.split(',').filter(|_| !given.is_empty()) {
        let ends: Vec<&str> = part.split('-').collect();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let first = read(ends[0])?;
        let mut rises = |current: i64| match previous.replace(current) {
            Some(previous) if previous >= current => {
                Err(format!("non-increasing order, previous: {previous}, current: {current}"))
            }
            _ => Ok(()),
        };
        rises(first)?;
        total += 1;
        if let Some(last) = ends.get(1) {
            let last = read(last)?;
            rises(last)?;
            total += last - first;
        }
    }
    Ok(total)
}
