//! Who watches: reads every version of every object, hears of every call, and asks the checkers.
//!
//! The watches are drained before a call is carried out, so a checker sees things in the order in which they were.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use joiner_apiserver::direct::{Changes, Direct};
use joiner_apiserver::resources::Resource;
use joiner_apiserver::service::ApiServer;
use joiner_apiserver::store::ChangeKind;
use joiner_sim::clock::Clock;
use serde_json::Value;

use crate::simulate::checks::{self, Check, Types, Violation};
use crate::simulate::happening::{Call, Change, Cluster, Happening, What, key, text};

/// What is watched: kind, group and plural.
const WATCHED: [(&str, &str, &str); 6] = [
    ("NodePool", "karpenter.sh", "nodepools"),
    ("KWOKNodeClass", "karpenter.kwok.sh", "kwoknodeclasses"),
    ("NodeClaim", "karpenter.sh", "nodeclaims"),
    ("Node", "", "nodes"),
    ("Pod", "", "pods"),
    ("PodDisruptionBudget", "policy", "poddisruptionbudgets"),
];

/// What begins the id of a machine of KWOK, and names the claim on its Node.
const MACHINES: &str = "kwok://";
const CLAIM_UID: &str = joiner_api::names::CLAIM_UID_ANNOTATION;

/// No more than so many are kept: the first ones tell.
const MOST: usize = 20;

/// Shared by all who see something.
#[derive(Clone)]
pub struct Referee(Arc<Mutex<Inner>>);

struct Inner {
    clock: Clock,
    reader: Direct,
    watches: Vec<Watch>,
    cluster: Cluster,
    checks: Vec<Box<dyn Check>>,
    violations: Vec<Violation>,
    /// Calls of joiner by method and resource.
    calls: BTreeMap<String, usize>,
    /// When something that counts was last called for.
    last_call: Option<(Timestamp, String)>,
    /// Claims that were made.
    claims_made: usize,
    /// Everything that happened, line by line, if that is kept.
    trace: Option<Vec<String>>,
}

struct Watch {
    kind: &'static str,
    resource: Arc<Resource>,
    changes: Option<Changes>,
}

impl Referee {
    /// A referee of this cluster.
    ///
    /// # Errors
    /// The server does not know a kind that is watched.
    pub fn new(server: &ApiServer, clock: Clock, types: Types) -> anyhow::Result<Self> {
        let reader = server.direct("referee");
        let mut watches = Vec::new();
        for (kind, group, plural) in WATCHED {
            let resource = reader
                .resource(group, plural)
                .map_err(|_| anyhow::anyhow!("the simulated cluster does not know {plural}"))?;
            watches.push(Watch { kind, resource, changes: None });
        }
        Ok(Self(Arc::new(Mutex::new(Inner {
            clock,
            reader,
            watches,
            cluster: Cluster::default(),
            checks: checks::all(types),
            violations: Vec::new(),
            calls: BTreeMap::new(),
            last_call: None,
            claims_made: 0,
            trace: None,
        }))))
    }

    fn open(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what has happened since the last look.
    pub fn look(&self) {
        self.open().look();
    }

    /// Joiner is about to change something.
    pub fn called(&self, call: Call) {
        let mut inner = self.open();
        inner.look();
        let target = call.target();
        *inner.calls.entry(format!("{} {}", call.method, target.resource)).or_default() += 1;
        inner.tell(What::Called(call));
    }

    /// A call was carried out, and not refused.
    pub fn done(&self, call: &str) {
        let mut inner = self.open();
        let now = inner.clock.now();
        inner.last_call = Some((now, call.to_owned()));
    }

    /// Something about a machine.
    pub fn machine(&self, what: What) {
        let mut inner = self.open();
        inner.look();
        if matches!(what, What::EndAsked { .. }) {
            let now = inner.clock.now();
            inner.last_call = Some((now, format!("{what:?}")));
        }
        inner.tell(what);
    }

    /// What must not have been, so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.open().violations.clone()
    }

    /// Adds what was found at rest.
    pub fn found(&self, invariant: &'static str, text: String) {
        let mut inner = self.open();
        let at = inner.clock.now();
        inner.keep(Violation { at, invariant, text });
    }

