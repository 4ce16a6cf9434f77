//! Every name that others see: groups, labels, annotations, taints, finalizers, condition types.
//!
//! Names are the contract with manifests, dashboards and other controllers, so each stands here once. The second
//! half answers two questions about label keys that come up everywhere: is a key *well-known* (a template that does
//! not mention it may carry any value), and is it *restricted* (nobody but the autoscaler may ask for it or set it).
//! Both sets grow at run time by what the provider's catalogue brings, which is why the functions take `extra`.

use std::collections::BTreeSet;
use std::fmt;

// Groups and versions.

/// Group of NodePool, NodeClaim and NodeOverlay, and domain of most labels below.
pub const GROUP: &str = "karpenter.sh";
/// Group of KWOKNodeClass, and domain of the labels of the KWOK provider.
pub const KWOK_GROUP: &str = "karpenter.kwok.sh";
/// Group of EC2NodeClass, and domain of the labels of the AWS provider.
pub const AWS_GROUP: &str = "karpenter.k8s.aws";
/// Group of ClusterAPINodeClass.
pub const CLUSTER_API_GROUP: &str = "karpenter.cluster.x-k8s.io";
/// Group of CapacityBuffer.
pub const BUFFER_GROUP: &str = "autoscaling.x-k8s.io";
/// Domain of notes that conversion between API versions leaves on objects.
pub const COMPATIBILITY_GROUP: &str = "compatibility.karpenter.sh";
/// `apiVersion` of NodePool and NodeClaim.
pub const API_VERSION: &str = "karpenter.sh/v1";
/// `apiVersion` of NodeOverlay.
pub const OVERLAY_API_VERSION: &str = "karpenter.sh/v1alpha1";
/// `apiVersion` of KWOKNodeClass.
pub const KWOK_API_VERSION: &str = "karpenter.kwok.sh/v1alpha1";
/// `apiVersion` of EC2NodeClass.
pub const AWS_API_VERSION: &str = "karpenter.k8s.aws/v1";
/// `apiVersion` of CapacityBuffer.
pub const BUFFER_API_VERSION: &str = "autoscaling.x-k8s.io/v1beta1";

// Labels of the core.

/// Label on claims and nodes: the owning pool.
pub const NODEPOOL_LABEL: &str = "karpenter.sh/nodepool";
/// Label on claims and nodes: `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE_LABEL: &str = "karpenter.sh/capacity-type";
/// How a node of a managed group of EKS was bought: `ON_DEMAND` or `SPOT`.
pub const EKS_CAPACITY_TYPE_LABEL: &str = "eks.amazonaws.com/capacityType";
/// Label and taint of nodes that the cluster is run from.
pub const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";
/// Older form of [`CONTROL_PLANE_LABEL`].
pub const MASTER_LABEL: &str = "node-role.kubernetes.io/master";
/// Label on nodes, `"true"` once the node has joined and was synchronised with its claim.
pub const REGISTERED_LABEL: &str = "karpenter.sh/registered";
/// Label on nodes, `"true"` once the node is ready for pods.
pub const INITIALIZED_LABEL: &str = "karpenter.sh/initialized";
/// Label on nodes: leave the node's taints alone at registration.
pub const DO_NOT_SYNC_TAINTS_LABEL: &str = "karpenter.sh/do-not-sync-taints";

// Labels of Kubernetes.

/// Availability zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Region.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";
/// Instance type.
pub const INSTANCE_TYPE_LABEL: &str = "node.kubernetes.io/instance-type";
/// Processor architecture.
pub const ARCH_LABEL: &str = "kubernetes.io/arch";
/// Operating system.
pub const OS_LABEL: &str = "kubernetes.io/os";
/// Windows build number.
pub const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
/// Host name; one value per node, so nobody may require it of a machine that does not exist yet.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

// Labels of the KWOK provider.

