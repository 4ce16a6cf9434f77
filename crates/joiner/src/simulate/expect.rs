//! What must hold of the objects of a cluster, in words that fit a simulated and a real one.
//!
//! An expectation counts objects: those of a kind that are as it says. Nothing here reads joiner's own values; an expectation sees what `kubectl get -o json` shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::show::plural;

/// One line of `expect` or `wait`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expectation {
    /// Pods.
    Pods(Query),
    /// Nodes.
    Nodes(Query),
    /// NodeClaims.
    Claims(Query),
    /// Objects of any kind; `kind` says which.
    Objects(Query),
    /// Events.
    Events(EventQuery),
    /// What all nodes of pools cost in an hour, by the label that the provider puts on them.
    Price(Bounds),
}

/// Which objects are counted, and how many there must be: at least one unless it says otherwise.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// The kind, where it does not follow from the place.
    #[serde(default)]
    pub kind: Option<String>,
    /// Their namespace; any unless given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Their name.
    #[serde(default)]
    pub name: Option<String>,
    /// The pool whose label they carry.
    #[serde(default)]
    pub pool: Option<String>,
    /// Labels they have; `null` for one they have not.
    #[serde(default)]
    pub labels: BTreeMap<String, Value>,
    /// Annotations they have; `null` for one they have not.
    #[serde(default)]
    pub annotations: BTreeMap<String, Value>,
    /// `bound`, `pending`, `ready`, `leaving`, `launched`, `registered`, `initialized`, `finished`; each with `not ` before it for the opposite.
    #[serde(default)]
    pub state: Words,
    /// Conditions they have, as `Status` or `Status/Reason`; `null` for one they have not.
    #[serde(default)]
    pub conditions: BTreeMap<String, Value>,
    /// Taints they have, as `key:Effect` or `key=value:Effect`; with `not ` before it one they have not.
    #[serde(default)]
    pub taints: Vec<String>,
    /// Fields by their path with points, as in `spec.replicas`; `null` for one that is not there.
    #[serde(default)]
    pub fields: BTreeMap<String, Value>,
    /// Pods: labels of the node they are on.
    #[serde(default)]
    pub on: BTreeMap<String, Value>,
    /// Pods: how many different nodes they are on.
    #[serde(default)]
    pub on_nodes: Option<usize>,
    /// How many.
    #[serde(default)]
    pub count: Option<usize>,
    /// No fewer than this.
    #[serde(default)]
    pub at_least: Option<usize>,
    /// No more than this.
    #[serde(default)]
    pub at_most: Option<usize>,
    /// Where something is done to them: only the first so many by name.
    #[serde(default)]
    pub first: Option<usize>,
}

/// One word or several.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Words(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Words {
    fn from(of: OneOrMany) -> Self {
        match of {
            OneOrMany::One(word) => Self(vec![word]),
            OneOrMany::Many(words) => Self(words),
        }
    }
}

/// Which events must have been written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventQuery {
    /// The kind of object they are about.
    #[serde(default)]
    pub about: Option<String>,
    /// The name of that object.
    #[serde(default)]
    pub name: Option<String>,
    /// Their reason.
    pub reason: String,
    /// Words of their message.
    #[serde(default)]
    pub message: Option<String>,
    /// How many objects of that kind were told about, at least; 0 for none at all.
    #[serde(default)]
    pub objects: Option<usize>,
}

/// Between which numbers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bounds {
    /// No less than this.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// No more than this.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// Objects by kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects(pub BTreeMap<String, Vec<Value>>);

impl Objects {
    /// Those of a kind.
    pub fn of(&self, kind: &str) -> &[Value] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }
}

impl Expectation {
    /// The kinds whose objects it asks for.
    pub fn kinds(&self) -> Vec<&str> {
        match self {
            Self::Pods(_) => vec!["Pod", "Node"],
            Self::Nodes(_) | Self::Price(_) => vec!["Node"],
            Self::Claims(_) => vec!["NodeClaim"],
            Self::Objects(query) => query.kind.as_deref().into_iter().collect(),
            Self::Events(_) => vec!["Event"],
        }
    }

