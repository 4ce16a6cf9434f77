//! The world as the oracle sees it: strings and whole numbers, nothing interned, nothing shared with the planner.
//!
//! CPU is in millicores, every other resource in its base unit (bytes, count). Optional Kubernetes fields keep their meaning
//! ("absent" and "empty" differ where the API says so).
//!
//! Conventions every reader and writer of a [`World`] keeps:
//! - `pods` holds bound pods (terminating ones too, see [`Pod::terminating`]) and pods waiting for a node. Finished pods, gated pods,
//!   pods deleted before they were bound, and unbound DaemonSet or mirror pods are not in it at all.
//! - Old label keys (`beta.kubernetes.io/arch` …) are already rewritten to the stable ones, in requirements, labels of nodes and
//!   topology keys.
//! - [`Pool::labels`] are the template's own; the labels naming the pool and its node class are implied.
//! - [`Pod::refused`] covers every reason of section 2 of the rule book, broken volumes included.
//! - An [`AffinityTerm`] without namespaces and without a namespace selector means the namespace of its pod.

use std::collections::{BTreeMap, BTreeSet};

/// Resource name → amount (`cpu` in millicores, everything else in base units). `pods` is an ordinary resource.
pub type Resources = BTreeMap<String, i128>;
/// Label key → value.
pub type Labels = BTreeMap<String, String>;

/// Everything a scheduling run may look at.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The pools; those of a fixed size open machines for nobody.
    pub pools: Vec<Pool>,
    /// What can be bought; every pool without an entry in `pool_types` sees this list.
    pub types: Vec<InstanceType>,
    /// What single pools see instead, where overlays change it.
    pub pool_types: BTreeMap<String, Vec<InstanceType>>,
    /// Overlays left out because an equally heavy one sets the same thing.
    pub overlays_left_out: Vec<String>,
    /// Buffers that are acted upon, by name.
    pub buffers: Vec<Buffer>,
    /// The nodes that exist.
    pub nodes: Vec<Node>,
    /// Bound pods and pending pods alike, workloads already expanded.
    pub pods: Vec<Pod>,
    /// One pod per DaemonSet, made from its template.
    pub daemons: Vec<Pod>,
    /// Namespace name → its labels (`kubernetes.io/metadata.name` included).
    pub namespaces: BTreeMap<String, Labels>,
    /// Label keys a template may leave open: the well-known set.
    pub well_known: BTreeSet<String>,
}

impl World {
    /// What a pool can buy.
    pub fn types_of(&self, pool: &str) -> &[InstanceType] {
        self.pool_types.get(pool).unwrap_or(&self.types)
    }
}

/// A capacity buffer and how many virtual pods it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// `namespace/name`.
    pub name: String,
    /// Virtual pods, named `buffer:NAME-N` in its namespace.
    pub pods: usize,
}

/// One expression on a label key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr {
    /// Label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte` or `Lte`.
    pub operator: String,
    /// Operands; none for `Exists` and `DoesNotExist`, one for the numeric operators.
    pub values: Vec<String>,
    /// How many distinct values the machine's candidates must keep open (pools only).
    pub min_values: Option<u32>,
}

/// A taint of a node or of a pool's machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Taint key.
    pub key: String,
    /// Value, empty when absent.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toleration {
    /// `None` (or empty) with `Exists` tolerates every key.
    pub key: Option<String>,
    /// `Exists`, `Equal` (also when absent), `Lt` or `Gt`.
    pub operator: String,
    /// Operand.
    pub value: String,
    /// `None` (or empty) tolerates every effect.
    pub effect: Option<String>,
}

/// A pool of future machines.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Pool name.
    pub name: String,
    /// Heavier pools come first; 0 when not given.
    pub weight: i32,
    /// Template labels.
    pub labels: Labels,
    /// Template requirements.
    pub requirements: Vec<Expr>,
    /// Template taints (startup taints never matter).
    pub taints: Vec<Taint>,
    /// `nodes` included where given.
    pub limits: Resources,
    /// Machines it keeps whatever pods there are.
    pub replicas: Option<i64>,
    /// Group, kind and name of the node class.
    pub node_class: (String, String, String),
}

/// A machine type.
#[derive(Debug, Clone)]
pub struct InstanceType {
    /// Type name.
    pub name: String,
    /// What labels a machine of this type can carry.
    pub requirements: Vec<Expr>,
    /// Raw capacity: what limits count.
    pub capacity: Resources,
    /// What pods and daemons may use.
    pub allocatable: Resources,
    /// Ways to buy it.
    pub offerings: Vec<Offering>,
    /// CSI driver → how many volumes it attaches to such a machine.
    pub volume_limits: BTreeMap<String, u32>,
}

