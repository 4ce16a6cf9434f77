//! Where a pod may run: affinity, tolerations, spread, gates.

use serde_json::{Value, json};

use super::place::{Place, list, text};
use super::{names, selectors};
use crate::rest::Cause;

/// Judges everything of a pod that the scheduler reads.
pub(super) fn check(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    names::check_labels(&spec["nodeSelector"], place.field("nodeSelector"), causes);
    let at = place.field("affinity");
    let affinity = &spec["affinity"];
    if affinity.is_object() {
        node_affinity(&affinity["nodeAffinity"], at.field("nodeAffinity"), causes);
        for kind in ["podAffinity", "podAntiAffinity"] {
            pod_affinity(&affinity[kind], at.field(kind), causes);
        }
    }
    let at = place.field("tolerations");
    for (index, toleration) in list(&spec["tolerations"]).iter().enumerate() {
        check_toleration(toleration, at.index(index), causes);
    }
    spread(list(&spec["topologySpreadConstraints"]), place.field("topologySpreadConstraints"), causes);
    let gates = list(&spec["schedulingGates"]);
    let at = place.field("schedulingGates");
    for (index, gate) in gates.iter().enumerate() {
        let place = at.index(index);
        names::check_key(text(&gate["name"]), place, causes);
        if gates[..index].iter().any(|other| other["name"] == gate["name"]) {
            causes.push(Cause::duplicate(place, &gate["name"].to_string(), ""));
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(affinity: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if let Some(required) = affinity.get(REQUIRED).filter(|required| required.is_object()) {
        node_selector(required, place.field(REQUIRED), causes);
    }
    let at = place.field(PREFERRED);
    for (index, term) in list(&affinity[PREFERRED]).iter().enumerate() {
        let place = at.index(index);
        weight(term, place, causes);
        node_selector_term(&term["preference"], false, place.field("preference"), causes);
    }
}

/// Judges a selector of nodes, of a pod or of a volume.
pub(super) fn node_selector(selector: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let at = place.field("nodeSelectorTerms");
    let terms = list(&selector["nodeSelectorTerms"]);
    if terms.is_empty() {
        causes.push(Cause::required(at, "must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        node_selector_term(term, true, at.index(index), causes);
    }
}

/// `strict`: the values must be values of labels. Of preferences that is not asked.
fn node_selector_term(term: &Value, strict: bool, place: Place<'_>, causes: &mut Vec<Cause>) {
    let at = place.field("matchExpressions");
    for (index, expression) in list(&term["matchExpressions"]).iter().enumerate() {
        let place = at.index(index);
        let values = list(&expression["values"]);
        match text(&expression["operator"]) {
            "In" | "NotIn" => selectors::in_needs_values(values, place, causes),
            "Exists" | "DoesNotExist" => selectors::exists_takes_none(values, place, causes),
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    causes.push(Cause::required(place.field("values"), detail));
                }
            }
            other => selectors::unknown_operator(other, place, causes),
        }
        names::check_key(text(&expression["key"]), place.field("key"), causes);
        if strict {
            selectors::check_values(values, place, causes);
        }
    }
    let at = place.field("matchFields");
    for (index, field) in list(&term["matchFields"]).iter().enumerate() {
        let place = at.index(index);
        let values = list(&field["values"]);
        match text(&field["operator"]) {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    let detail =
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    causes.push(Cause::required(place.field("values"), detail));
                }
            }
            other => selectors::unknown_operator(other, place, causes),
        }
        let key = text(&field["key"]);
        if key == "metadata.name" {
            let at = place.field("values");
            for (index, value) in values.iter().enumerate() {
                names::check_subdomain(text(value), at.index(index), causes);
            }
        } else {
            let detail = "not a valid field selector key";
            causes.push(Cause::invalid(place.field("key"), &json!(key), detail));
        }
    }
}

fn weight(term: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let weight = term["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        causes.push(Cause::invalid(place.field("weight"), &json!(weight), "must be in the range 1-100"));
    }
}

fn pod_affinity(affinity: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let at = place.field(REQUIRED);
    for (index, term) in list(&affinity[REQUIRED]).iter().enumerate() {
        pod_affinity_term(term, at.index(index), causes);
    }
    let at = place.field(PREFERRED);
    for (index, preferred) in list(&affinity[PREFERRED]).iter().enumerate() {
        let place = at.index(index);
        weight(preferred, place, causes);
        pod_affinity_term(&preferred["podAffinityTerm"], place.field("podAffinityTerm"), causes);
    }
}

fn pod_affinity_term(term: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for field in ["labelSelector", "namespaceSelector"] {
        selectors::check(&term[field], place.field(field), causes);
    }
    for namespace in list(&term["namespaces"]) {
        names::check_label(text(namespace), place.field("namespace"), causes);
    }
    label_keys(term, place, causes);
    let key = text(&term["topologyKey"]);
    if key.is_empty() {
        causes.push(Cause::required(place.field("topologyKey"), "can not be empty"));
    }
    names::check_key(key, place.field("topologyKey"), causes);
}

/// Keys whose values come from the pod itself. By now each is also in the selector, once.
fn label_keys(term: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = list(&term[field]);
        let at = place.field(field);
        if !keys.is_empty() && !term["labelSelector"].is_object() {
            causes.push(Cause::forbidden(at, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            names::check_key(text(key), at.index(index), causes);
        }
    }
    let (wanted, unwanted) = (list(&term["matchLabelKeys"]), list(&term["mismatchLabelKeys"]));
    let selector = &term["labelSelector"];
    let expressions = list(&selector["matchExpressions"]);
    for (index, key) in wanted.iter().enumerate() {
        let labelled = usize::from(selector["matchLabels"].get(text(key)).is_some());
        let named = expressions.iter().filter(|expression| expression["key"] == *key).count();
        if named > 0 {
            for _ in 1..labelled + named {
                let detail = "exists in both matchLabelKeys and labelSelector";
                causes.push(Cause::invalid(place.index(index), key, detail));
            }
        }
        if unwanted.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            let at = place.field("matchLabelKeys");
            causes.push(Cause::invalid(at.index(index), key, detail));
        }
    }
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Judges the effect of a taint or of a toleration.
pub(super) fn check_effect(effect: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if !EFFECTS.contains(&effect) {
        causes.push(Cause::unsupported(place, &json!(effect), &EFFECTS));
    }
}

fn check_toleration(toleration: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let of = |field: &str| text(&toleration[field]);
    let (key, operator, value, effect) = (of("key"), of("operator"), of("value"), of("effect"));
    if !key.is_empty() {
        names::check_key(key, place.field("key"), causes);
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(Cause::invalid(place.field("operator"), &json!(operator), detail));
    }
    if toleration.get("tolerationSeconds").is_some_and(|seconds| !seconds.is_null()) && effect != "NoExecute"
    {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(Cause::invalid(place.field("effect"), &json!(effect), detail));
    }
    match operator {
        "Equal" | "" => {
            let broken = names::value_breaks(value);
            if !broken.is_empty() {
                causes.push(Cause::invalid(place.field("operator"), &json!(value), &broken.join(";")));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.push(Cause::invalid(place.field("operator"), &json!(value), detail));
            }
        }
        // Comparing is known and switched off by default.
        "Lt" | "Gt" => {
            let known = ["Equal", "Exists", "Lt", "Gt"];
            causes.push(Cause::unsupported(place.field("operator"), &json!(operator), &known));
        }
        other => {
            causes.push(Cause::unsupported(place.field("operator"), &json!(other), &["Equal", "Exists"]));
        }
    }
    if !effect.is_empty() {
        check_effect(effect, place.field("effect"), causes);
    }
}

fn spread(constraints: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    for (index, constraint) in constraints.iter().enumerate() {
        let place = place.index(index);
        let of = |field: &str| text(&constraint[field]);
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            causes.push(Cause::invalid(place.field("maxSkew"), &json!(skew), "must be greater than zero"));
        }
        let (key, action) = (of("topologyKey"), of("whenUnsatisfiable"));
        if key.is_empty() {
            causes.push(Cause::required(place.field("topologyKey"), "can not be empty"));
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let known = ["DoNotSchedule", "ScheduleAnyway"];
            causes.push(Cause::unsupported(place.field("whenUnsatisfiable"), &json!(action), &known));
        }
        let same = |other: &&Value| {
            text(&other["topologyKey"]) == key && text(&other["whenUnsatisfiable"]) == action
        };
        if constraints[index + 1..].iter().any(|other| same(&other)) {
            let shown = json!(format!("{{{key}, {action}}}")).to_string();
            causes.push(Cause::duplicate(place.field("{topologyKey, whenUnsatisfiable}"), &shown, ""));
        }
        if let Some(domains) = constraint["minDomains"].as_i64() {
            let at = place.field("minDomains");
            if domains <= 0 {
                causes.push(Cause::invalid(at, &json!(domains), "must be greater than zero"));
            }
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                causes.push(Cause::invalid(at, &json!(domains), &detail));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint[field].as_str()
                && !matches!(policy, "Honor" | "Ignore")
            {
                causes.push(Cause::unsupported(place.field(field), &json!(policy), &["Honor", "Ignore"]));
            }
        }
        label_keys(constraint, place, causes);
        selectors::check(&constraint["labelSelector"], place.field("labelSelector"), causes);
    }
}
