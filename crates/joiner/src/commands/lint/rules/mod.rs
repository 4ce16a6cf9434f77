//! The rules, one idea per file.
//!
//! A rule is a row of [`RULES`] and a pure function of the [`Subject`](super::subject::Subject). Its examples are files under
//! `examples/`, shown by `--explain` and in the reference page, and tested: the bad one triggers this rule and no other, the
//! good one none.

mod budgets;
mod label_keys;
mod label_values;
mod lifetimes;
mod limits;
mod min_values;
mod objects;
mod overlap;
mod overlays;
mod pod_budgets;
mod pod_pools;
mod pod_requests;
mod pod_topology;
mod pool_types;
mod references;
mod resources;
mod taints;
mod workloads;

use super::finding::Rule;
use super::finding::Severity::{Error, Note, Warning};

macro_rules! rule {
    ($id:literal, $severity:expr, $check:expr, $summary:literal, $why:literal) => {
        Rule {
            id: $id,
            severity: $severity,
            summary: $summary,
            why: $why,
            bad: include_str!(concat!("../examples/", $id, ".bad.yaml")),
            good: include_str!(concat!("../examples/", $id, ".good.yaml")),
            check: $check,
        }
    };
}

/// All rules, in the order of the reference page.
pub const RULES: &[Rule] = &[
    // Pools and instance types.
    rule!(
        "pool-matches-no-type",
        Error,
        pool_types::matches_none,
        "a pool whose requirements no instance type meets",
        "The pool is valid, the API server takes it, and it never launches a node: no instance type of the catalogue meets all its \
         requirements. The finding names the requirement that leaves none, or the two that leave none together, and the \
         nearest value that exists. With the shipped machines of AWS a value that is not near any known one is a \
         warning only: give your own list with --instance-types."
    ),
    rule!(
        "pool-contradicts-itself",
        Error,
        pool_types::contradictions,
        "requirements or labels of a pool that exclude each other",
        "Two requirements on one label, or a requirement and a label of the template, allow no value in common. \
         Requirements are all to be met, so the pool never launches a node. Put alternatives into the values of one requirement."
    ),
    rule!(
        "label-key-typo",
        Warning,
        label_keys::typos,
        "a label key that is almost a well-known one",
        "A key that is not well-known is a label of your own: a pool that requires it puts it on its nodes, a pod that selects it waits for \
         such a node. One letter off a well-known key, that is hardly meant. In the domains `karpenter.sh`, \
         `karpenter.kwok.sh` and `karpenter.k8s.aws` unknown keys are refused by the API, so there it is an error."
    ),
    rule!(
        "unknown-value",
        Warning,
        label_values::unknown,
        "a value of a well-known label that no instance type has",
        "The other values of the requirement still leave something, so nothing fails at once; the misspelt zone, type or family is simply never used. \
         Values are compared with those of the catalogue in use. With the shipped machines of AWS a value that is not near any \
         known one is a note only."
    ),
    rule!(
        "label-unknown-to-catalogue",
        Note,
        label_values::not_judged,
        "a provider's label about which the catalogue says nothing",
        "The label is one of the provider's, but the list of instance types in use has no values for it, so neither `lint` nor `plan` can tell \
         which types it leaves: they go on as if it left all. Give a list that has the label with --instance-types, or \
         narrow by a label that is known, such as the family."
    ),
    rule!(
        "min-values-unreachable",
        Error,
        min_values::unreachable,
        "`minValues` above the number of values there are",
        "`minValues` asks that a node could be launched as so many different values of the label. The types the pool may use have fewer, so under the \
         policy Strict (the default) it launches nothing. Lower the number or widen the requirements."
    ),
    rule!(
        "limit-allows-no-node",
        Error,
        limits::too_small,
        "a limit below the smallest instance type of the pool",
        "A node is launched only if its whole capacity fits under the limits. If the smallest type the pool may use is larger than a limit, the \
         pool never launches anything. A limit of zero is a warning: it is the usual way to switch a pool off."
    ),
    rule!(
        "limit-without-effect",
        Warning,
        limits::without_effect,
        "a limit on a resource that no type of the pool has",
        "A limit counts the capacity of nodes by resource name. If no type the pool may use has the resource, the limit never counts anything: \
         often a misspelt name (`cpus`, `nvidia.com/gpus`), or a GPU limit on a pool without GPU types."
    ),
    rule!(
        "replicas-above-limit",
        Warning,
        limits::replicas,
        "a static pool with more replicas than its limit on nodes",
        "A pool with `replicas` keeps that many nodes, but never more than `limits.nodes`. The smaller number counts, and the pool stays short of \
         its replicas for good."
    ),
    rule!(
        "pools-overlap",
        Note,
        overlap::equal_weights,
        "pools of equal weight that could launch the same node",
        "Pools are tried by weight, then by name from the end of the alphabet. Where pools of equal weight have the same taints and share instance \
         types, a pod that does not choose goes to the pool with the later name, which is seldom meant. Give one \
         of them a `weight`, or a taint."
    ),
    rule!(
        "node-class-not-in-input",
        Note,
        references::node_classes,
        "a node class that is not among those given",
        "The pool refers to a node class that is not in the input, while others of its kind are. If the class is in the cluster already, all is well; \
         if the name is misspelt, the pool stays not ready. A near name makes it a warning."
    ),
    rule!(
        "expires-too-soon",
        Warning,
        lifetimes::expires_too_soon,
        "nodes that expire minutes after they start",
        "Expiration deletes nodes whatever budgets say. With `expireAfter` below ten minutes nodes are replaced about as fast as they start. \
         Write hours (`720h` is the default) or `Never`."
    ),
    // Disruption budgets.
    rule!(
        "budget-never-opens",
        Warning,
        budgets::never_opens,
        "budgets that allow no disruption at any time",
        "The smallest budget in force counts. These together allow zero nodes at every hour of the year, so drifted nodes are never \
         replaced and empty ones never removed. If the pool is to be frozen, that is the way to say it; if not, limit the zero to \
         a schedule, or leave an hour open. Closed for some reasons only, it is a note."
    ),
    rule!(
        "budget-never-applies",
        Warning,
        budgets::never_applies,
        "a budget with an empty window or without reasons",
        "A budget is in force from each time its schedule names for its duration: with a duration of zero, never. `reasons: []` means no reason at \
         all; leave `reasons` out to mean every reason. Such a budget protects nothing."
    ),
    rule!(
        "budget-schedule-never-fires",
        Warning,
        budgets::never_fires,
        "a schedule that names a date which never comes",
        "There is no 31 February. A budget with such a schedule does not stay out of force: it counts as in force at all times, because \
         the original does so, and that errs on the side of protection. Write a date that exists, or no schedule."
    ),
    rule!(
        "budget-schedule-unreadable",
        Error,
        budgets::unreadable,
        "a schedule that passes the API but can't be read",
        "The pattern of the API lets bad cron through. A budget that can't be read allows nothing, for every reason, whatever the other budgets of \
         the pool say. Days of the week run from 0 (Sunday) to 6; ranges do not wrap around; there is no time zone: schedules are in UTC."
    ),
    // Taints.
    rule!(
        "taint-twice",
        Error,
        taints::twice,
        "the same taint key and effect twice in a pool",
        "A node has one taint per key and effect. Two with different values contradict each other; one in `taints` and again in `startupTaints` \
         is to stay and to go away. The controller refuses the pool."
    ),
    rule!(
        "taint-nobody-tolerates",
        Note,
        taints::nobody_tolerates,
        "a taint that no pod of the input tolerates",
        "The input has pods, and none of them tolerates this taint of the pool, so the pool stays unused by them. Fine if the pods that do are elsewhere; \
         otherwise the toleration is missing or misspelt."
    ),
    // Pods.
    rule!(
        "pod-selects-no-pool",
        Warning,
        pod_pools::selects_none,
        "a pod whose selector or affinity no pool can meet",
        "No pool of the input can make a node with the labels this pod requires, and no node of the input has them: the pod would stay pending. \
         The finding says what each pool lacks and names the nearest label or value that exists."
    ),
    rule!(
        "pod-tolerates-no-pool",
        Warning,
        pod_pools::tolerates_none,
        "a pod that tolerates the taints of no pool",
        "Every pool of the input has a taint that this pod does not tolerate, so none launches a node for it. Add a toleration to the pod, or a pool \
         without taints."
    ),
    rule!(
        "pod-too-large",
        Warning,
        pod_requests::too_large,
        "a pod that asks for more than any instance type it may use has",
        "Requests are compared with what is left of each type after its overhead, over the types that the pod and some pool agree on. No machine \
         holds this pod. Ask for less, split the pod, or let the pool use larger types."
    ),
    rule!(
        "pod-requests-nothing",
        Note,
        pod_requests::nothing,
        "a pod that requests neither CPU nor memory",
        "Machines are chosen by requests. A pod without them is packed as if it needed nothing, beside as many others as the type allows pods, and the \
         nodes are too small once it runs."
    ),
    rule!(
        "memory-in-thousandths",
        Warning,
        resources::in_thousandths,
        "memory or storage in thousandths of a byte",
        "The suffix `m` means thousandths: `500m` of CPU is half a CPU, but `512m` of memory is half a byte. Kubernetes takes it, rounds it up to one byte, \
         and the pod is packed as if it needed no memory at all; as a limit it kills the container at once. Megabytes are `M`, mebibytes `Mi`."
    ),
    rule!(
        "limit-below-request",
        Error,
        resources::limit_below_request,
        "a container whose limit is below its request",
        "The API server refuses a pod that asks for more of a resource than it may use. A Deployment with such a template is taken, and none of its pods is ever \
         made: nothing pends, nothing is planned for, and only the events of its ReplicaSet say why."
    ),
    rule!(
        "selector-misses-template",
        Error,
        workloads::selector_misses_template,
        "a workload whose selector misses the labels of its own pods",
        "A Deployment, StatefulSet, DaemonSet, ReplicaSet or ReplicationController finds its pods by its selector, so the API server refuses one whose selector \
         does not match the labels of its template. `joiner plan` would plan for pods that never come."
    ),
    rule!(
        "pdb-blocks-every-drain",
        Warning,
        pod_budgets::blocks_every_drain,
        "a PodDisruptionBudget that never lets a pod go",
        "A node is emptied by evictions, and a budget that allows none holds it for good: it is not consolidated, not replaced when it has drifted, and when it \
         expires it is stuck until `terminationGracePeriod` is over. `maxUnavailable: 0`, `minAvailable: 100%` and a `minAvailable` of as many pods as the \
         selected workloads have replicas all mean this."
    ),
    rule!(
        "topology-key-in-no-pool",
        Warning,
        pod_topology::unknown_key,
        "a spread or affinity over a label that no pool puts on nodes",
        "A hard spread constraint, or a required pod affinity, needs the label on the node. No pool of the input defines it and it is not \
         well-known, so no node for this pod can be made."
    ),
    rule!(
        "spread-ignores-own-pods",
        Warning,
        pod_topology::own_pods,
        "a spread constraint that does not count the pods it is on",
        "The constraint's selector does not match the labels of its own pod, so its pods are not counted and may all end up in one place. Usually the selector \
         was copied from another workload or left out."
    ),
    // Overlays and buffers.
    rule!(
        "overlay-matches-nothing",
        Warning,
        overlays::match_nothing,
        "an overlay that applies to no instance type",
        "No offering of the catalogue (and of the pools of the input, if there are some) meets the overlay's requirements, so it changes nothing."
    ),
    rule!(
        "overlay-conflict",
        Error,
        overlays::conflicts,
        "overlays of equal weight that change the same thing",
        "Of several overlays on one price or one resource the heaviest counts. Two of equal weight that meet on an offering are a conflict, and the \
         controller rejects the later one whole. Give them different weights, or requirements that do not meet."
    ),
    rule!(
        "overlay-without-effect",
        Warning,
        overlays::without_effect,
        "an overlay that sets neither price nor capacity",
        "An overlay without `price`, `priceAdjustment` and `capacity` is accepted and does nothing."
    ),
    rule!(
        "buffer-target-not-in-input",
        Note,
        references::buffer_targets,
        "a buffer for a workload that is not among those given",
        "The buffer names a workload of its namespace that is not in the input, while others of its kind are. Fine if it is in the cluster; with a near name it \
         is a warning, because a buffer without its workload keeps no room free."
    ),
    // Objects.
    rule!(
        "duplicate-object",
        Warning,
        objects::duplicates,
        "the same object twice in the input",
        "Kind, namespace and name are the same. Applied in order, the last one wins, and the one before it is never seen in the cluster. An old \
         Provisioner counts as the NodePool it becomes."
    ),
    rule!(
        "deprecated-api-version",
        Warning,
        objects::deprecated,
        "an API version that clusters no longer serve",
        "`joiner plan` reads v1alpha5 and v1beta1, but a cluster of today does not. `joiner convert` prints the object as it is written today, with a note on \
         everything that changed its meaning."
    ),
    rule!(
        "old-name",
        Warning,
        objects::old_names,
        "a label, annotation or word that has another name today",
        "The name was used by older versions and has no effect any more: a pod with `karpenter.sh/do-not-evict` is evicted. Where the old word is still \
         read, it will not be for ever."
    ),
    rule!(
        "invalid-field",
        Error,
        objects::invalid,
        "a field that the API or the controller refuses",
        "The schema of NodePool, NodeOverlay or CapacityBuffer refuses the value, or the controller does at run time and leaves the object not ready. `joiner \
         plan` refuses it as well."
    ),
];

/// The rule of an id.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}