/// One way to buy a type: zone, capacity type, price.
#[derive(Debug, Clone)]
pub struct Offering {
    /// Zone, capacity type and whatever else tells offerings apart.
    pub requirements: Vec<Expr>,
    /// Per hour.
    pub price: f64,
    /// Whether it can be bought now.
    pub available: bool,
    /// Reservation id and the units it has left.
    pub reservation: Option<(String, u32)>,
}

/// A real node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Node name.
    pub name: String,
    /// Labels as they are.
    pub labels: Labels,
    /// Taints that count: startup and ephemeral ones of a node still starting are left out.
    pub taints: Vec<Taint>,
    /// Raw capacity.
    pub capacity: Resources,
    /// What pods may use.
    pub allocatable: Resources,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Being deleted, or carrying the disrupted taint.
    pub leaving: bool,
    /// Being deleted.
    pub deleting: bool,
    /// Unmanaged nodes count as initialised.
    pub initialised: bool,
    /// CSI driver → how many volumes it attaches here.
    pub volume_limits: BTreeMap<String, u32>,
}

/// A pod.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, empty when unknown.
    pub uid: String,
    /// Seconds since the epoch, if known.
    pub created: Option<i64>,
    /// Stands for a pod that has not come yet.
    pub filler: bool,
    /// Labels.
    pub labels: Labels,
    /// The node it is bound to.
    pub node_name: Option<String>,
    /// Scheduling priority.
    pub priority: i32,
    /// Effective requests (init containers, overhead … already folded in), with `pods: 1`.
    pub requests: Resources,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Labels the node must carry.
    pub node_selector: Labels,
    /// Required node-affinity terms; `None` when there is no required node affinity at all.
    pub required_terms: Option<Vec<Vec<Expr>>>,
    /// Some required node-affinity term uses `matchFields`.
    pub uses_match_fields: bool,
    /// Weight and term.
    pub preferred_terms: Vec<(i32, Vec<Expr>)>,
    /// Topology spread constraints, in order.
    pub spread: Vec<Spread>,
    /// Required pod affinity.
    pub affinity: Vec<AffinityTerm>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Weight and term.
    pub preferred_affinity: Vec<(i32, AffinityTerm)>,
    /// Weight and term.
    pub preferred_anti_affinity: Vec<(i32, AffinityTerm)>,
    /// Host ports.
    pub ports: Vec<Port>,
    /// Claims, resolved. A claim whose volume is held by its labels too is here twice.
    pub volumes: Vec<Volume>,
    /// Asks for dynamic resources.
    pub uses_resource_claims: bool,
    /// Owned by a DaemonSet.
    pub is_daemon: bool,
    /// Bound and being deleted: still uses resources, ports and volumes, no longer counts for topology.
    pub terminating: bool,
    /// Set when the pod must be refused before packing, with the reason (e.g. a broken volume).
    pub refused: Option<String>,
}

/// A port a pod takes on its host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Empty, `0.0.0.0` and `::` match any address.
    pub host_ip: String,
    /// Port number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// A resolved volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// `namespace/claim`.
    pub claim: String,
    /// CSI driver, where known.
    pub driver: Option<String>,
    /// OR of terms; empty = unconstrained.
    pub alternatives: Vec<Vec<Expr>>,
}

/// A label selector; expressions use In, NotIn, Exists, DoesNotExist (matchLabels are folded in as In).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// All must hold.
    pub expressions: Vec<Expr>,
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Topology key.
    pub key: String,
    /// Allowed difference to the emptiest domain.
    pub max_skew: i32,
    /// Fewer domains than this make the minimum 0.
    pub min_domains: Option<i32>,
    /// `true` = DoNotSchedule.
    pub hard: bool,
    /// matchLabelKeys already folded in; `None` matches nothing.
    pub selector: Option<Selector>,
    /// Count only nodes the pod's node affinity admits.
    pub honor_affinity: bool,
    /// Count only nodes whose taints the pod tolerates.
    pub honor_taints: bool,
}

/// One pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffinityTerm {
    /// Topology key.
    pub key: String,
    /// matchLabelKeys and mismatchLabelKeys already folded in; `None` matches nothing.
    pub selector: Option<Selector>,
    /// Listed namespaces.
    pub namespaces: Vec<String>,
    /// `Some` with no expressions = all namespaces.
    pub namespace_selector: Option<Selector>,
}