/// KWOK: size part of the type name.
pub const KWOK_INSTANCE_SIZE_LABEL: &str = "karpenter.kwok.sh/instance-size";
/// KWOK: family part of the type name.
pub const KWOK_INSTANCE_FAMILY_LABEL: &str = "karpenter.kwok.sh/instance-family";
/// KWOK: CPU quantity of the type.
pub const KWOK_INSTANCE_CPU_LABEL: &str = "karpenter.kwok.sh/instance-cpu";
/// KWOK: memory quantity of the type.
pub const KWOK_INSTANCE_MEMORY_LABEL: &str = "karpenter.kwok.sh/instance-memory";
/// KWOK: name of the node class.
pub const KWOK_NODE_CLASS_LABEL: &str = "karpenter.kwok.sh/kwoknodeclass";
/// Documented but never written by the KWOK provider; read as [`INSTANCE_TYPE_LABEL`].
pub const PAPER_INSTANCE_TYPE_LABEL: &str = "karpenter.kwok.sh/instance-type";
/// Documented but never written by the KWOK provider; read as [`KWOK_INSTANCE_MEMORY_LABEL`].
pub const PAPER_INSTANCE_MEMORY_LABEL: &str = "karpenter.sh/instance-memory";
/// Marks a node that a kwok controller plays the kubelet for (label and annotation), value `fake`.
pub const KWOK_NODE_MARK: &str = "kwok.x-k8s.io/node";
/// KWOK: the failure partition a node belongs to.
pub const KWOK_PARTITION_LABEL: &str = "kwok-partition";
/// Hourly price of a node with six decimals, for viewers.
pub const INSTANCE_PRICE_LABEL: &str = "eks-node-viewer/instance-price";

// Labels of the AWS provider.

/// AWS: letters of the type name, e.g. `c`.
pub const AWS_INSTANCE_CATEGORY_LABEL: &str = "karpenter.k8s.aws/instance-category";
/// AWS: part of the type name before the dot.
pub const AWS_INSTANCE_FAMILY_LABEL: &str = "karpenter.k8s.aws/instance-family";
/// AWS: generation number of the family.
pub const AWS_INSTANCE_GENERATION_LABEL: &str = "karpenter.k8s.aws/instance-generation";
/// AWS: part of the type name after the dot.
pub const AWS_INSTANCE_SIZE_LABEL: &str = "karpenter.k8s.aws/instance-size";
/// AWS: number of vCPUs.
pub const AWS_INSTANCE_CPU_LABEL: &str = "karpenter.k8s.aws/instance-cpu";
/// AWS: memory in MiB.
pub const AWS_INSTANCE_MEMORY_LABEL: &str = "karpenter.k8s.aws/instance-memory";
/// AWS: name of the node class.
pub const AWS_NODE_CLASS_LABEL: &str = "karpenter.k8s.aws/ec2nodeclass";
/// AWS: zone id, the same physical zone in every account.
pub const AWS_ZONE_ID_LABEL: &str = "topology.k8s.aws/zone-id";

// Annotations.

