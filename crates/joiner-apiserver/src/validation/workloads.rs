//! Rules of what makes pods: deployments, replica sets, daemon sets, stateful sets, jobs; and of budgets and priority classes.

use serde_json::{Value, json};

use super::containers::{not_negative, one_of};
use super::place::{Place, list, text};
use super::{claims, jobs, names, pods, schedules, selectors, volumes};
use crate::rest::{Cause, meta_text};
use crate::selector::LabelSelector;

const SPEC: Place<'static> = Place::Start("spec");

/// A selector and a template that fit each other. `kind` is the word of the fault of an empty selector.
fn selector_and_template(spec: &Value, kind: &str, required: bool, causes: &mut Vec<Cause>) {
    let (selector, template) = (&spec["selector"], &spec["template"]);
    let at = SPEC.field("selector");
    let before = causes.len();
    if selector.is_object() {
        selectors::check(selector, at, causes);
    } else if required {
        causes.push(Cause::required(at, ""));
    }
    // A selector that cannot be used leaves nothing to hold the template against, nor, with most kinds, anything else to say.
    let broken = selector.is_object() && causes.len() > before;
    let read = LabelSelector::from_object(selector).filter(|_| !broken);
    let empty = read.as_ref().is_some_and(LabelSelector::is_empty);
    if empty {
        causes.push(Cause::invalid(at, selector, &format!("empty selector is invalid for {kind}")));
    }
    if broken && required {
        let detail = if kind == "statefulset" { "" } else { "invalid label selector" };
        causes.push(Cause::invalid_shown(at, &shown_selector(selector), detail));
        return;
    }
    let fits = match &read {
        Some(read) => (empty && required) || read.matches(template),
        // No selector selects nothing; one that is broken is told above.
        None => broken || required,
    };
    if !fits {
        let labels = template["metadata"].get("labels").unwrap_or(&Value::Null);
        let detail = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, detail));
    }
    let further = if kind == "statefulset" { volumes::of_templates(spec) } else { Vec::new() };
    let at = SPEC.field("template");
    pods::check_template(template, further, at, causes);
    let at = at.field("spec");
    if template["spec"]["restartPolicy"] != "Always" {
        let policy = json!(text(&template["spec"]["restartPolicy"]));
        causes.push(Cause::unsupported(at.field("restartPolicy"), &policy, &["Always"]));
    }
    if template["spec"].get("activeDeadlineSeconds").is_some() {
        let owner = match kind {
            "daemonset" => "DaemonSet",
            "statefulset" => "StatefulSet",
            _ => "ReplicaSet",
        };
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        causes.push(Cause::forbidden(at.field("activeDeadlineSeconds"), &detail));
    }
}

/// A selector with its fields in the order in which Kubernetes writes them.
fn shown_selector(selector: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(labels) = selector.get("matchLabels") {
        parts.push(format!("\"matchLabels\":{labels}"));
    }
    if let Some(expressions) = selector.get("matchExpressions") {
        let shown: Vec<String> = list(expressions)
            .iter()
            .map(|expression| {
                let fields = ["key", "operator", "values"].into_iter();
                let fields: Vec<String> = fields
                    .filter_map(|field| Some(format!("{field:?}:{}", expression.get(field)?)))
                    .collect();
                format!("{{{}}}", fields.join(","))
            })
            .collect();
        parts.push(format!("\"matchExpressions\":[{}]", shown.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

pub(super) fn deployment(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(spec, field, SPEC, causes);
    }
    selector_and_template(spec, "deployment", true, causes);
    let ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64().filter(|deadline| *deadline <= ready) {
        let detail = "must be greater than minReadySeconds";
        causes.push(Cause::invalid("spec.progressDeadlineSeconds", &json!(deadline), detail));
    }
    let strategy = &spec["strategy"];
    let at = SPEC.field("strategy");
    let rolling = strategy.get("rollingUpdate");
    match (text(&strategy["type"]), rolling) {
        ("Recreate", None) => {}
        ("Recreate", Some(_)) => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden(at.field("rollingUpdate"), detail));
        }
        ("RollingUpdate", Some(rolling)) => {
            let at = at.field("rollingUpdate");
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            amount(unavailable, at.field("maxUnavailable"), causes);
            amount(surge, at.field("maxSurge"), causes);
            if number_of(unavailable) == 0 && number_of(surge) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                causes.push(Cause::invalid(at.field("maxUnavailable"), unavailable, detail));
            }
            at_most_all(unavailable, at.field("maxUnavailable"), causes);
        }
        ("RollingUpdate", None) => {
            let detail = "this should be defaulted and never be nil";
            causes.push(Cause::required(at.field("rollingUpdate"), detail));
        }
        (other, rolling) => {
            // Shown by the names of its fields in Go.
            let rolling = rolling.map_or(Value::Null, |rolling| {
                json!({"MaxUnavailable": rolling["maxUnavailable"], "MaxSurge": rolling["maxSurge"]})
            });
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(other));
            causes.push(Cause::unsupported_shown(at, &shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

pub(super) fn replica_set(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    for field in ["replicas", "minReadySeconds"] {
        not_negative(spec, field, SPEC, causes);
    }
    selector_and_template(spec, "deployment", true, causes);
}

pub(super) fn daemon_set(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    for field in ["minReadySeconds", "revisionHistoryLimit"] {
        not_negative(spec, field, SPEC, causes);
    }
    selector_and_template(spec, "daemonset", false, causes);
    let strategy = &spec["updateStrategy"];
    let at = SPEC.field("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    match (text(&strategy["type"]), rolling) {
        ("OnDelete", _) => {}
        ("RollingUpdate", Some(rolling)) => {
            let at = at.field("rollingUpdate");
            for field in ["maxUnavailable", "maxSurge"] {
                amount(&rolling[field], at.field(field), causes);
                at_most_all(&rolling[field], at.field(field), causes);
            }
            match (number_of(&rolling["maxUnavailable"]) > 0, number_of(&rolling["maxSurge"]) > 0) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    causes.push(Cause::invalid(at.field("maxSurge"), &rolling["maxSurge"], detail));
                }
                (false, false) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    causes.push(Cause::required(at.field("maxUnavailable"), detail));
                }
                _ => {}
            }
        }
        ("RollingUpdate", None) => causes.push(Cause::required(at.field("rollingUpdate"), "")),
        (other, _) => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", json!(other));
            causes.push(Cause::unsupported_shown(at, &shown, &["RollingUpdate", "OnDelete"]));
        }
    }
}

