//! The file behind `--scheduler-config`: default topology spread constraints for pods that have none.
//!
//! Two forms are read. The short one holds nothing else, so anything unknown in it is refused:
//!
//! ```yaml
//! podTopologySpread:
//!   defaultConstraints:
//!     - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
//! ```
//!
//! The other is the file kube-scheduler itself reads (`kind: KubeSchedulerConfiguration`). Of that only the arguments of the plugin
//! PodTopologySpread count; the rest is none of our business and is not looked at.

use std::path::Path;

use joiner_state::Problem;
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

use super::documents::cut;
use super::objects::{place_problem, read_value};
use super::{Document, Source};
use crate::report::InputError;

/// Default constraints, with their place for messages about them.
#[derive(Debug)]
pub struct SchedulerConfig {
    /// The constraints.
    pub constraints: Vec<TopologySpreadConstraint>,
    /// The path of the list.
    pub field: String,
    file: String,
    document: Document,
}

impl SchedulerConfig {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let source = Source::File(path.to_owned());
        Self::read_from(source.open_for("--scheduler-config")?, source.name())
    }

    /// Reads a text; `name` is what the user gave it with.
    pub fn read_text(name: &str, text: &str) -> Result<Self, InputError> {
        Self::read_from(text.as_bytes(), name.to_owned())
    }

    fn read_from(reader: impl std::io::Read, file: String) -> Result<Self, InputError> {
        let mut documents = Vec::new();
        cut(reader, 0, &file, &mut |document| {
            documents.push(document);
            Ok(())
        })?;
        let mut documents = documents.into_iter();
        let (Some(document), None) = (documents.next(), documents.next()) else {
            let message = "a scheduler configuration is one document, neither none nor several";
            return Err(InputError::of_file(&file, message, "give `podTopologySpread.defaultConstraints`"));
        };
        let value = read_value(&file, &document)?;
        let (constraints, field) = match read(&value) {
            Ok(read) => read,
            Err(problem) => return Err(place_problem(&file, &document, problem)),
        };
        Ok(Self { constraints, field, file, document })
    }

    /// A complaint about a constraint, with its line.
    pub fn complaint(&self, problem: Problem) -> InputError {
        place_problem(&self.file, &self.document, problem)
    }
}

fn problem(path: impl Into<String>, value: &Value, message: &str, remedy: impl Into<String>) -> Problem {
    let value = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Problem {
        object: String::new(),
        path: path.into(),
        value,
        message: message.to_owned(),
        remedy: remedy.into(),
    }
}

type Constraints = (Vec<TopologySpreadConstraint>, String);

fn read(value: &Value) -> Result<Constraints, Problem> {
    let Value::Object(map) = value else {
        return Err(problem("podTopologySpread", value, "there is no such field", "add it"));
    };
    if map.contains_key("kind") || map.contains_key("profiles") {
        return of_kube_scheduler(map);
    }
    only(map, "", &["podTopologySpread"])?;
    match map.get("podTopologySpread") {
        None | Some(Value::Null) => Ok((Vec::new(), "podTopologySpread.defaultConstraints".to_owned())),
        Some(Value::Object(spread)) => {
            only(spread, "podTopologySpread", &["defaultConstraints"])?;
            list(spread, "podTopologySpread")
        }
        Some(other) => {
            Err(problem("podTopologySpread", other, "expected a table", "put `defaultConstraints` below it"))
        }
    }
}