/// On pods, nodes and claims: `"true"`, on pods also a duration, keeps the autoscaler from disrupting.
pub const DO_NOT_DISRUPT_ANNOTATION: &str = "karpenter.sh/do-not-disrupt";
/// On pools and claims: drift hash of the pool's template.
pub const NODEPOOL_HASH_ANNOTATION: &str = "karpenter.sh/nodepool-hash";
/// On pools and claims: version of the drift hash.
pub const NODEPOOL_HASH_VERSION_ANNOTATION: &str = "karpenter.sh/nodepool-hash-version";
/// On claims: when the node is removed at the latest.
pub const TERMINATION_TIMESTAMP_ANNOTATION: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// On claims, `"true"` or `"false"`: whether `minValues` had to be lowered.
pub const MIN_VALUES_RELAXED_ANNOTATION: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// On claims: sorted comma list of the resource drivers that must be up before the node counts as initialised.
pub const REQUESTED_DRA_DRIVERS_ANNOTATION: &str = "karpenter.sh/requested-dra-drivers";
/// On claims: `"true"` if the price of a candidate type came from an overlay.
pub const PRICE_OVERLAY_APPLIED_ANNOTATION: &str = "karpenter.sh/price-overlay-applied";
/// On claims: `"true"` if the capacity of a candidate type came from an overlay.
pub const CAPACITY_OVERLAY_APPLIED_ANNOTATION: &str = "karpenter.sh/capacity-overlay-applied";
/// On claims that joiner makes: uids of the pods the machine is for, separated by commas. Who they are must outlive the process that
/// decided, or they would be planned for twice.
pub const PLANNED_PODS_ANNOTATION: &str = "joiner.sh/planned-pods";
/// Annotation: uid of the claim that a Node or machine was launched for; names are used again, uids are not.
pub const CLAIM_UID_ANNOTATION: &str = "joiner.sh/nodeclaim-uid";
/// Annotation: what the provider calls the machine of a claim while it has no provider id.
pub const LAUNCH_HANDLE_ANNOTATION: &str = "joiner.sh/launch-handle";
/// On pools: kinds of pods that machines of the pool came up for and that did not run there, how often, and when last. It must outlive the
/// process that counts, or each restart would buy as many again.
pub const FRUITLESS_MACHINES_ANNOTATION: &str = "joiner.sh/fruitless-machines";
/// On pools: how many of its machines, one after the other, have not joined in time.
pub const REGISTRATION_FAILURES_ANNOTATION: &str = "joiner.sh/registration-failures";
/// Node of a simulated cluster: taints that go some time after it is ready, by `KEY` or `KEY:EFFECT`, separated by commas.
pub const STARTUP_TAINTS_ANNOTATION: &str = "joiner.sh/startup-taints";
/// Node of a simulated cluster: how long after it is ready they go.
pub const STARTUP_TAINTS_TIME_ANNOTATION: &str = "joiner.sh/startup-taints-time";
/// Node of a simulated cluster: `stopped` when its kubelet no longer reports.
pub const KUBELET_ANNOTATION: &str = "joiner.sh/kubelet";
/// Node of KWOK: `vanished` when the machine behind it is gone, whatever the Node says.
pub const MACHINE_ANNOTATION: &str = "joiner.sh/machine";
/// On virtual pods: the pod stands for a capacity buffer.
pub const BUFFER_FAKE_POD_ANNOTATION: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// On virtual pods: name of the capacity buffer.
pub const BUFFER_NAME_ANNOTATION: &str = "karpenter.sh/capacity-buffer-name";
/// On virtual pods: namespace of the capacity buffer.
pub const BUFFER_NAMESPACE_ANNOTATION: &str = "karpenter.sh/capacity-buffer-namespace";
/// On converted objects: the inline provider configuration of an old object.
pub const PROVIDER_COMPATIBILITY_ANNOTATION: &str = "compatibility.karpenter.sh/provider";
/// On converted objects: the kubelet section that used to stand in the pool, as JSON.
pub const KUBELET_COMPATIBILITY_ANNOTATION: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// On converted claims: the node class reference in its old form, as JSON.
pub const NODE_CLASS_REFERENCE_ANNOTATION: &str = "compatibility.karpenter.sh/v1beta1-nodeclass-reference";

// Names of older API versions, met by conversion only.

/// Older form of [`NODEPOOL_LABEL`].
pub const PROVISIONER_NAME_LABEL: &str = "karpenter.sh/provisioner-name";
/// Older form of [`DO_NOT_DISRUPT_ANNOTATION`] on pods.
pub const DO_NOT_EVICT_ANNOTATION: &str = "karpenter.sh/do-not-evict";
/// Older form of [`DO_NOT_DISRUPT_ANNOTATION`] on nodes.
pub const DO_NOT_CONSOLIDATE_ANNOTATION: &str = "karpenter.sh/do-not-consolidate";
/// Older form of [`DISRUPTED_TAINT`]; its value was `disrupting`.
pub const DISRUPTION_TAINT: &str = "karpenter.sh/disruption";

// Taints and finalizers.

/// Key of the `NoSchedule` taint on a node that is being disrupted or terminated.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// Key of the `NoExecute` taint on a node that has not registered yet.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
/// Finalizer on claims and nodes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

// Capacity types.