pub(super) fn stateful_set(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        not_negative(spec, field, SPEC, causes);
    }
    match text(&spec["podManagementPolicy"]) {
        "OrderedReady" | "Parallel" => {}
        "" => causes.push(Cause::required("spec.podManagementPolicy", "")),
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            causes.push(Cause::invalid("spec.podManagementPolicy", &json!(other), detail));
        }
    }
    let (strategy, at) = (&spec["updateStrategy"], SPEC.field("updateStrategy"));
    let rolling = strategy.get("rollingUpdate");
    // Shown by the names of their fields in Go.
    let shown = rolling.map_or("null".to_owned(), |rolling| {
        let get = |field: &str| rolling.get(field).unwrap_or(&Value::Null);
        let partition = rolling["partition"].as_i64().unwrap_or(0);
        format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", get("maxUnavailable"))
    });
    match (text(&strategy["type"]), rolling) {
        ("", _) => causes.push(Cause::required(at, "")),
        ("OnDelete", Some(_)) => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            causes.push(Cause::invalid_shown(at.field("rollingUpdate"), &shown, detail));
        }
        ("RollingUpdate", Some(rolling)) => {
            not_negative(rolling, "partition", at.field("rollingUpdate"), causes);
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        (other, _) => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{shown}}}", json!(other));
            causes.push(Cause::invalid_shown(at, &shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
    if let Some(policy) = spec.get("persistentVolumeClaimRetentionPolicy") {
        let (at, known) = (SPEC.field("persistentVolumeClaimRetentionPolicy"), ["Retain", "Delete"]);
        for field in ["whenDeleted", "whenScaled"] {
            let given = text(&policy[field]);
            if !known.contains(&given) {
                causes.push(Cause::unsupported(at.field(field), &json!(given), &known));
            }
        }
    }
    not_negative(&spec["ordinals"], "start", SPEC.field("ordinals"), causes);
    selector_and_template(spec, "statefulset", true, causes);
}

/// What of a new stateful set is judged that cannot change later.
pub(super) fn on_stateful_set_create(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &object["spec"];
    let service = text(&spec["serviceName"]);
    if !service.is_empty() {
        names::check_label(service, SPEC.field("serviceName"), &mut causes);
    }
    let at = SPEC.field("volumeClaimTemplates");
    for (index, template) in list(&spec["volumeClaimTemplates"]).iter().enumerate() {
        let at = at.index(index);
        claims::check_spec(&template["spec"], at.field("spec"), &mut causes);
    }
    causes
}

/// Judges a job, or the template of one. Whole jobs have a selector, given to them if need be.
pub(super) fn job(spec: &Value, place: Place<'_>, whole: bool, causes: &mut Vec<Cause>) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for field in numbers {
        not_negative(spec, field, place, causes);
    }
    let has = |field: &str| spec.get(field).is_some();
    if has("maxFailedIndexes") && !has("backoffLimitPerIndex") {
        let detail = "when maxFailedIndexes is specified";
        causes.push(Cause::required(place.field("backoffLimitPerIndex"), detail));
    }
    let mode = text(&spec["completionMode"]);
    if !matches!(mode, "" | "NonIndexed" | "Indexed") {
        let known = ["NonIndexed", "Indexed"];
        causes.push(Cause::unsupported(place.field("completionMode"), &json!(mode), &known));
    }
    if mode == "Indexed" {
        jobs::indexed(spec, place, causes);
        if !has("completions") {
            let detail = "when completion mode is Indexed";
            causes.push(Cause::required(place.field("completions"), detail));
        }
    } else {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if has(field) {
                let detail = "requires indexed completion mode";
                causes.push(Cause::invalid(place.field(field), &spec[field], detail));
            }
        }
    }
    jobs::policies(spec, place, causes);
    if whole {
        selectors::check(&spec["selector"], place.field("selector"), causes);
        let read = LabelSelector::from_object(&spec["selector"]);
        if read.is_some_and(|selector| !selector.matches(&spec["template"])) {
            let labels = spec["template"]["metadata"].get("labels").unwrap_or(&Value::Null);
            let detail = "`selector` does not match template `labels`";
            let at = place.field("template");
            let at = at.field("metadata");
            causes.push(Cause::invalid(at.field("labels"), labels, detail));
        }
    }
    let at = place.field("template");
    pods::check_template(&spec["template"], Vec::new(), at, causes);
    let policy = text(&spec["template"]["spec"]["restartPolicy"]);
    let at = at.field("spec");
    let at = at.field("restartPolicy");
    match policy {
        "Always" | "" => causes.push(Cause::required(at, "valid values: \"OnFailure\", \"Never\"")),
        "Never" => {}
        "OnFailure" => {
            if has("podFailurePolicy") {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                causes.push(Cause::invalid(at, &json!(policy), detail));
            }
        }
        other => causes.push(Cause::unsupported(at, &json!(other), &["OnFailure", "Never"])),
    }
}

