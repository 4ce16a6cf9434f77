//! Leases of nodes: who plays a node's kubelet holds its lease in `kube-node-lease`, and renews it as kubelets do.
//!
//! A lease that somebody else holds and renews is left to them, and looked at again when it would run out. Ours name the node as their holder, as kubelets' do, so the next
//! joiner goes on with them. They belong to their Node: the API server collects them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_provider::{Clock, Monotonic};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{AFTER_FAILURE, MANAGER};

/// Where leases of nodes are.
pub(super) const NAMESPACE: &str = "kube-node-lease";
/// How long a lease holds that nobody renews; the usual one of kubelets.
const HOLDS_SECONDS: i32 = 40;
/// How often it is renewed, as kubelets do.
const RENEWAL: Duration = Duration::from_secs(10);
/// How often we try to get what others have changed under us.
const TRIES: usize = 4;
/// Leases asked for in one page.
const PAGE: u32 = 500;

/// A lease as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    version: String,
    standing: Standing,
}

/// Whose a lease is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    Ours,
    /// Nobody holds it any more.
    Free,
    Others {
        holder: String,
        until: Timestamp,
    },
}

/// What came of asking for a lease.
#[derive(Debug)]
pub(super) enum Taken {
    Ours(String),
    Others { holder: String, wait: Duration },
}

enum State {
    /// Seen in the list, not asked for yet.
    Listed(Seen),
    /// Being asked for, or renewed; with the version if it is ours.
    Asked(Option<String>),
    Ours(String),
    Others,
}

/// The leases of all nodes.
pub(super) struct Leases {
    api: Api<Lease>,
    clock: Arc<dyn Clock>,
    known: bool,
    nodes: BTreeMap<Arc<str>, State>,
    due: BTreeSet<(Monotonic, Arc<str>)>,
    /// Whether it has been told that somebody else plays nodes.
    told: bool,
}

impl Leases {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        let api = Api::namespaced(client, NAMESPACE);
        Self { api, clock, known: false, nodes: BTreeMap::new(), due: BTreeSet::new(), told: false }
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.known = false;
        self.nodes.clear();
        self.due.clear();
    }

    pub(super) fn are_known(&self) -> bool {
        self.known
    }

    /// Asks for all leases there are.
    pub(super) fn list(&self) -> impl Future<Output = Result<BTreeMap<String, Seen>, kube::Error>> + use<> {
        let (api, clock) = (self.api.clone(), self.clock.clone());
        async move {
            let listed = all(&api).await?;
            let now = clock.now();
            Ok(listed.into_iter().map(|lease| (lease.name_any(), seen(&lease, now))).collect())
        }
    }

    /// These leases are there.
    pub(super) fn know(&mut self, seen: BTreeMap<String, Seen>) {
        self.known = true;
        self.nodes = seen.into_iter().map(|(name, seen)| (name.into(), State::Listed(seen))).collect();
    }

    /// Whether a node is ours to play; nothing if that has not been asked yet.
    pub(super) fn is_ours(&self, node: &str) -> Option<bool> {
        match self.nodes.get(node)? {
            State::Listed(_) => None,
            State::Ours(_) | State::Asked(Some(_)) => Some(true),
            State::Asked(None) | State::Others => Some(false),
        }
    }

    /// When the next lease is to be renewed, or asked for again.
    pub(super) fn next_due(&self) -> Option<Monotonic> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A node whose lease is due.
    pub(super) fn pop_due(&mut self, now: Monotonic) -> Option<Arc<str>> {
        if self.next_due()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, node)| node)
    }

    /// The node is gone.
    pub(super) fn drop_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// The node's lease is not renewed now.
    pub(super) fn rest(&mut self, node: &Arc<str>) {
        self.due.insert((self.clock.monotonic() + RENEWAL, node.clone()));
    }

    /// Takes a lease, or renews it.
    pub(super) fn take(
        &mut self,
        node: &Arc<str>,
        uid: &str,
    ) -> impl Future<Output = Result<Taken, kube::Error>> + use<> {
        let before = self.nodes.remove(node);
        let (known, version) = match before {
            Some(State::Ours(version) | State::Asked(Some(version))) => {
                (Some(Seen { version: version.clone(), standing: Standing::Ours }), Some(version))
            }
            Some(State::Listed(seen)) => (Some(seen), None),
            Some(State::Asked(None) | State::Others) | None => (None, None),
        };
        // One that we hold is renewed in fewer words than one that is taken.
        let renewed = version.is_some();
        self.nodes.insert(node.clone(), State::Asked(version));
        let (api, clock, node, uid) = (self.api.clone(), self.clock.clone(), node.clone(), uid.to_owned());
        async move { take(&api, &*clock, &node, &uid, known, renewed).await }
    }

    /// Notes what came of it; says whether the node is ours since now.
    pub(super) fn taken(&mut self, node: &Arc<str>, taken: Result<Taken, kube::Error>) -> bool {
        // Gone meanwhile.
        let Some(before) = self.nodes.remove(node) else { return false };
        let now = self.clock.monotonic();
        let (state, wait) = match (taken, before) {
            (Ok(Taken::Ours(version)), _) => (State::Ours(version), RENEWAL),
            (Ok(Taken::Others { holder, wait }), _) => {
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(
                        node = &**node,
                        holder,
                        "somebody else plays the kubelet of a node and is left to it; told once, however many nodes it has"
                    );
                }
                (State::Others, wait)
            }
            (Err(error), before) => {
                tracing::warn!(node = &**node, %error, "the lease of a node cannot be written; tried again");
                (before, AFTER_FAILURE)
            }
        };
        let is_new = matches!(state, State::Ours(_));
        self.nodes.insert(node.clone(), state);
        self.due.insert((now + wait, node.clone()));
        is_new
    }
}