/// Capacity that the cloud may take back.
pub const SPOT: &str = "spot";
/// Capacity at list price.
pub const ON_DEMAND: &str = "on-demand";
/// Capacity that was paid for in advance.
pub const RESERVED: &str = "reserved";
/// All values of [`CAPACITY_TYPE_LABEL`].
pub const CAPACITY_TYPES: [&str; 3] = [ON_DEMAND, RESERVED, SPOT];

// Other words in specs.

/// Resource name by which `limits` counts nodes.
pub const NODES_RESOURCE: &str = "nodes";
/// Word for "no duration at all" in `expireAfter` and `consolidateAfter`.
pub const NEVER: &str = "Never";
/// Strategy of a capacity buffer that keeps nodes running.
pub const ACTIVE_CAPACITY_STRATEGY: &str = "buffer.x-k8s.io/active-capacity";

/// Condition types and their reasons.
pub mod conditions {
    /// The condition that sums up the others.
    pub const READY: &str = "Ready";
    /// Pool, overlay: the object passed run-time validation.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// Pool: its node class exists and is ready.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// Pool: recent launches registered.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
    /// Claim: the instance was launched.
    pub const LAUNCHED: &str = "Launched";
    /// Claim: the node joined the cluster.
    pub const REGISTERED: &str = "Registered";
    /// Claim: the node is ready for pods.
    pub const INITIALIZED: &str = "Initialized";
    /// Claim: idle long enough to be consolidated.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// Claim: differs from what its pool or class asks for now.
    pub const DRIFTED: &str = "Drifted";
    /// Claim: pods have left the terminating node.
    pub const DRAINED: &str = "Drained";
    /// Claim: pods that keep its node from being drained, and why. Of joiner's own.
    pub const DRAIN_BLOCKED: &str = "DrainBlocked";
    /// Claim: volumes have left the terminating node.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// Claim: the provider is removing the instance.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// Claim: node and claim agree.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// Claim: why it is being disrupted.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
    /// Buffer: its pod template could be resolved.
    pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
    /// Buffer: its capacity is there.
    pub const PROVISIONING: &str = "Provisioning";
    /// Buffer: quotas keep it smaller than asked.
    pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";

    /// Reason: nobody has looked at the condition yet.
    pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
    /// Reason of `Ready=False`: a dependent condition is False.
    pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
    /// Reason of `Ready=Unknown`: a dependent condition is not settled.
    pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";
    /// Reason of a pool's `ValidationSucceeded=False`.
    pub const NODE_POOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// Reason of an overlay's `ValidationSucceeded=False`: its own fields are wrong.
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// Reason of an overlay's `ValidationSucceeded=False`: another overlay of equal weight disagrees.
    pub const CONFLICT: &str = "Conflict";
}

/// Kinds, as written in `kind`.
pub mod kinds {
    /// NodePool.
    pub const NODE_POOL: &str = "NodePool";
    /// NodeClaim.
    pub const NODE_CLAIM: &str = "NodeClaim";
    /// NodeOverlay.
    pub const NODE_OVERLAY: &str = "NodeOverlay";
    /// CapacityBuffer.
    pub const CAPACITY_BUFFER: &str = "CapacityBuffer";
    /// KWOKNodeClass.
    pub const KWOK_NODE_CLASS: &str = "KWOKNodeClass";
    /// EC2NodeClass.
    pub const EC2_NODE_CLASS: &str = "EC2NodeClass";
    /// ClusterAPINodeClass.
    pub const CLUSTER_API_NODE_CLASS: &str = "ClusterAPINodeClass";
}

/// Label keys that are well-known whatever the provider.
pub const WELL_KNOWN_LABELS: [&str; 8] = [
    NODEPOOL_LABEL,
    CAPACITY_TYPE_LABEL,
    ZONE_LABEL,
    REGION_LABEL,
    INSTANCE_TYPE_LABEL,
    ARCH_LABEL,
    OS_LABEL,
    WINDOWS_BUILD_LABEL,
];

