//! Every change to every object, as watches tell it: all resources that can be watched, from the first version on, with all fields.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::{AsyncBufReadExt, FutureExt, StreamExt};
use kube::Client;
use serde_json::Value;

/// A group whose objects are another view of those of `v1`.
const TWIN: &str = "events.k8s.io";

/// A list of changes in the order of their versions.
#[derive(Default)]
pub(crate) struct Log {
    /// Whole lines are kept, and not only what tells them apart.
    whole: bool,
    seen: BTreeMap<String, u64>,
    entries: BTreeMap<(u64, String), Entry>,
}

/// One change.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    what: String,
    hash: u64,
    line: Option<String>,
}

impl Log {
    /// One that keeps whole lines.
    pub(crate) fn whole() -> Self {
        Self { whole: true, ..Self::default() }
    }

    /// One that keeps of each line a number, for long runs.
    pub(crate) fn brief() -> Self {
        Self::default()
    }

    /// Takes in what has happened since the last call; at the first, what is there. That one must come before anything lives.
    pub(crate) async fn read(&mut self, client: &Client) {
        for path in watched(client).await {
            let from = self.seen.get(&path).copied().unwrap_or(0);
            let request = http::Request::get(format!("{path}?watch=true&resourceVersion={from}"));
            let stream = client.request_stream(request.body(Vec::new()).unwrap()).await.unwrap();
            let mut lines = Box::pin(stream).lines();
            // What is there is there at once; the runtime's turns do not count.
            while let Some(line) = tokio::task::unconstrained(lines.next()).now_or_never() {
                self.take(&path, &line.expect("the watch is open").unwrap());
            }
            if from == 0 {
                let request = http::Request::get(&path).body(Vec::new()).unwrap();
                let list: Value = client.request(request).await.unwrap();
                let version = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                self.seen.insert(path, version);
            }
        }
    }

    fn take(&mut self, path: &str, line: &str) {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/type");
        assert!(["ADDED", "MODIFIED", "DELETED"].contains(&kind), "{path}: {line}");
        let version: u64 = text("/object/metadata/resourceVersion").parse().unwrap();
        let what =
            format!("{kind} {path} {}/{}", text("/object/metadata/namespace"), text("/object/metadata/name"));
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let entry = Entry { what, hash: hasher.finish(), line: self.whole.then(|| line.to_owned()) };
        let seen = self.seen.entry(path.to_owned()).or_default();
        *seen = version.max(*seen);
        let earlier = self.entries.insert((version, path.to_owned()), entry);
        assert!(earlier.is_none(), "{path}: version {version} twice");
    }

    /// How many changes there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Changes of a kind (`ADDED`, …) to objects of a resource.
    pub(crate) fn count(&self, kind: &str, resource: &str) -> usize {
        self.entries
            .iter()
            .filter(|((_, path), entry)| is_of(path, resource) && entry.what.starts_with(kind))
            .count()
    }

    /// The largest number of objects of a resource at one time.
    pub(crate) fn most(&self, resource: &str) -> usize {
        let (mut present, mut most) = (0_usize, 0);
        for (_, entry) in self.entries.iter().filter(|((_, path), _)| is_of(path, resource)) {
            match entry.what.split(' ').next() {
                Some("ADDED") => present += 1,
                Some("DELETED") => present -= 1,
                _ => {}
            }
            most = present.max(most);
        }
        most
    }

    /// Events written for people, as `reporter reason`. Needs whole lines.
    pub(crate) fn told(&self) -> BTreeMap<String, usize> {
        let mut told = BTreeMap::new();
        for (_, entry) in self.entries.iter().filter(|((_, path), _)| path == "/api/v1/events") {
            let event: Value = serde_json::from_str(entry.line.as_deref().unwrap()).unwrap();
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let key = format!("{} {}", text("/object/source/component"), text("/object/reason"));
            *told.entry(key).or_default() += 1;
        }
        told
    }

    /// Fails with the first change that differs.
    pub(crate) fn assert_same(&self, other: &Self, about: &str) {
        let (mut ours, mut theirs) = (self.entries.iter(), other.entries.iter());
        let mut before = Vec::new();
        for number in 0.. {
            match (ours.next(), theirs.next()) {
                (None, None) => return,
                (one, two) if one == two => {
                    before.push(one.map(|(_, entry)| entry.what.clone()).unwrap_or_default())
                }
                (one, two) => {
                    let show = |entry: Option<(&(u64, String), &Entry)>| match entry {
                        Some((key, entry)) => {
                            format!("{} {} {}", key.0, entry.what, entry.line.as_deref().unwrap_or_default())
                        }
                        None => "nothing".to_owned(),
                    };
                    panic!(
                        "{about}: change {number} of {} and {} differs\n  {}\n  {}\nafter\n  {}",
                        self.len(),
                        other.len(),
                        show(one),
                        show(two),
                        before[before.len().saturating_sub(12)..].join("\n  ")
                    );
                }
            }
        }
    }
}

fn is_of(path: &str, resource: &str) -> bool {
    path.rsplit('/').next() == Some(resource)
}

/// Paths of all resources that can be watched, one for each way an object is kept.
async fn watched(client: &Client) -> Vec<String> {
    let mut paths = Vec::new();
    for root in ["/api", "/apis"] {
        let request = http::Request::get(root)
            .header("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
        let groups: Value = client.request(request.body(Vec::new()).unwrap()).await.unwrap();
        for group in groups["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            // Other versions show the same objects.
            let version = &group["versions"][0];
            let prefix = match name {
                "" => root.to_owned(),
                name => format!("{root}/{name}"),
            };
            for resource in version["resources"].as_array().into_iter().flatten() {
                let verbs = resource["verbs"].as_array().unwrap();
                if name != TWIN && verbs.iter().any(|verb| verb == "watch") {
                    let version = version["version"].as_str().unwrap();
                    paths.push(format!("{prefix}/{version}/{}", resource["resource"].as_str().unwrap()));
                }
            }
        }
    }
    assert!(paths.len() > 40, "{paths:?}");
    paths
}
