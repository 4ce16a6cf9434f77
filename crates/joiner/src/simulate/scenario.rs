//! What a scenario file says: what there is, what is done, and what must have become of it.
//!
//! Files are read strictly: a field that nobody knows is an error. What stands in a file holds for every cluster, simulated or real, so nothing in it depends on
//! generated names.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::report::InputError;
use crate::simulate::expect::{Expectation, Query};

/// How long the final state may take to come, unless the file says otherwise.
const WITHIN: &str = "3m";

/// One file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The name of the file without folder and ending.
    #[serde(skip)]
    pub name: String,
    /// The file, if it was read from one.
    #[serde(skip)]
    pub file: String,
    /// What it shows, in one sentence.
    pub about: String,
    /// The rule it holds joiner to: `P01` (provisioning), `L01` (lives of claims), `T01` (the end of nodes), `B01` (bad input).
    pub rule: String,
    /// Flags of `joiner run`, without the dashes.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// `spec` of the KWOKNodeClass `default`; `null` for no class.
    #[serde(default = "empty")]
    pub class: Value,
    /// What is merged over the usual pool, by name. One pool `default` unless the file says otherwise.
    #[serde(default = "one_pool")]
    pub pools: BTreeMap<String, Value>,
    /// Whole objects that are there before joiner starts.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// What is done.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// What must hold in the end.
    pub expect: Vec<Expectation>,
    /// How long that may take.
    #[serde(default = "within", deserialize_with = "length")]
    pub within: Duration,
    /// Why it can only be played on a simulated cluster, if that is so.
    #[serde(default)]
    pub only_simulated: Option<String>,
    /// Why a crash or a lost answer may change its end, if that is so.
    #[serde(default)]
    pub only_undisturbed: Option<String>,
}

/// One thing that is done.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Creates pods of one container.
    Pods(Pods),
    /// Applies an object, or several.
    Apply(Value),
    /// Applies an object that the server must refuse.
    Refused(Refused),
    /// Merges into objects.
    Patch(Patch),
    /// Deletes objects.
    Delete(Query),
    /// Sets the number of replicas.
    Scale(Scale),
    /// Asks pods to leave through the eviction API.
    Evict(Query),
    /// Waits until all of this holds.
    Wait(Wait),
    /// Lets time pass.
    #[serde(deserialize_with = "length")]
    Pass(Duration),
    /// Sets `spec.chaos` of the class `default`; `off` takes it away.
    Chaos(Value),
    /// Does something to joiner's process.
    Joiner(Deed),
}

/// Pods `NAME-0`, `NAME-1`, … with the label `app: NAME`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pods {
    /// What their names begin with.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: usize,
    /// What each asks for.
    #[serde(default)]
    pub cpu: Option<String>,
    /// What each asks for.
    #[serde(default)]
    pub memory: Option<String>,
    /// Merged over each.
    #[serde(default = "empty")]
    pub with: Value,
}

/// An object and why it is refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refused {
    /// The object.
    pub object: Value,
    /// Words of the server's answer.
    pub because: String,
}

/// A change of objects.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// Which.
    pub of: Query,
    /// What is merged into each; `null` takes a field away.
    pub with: Value,
}

/// A number of replicas.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// Deployment, StatefulSet or ReplicaSet.
    pub kind: String,
    /// Its name, in `default`.
    pub name: String,
    /// How many there shall be.
    pub replicas: u32,
}

/// Something to wait for.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wait {
    /// What must hold, all of it at once.
    #[serde(rename = "for")]
    pub until: Vec<Expectation>,
    /// How long that may take.
    #[serde(default = "within", deserialize_with = "length")]
    pub within: Duration,
}

/// What happens to joiner's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Deed {
    /// It ends at once, whatever it is doing.
    Kill,
    /// It is asked to end, and finishes what is under way.
    Stop,
    /// It starts, unless it runs.
    Start,
}

fn empty() -> Value {
    Value::Object(Map::new())
}

fn one_pool() -> BTreeMap<String, Value> {
    BTreeMap::from([("default".to_owned(), empty())])
}

fn one() -> usize {
    1
}

fn within() -> Duration {
    read_length(WITHIN).unwrap_or(Duration::from_secs(180))
}

fn length<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    read_length(&text).map_err(serde::de::Error::custom)
}

