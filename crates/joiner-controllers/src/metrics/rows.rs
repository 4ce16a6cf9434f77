//! The metrics that users of the original know, as one table: the names under which they are served, and those that are not served with the reason.
//!
//! A metric can only be counted or shown through its row, so a name stands here or nowhere. `docs/reference/metrics.md` is made of this table.

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Counts up.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size, up to these bounds.
    Histogram(&'static [f64]),
    /// Quantiles of the last observations.
    Summary,
}

impl Kind {
    /// As the text format calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// A metric. Where a label stands in angle brackets, it is the key of the object's node class label.
#[derive(Debug, PartialEq)]
pub struct Row {
    /// Its whole name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// A metric of the original that is not served.
#[derive(Debug)]
pub struct Missing {
    /// Its name; `*` stands for several.
    pub name: &'static str,
    /// Why.
    pub why: &'static str,
}

/// Durations of calls and decisions.
const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];
/// Ends of machines.
const TERMINATIONS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];
/// Ages of nodes: from a quarter of an hour to a month.
const LIFETIMES: &[f64] = &[
    900.0,
    1800.0,
    3600.0,
    7200.0,
    14_400.0,
    28_800.0,
    43_200.0,
    86_400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
];
/// Transitions of conditions.
const TRANSITIONS: &[f64] =
    &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