    /// What is not as it should be.
    pub fn missing(&self, objects: &Objects) -> Option<String> {
        match self {
            Self::Pods(query) => query.missing("Pod", objects),
            Self::Nodes(query) => query.missing("Node", objects),
            Self::Claims(query) => query.missing("NodeClaim", objects),
            Self::Objects(query) => query.missing(query.kind.as_deref().unwrap_or_default(), objects),
            Self::Events(query) => query.missing(objects),
            Self::Price(bounds) => {
                let price = price_per_hour(objects.of("Node"));
                let is_low = bounds.at_least.is_some_and(|least| price < least - 1e-9);
                let is_high = bounds.at_most.is_some_and(|most| price > most + 1e-9);
                (is_low || is_high).then(|| {
                    format!(
                        "nodes cost ${price:.4}/h, not between {:?} and {:?}",
                        bounds.at_least, bounds.at_most
                    )
                })
            }
        }
    }
}

/// What nodes cost in an hour, as their labels say.
pub fn price_per_hour(nodes: &[Value]) -> f64 {
    let label = joiner_api::names::INSTANCE_PRICE_LABEL;
    let price = |node: &Value| node["metadata"]["labels"][label].as_str()?.parse::<f64>().ok();
    nodes.iter().filter_map(price).sum()
}

impl Query {
    /// Those of these objects that are as it says.
    pub fn select<'o>(&self, kind: &str, objects: &'o Objects) -> Vec<&'o Value> {
        let nodes: BTreeMap<&str, &Value> =
            objects.of("Node").iter().map(|node| (text(&node["metadata"]["name"]), node)).collect();
        objects.of(kind).iter().filter(|object| self.fits(kind, object, &nodes)).collect()
    }

    fn fits(&self, kind: &str, object: &Value, nodes: &BTreeMap<&str, &Value>) -> bool {
        let metadata = &object["metadata"];
        let is = |wanted: &Option<String>, have: &Value| {
            wanted.as_deref().is_none_or(|wanted| text(have) == wanted)
        };
        let all = |wanted: &BTreeMap<String, Value>, have: &Value| {
            wanted.iter().all(|(key, value)| same(value, &have[key.as_str()]))
        };
        let node = nodes.get(text(&object["spec"]["nodeName"]));
        is(&self.namespace, &metadata["namespace"])
            && is(&self.name, &metadata["name"])
            && is(&self.pool, &metadata["labels"]["karpenter.sh/nodepool"])
            && all(&self.labels, &metadata["labels"])
            && all(&self.annotations, &metadata["annotations"])
            && self.state.0.iter().all(|word| match word.strip_prefix("not ") {
                Some(word) => !is_in_state(kind, object, word),
                None => is_in_state(kind, object, word),
            })
            && self.conditions.iter().all(|(name, wanted)| has_condition(object, name, wanted))
            && self.taints.iter().all(|taint| match taint.strip_prefix("not ") {
                Some(taint) => !has_taint(object, taint),
                None => has_taint(object, taint),
            })
            && self.fields.iter().all(|(path, value)| same(value, at(object, path)))
            && (self.on.is_empty() || node.is_some_and(|node| all(&self.on, &node["metadata"]["labels"])))
    }

    fn missing(&self, kind: &str, objects: &Objects) -> Option<String> {
        let found = self.select(kind, objects);
        let count = found.len();
        let usual = self.count.is_none() && self.at_least.is_none() && self.at_most.is_none();
        let is_right = self.count.is_none_or(|wanted| count == wanted)
            && self.at_least.is_none_or(|least| count >= least)
            && self.at_most.is_none_or(|most| count <= most)
            && (!usual || count > 0);
        if !is_right {
            let all = objects.of(kind);
            let shown: Vec<String> = all.iter().take(6).map(|object| outline(kind, object)).collect();
            let more = if all.len() > shown.len() { ", …" } else { "" };
            return Some(format!(
                "{count} of {} {self}; there are: {}{more}",
                plural(all.len(), kind),
                if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
            ));
        }
        let on: BTreeSet<&str> = found.iter().map(|pod| text(&pod["spec"]["nodeName"])).collect();
        let wanted = self.on_nodes.filter(|wanted| *wanted != on.len())?;
        Some(format!("{} {self} are on {}, not on {wanted}", plural(count, kind), plural(on.len(), "node")))
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.name.as_ref().map(|name| format!("named `{name}`")));
        parts.extend(self.namespace.as_ref().map(|name| format!("in `{name}`")));
        parts.extend(self.pool.as_ref().map(|pool| format!("of pool `{pool}`")));
        for (what, map) in [
            ("label", &self.labels),
            ("annotation", &self.annotations),
            ("condition", &self.conditions),
            ("field", &self.fields),
            ("node label", &self.on),
        ] {
            parts.extend(map.iter().map(|(key, value)| format!("{what} {key}={}", plain(value))));
        }
        parts.extend(self.state.0.iter().map(|state| format!("that are {state}")));
        parts.extend(self.taints.iter().map(|taint| format!("taint {taint}")));
        if let Some(count) = self.count {
            parts.push(format!("wanted {count}"));
        }
        if let Some(least) = self.at_least {
            parts.push(format!("wanted at least {least}"));
        }
        if let Some(most) = self.at_most {
            parts.push(format!("wanted at most {most}"));
        }
        write!(f, "[{}]", parts.join(", "))
    }
}