pub(super) fn cron_job(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    schedules::check(spec, causes);
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(spec, field, SPEC, causes);
    }
    one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], SPEC, causes);
    let at = SPEC.field("jobTemplate");
    let (at, template) = (at.field("spec"), &spec["jobTemplate"]["spec"]);
    job(template, at, false, causes);
    if let Some(selector) = template.get("selector") {
        let shown = shown_selector(selector);
        causes.push(Cause::invalid_shown(at.field("selector"), &shown, "`selector` will be auto-generated"));
    }
    if template["manualSelector"] == true {
        let known = ["nil", "false"];
        causes.push(Cause::unsupported(at.field("manualSelector"), &json!(true), &known));
    }
}

pub(super) fn budget(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        // Kubernetes shows the spec by the names of its fields in Go.
        let get = |field: &str| spec.get(field).unwrap_or(&Value::Null);
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            get("minAvailable"),
            get("selector"),
            get("maxUnavailable"),
            get("unhealthyPodEvictionPolicy")
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        causes.push(Cause::invalid_shown("spec", &shown, detail));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.get(field) {
            amount(value, SPEC.field(field), causes);
            at_most_all(value, SPEC.field(field), causes);
        }
    }
    selectors::check(&spec["selector"], SPEC.field("selector"), causes);
    if let Some(policy) = spec["unhealthyPodEvictionPolicy"].as_str() {
        let known = ["AlwaysAllow", "IfHealthyBudget"];
        if !known.contains(&policy) {
            let at = SPEC.field("unhealthyPodEvictionPolicy");
            causes.push(Cause::unsupported(at, &json!(policy), &known));
        }
    }
}

/// The highest priority that users may give.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(super) fn priority_class(object: &Value, causes: &mut Vec<Cause>) {
    let name = meta_text(object, "name");
    let value = object["value"].as_i64().unwrap_or(0);
    let known = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    if name.starts_with("system-") {
        let reserved = "priority class names with 'system-' prefix are reserved for system use only. error: ";
        let error = match known.iter().find(|(known, _)| *known == name) {
            Some((_, right)) if *right == value && object["globalDefault"] != true => return,
            Some((_, right)) if *right != value => format!("value of {name} PriorityClass must be {right}"),
            Some(_) => format!("globalDefault of {name} PriorityClass must be false"),
            None => format!("{name} is not a known system priority class"),
        };
        causes.push(Cause::forbidden("metadata.name", &format!("{reserved}{error}")));
    } else if value > HIGHEST_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        causes.push(Cause::forbidden("value", &detail));
    }
    if object.get("preemptionPolicy").is_some()
        && !matches!(text(&object["preemptionPolicy"]), "PreemptLowerPriority" | "Never")
    {
        let known = ["PreemptLowerPriority", "Never"];
        causes.push(Cause::unsupported("preemptionPolicy", &object["preemptionPolicy"], &known));
    }
}

/// A number of pods, or a share of them in percent.
fn amount(value: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                    regex used for validation is '[0-9]+%')";
                causes.push(Cause::invalid(place, value, detail));
            }
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            causes.push(Cause::invalid(place, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

fn at_most_all(value: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if value.is_string() && number_of(value) > 100 {
        causes.push(Cause::invalid(place, value, "must not be greater than 100%"));
    }
}

/// The number of an amount, without its percent sign.
fn number_of(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}