/// Label keys that the KWOK provider makes well-known.
pub const KWOK_WELL_KNOWN_LABELS: [&str; 4] = [
    KWOK_INSTANCE_SIZE_LABEL,
    KWOK_INSTANCE_FAMILY_LABEL,
    KWOK_INSTANCE_CPU_LABEL,
    KWOK_INSTANCE_MEMORY_LABEL,
];

/// Label keys that the AWS provider makes well-known.
pub const AWS_WELL_KNOWN_LABELS: [&str; 29] = [
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    AWS_INSTANCE_CATEGORY_LABEL,
    "karpenter.k8s.aws/instance-capability-flex",
    AWS_INSTANCE_FAMILY_LABEL,
    AWS_INSTANCE_GENERATION_LABEL,
    AWS_INSTANCE_SIZE_LABEL,
    "karpenter.k8s.aws/instance-local-nvme",
    AWS_INSTANCE_CPU_LABEL,
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    AWS_INSTANCE_MEMORY_LABEL,
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/nitro-sandbox",
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
    "karpenter.k8s.aws/placement-group-id",
    "karpenter.k8s.aws/placement-group-partition",
    AWS_ZONE_ID_LABEL,
];

/// Older label keys and the stable ones they are read as, wherever a requirement or a node label is read.
pub const KEY_ALIASES: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", ARCH_LABEL),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE_LABEL),
    ("beta.kubernetes.io/os", OS_LABEL),
    ("failure-domain.beta.kubernetes.io/region", REGION_LABEL),
    ("failure-domain.beta.kubernetes.io/zone", ZONE_LABEL),
];

/// Label keys that documents of the KWOK provider name but its nodes never carry, and the real keys.
pub const PAPER_ALIASES: [(&str, &str); 2] = [
    (PAPER_INSTANCE_TYPE_LABEL, INSTANCE_TYPE_LABEL),
    (PAPER_INSTANCE_MEMORY_LABEL, KWOK_INSTANCE_MEMORY_LABEL),
];

/// Domains whose labels only the autoscaler sets, each with its subdomains.
pub const RESTRICTED_DOMAINS: [&str; 3] = [GROUP, KWOK_GROUP, AWS_GROUP];

/// Why a label key may not be asked for or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// The key itself is reserved.
    Label(&'static str),
    /// The key's domain is reserved, except for the well-known keys in it.
    Domain(&'static str),
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => write!(f, "label `{label}` is restricted"),
            Self::Domain(domain) => {
                write!(f, "label domain `{domain}` is restricted to the autoscaler's own well-known labels")
            }
        }
    }
}

/// The stable name of a label key: [`KEY_ALIASES`] applied, other keys as they are.
pub fn normalized_key(key: &str) -> &str {
    KEY_ALIASES.iter().find(|(old, _)| *old == key).map_or(key, |(_, stable)| stable)
}

/// The real key behind one that exists on paper only ([`PAPER_ALIASES`]), if `key` is such a key.
pub fn paper_alias(key: &str) -> Option<&'static str> {
    PAPER_ALIASES.iter().find(|(paper, _)| *paper == key).map(|(_, real)| *real)
}

/// The part of a label key before the slash, empty if there is none.
pub fn domain_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Whether `key` is well-known: to the core, or (`extra`) to the provider's catalogue.
pub fn is_well_known(key: &str, extra: &BTreeSet<String>) -> bool {
    WELL_KNOWN_LABELS.contains(&key) || extra.contains(key)
}

/// Whether pods and pools are kept from naming `key`, and why.
///
/// `extra` holds the keys the provider's catalogue makes well-known; those of the built-in providers and their
/// class labels are allowed in any case (a key no type carries then simply matches nothing). Keys are taken as they
/// are: apply [`normalized_key`] and [`paper_alias`] first.
pub fn restriction(key: &str, extra: &BTreeSet<String>) -> Option<Restriction> {
    if is_well_known(key, extra) || is_provider_label(key) {
        return None;
    }
    if key == HOSTNAME_LABEL {
        return Some(Restriction::Label(HOSTNAME_LABEL));
    }
    let domain = domain_of(key);
    RESTRICTED_DOMAINS
        .into_iter()
        .find(|restricted| {
            domain == *restricted || domain.strip_suffix(restricted).is_some_and(|rest| rest.ends_with('.'))
        })
        .map(Restriction::Domain)
}