impl EventQuery {
    fn missing(&self, objects: &Objects) -> Option<String> {
        let about = |event: &Value| {
            let of = &event["involvedObject"];
            let is = |wanted: &Option<String>, have: &Value| {
                wanted.as_deref().is_none_or(|wanted| text(have) == wanted)
            };
            let fits = text(&event["reason"]) == self.reason
                && is(&self.about, &of["kind"])
                && is(&self.name, &of["name"])
                && self.message.as_ref().is_none_or(|words| text(&event["message"]).contains(words.as_str()));
            fits.then(|| format!("{}/{}/{}", text(&of["kind"]), text(&of["namespace"]), text(&of["name"])))
        };
        let told: BTreeSet<String> = objects.of("Event").iter().filter_map(about).collect();
        let wanted = self.objects.unwrap_or(1);
        let is_right = if wanted == 0 { told.is_empty() } else { told.len() >= wanted };
        (!is_right).then(|| {
            let same: Vec<&str> = objects
                .of("Event")
                .iter()
                .filter(|event| text(&event["reason"]) == self.reason)
                .map(|event| text(&event["message"]))
                .take(3)
                .collect();
            format!(
                "{} told with the reason {}{}, wanted {wanted}; events of that reason: {same:?}",
                plural(told.len(), "object"),
                self.reason,
                self.message.as_ref().map_or(String::new(), |words| format!(" and `{words}`")),
            )
        })
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a value is what a file says it is; `*` stands for any that is there.
fn same(wanted: &Value, have: &Value) -> bool {
    match wanted {
        Value::String(any) if any == "*" => !have.is_null(),
        // A number in a file may be a text in an object, as all labels are.
        Value::Number(number) if have.is_string() => number.to_string() == text(have),
        wanted => wanted == have,
    }
}

/// The field of a path with points. A part that holds points itself stands in brackets: `metadata.annotations[a.b/c]`.
fn at<'o>(object: &'o Value, path: &str) -> &'o Value {
    let mut rest = path;
    let mut here = object;
    while !rest.is_empty() {
        let (key, after) = if let Some(bracketed) = rest.strip_prefix('[') {
            bracketed.split_once(']').unwrap_or((bracketed, ""))
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            rest.split_at(end)
        };
        here = match here {
            Value::Array(items) => {
                key.parse::<usize>().ok().and_then(|index| items.get(index)).unwrap_or(&Value::Null)
            }
            here => &here[key],
        };
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    here
}

fn condition<'o>(object: &'o Value, name: &str) -> Option<&'o Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

fn is_true(object: &Value, name: &str) -> bool {
    condition(object, name).is_some_and(|condition| condition["status"] == "True")
}

fn has_condition(object: &Value, name: &str, wanted: &Value) -> bool {
    match (condition(object, name), wanted.as_str()) {
        (None, None) => wanted.is_null(),
        (None, Some(_)) | (Some(_), None) => false,
        (Some(have), Some(wanted)) => match wanted.split_once('/') {
            Some((status, reason)) => have["status"] == status && have["reason"] == reason,
            None => have["status"] == wanted,
        },
    }
}

fn has_taint(object: &Value, wanted: &str) -> bool {
    let (key, effect) = wanted.split_once(':').unwrap_or((wanted, ""));
    let (key, value) = match key.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (key, None),
    };
    let taints = object["spec"]["taints"].as_array();
    taints.into_iter().flatten().any(|taint| {
        taint["key"] == key
            && (effect.is_empty() || taint["effect"] == effect)
            && value.is_none_or(|value| taint["value"] == value)
    })
}