/// A length of time as in `1m30s`.
pub(crate) fn read_length(text: &str) -> Result<Duration, String> {
    let read = joiner_api::duration::Duration::parse(text).map_err(|error| error.to_string())?;
    let nanos = u64::try_from(read.nanos()).map_err(|_| format!("duration `{text}` is negative"))?;
    Ok(Duration::from_nanos(nanos))
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read: where, and why.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the scenario `{file}`"))
            .map_err(|error| InputError::of_file("", crate::report::chain(&error), "check the path"))?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self::of_text(&name, &text)
            .map(|scenario| Self { file: file.clone(), ..scenario })
            .map_err(|message| InputError::of_file(&file, message, "see tests/cluster/README.md").into())
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// A sentence.
    pub fn of_text(name: &str, text: &str) -> Result<Self, String> {
        let mut scenario: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        scenario.name = name.to_owned();
        let is_rule = |rule: &str| {
            let mut letters = rule.chars();
            letters.next().is_some_and(|first| "PLTB".contains(first))
                && letters.all(|letter| letter.is_ascii_digit())
                && rule.len() == 3
        };
        if !is_rule(&scenario.rule) {
            return Err(format!("`rule` is `{}`: give a letter of P, L, T, B and two digits", scenario.rule));
        }
        if scenario.expect.is_empty() {
            return Err("`expect` is empty: say what must hold in the end".to_owned());
        }
        Ok(scenario)
    }

    /// All files of a folder, in the order of their names.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn read_all(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let entries = std::fs::read_dir(folder)
            .with_context(|| format!("cannot read the folder `{}`", folder.display()))?;
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// Flags for `joiner run`, as `--name=value`.
    pub fn flags(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.settings.iter().map(|(name, value)| format!("--{name}={}", text(value))).collect()
    }

    /// What is there before joiner starts: the class, the pools, the objects, in this order.
    pub fn beginning(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        if !self.class.is_null() {
            objects.push(json!({
                "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
                "metadata": {"name": "default"}, "spec": self.class,
            }));
        }
        objects.extend(self.pools.iter().map(|(name, change)| pool(name, change)));
        objects.extend(self.objects.iter().cloned());
        objects
    }
}

/// The usual pool with a change merged over it.
pub fn pool(name: &str, change: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never",
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}],
            },
        },
    });
    merge(&mut pool, change);
    pool
}

impl Pods {
    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.count).map(|number| {
            let mut requests = Map::new();
            for (resource, amount) in [("cpu", &self.cpu), ("memory", &self.memory)] {
                requests.extend(amount.as_ref().map(|amount| (resource.to_owned(), json!(amount))));
            }
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("{}-{number}", self.name), "namespace": "default", "labels": {"app": self.name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}],
                },
            });
            merge(&mut pod, &self.with);
            pod
        })
    }
}

/// Merges objects; everything else is replaced, and `null` takes away.
pub(crate) fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, change) => *into = change.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "
about: pods get a node
rule: P01
steps:
  - pods: { name: web, count: 2, cpu: '1' }
  - pass: 1m30s
  - joiner: kill
expect:
  - pods: { labels: { app: web }, state: ready, count: 2 }
";

    #[test]
    fn a_file_has_a_pool_and_a_class_unless_it_says_otherwise() {
        let scenario = Scenario::of_text("small", SMALL).unwrap();
        let kinds: Vec<_> = scenario.beginning().iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["KWOKNodeClass", "NodePool"]);
        assert!(matches!(scenario.steps[1], Step::Pass(time) if time == Duration::from_secs(90)));
        let Step::Pods(pods) = &scenario.steps[0] else { panic!("no pods") };
        let names: Vec<_> = pods.objects().map(|pod| pod["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["web-0", "web-1"]);
    }

    #[test]
    fn what_nobody_knows_is_refused_with_its_place() {
        for (from, to, words) in [
            ("rule: P01", "rule: X1", "`rule` is `X1`"),
            ("count: 2, cpu", "coutn: 2, cpu", "coutn"),
            ("pass: 1m30s", "pass: soon", "soon"),
            ("state: ready", "sate: ready", "sate"),
        ] {
            let error = Scenario::of_text("small", &SMALL.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn settings_become_flags() {
        let text = format!("settings: {{ batch-idle-duration: 2s, metrics-port: 0 }}{SMALL}");
        let scenario = Scenario::of_text("small", &text).unwrap();
        assert_eq!(scenario.flags(), ["--batch-idle-duration=2s", "--metrics-port=0"]);
    }
}