    /// When joiner last changed something that counts, and what.
    pub fn last_call(&self) -> Option<(Timestamp, String)> {
        self.open().last_call.clone()
    }

    /// How many calls there were, by method and resource.
    pub fn calls(&self) -> BTreeMap<String, usize> {
        self.open().calls.clone()
    }

    /// From now on every single thing is kept, for comparisons of runs.
    pub fn keep_trace(&self) {
        self.open().trace = Some(Vec::new());
    }

    /// What was kept.
    pub fn trace(&self) -> Vec<String> {
        self.open().trace.clone().unwrap_or_default()
    }

    /// How many claims were made.
    pub fn claims_made(&self) -> usize {
        self.open().claims_made
    }

    /// The cluster as it is now.
    pub fn cluster(&self) -> Cluster {
        let mut inner = self.open();
        inner.look();
        inner.cluster.clone()
    }
}

impl Inner {
    fn look(&mut self) {
        let mut told = Vec::new();
        for watch in &mut self.watches {
            watch.read(&self.reader, &self.cluster, &mut told);
        }
        told.sort_by_key(|(revision, ..)| *revision);
        for (_, kind, is_gone, object) in told {
            let previous = self.cluster.keyed(kind, &key(&object)).cloned();
            if kind == "NodeClaim" && previous.is_none() {
                self.claims_made += 1;
            }
            // A machine of KWOK whose Node is there is there, whoever heard of its launch.
            let machine = text(&object["spec"]["providerID"]).to_owned();
            let claim_uid = text(&object["metadata"]["annotations"][CLAIM_UID]).to_owned();
            let is_machine = kind == "Node" && machine.starts_with(MACHINES) && !claim_uid.is_empty();
            let is_new = previous.is_none();
            let change = Change { kind, object, previous: previous.unwrap_or(Value::Null), is_gone };
            self.cluster.take(&change);
            self.tell(What::Changed(change));
            if is_machine && is_gone {
                self.tell(What::Ended { machine });
            } else if is_machine && is_new {
                self.tell(What::Launched { claim_uid, machine });
            }
        }
    }

    fn tell(&mut self, what: What) {
        let happening = Happening { at: self.clock.now(), what };
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{} {:?}", happening.at, happening.what));
        }
        let mut found = Vec::new();
        for check in &mut self.checks {
            found.extend(check.see(&happening, &self.cluster));
        }
        for (invariant, text) in found {
            self.keep(Violation { at: happening.at, invariant, text });
        }
    }

    fn keep(&mut self, violation: Violation) {
        let is_known = self
            .violations
            .iter()
            .any(|known| (known.invariant, &known.text) == (violation.invariant, &violation.text));
        if self.violations.len() < MOST && !is_known {
            self.violations.push(violation);
        }
    }
}

impl Watch {
    fn read(&mut self, reader: &Direct, cluster: &Cluster, told: &mut Vec<(u64, &'static str, bool, Value)>) {
        loop {
            let Some(changes) = &mut self.changes else {
                let (present, revision) = reader.present(&self.resource);
                let mut gone: BTreeMap<String, &Value> =
                    cluster.all(self.kind).map(|object| (key(object), object)).collect();
                for (_, object) in present {
                    let value = object.to_value();
                    let known = gone.remove(&key(&value));
                    if known.is_none_or(|known| *known != value) {
                        told.push((revision, self.kind, false, value));
                    }
                }
                told.extend(gone.into_values().map(|object| (revision, self.kind, true, object.clone())));
                self.changes = reader.watch(&self.resource, revision).ok();
                if self.changes.is_none() {
                    return;
                }
                continue;
            };
            if !changes.has_moved() {
                return;
            }
            match changes.take() {
                Ok(events) => {
                    let events = events.into_iter().map(|event| {
                        let is_gone = event.kind == ChangeKind::Deleted;
                        (event.revision, self.kind, is_gone, event.object.to_value())
                    });
                    told.extend(events);
                }
                Err(_) => self.changes = None,
            }
        }
    }
}