/// kube-scheduler's own file: the profile of the default scheduler, or the only one.
fn of_kube_scheduler(map: &Map<String, Value>) -> Result<Constraints, Problem> {
    let text = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind != "KubeSchedulerConfiguration" || !api_version.starts_with("kubescheduler.config.k8s.io/") {
        let (field, value) = match kind {
            "KubeSchedulerConfiguration" => ("apiVersion", api_version),
            other => ("kind", other),
        };
        let remedy = "give a `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, or `podTopologySpread` alone";
        return Err(problem(field, &value.into(), "not a scheduler configuration", remedy));
    }
    let profiles: &[Value] = map.get("profiles").and_then(Value::as_array).map_or(&[], Vec::as_slice);
    let name = |profile: &Value| {
        profile.get("schedulerName").and_then(Value::as_str).unwrap_or("default-scheduler").to_owned()
    };
    let default = profiles.iter().position(|profile| name(profile) == "default-scheduler");
    let Some(at) = default.or((profiles.len() == 1).then_some(0)) else {
        if profiles.is_empty() {
            return Ok((built_in(), "profiles".to_owned()));
        }
        let names: Vec<String> = profiles.iter().map(name).collect();
        let remedy = "keep one profile, or name one `default-scheduler`";
        return Err(problem(
            "profiles",
            &names.join(", ").into(),
            "which of them counts is not clear",
            remedy,
        ));
    };
    let plugins = profiles[at].get("pluginConfig").and_then(Value::as_array);
    let is_spread = |plugin: &&Value| plugin.get("name").and_then(Value::as_str) == Some("PodTopologySpread");
    let found = plugins
        .into_iter()
        .flatten()
        .enumerate()
        .find(|(_, plugin)| is_spread(plugin))
        .map(|(n, p)| (n, p.get("args")));
    let path = |number: usize| format!("profiles[{at}].pluginConfig[{number}].args");
    match found {
        None | Some((_, None | Some(Value::Null))) => Ok((built_in(), "profiles".to_owned())),
        Some((number, Some(Value::Object(arguments)))) => {
            let path = path(number);
            only(arguments, &path, &["apiVersion", "kind", "defaultConstraints", "defaultingType"])?;
            let (constraints, field) = list(arguments, &path)?;
            match (arguments.get("defaultingType").and_then(Value::as_str), constraints.is_empty()) {
                (Some("List"), _) => Ok((constraints, field)),
                (None | Some("System"), true) => Ok((built_in(), path)),
                (None | Some("System"), false) => Err(problem(
                    format!("{path}.defaultingType"),
                    &"System".into(),
                    "with it the built-in constraints count, and a list is refused",
                    "write `List`",
                )),
                (Some(other), _) => Err(problem(
                    format!("{path}.defaultingType"),
                    &other.into(),
                    "not a known way",
                    "use `List` or `System`",
                )),
            }
        }
        Some((number, Some(other))) => {
            Err(problem(path(number), other, "expected a table", "write the arguments of PodTopologySpread"))
        }
    }
}