fn is_in_state(kind: &str, object: &Value, word: &str) -> bool {
    let is_leaving = !object["metadata"]["deletionTimestamp"].is_null();
    let label = |key: &str| object["metadata"]["labels"][key] == "true";
    match (kind, word) {
        (_, "leaving") => is_leaving,
        ("Pod", "bound") => !text(&object["spec"]["nodeName"]).is_empty(),
        ("Pod", "pending") => text(&object["spec"]["nodeName"]).is_empty(),
        ("Pod", "ready") => !is_leaving && is_true(object, "Ready"),
        ("Pod", "finished") => ["Succeeded", "Failed"].contains(&text(&object["status"]["phase"])),
        ("Node", "registered") => label("karpenter.sh/registered"),
        ("Node", "initialized") => label("karpenter.sh/initialized"),
        (_, "ready") => is_true(object, "Ready"),
        (_, "launched") => is_true(object, "Launched"),
        (_, "registered") => is_true(object, "Registered"),
        (_, "initialized") => is_true(object, "Initialized"),
        _ => false,
    }
}

fn outline(kind: &str, object: &Value) -> String {
    let name = text(&object["metadata"]["name"]);
    let mut words: Vec<String> = ["bound", "ready", "leaving", "launched", "registered", "initialized"]
        .iter()
        .filter(|word| is_in_state(kind, object, word))
        .map(|word| (*word).to_owned())
        .collect();
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    words.extend(conditions.filter(|condition| condition["status"] != "True").take(4).map(|condition| {
        format!("{} {}/{}", text(&condition["type"]), text(&condition["status"]), text(&condition["reason"]))
    }));
    format!("{name} ({})", words.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects() -> Objects {
        let pod = |name: &str, node: Option<&str>| {
            json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
                "spec": {"nodeName": node}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}]}})
        };
        let node = |name: &str, zone: &str| {
            json!({"metadata": {"name": name, "labels": {"zone": zone, joiner_api::names::INSTANCE_PRICE_LABEL: "0.25"}},
                "spec": {"taints": [{"key": "a.b/c", "value": "v", "effect": "NoSchedule"}]}})
        };
        Objects(BTreeMap::from([
            ("Pod".to_owned(), vec![pod("p-0", Some("n-0")), pod("p-1", Some("n-1")), pod("p-2", None)]),
            ("Node".to_owned(), vec![node("n-0", "a"), node("n-1", "b")]),
            (
                "Event".to_owned(),
                vec![
                    json!({"reason": "Told", "message": "no room there", "involvedObject": {"kind": "Pod", "name": "p-2"}}),
                ],
            ),
        ]))
    }

    fn missing(text: &str) -> Option<String> {
        serde_saphyr::from_str::<Expectation>(text).unwrap().missing(&objects())
    }

    #[test]
    fn what_holds_is_not_missing() {
        for fine in [
            "pods: { labels: { app: web }, count: 3 }",
            "pods: { state: bound, count: 2, onNodes: 2 }",
            "pods: { state: [not bound, pending], count: 1, name: p-2 }",
            "pods: { on: { zone: a }, count: 1 }",
            "pods: { labels: { gone: null }, count: 3 }",
            "pods: { conditions: { Ready: 'True/Fine', Other: null }, atLeast: 3 }",
            "nodes: { taints: ['a.b/c=v:NoSchedule', 'not x:NoSchedule'], count: 2 }",
            "nodes: { fields: { 'spec.taints.0.key': a.b/c }, atMost: 2, atLeast: 1 }",
            "claims: { count: 0 }",
            "price: { atLeast: 0.5, atMost: 0.5 }",
            "events: { reason: Told, about: Pod, message: no room }",
            "events: { reason: Other, objects: 0 }",
        ] {
            assert_eq!(missing(fine), None, "{fine}");
        }
    }

    #[test]
    fn what_does_not_hold_is_said() {
        for wrong in [
            "pods: { labels: { app: api } }",
            "pods: { count: 2 }",
            "pods: { state: bound, count: 2, onNodes: 1 }",
            "pods: { state: leaving }",
            "pods: { state: not bound, count: 3 }",
            "pods: { on: { zone: c } }",
            "pods: { conditions: { Ready: 'True/Other' } }",
            "pods: { conditions: { Ready: null } }",
            "nodes: { taints: ['a.b/c:NoExecute'] }",
            "nodes: { taints: ['not a.b/c:NoSchedule'] }",
            "claims: { atLeast: 1 }",
            "price: { atMost: 0.4 }",
            "events: { reason: Told, message: no money }",
            "events: { reason: Told, objects: 0 }",
        ] {
            assert!(missing(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn paths_reach_keys_with_points() {
        let object = json!({"metadata": {"annotations": {"a.b/c": "1"}}, "list": [{"x": 2}]});
        assert_eq!(at(&object, "metadata.annotations[a.b/c]"), "1");
        assert_eq!(at(&object, "list.0.x"), 2);
        assert!(at(&object, "list.7.x").is_null());
    }
}