fn is_provider_label(key: &str) -> bool {
    KWOK_WELL_KNOWN_LABELS.contains(&key)
        || AWS_WELL_KNOWN_LABELS.contains(&key)
        || [KWOK_NODE_CLASS_LABEL, AWS_NODE_CLASS_LABEL].contains(&key)
}

/// Label that carries the node class name on claims and nodes: `<group>/<lower-case kind>`.
pub fn node_class_label(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> BTreeSet<String> {
        BTreeSet::new()
    }

    #[test]
    fn aliases_lead_to_stable_names() {
        for (old, stable) in KEY_ALIASES {
            assert_eq!(normalized_key(old), stable);
            assert_eq!(normalized_key(stable), stable);
            assert!(WELL_KNOWN_LABELS.contains(&stable));
        }
        assert_eq!(normalized_key("example.com/team"), "example.com/team");
        assert_eq!(normalized_key(PAPER_INSTANCE_TYPE_LABEL), PAPER_INSTANCE_TYPE_LABEL);
        assert_eq!(paper_alias(PAPER_INSTANCE_TYPE_LABEL), Some(INSTANCE_TYPE_LABEL));
        assert_eq!(paper_alias(PAPER_INSTANCE_MEMORY_LABEL), Some(KWOK_INSTANCE_MEMORY_LABEL));
        assert_eq!(paper_alias(KWOK_INSTANCE_MEMORY_LABEL), None);
    }

    #[test]
    fn well_known_keys_are_never_restricted() {
        for key in WELL_KNOWN_LABELS.iter().chain(&KWOK_WELL_KNOWN_LABELS).chain(&AWS_WELL_KNOWN_LABELS) {
            assert_eq!(restriction(key, &none()), None, "{key}");
        }
        assert_eq!(restriction(KWOK_NODE_CLASS_LABEL, &none()), None);
        assert_eq!(restriction(AWS_NODE_CLASS_LABEL, &none()), None);
    }

    #[test]
    fn domains_are_restricted_at_a_dot_boundary() {
        for (key, expected) in [
            ("karpenter.sh/custom", Some(Restriction::Domain(GROUP))),
            ("karpenter.sh/initialized", Some(Restriction::Domain(GROUP))),
            ("karpenter.sh/instance-memory", Some(Restriction::Domain(GROUP))),
            ("sub.karpenter.sh/custom", Some(Restriction::Domain(GROUP))),
            ("xkarpenter.sh/custom", None),
            ("karpenter.sh.example.com/custom", None),
            ("karpenter.sh", None),
            ("karpenter.kwok.sh/custom", Some(Restriction::Domain(KWOK_GROUP))),
            ("karpenter.k8s.aws/custom", Some(Restriction::Domain(AWS_GROUP))),
            ("kubernetes.io/hostname", Some(Restriction::Label(HOSTNAME_LABEL))),
            ("kubernetes.io/custom", None),
            ("node-restriction.kubernetes.io/custom", None),
            ("k8s.io/custom", None),
            ("team", None),
        ] {
            assert_eq!(restriction(key, &none()), expected, "{key}");
        }
    }

    #[test]
    fn a_catalogue_can_add_well_known_keys() {
        let extra = BTreeSet::from(["karpenter.kwok.sh/rack".to_owned()]);
        assert!(is_well_known("karpenter.kwok.sh/rack", &extra));
        assert!(!is_well_known("karpenter.kwok.sh/rack", &none()));
        assert_eq!(restriction("karpenter.kwok.sh/rack", &extra), None);
        assert!(restriction("karpenter.kwok.sh/row", &extra).is_some());
    }

    #[test]
    fn class_labels_are_lower_case() {
        assert_eq!(node_class_label(KWOK_GROUP, "KWOKNodeClass"), KWOK_NODE_CLASS_LABEL);
        assert_eq!(node_class_label(AWS_GROUP, "EC2NodeClass"), AWS_NODE_CLASS_LABEL);
    }
}