/// What kube-scheduler spreads by when it is told nothing.
fn built_in() -> Vec<TopologySpreadConstraint> {
    let soft = |max_skew: i32, key: &str| TopologySpreadConstraint {
        max_skew,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    vec![soft(3, joiner_api::names::HOSTNAME_LABEL), soft(5, joiner_api::names::ZONE_LABEL)]
}

/// Refuses fields other than the known ones.
fn only(map: &Map<String, Value>, path: &str, known: &[&str]) -> Result<(), Problem> {
    let Some((field, value)) = map.iter().find(|(field, _)| !known.contains(&field.as_str())) else {
        return Ok(());
    };
    let remedy = match joiner_core::explain::nearest(field, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: `{}`", known.join("`, `")),
    };
    Err(problem(below(path, field), value, "there is no such field", remedy))
}

fn below(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn list(map: &Map<String, Value>, path: &str) -> Result<Constraints, Problem> {
    let field = below(path, "defaultConstraints");
    let constraints = match map.get("defaultConstraints") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items
            .iter()
            .enumerate()
            .map(|(at, item)| constraint(item, &format!("{field}[{at}]")))
            .collect::<Result<_, _>>()?,
        Some(other) => {
            return Err(problem(field, other, "expected a list", "begin each constraint with a dash"));
        }
    };
    Ok((constraints, field))
}

/// One constraint: types here, meaning where it is taken in.
fn constraint(value: &Value, path: &str) -> Result<TopologySpreadConstraint, Problem> {
    let Value::Object(map) = value else {
        return Err(problem(
            path,
            value,
            "expected a table",
            "write `maxSkew`, `topologyKey` and `whenUnsatisfiable`",
        ));
    };
    const KNOWN: [&str; 8] = [
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "labelSelector",
        "matchLabelKeys",
    ];
    only(map, path, &KNOWN)?;
    let present = |field: &str| map.get(field).filter(|value| !value.is_null());
    if let Some(missing) = KNOWN[..3].iter().find(|field| present(field).is_none()) {
        let remedy = format!("add `{missing}`");
        return Err(problem(
            path,
            value,
            "a constraint needs `maxSkew`, `topologyKey` and `whenUnsatisfiable`",
            remedy,
        ));
    }
    let text = |field: &str| match present(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(problem(below(path, field), other, "expected text", "put it in quotes")),
    };
    let number = |field: &str| match present(field) {
        None => Ok(None),
        Some(value) => match value.as_i64().and_then(|number| i32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(problem(below(path, field), value, "expected a whole number", "write 1 or more")),
        },
    };
    Ok(TopologySpreadConstraint {
        max_skew: number("maxSkew")?.unwrap_or_default(),
        topology_key: text("topologyKey")?.unwrap_or_default(),
        when_unsatisfiable: text("whenUnsatisfiable")?.unwrap_or_default(),
        min_domains: number("minDomains")?,
        node_affinity_policy: text("nodeAffinityPolicy")?,
        node_taints_policy: text("nodeTaintsPolicy")?,
        // What stands in these two does not matter: neither may be there.
        label_selector: present("labelSelector").map(|_| LabelSelector::default()),
        match_label_keys: present("matchLabelKeys").map(|keys| vec![keys.to_string()]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(value: Value) -> String {
        match read(&value) {
            Ok((constraints, field)) => {
                let all = constraints
                    .iter()
                    .map(|c| format!("{} {} {}", c.max_skew, c.topology_key, c.when_unsatisfiable));
                format!("{field}: {}", all.collect::<Vec<_>>().join(", "))
            }
            Err(Problem { path, value, message, remedy, .. }) => {
                format!("`{path}` is `{value}`: {message}; {remedy}")
            }
        }
    }

    #[test]
    fn the_short_form_is_read_strictly() {
        let zone =
            serde_json::json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        let short = |constraints: Value| serde_json::json!({"podTopologySpread": {"defaultConstraints": constraints}});
        assert_eq!(
            told(short(serde_json::json!([zone]))),
            "podTopologySpread.defaultConstraints: 1 zone DoNotSchedule"
        );
        assert_eq!(
            told(serde_json::json!({"podTopologySpred": {}})),
            "`podTopologySpred` is `{}`: there is no such field; did you mean `podTopologySpread`?"
        );
        assert_eq!(
            told(serde_json::json!({"podTopologySpread": {"defaultingType": "List"}})),
            "`podTopologySpread.defaultingType` is `List`: there is no such field; known here: `defaultConstraints`"
        );
        assert_eq!(
            told(short(serde_json::json!({"maxSkew": 1}))),
            "`podTopologySpread.defaultConstraints` is `{\"maxSkew\":1}`: expected a list; begin each constraint with a dash"
        );
        assert_eq!(
            told(short(
                serde_json::json!([{"maxSkew": "1", "topologyKey": "zone", "whenUnsatisfiable": "x"}])
            )),
            "`podTopologySpread.defaultConstraints[0].maxSkew` is `1`: expected a whole number; write 1 or more"
        );
        assert!(
            told(short(serde_json::json!([{"maxSkew": 1, "topologyKey": "zone"}])))
                .contains("add `whenUnsatisfiable`")
        );
        assert!(told(serde_json::json!([])).contains("there is no such field"));
    }

    #[test]
    fn the_schedulers_own_file_gives_its_plugin_arguments() {
        let file = |args: Value| {
            serde_json::json!({
                "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": true},
                "profiles": [{"schedulerName": "other"}, {"pluginConfig": [
                    {"name": "NodeResourcesFit"}, {"name": "PodTopologySpread", "args": args},
                ]}],
            })
        };
        let one =
            serde_json::json!([{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]);
        assert_eq!(
            told(file(serde_json::json!({"defaultingType": "List", "defaultConstraints": one}))),
            "profiles[1].pluginConfig[1].args.defaultConstraints: 2 rack ScheduleAnyway"
        );
        let built_in =
            "3 kubernetes.io/hostname ScheduleAnyway, 5 topology.kubernetes.io/zone ScheduleAnyway";
        assert!(told(file(serde_json::json!({"defaultingType": "System"}))).ends_with(built_in));
        assert!(told(file(Value::Null)).ends_with(built_in));
        assert!(told(file(serde_json::json!({"defaultConstraints": one}))).ends_with("write `List`"));
        assert!(told(file(serde_json::json!({"defaultingType": "Best"}))).contains("use `List` or `System`"));
        let two = serde_json::json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}],
        });
        assert!(told(two).starts_with("`profiles` is `a, b`: which of them counts is not clear"));
        assert!(
            told(serde_json::json!({"kind": "ConfigMap"}))
                .starts_with("`kind` is `ConfigMap`: not a scheduler")
        );
    }
}