/// All leases of nodes.
pub(super) async fn all(api: &Api<Lease>) -> Result<Vec<Lease>, kube::Error> {
    let (mut found, mut page) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let leases = api.list(&page).await?;
        found.extend(leases.items);
        match leases.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Whose a lease is by what it says.
pub(super) fn standing(lease: &Lease, now: Timestamp) -> Standing {
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    if holder == lease.name_any() {
        return Standing::Ours;
    }
    let holds = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(HOLDS_SECONDS)));
    let until = spec.renew_time.and_then(|time| time.0.checked_add(holds).ok());
    match until.filter(|until| !holder.is_empty() && *until > now) {
        Some(until) => Standing::Others { holder, until },
        None => Standing::Free,
    }
}

fn seen(lease: &Lease, now: Timestamp) -> Seen {
    Seen { version: lease.resource_version().unwrap_or_default(), standing: standing(lease, now) }
}

async fn take(
    api: &Api<Lease>,
    clock: &dyn Clock,
    node: &str,
    uid: &str,
    mut known: Option<Seen>,
    mut renews: bool,
) -> Result<Taken, kube::Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let now = clock.now();
        let answer = match known.take() {
            Some(Seen { standing: Standing::Others { holder, until }, .. }) => {
                let wait = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                return Ok(Taken::Others { holder, wait: wait.max(AFTER_FAILURE) });
            }
            Some(Seen { version, .. }) => {
                let patch = match renews {
                    true => {
                        json!({"metadata": {"resourceVersion": version}, "spec": {"renewTime": MicroTime(now)}})
                    }
                    false => json!({
                        "metadata": {"resourceVersion": version, "ownerReferences": [owner(node, uid)]},
                        "spec": spec(node, now),
                    }),
                };
                let parameters =
                    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                api.patch(node, &parameters, &Patch::Merge(patch)).await
            }
            None => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(node.to_owned()),
                        owner_references: Some(vec![owner(node, uid)]),
                        ..ObjectMeta::default()
                    },
                    spec: Some(spec(node, now)),
                };
                let parameters =
                    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                api.create(&parameters, &lease).await
            }
        };
        renews = false;
        match answer {
            Ok(lease) => return Ok(Taken::Ours(lease.resource_version().unwrap_or_default())),
            Err(error) if is_news(&error) && tries < TRIES => {}
            Err(error) => return Err(error),
        }
        known = api.get_opt(node).await?.map(|lease| seen(&lease, clock.now()));
    }
}

/// Whether the lease is another one than we thought.
fn is_news(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            status.is_conflict() || status.is_already_exists() || status.is_not_found()
        }
        _ => false,
    }
}

fn spec(node: &str, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(node.to_owned()),
        lease_duration_seconds: Some(HOLDS_SECONDS),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    }
}

fn owner(node: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, renewed: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "n"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 40, "renewTime": renewed},
        }))
        .unwrap()
    }

    #[test]
    fn a_lease_is_its_holders_until_it_runs_out() {
        let now: Timestamp = "2026-01-05T08:00:30Z".parse().unwrap();
        assert_eq!(standing(&lease("n", "2026-01-05T07:00:00.000000Z"), now), Standing::Ours);
        let until = "2026-01-05T08:00:40Z".parse().unwrap();
        assert_eq!(
            standing(&lease("kwok-1", "2026-01-05T08:00:00.000000Z"), now),
            Standing::Others { holder: "kwok-1".to_owned(), until }
        );
        assert_eq!(standing(&lease("kwok-1", "2026-01-05T07:59:50.000000Z"), now), Standing::Free);
        assert_eq!(standing(&lease("", "2026-01-05T08:00:30.000000Z"), now), Standing::Free);
        assert_eq!(
            standing(&Lease::default(), now),
            Standing::Ours,
            "a lease without a name and a holder is nobody else's"
        );
    }
}