/// What histograms had when nobody chose.
const DEFAULTS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A constant 1 with the version of the program.
pub const BUILD_INFO: Row = Row {
    name: "karpenter_build_info",
    kind: Kind::Gauge,
    labels: &["commit", "goarch", "goversion", "version"],
    help: "A constant 1 with the version of the program",
};
/// NodeClaims created.
pub const NODECLAIMS_CREATED: Row = Row {
    name: "karpenter_nodeclaims_created_total",
    kind: Kind::Counter,
    labels: &["min_values_relaxed", "nodepool", "reason"],
    help: "NodeClaims created",
};
/// NodeClaims that are gone.
pub const NODECLAIMS_TERMINATED: Row = Row {
    name: "karpenter_nodeclaims_terminated_total",
    kind: Kind::Counter,
    labels: &["capacity_type", "nodepool", "zone"],
    help: "NodeClaims that are gone",
};
/// NodeClaims whose end was decided.
pub const NODECLAIMS_DISRUPTED: Row = Row {
    name: "karpenter_nodeclaims_disrupted_total",
    kind: Kind::Counter,
    labels: &["capacity_type", "consolidation_policy", "nodepool", "reason", "termination_mode"],
    help: "NodeClaims whose end was decided",
};
/// Pods on nodes whose end was decided.
pub const PODS_DISRUPTION_INITIATED: Row = Row {
    name: "karpenter_pods_disruption_initiated_total",
    kind: Kind::Counter,
    labels: &["capacity_type", "consolidation_policy", "nodepool", "reason", "termination_mode"],
    help: "Pods on nodes whose end was decided",
};
/// From the deletion of a NodeClaim until it is gone.
pub const NODECLAIMS_TERMINATION_DURATION: Row = Row {
    name: "karpenter_nodeclaims_termination_duration_seconds",
    kind: Kind::Histogram(TERMINATIONS),
    labels: &["nodepool"],
    help: "From the deletion of a NodeClaim until it is gone",
};
/// From the order to end a machine until its NodeClaim is gone.
pub const INSTANCE_TERMINATION_DURATION: Row = Row {
    name: "karpenter_nodeclaims_instance_termination_duration_seconds",
    kind: Kind::Histogram(TERMINATIONS),
    labels: &["nodepool"],
    help: "From the order to end a machine until its NodeClaim is gone",
};
/// Nodes that have registered.
pub const NODES_CREATED: Row = Row {
    name: "karpenter_nodes_created_total",
    kind: Kind::Counter,
    labels: &["nodepool", "zone"],
    help: "Nodes that have registered",
};
/// Nodes that are gone.
pub const NODES_TERMINATED: Row = Row {
    name: "karpenter_nodes_terminated_total",
    kind: Kind::Counter,
    labels: &["nodepool", "zone"],
    help: "Nodes that are gone",
};
/// Nodes whose pods have left.
pub const NODES_DRAINED: Row = Row {
    name: "karpenter_nodes_drained_total",
    kind: Kind::Counter,
    labels: &["nodepool"],
    help: "Nodes whose pods have left",
};
/// From the deletion of a Node until it is gone.
pub const NODES_TERMINATION_DURATION: Row = Row {
    name: "karpenter_nodes_termination_duration_seconds",
    kind: Kind::Summary,
    labels: &["nodepool"],
    help: "From the deletion of a Node until it is gone",
};
/// How old Nodes were when they went.
pub const NODES_LIFETIME: Row = Row {
    name: "karpenter_nodes_lifetime_duration_seconds",
    kind: Kind::Histogram(LIFETIMES),
    labels: &["nodepool"],
    help: "How old Nodes were when they went",
};
/// What nodes have for pods.
pub const NODES_ALLOCATABLE: Row = Row {
    name: "karpenter_nodes_allocatable",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "managed",
        "node_name",
        "nodepool",
        "os",
        "phase",
        "region",
        "resource_type",
        "windows_build",
        "zone",
    ],
    help: "What nodes have for pods",
};
/// What pods of nodes ask for, daemons included.
pub const NODES_POD_REQUESTS: Row = Row {
    name: "karpenter_nodes_total_pod_requests",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "managed",
        "node_name",
        "nodepool",
        "os",
        "phase",
        "region",
        "resource_type",
        "windows_build",
        "zone",
    ],
    help: "What pods of nodes ask for, daemons included",
};
/// What pods of nodes may use, daemons included.
pub const NODES_POD_LIMITS: Row = Row {
    name: "karpenter_nodes_total_pod_limits",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "managed",
        "node_name",
        "nodepool",
        "os",
        "phase",
        "region",
        "resource_type",
        "windows_build",
        "zone",
    ],
    help: "What pods of nodes may use, daemons included",
};
/// What daemons of nodes ask for.
pub const NODES_DAEMON_REQUESTS: Row = Row {
    name: "karpenter_nodes_total_daemon_requests",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "managed",
        "node_name",
        "nodepool",
        "os",
        "phase",
        "region",
        "resource_type",
        "windows_build",
        "zone",
    ],
    help: "What daemons of nodes ask for",
};
/// What daemons of nodes may use.
pub const NODES_DAEMON_LIMITS: Row = Row {
    name: "karpenter_nodes_total_daemon_limits",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "managed",
        "node_name",
        "nodepool",
        "os",
        "phase",
        "region",
        "resource_type",
        "windows_build",
        "zone",
    ],
    help: "What daemons of nodes may use",
};
/// What nodes keep from pods: capacity less allocatable.
pub const NODES_OVERHEAD: Row = Row {
    name: "karpenter_nodes_system_overhead",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "managed",
        "node_name",
        "nodepool",
        "os",
        "phase",
        "region",
        "resource_type",
        "windows_build",
        "zone",
    ],
    help: "What nodes keep from pods: capacity less allocatable",
};
/// How old nodes are.
pub const NODES_AGE: Row = Row {
    name: "karpenter_nodes_current_lifetime_seconds",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "managed",
        "node_name",
        "nodepool",
        "os",
        "phase",
        "region",
        "windows_build",
        "zone",
    ],
    help: "How old nodes are",
};
/// What pods ask for as a share of what nodes have.
pub const UTILIZATION: Row = Row {
    name: "karpenter_cluster_utilization_percent",
    kind: Kind::Gauge,
    labels: &["resource_type"],
    help: "What pods ask for as a share of what nodes have",
};
/// Limits of pools.
pub const POOLS_LIMIT: Row = Row {
    name: "karpenter_nodepools_limit",
    kind: Kind::Gauge,
    labels: &["nodepool", "resource_type"],
    help: "Limits of pools",
};
/// What machines of pools have.
pub const POOLS_USAGE: Row = Row {
    name: "karpenter_nodepools_usage",
    kind: Kind::Gauge,
    labels: &["nodepool", "resource_type"],
    help: "What machines of pools have",
};
/// What machines of pools cost, in dollars per hour.
pub const POOLS_COST: Row = Row {
    name: "karpenter_nodepools_cost_total",
    kind: Kind::Gauge,
    labels: &["nodepool"],
    help: "What machines of pools cost, in dollars per hour",
};
/// How many nodes of a pool may go at once.
pub const POOLS_ALLOWED: Row = Row {
    name: "karpenter_nodepools_allowed_disruptions",
    kind: Kind::Gauge,
    labels: &["nodepool", "reason"],
    help: "How many nodes of a pool may go at once",
};
/// Nodes of a pool that are going or not ready.
pub const POOLS_CONSUMING: Row = Row {
    name: "karpenter_nodepools_nodes_consuming_budgets",
    kind: Kind::Gauge,
    labels: &["nodepool", "reason"],
    help: "Nodes of a pool that are going or not ready",
};
/// How long it takes to decide which nodes go.
pub const DISRUPTION_EVALUATION: Row = Row {
    name: "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &["consolidation_type", "reason"],
    help: "How long it takes to decide which nodes go",
};
/// Decisions that nodes go.
pub const DISRUPTION_DECISIONS: Row = Row {
    name: "karpenter_voluntary_disruption_decisions_total",
    kind: Kind::Counter,
    labels: &["consolidation_type", "decision", "reason"],
    help: "Decisions that nodes go",
};
/// Decisions that nodes go, by pool.
pub const DISRUPTION_DECISIONS_BY_POOL: Row = Row {
    name: "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    kind: Kind::Counter,
    labels: &["consolidation_type", "decision", "nodepool", "reason"],
    help: "Decisions that nodes go, by pool",
};
/// Nodes that may go.
pub const DISRUPTION_ELIGIBLE: Row = Row {
    name: "karpenter_voluntary_disruption_eligible_nodes",
    kind: Kind::Gauge,
    labels: &["reason"],
    help: "Nodes that may go",
};
/// Nodes that were to go and stayed because pods had come.
pub const DISRUPTION_FAILED_VALIDATIONS: Row = Row {
    name: "karpenter_voluntary_disruption_failed_validations_total",
    kind: Kind::Counter,
    labels: &["consolidation_type"],
    help: "Nodes that were to go and stayed because pods had come",
};
/// Removals of nodes that failed on the way.
pub const DISRUPTION_QUEUE_FAILURES: Row = Row {
    name: "karpenter_voluntary_disruption_queue_failures_total",
    kind: Kind::Counter,
    labels: &["consolidation_type", "decision", "reason"],
    help: "Removals of nodes that failed on the way",
};
/// Pods as they are.
pub const PODS_STATE: Row = Row {
    name: "karpenter_pods_state",
    kind: Kind::Gauge,
    labels: &[
        "arch",
        "capacity_type",
        "instance_type",
        "managed",
        "name",
        "namespace",
        "node",
        "nodepool",
        "owner",
        "phase",
        "ready",
        "scheduled",
        "zone",
    ],
    help: "Pods as they are",
};
/// From the creation of a pod until it runs.
pub const PODS_STARTUP: Row = Row {
    name: "karpenter_pods_startup_duration_seconds",
    kind: Kind::Summary,
    labels: &[],
    help: "From the creation of a pod until it runs",
};
/// From the creation of a pod until it is bound.
pub const PODS_BOUND: Row = Row {
    name: "karpenter_pods_bound_duration_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
    help: "From the creation of a pod until it is bound",
};
/// From first seeing a pod without a place until it is bound.
pub const PODS_PROVISIONING_BOUND: Row = Row {
    name: "karpenter_pods_provisioning_bound_duration_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
    help: "From first seeing a pod without a place until it is bound",
};
/// From first seeing a pod without a place until it runs.
pub const PODS_PROVISIONING_STARTUP: Row = Row {
    name: "karpenter_pods_provisioning_startup_duration_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
    help: "From first seeing a pod without a place until it runs",
};
/// From first seeing a pod without a place until it is decided on.
pub const PODS_DECISION: Row = Row {
    name: "karpenter_pods_scheduling_decision_duration_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
    help: "From first seeing a pod without a place until it is decided on",
};
/// How long pods that do not run have been there.
pub const PODS_UNSTARTED: Row = Row {
    name: "karpenter_pods_unstarted_time_seconds",
    kind: Kind::Gauge,
    labels: &["name", "namespace"],
    help: "How long pods that do not run have been there",
};
/// How long pods that are not bound have been there.
pub const PODS_UNBOUND: Row = Row {
    name: "karpenter_pods_unbound_time_seconds",
    kind: Kind::Gauge,
    labels: &["name", "namespace"],
    help: "How long pods that are not bound have been there",
};
/// How long pods have been seen without a place.
pub const PODS_PROVISIONING_UNBOUND: Row = Row {
    name: "karpenter_pods_provisioning_unbound_time_seconds",
    kind: Kind::Gauge,
    labels: &["name", "namespace"],
    help: "How long pods have been seen without a place",
};
/// How long ago pods that do not run were first seen without a place.
pub const PODS_PROVISIONING_UNSTARTED: Row = Row {
    name: "karpenter_pods_provisioning_unstarted_time_seconds",
    kind: Kind::Gauge,
    labels: &["name", "namespace"],
    help: "How long ago pods that do not run were first seen without a place",
};
/// How long pods without a place have waited for a decision.
pub const PODS_UNDECIDED: Row = Row {
    name: "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    kind: Kind::Gauge,
    labels: &["name", "namespace"],
    help: "How long pods without a place have waited for a decision",
};
/// Evictions asked for, by the answer.
pub const EVICTIONS: Row = Row {
    name: "karpenter_pods_eviction_requests_total",
    kind: Kind::Counter,
    labels: &["code"],
    help: "Evictions asked for, by the answer",
};
/// Pods evicted from nodes that go.
pub const PODS_DRAINED: Row = Row {
    name: "karpenter_pods_drained_total",
    kind: Kind::Counter,
    labels: &["reason"],
    help: "Pods evicted from nodes that go",
};
/// How long decisions on pods take.
pub const SCHEDULING_DURATION: Row = Row {
    name: "karpenter_scheduler_scheduling_duration_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &["controller"],
    help: "How long decisions on pods take",
};
/// Pods whose decision is under way.
pub const SCHEDULER_QUEUE: Row = Row {
    name: "karpenter_scheduler_queue_depth",
    kind: Kind::Gauge,
    labels: &["controller", "scheduling_id"],
    help: "Pods whose decision is under way",
};
/// How long the decision has been under way.
pub const SCHEDULER_UNFINISHED: Row = Row {
    name: "karpenter_scheduler_unfinished_work_seconds",
    kind: Kind::Gauge,
    labels: &["controller", "scheduling_id"],
    help: "How long the decision has been under way",
};
/// Pods that no machine helps.
pub const UNSCHEDULABLE: Row = Row {
    name: "karpenter_scheduler_unschedulable_pods_count",
    kind: Kind::Gauge,
    labels: &["controller"],
    help: "Pods that no machine helps",
};
/// Pods without a place, by the only zone they can be in.
pub const PENDING_BY_ZONE: Row = Row {
    name: "karpenter_scheduler_pending_pods_by_effective_zone_count",
    kind: Kind::Gauge,
    labels: &["controller", "zone"],
    help: "Pods without a place, by the only zone they can be in",
};
/// Nodes and machines on their way.
pub const STATE_NODES: Row = Row {
    name: "karpenter_cluster_state_node_count",
    kind: Kind::Gauge,
    labels: &[],
    help: "Nodes and machines on their way",
};
/// 1 while everything needed is observed.
pub const STATE_SYNCED: Row = Row {
    name: "karpenter_cluster_state_synced",
    kind: Kind::Gauge,
    labels: &[],
    help: "1 while everything needed is observed",
};
/// For how long something needed has not been observed.
pub const STATE_UNSYNCED: Row = Row {
    name: "karpenter_cluster_state_unsynced_time_seconds",
    kind: Kind::Gauge,
    labels: &[],
    help: "For how long something needed has not been observed",
};
/// How long calls of the provider take.
pub const CLOUD_DURATION: Row = Row {
    name: "karpenter_cloudprovider_duration_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &["controller", "method", "provider"],
    help: "How long calls of the provider take",
};
/// Calls of the provider that failed.
pub const CLOUD_ERRORS: Row = Row {
    name: "karpenter_cloudprovider_errors_total",
    kind: Kind::Counter,
    labels: &["controller", "error", "method", "provider"],
    help: "Calls of the provider that failed",
};
/// 1 in the process that leads.
pub const MASTER: Row = Row {
    name: "leader_election_master_status",
    kind: Kind::Gauge,
    labels: &["name"],
    help: "1 in the process that leads",
};
/// Keys reconciled, by what came of it.
pub const RECONCILES: Row = Row {
    name: "controller_runtime_reconcile_total",
    kind: Kind::Counter,
    labels: &["controller", "result"],
    help: "Keys reconciled, by what came of it",
};
/// Keys whose commands failed.
pub const RECONCILE_ERRORS: Row = Row {
    name: "controller_runtime_reconcile_errors_total",
    kind: Kind::Counter,
    labels: &["controller"],
    help: "Keys whose commands failed",
};
/// Keys whose step panicked.
pub const RECONCILE_PANICS: Row = Row {
    name: "controller_runtime_reconcile_panics_total",
    kind: Kind::Counter,
    labels: &["controller"],
    help: "Keys whose step panicked",
};
/// How long a step takes to decide.
pub const RECONCILE_TIME: Row = Row {
    name: "controller_runtime_reconcile_time_seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &["controller"],
    help: "How long a step takes to decide",
};
/// Keys that wait to be reconciled.
pub const WORKQUEUE: Row = Row {
    name: "workqueue_depth",
    kind: Kind::Gauge,
    labels: &["controller", "name"],
    help: "Keys that wait to be reconciled",
};
/// Requests to the API server, by the answer; code 0 is none.
pub const REQUESTS: Row = Row {
    name: "client_go_request_total",
    kind: Kind::Counter,
    labels: &["code", "method"],
    help: "Requests to the API server, by the answer; code 0 is none",
};
/// Conditions of NodeClaims.
pub const NODECLAIM_CONDITION_COUNT: Row = Row {
    name: "operator_nodeclaim_status_condition_count",
    kind: Kind::Gauge,
    labels: &["<node_class_label>", "karpenter_sh_nodepool", "name", "namespace", "reason", "status", "type"],
    help: "Conditions of NodeClaims",
};
/// How long conditions of NodeClaims have been as they are.
pub const NODECLAIM_CONDITION_SECONDS: Row = Row {
    name: "operator_nodeclaim_status_condition_current_status_seconds",
    kind: Kind::Gauge,
    labels: &["<node_class_label>", "karpenter_sh_nodepool", "name", "namespace", "reason", "status", "type"],
    help: "How long conditions of NodeClaims have been as they are",
};
/// Transitions of conditions of NodeClaims.
pub const NODECLAIM_TRANSITIONS: Row = Row {
    name: "operator_nodeclaim_status_condition_transitions_total",
    kind: Kind::Counter,
    labels: &["<node_class_label>", "karpenter_sh_nodepool", "reason", "status", "type"],
    help: "Transitions of conditions of NodeClaims",
};
/// How long conditions of NodeClaims were in a state before they left it.
pub const NODECLAIM_TRANSITION_SECONDS: Row = Row {
    name: "operator_nodeclaim_status_condition_transition_seconds",
    kind: Kind::Histogram(TRANSITIONS),
    labels: &["<node_class_label>", "karpenter_sh_nodepool", "status", "type"],
    help: "How long conditions of NodeClaims were in a state before they left it",
};
/// How long NodeClaims have been going.
pub const NODECLAIM_TERMINATION_CURRENT: Row = Row {
    name: "operator_nodeclaim_termination_current_time_seconds",
    kind: Kind::Gauge,
    labels: &["<node_class_label>", "karpenter_sh_nodepool", "name", "namespace"],
    help: "How long NodeClaims have been going",
};
/// How long NodeClaims took to go.
pub const NODECLAIM_TERMINATION_DURATION: Row = Row {
    name: "operator_nodeclaim_termination_duration_seconds",
    kind: Kind::Histogram(TRANSITIONS),
    labels: &["<node_class_label>", "karpenter_sh_nodepool"],
    help: "How long NodeClaims took to go",
};
/// Conditions of NodePools.
pub const NODEPOOL_CONDITION_COUNT: Row = Row {
    name: "operator_nodepool_status_condition_count",
    kind: Kind::Gauge,
    labels: &["name", "namespace", "reason", "status", "type"],
    help: "Conditions of NodePools",
};
/// How long conditions of NodePools have been as they are.
pub const NODEPOOL_CONDITION_SECONDS: Row = Row {
    name: "operator_nodepool_status_condition_current_status_seconds",
    kind: Kind::Gauge,
    labels: &["name", "namespace", "reason", "status", "type"],
    help: "How long conditions of NodePools have been as they are",
};
/// Transitions of conditions of NodePools.
pub const NODEPOOL_TRANSITIONS: Row = Row {
    name: "operator_nodepool_status_condition_transitions_total",
    kind: Kind::Counter,
    labels: &["reason", "status", "type"],
    help: "Transitions of conditions of NodePools",
};
/// How long conditions of NodePools were in a state before they left it.
pub const NODEPOOL_TRANSITION_SECONDS: Row = Row {
    name: "operator_nodepool_status_condition_transition_seconds",
    kind: Kind::Histogram(TRANSITIONS),
    labels: &["status", "type"],
    help: "How long conditions of NodePools were in a state before they left it",
};
/// How long NodePools have been going.
pub const NODEPOOL_TERMINATION_CURRENT: Row = Row {
    name: "operator_nodepool_termination_current_time_seconds",
    kind: Kind::Gauge,
    labels: &["name", "namespace"],
    help: "How long NodePools have been going",
};
/// How long NodePools took to go.
pub const NODEPOOL_TERMINATION_DURATION: Row = Row {
    name: "operator_nodepool_termination_duration_seconds",
    kind: Kind::Histogram(TRANSITIONS),
    labels: &[],
    help: "How long NodePools took to go",
};
/// Conditions of Nodes.
pub const NODE_CONDITION_COUNT: Row = Row {
    name: "operator_node_status_condition_count",
    kind: Kind::Gauge,
    labels: &[
        "<node_class_label>",
        "karpenter_sh_initialized",
        "karpenter_sh_nodepool",
        "name",
        "namespace",
        "reason",
        "status",
        "type",
    ],
    help: "Conditions of Nodes",
};
/// How long conditions of Nodes have been as they are.
pub const NODE_CONDITION_SECONDS: Row = Row {
    name: "operator_node_status_condition_current_status_seconds",
    kind: Kind::Gauge,
    labels: &[
        "<node_class_label>",
        "karpenter_sh_initialized",
        "karpenter_sh_nodepool",
        "name",
        "namespace",
        "reason",
        "status",
        "type",
    ],
    help: "How long conditions of Nodes have been as they are",
};
/// Transitions of conditions of Nodes.
pub const NODE_TRANSITIONS: Row = Row {
    name: "operator_node_status_condition_transitions_total",
    kind: Kind::Counter,
    labels: &[
        "<node_class_label>",
        "karpenter_sh_initialized",
        "karpenter_sh_nodepool",
        "reason",
        "status",
        "type",
    ],
    help: "Transitions of conditions of Nodes",
};
/// How long conditions of Nodes were in a state before they left it.
pub const NODE_TRANSITION_SECONDS: Row = Row {
    name: "operator_node_status_condition_transition_seconds",
    kind: Kind::Histogram(TRANSITIONS),
    labels: &["<node_class_label>", "karpenter_sh_initialized", "karpenter_sh_nodepool", "status", "type"],
    help: "How long conditions of Nodes were in a state before they left it",
};
/// How long Nodes have been going.
pub const NODE_TERMINATION_CURRENT: Row = Row {
    name: "operator_node_termination_current_time_seconds",
    kind: Kind::Gauge,
    labels: &["<node_class_label>", "karpenter_sh_initialized", "karpenter_sh_nodepool", "name", "namespace"],
    help: "How long Nodes have been going",
};
/// How long Nodes took to go.
pub const NODE_TERMINATION_DURATION: Row = Row {
    name: "operator_node_termination_duration_seconds",
    kind: Kind::Histogram(TRANSITIONS),
    labels: &["<node_class_label>", "karpenter_sh_initialized", "karpenter_sh_nodepool"],
    help: "How long Nodes took to go",
};
/// Conditions of NodeClaims and NodePools; the older name.
pub const CONDITION_COUNT: Row = Row {
    name: "operator_status_condition_count",
    kind: Kind::Gauge,
    labels: &["group", "kind", "name", "namespace", "reason", "status", "type"],
    help: "Conditions of NodeClaims and NodePools; the older name",
};
/// How long conditions have been as they are; the older name.
pub const CONDITION_SECONDS: Row = Row {
    name: "operator_status_condition_current_status_seconds",
    kind: Kind::Gauge,
    labels: &["group", "kind", "name", "namespace", "reason", "status", "type"],
    help: "How long conditions have been as they are; the older name",
};
/// Transitions of conditions; the older name.
pub const TRANSITIONS_OLD: Row = Row {
    name: "operator_status_condition_transitions_total",
    kind: Kind::Counter,
    labels: &["group", "kind", "reason", "status", "type"],
    help: "Transitions of conditions; the older name",
};
/// How long conditions were in a state before they left it; the older name.
pub const TRANSITION_SECONDS_OLD: Row = Row {
    name: "operator_status_condition_transition_seconds",
    kind: Kind::Histogram(DEFAULTS),
    labels: &["group", "kind", "status", "type"],
    help: "How long conditions were in a state before they left it; the older name",
};
/// How long objects have been going; the older name.
pub const TERMINATION_CURRENT_OLD: Row = Row {
    name: "operator_termination_current_time_seconds",
    kind: Kind::Gauge,
    labels: &["group", "kind", "name", "namespace"],
    help: "How long objects have been going; the older name",
};
/// How long objects took to go; the older name.
pub const TERMINATION_DURATION_OLD: Row = Row {
    name: "operator_termination_duration_seconds",
    kind: Kind::Histogram(DEFAULTS),
    labels: &["group", "kind"],
    help: "How long objects took to go; the older name",
};
/// All of them.
pub const ALL: [&Row; 85] = [
    &BUILD_INFO,
    &NODECLAIMS_CREATED,
    &NODECLAIMS_TERMINATED,
    &NODECLAIMS_DISRUPTED,
    &PODS_DISRUPTION_INITIATED,
    &NODECLAIMS_TERMINATION_DURATION,
    &INSTANCE_TERMINATION_DURATION,
    &NODES_CREATED,
    &NODES_TERMINATED,
    &NODES_DRAINED,
    &NODES_TERMINATION_DURATION,
    &NODES_LIFETIME,
    &NODES_ALLOCATABLE,
    &NODES_POD_REQUESTS,
    &NODES_POD_LIMITS,
    &NODES_DAEMON_REQUESTS,
    &NODES_DAEMON_LIMITS,
    &NODES_OVERHEAD,
    &NODES_AGE,
    &UTILIZATION,
    &POOLS_LIMIT,
    &POOLS_USAGE,
    &POOLS_COST,
    &POOLS_ALLOWED,
    &POOLS_CONSUMING,
    &DISRUPTION_EVALUATION,
    &DISRUPTION_DECISIONS,
    &DISRUPTION_DECISIONS_BY_POOL,
    &DISRUPTION_ELIGIBLE,
    &DISRUPTION_FAILED_VALIDATIONS,
    &DISRUPTION_QUEUE_FAILURES,
    &PODS_STATE,
    &PODS_STARTUP,
    &PODS_BOUND,
    &PODS_PROVISIONING_BOUND,
    &PODS_PROVISIONING_STARTUP,
    &PODS_DECISION,
    &PODS_UNSTARTED,
    &PODS_UNBOUND,
    &PODS_PROVISIONING_UNBOUND,
    &PODS_PROVISIONING_UNSTARTED,
    &PODS_UNDECIDED,
    &EVICTIONS,
    &PODS_DRAINED,
    &SCHEDULING_DURATION,
    &SCHEDULER_QUEUE,
    &SCHEDULER_UNFINISHED,
    &UNSCHEDULABLE,
    &PENDING_BY_ZONE,
    &STATE_NODES,
    &STATE_SYNCED,
    &STATE_UNSYNCED,
    &CLOUD_DURATION,
    &CLOUD_ERRORS,
    &MASTER,
    &RECONCILES,
    &RECONCILE_ERRORS,
    &RECONCILE_PANICS,
    &RECONCILE_TIME,
    &WORKQUEUE,
    &REQUESTS,
    &NODECLAIM_CONDITION_COUNT,
    &NODECLAIM_CONDITION_SECONDS,
    &NODECLAIM_TRANSITIONS,
    &NODECLAIM_TRANSITION_SECONDS,
    &NODECLAIM_TERMINATION_CURRENT,
    &NODECLAIM_TERMINATION_DURATION,
    &NODEPOOL_CONDITION_COUNT,
    &NODEPOOL_CONDITION_SECONDS,
    &NODEPOOL_TRANSITIONS,
    &NODEPOOL_TRANSITION_SECONDS,
    &NODEPOOL_TERMINATION_CURRENT,
    &NODEPOOL_TERMINATION_DURATION,
    &NODE_CONDITION_COUNT,
    &NODE_CONDITION_SECONDS,
    &NODE_TRANSITIONS,
    &NODE_TRANSITION_SECONDS,
    &NODE_TERMINATION_CURRENT,
    &NODE_TERMINATION_DURATION,
    &CONDITION_COUNT,
    &CONDITION_SECONDS,
    &TRANSITIONS_OLD,
    &TRANSITION_SECONDS_OLD,
    &TERMINATION_CURRENT_OLD,
    &TERMINATION_DURATION_OLD,
];
/// What is not served.
pub const MISSING: [Missing; 22] = [
    Missing { name: "karpenter_nodeclaims_unhealthy_disrupted_total", why: "no node repair yet" },
    Missing {
        name: "karpenter_nodepools_cost_tracker_errors_total",
        why: "prices come from the provider's own types, so there is no tracker that could fail; a machine without a price counts as 0",
    },
    Missing {
        name: "karpenter_voluntary_disruption_consolidation_timeouts_total",
        why: "joiner removes empty nodes only; nodes with pods are not consolidated yet",
    },
    Missing {
        name: "karpenter_consolidation_score",
        why: "joiner removes empty nodes only; nodes with pods are not consolidated yet",
    },
    Missing {
        name: "karpenter_consolidation_moves_total",
        why: "joiner removes empty nodes only; nodes with pods are not consolidated yet",
    },
    Missing {
        name: "karpenter_scheduler_ignored_pods_count",
        why: "no pod is ignored: each is placed or refused with a reason, see karpenter_scheduler_unschedulable_pods_count",
    },
    Missing { name: "karpenter_interruption_received_messages_total", why: "no AWS provider yet" },
    Missing { name: "karpenter_interruption_deleted_messages_total", why: "no AWS provider yet" },
    Missing { name: "karpenter_interruption_message_queue_duration_seconds", why: "no AWS provider yet" },
    Missing { name: "karpenter_interruption_instance_status_unhealthy_total", why: "no AWS provider yet" },
    Missing {
        name: "karpenter_cloudprovider_instance_type_offering_price_estimate",
        why: "no AWS provider yet",
    },
    Missing { name: "karpenter_cloudprovider_instance_type_offering_available", why: "no AWS provider yet" },
    Missing { name: "karpenter_cloudprovider_instance_type_memory_bytes", why: "no AWS provider yet" },
    Missing { name: "karpenter_cloudprovider_instance_type_cpu_cores", why: "no AWS provider yet" },
    Missing { name: "karpenter_cloudprovider_instance_launch_failures_total", why: "no AWS provider yet" },
    Missing {
        name: "karpenter_cloudprovider_instance_termination_failures_total",
        why: "no AWS provider yet",
    },
    Missing { name: "karpenter_cloudprovider_batcher_*", why: "no AWS provider yet" },
    Missing { name: "karpenter_ec2nodeclasses_userdata_bytes", why: "no AWS provider yet" },
    Missing {
        name: "operator_capacitybuffer_status_condition_*",
        why: "capacity buffers are not reconciled yet",
    },
    Missing { name: "operator_ec2nodeclass_status_condition_*", why: "no AWS provider yet" },
    Missing {
        name: "client_go_request_duration_seconds",
        why: "the API server measures the same; requests are counted",
    },
    Missing {
        name: "controller_runtime_active_workers, controller_runtime_max_concurrent_reconciles",
        why: "there are no workers: one loop decides, and joiner_calls_under_way counts what it has sent out",
    },
];

/// A metric of joiner's own.
#[derive(Debug)]
pub struct Own {
    /// Its name, after `joiner_`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// Joiner's own metrics.
pub const OWN: [Own; 11] = [
    Own {
        name: "commands_total",
        kind: Kind::Counter,
        labels: &["kind", "outcome"],
        help: "Commands by what they do and what came of them",
    },
    Own {
        name: "retries_total",
        kind: Kind::Counter,
        labels: &["reason"],
        help: "Work done again, by the reason",
    },
    Own {
        name: "step_panics_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Steps and commands that ended in a panic",
    },
    Own { name: "queue_depth", kind: Kind::Gauge, labels: &[], help: "Keys that wait to be reconciled" },
    Own {
        name: "calls_under_way",
        kind: Kind::Gauge,
        labels: &["lane"],
        help: "Calls to the outside, by lane",
    },
    Own {
        name: "calls_waiting",
        kind: Kind::Gauge,
        labels: &["lane"],
        help: "Calls that wait for their turn, by lane",
    },
    Own {
        name: "loop_longest_stall_seconds",
        kind: Kind::Gauge,
        labels: &[],
        help: "The longest time the loop has been busy without listening",
    },
    Own {
        name: "decision_steps_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Elementary steps of all decisions on pods, a few nanoseconds each",
    },
    Own {
        name: "breakers_tripped",
        kind: Kind::Gauge,
        labels: &["breaker"],
        help: "What a breaker holds back now: kinds of pods, pools, lists of machines, offerings; 1 for all nodes",
    },
    Own {
        name: "breaker_trips_total",
        kind: Kind::Counter,
        labels: &["breaker"],
        help: "How often a breaker has tripped",
    },
    Own {
        name: "metrics_pods_left_out",
        kind: Kind::Gauge,
        labels: &[],
        help: "Pods that the metrics of single pods leave out, because there are too many",
    },
];

/// What a metric of joiner's own says.
pub fn help(name: &str) -> &'static str {
    OWN.iter().find(|own| own.name == name).map_or("", |own| own.help)
}
