//! What is read of a cluster, in the order in which it is written: owners before what they own.

/// A kind that is read.
#[derive(Debug)]
pub struct KindToRead {
    /// Its group, empty for the core.
    pub group: &'static str,
    /// Versions, the preferred one first.
    pub versions: &'static [&'static str],
    /// The name in paths.
    pub plural: &'static str,
    /// The name in `kind:`.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Which fields stay, beside `metadata`.
    pub keeps: &'static str,
}

const fn cluster(
    group: &'static str,
    versions: &'static [&'static str],
    plural: &'static str,
    kind: &'static str,
    keeps: &'static str,
) -> KindToRead {
    KindToRead { group, versions, plural, kind, namespaced: false, keeps }
}

const fn namespaced(
    group: &'static str,
    versions: &'static [&'static str],
    plural: &'static str,
    kind: &'static str,
    keeps: &'static str,
) -> KindToRead {
    KindToRead { group, versions, plural, kind, namespaced: true, keeps }
}

const V1: &[&str] = &["v1"];
const KARPENTER: &[&str] = &["v1", "v1beta1"];

/// All kinds.
pub const KINDS: &[KindToRead] = &[
    cluster("", V1, "namespaces", "Namespace", "status{phase}"),
    cluster("scheduling.k8s.io", V1, "priorityclasses", "PriorityClass", "value globalDefault preemptionPolicy"),
    cluster("node.k8s.io", V1, "runtimeclasses", "RuntimeClass", "handler overhead scheduling"),
    cluster(
        "storage.k8s.io",
        V1,
        "storageclasses",
        "StorageClass",
        "provisioner volumeBindingMode allowedTopologies reclaimPolicy allowVolumeExpansion",
    ),
    cluster("storage.k8s.io", V1, "csidrivers", "CSIDriver", "spec{attachRequired storageCapacity}"),
    cluster("resource.k8s.io", V1, "deviceclasses", "DeviceClass", "spec{selectors extendedResourceName}"),
    // What else a class holds (start scripts, accounts, networks) has no effect on placement.
    cluster("karpenter.kwok.sh", &["v1alpha1"], "kwoknodeclasses", "KWOKNodeClass", "spec"),
    cluster(
        "karpenter.k8s.aws",
        KARPENTER,
        "ec2nodeclasses",
        "EC2NodeClass",
        "spec{kubelet amiFamily amiSelectorTerms{alias} blockDeviceMappings{deviceName rootVolume ebs{volumeSize}} instanceStorePolicy networkInterfaces \
         cpuOptions connectionTracking} status{subnets{zone zoneID}}",
    ),
    cluster("karpenter.azure.com", &["v1beta1", "v1alpha2"], "aksnodeclasses", "AKSNodeClass", "spec{kubelet}"),
    cluster(
        "karpenter.sh",
        KARPENTER,
        "nodepools",
        "NodePool",
        "spec{template{metadata! spec} disruption limits weight replicas}
         status{nodeClassObservedGeneration conditions@CustomCondition}",
    ),
    cluster("karpenter.sh", &["v1alpha1"], "nodeoverlays", "NodeOverlay", "spec"),
    cluster(
        "karpenter.sh",
        KARPENTER,
        "nodeclaims",
        "NodeClaim",
        "spec status{nodeName providerID capacity allocatable conditions@CustomCondition lastPodEventTime}",
    ),
    cluster(
        "",
        V1,
        "nodes",
        "Node",
        "spec{taints unschedulable providerID}
         status{capacity allocatable conditions@Condition nodeInfo{architecture operatingSystem kubeletVersion} phase}",
    ),
    cluster("storage.k8s.io", V1, "csinodes", "CSINode", "spec{drivers{name nodeID# allocatable topologyKeys}}"),
    cluster("resource.k8s.io", V1, "resourceslices", "ResourceSlice", "spec"),
    cluster(
        "",
        V1,
        "persistentvolumes",
        "PersistentVolume",
        "spec{capacity accessModes storageClassName persistentVolumeReclaimPolicy volumeMode nodeAffinity
              claimRef{apiVersion kind namespace name uid}
              csi{driver volumeHandle#} awsElasticBlockStore{volumeID#} gcePersistentDisk{pdName#}
              azureDisk{diskName# diskURI#} local{path#} hostPath{path#} nfs{server# path#}}
         status{phase}",
    ),
    namespaced(
        "",
        V1,
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "spec@ClaimSpec status{phase accessModes capacity}",
    ),
    namespaced(
        "resource.k8s.io",
        V1,
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        "spec{metadata! spec{devices{requests constraints}}}",
    ),
    namespaced(
        "resource.k8s.io",
        V1,
        "resourceclaims",
        "ResourceClaim",
        "spec{devices{requests constraints}} status{allocation{devices{results} nodeSelector} reservedFor}",
    ),
    namespaced("", V1, "services", "Service", "spec{selector type ports{port protocol}}"),
    namespaced("", V1, "podtemplates", "PodTemplate", "template@Template"),
    namespaced(
        "autoscaling.x-k8s.io",
        &["v1beta1", "v1alpha1"],
        "capacitybuffers",
        "CapacityBuffer",
        "spec",
    ),
    namespaced(
        "apps",
        V1,
        "deployments",
        "Deployment",
        "spec{replicas selector template@Template strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds}
         status{replicas updatedReplicas readyReplicas availableReplicas unavailableReplicas terminatingReplicas
                observedGeneration collisionCount conditions@Condition}",
    ),
    namespaced(
        "apps",
        V1,
        "replicasets",
        "ReplicaSet",
        "spec{replicas selector template@Template minReadySeconds}
         status{replicas fullyLabeledReplicas readyReplicas availableReplicas terminatingReplicas observedGeneration
                conditions@Condition}",
    ),
    namespaced(
        "",
        V1,
        "replicationcontrollers",
        "ReplicationController",
        "spec{replicas selector template@Template minReadySeconds}
         status{replicas fullyLabeledReplicas readyReplicas availableReplicas observedGeneration}",
    ),
    namespaced(
        "apps",
        V1,
        "statefulsets",
        "StatefulSet",
        "spec{replicas selector serviceName template@Template volumeClaimTemplates{metadata! spec@ClaimSpec} updateStrategy
              podManagementPolicy revisionHistoryLimit minReadySeconds ordinals persistentVolumeClaimRetentionPolicy}
         status{replicas readyReplicas currentReplicas updatedReplicas availableReplicas currentRevision updateRevision
                observedGeneration collisionCount}",
    ),
    namespaced(
        "apps",
        V1,
        "daemonsets",
        "DaemonSet",
        "spec{selector template@Template updateStrategy minReadySeconds revisionHistoryLimit}
         status{currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration
                updatedNumberScheduled numberAvailable numberUnavailable collisionCount}",
    ),
    namespaced(
        "batch",
        V1,
        "cronjobs",
        "CronJob",
        "spec{schedule timeZone suspend concurrencyPolicy startingDeadlineSeconds successfulJobsHistoryLimit
              failedJobsHistoryLimit jobTemplate{metadata! spec@JobSpec}}
         status{lastScheduleTime lastSuccessfulTime}",
    ),
    namespaced(
        "batch",
        V1,
        "jobs",
        "Job",
        "spec@JobSpec
         status{active succeeded failed ready terminating startTime completedIndexes failedIndexes
                uncountedTerminatedPods conditions@Condition}",
    ),
    namespaced(
        "autoscaling",
        &["v2"],
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "spec{scaleTargetRef minReplicas maxReplicas behavior
              metrics{type resource containerResource}}
         status{currentReplicas desiredReplicas lastScaleTime observedGeneration}",
    ),
    namespaced(
        "policy",
        V1,
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "spec{minAvailable maxUnavailable selector unhealthyPodEvictionPolicy}
         status{currentHealthy desiredHealthy disruptionsAllowed expectedPods observedGeneration}",
    ),
    namespaced(
        "",
        V1,
        "pods",
        "Pod",
        "spec@PodSpec
         status{phase conditions@Condition startTime nominatedNodeName qosClass containerStatuses@ContainerStatus
                initContainerStatuses@ContainerStatus resourceClaimStatuses}",
    ),
];

impl KindToRead {
    /// The place of a kind in the order of files; unknown ones come after the known that may own them and before pods.
    pub fn rank(group: &str, kind: &str) -> usize {
        let found = KINDS.iter().position(|known| known.kind == kind && known.group == group);
        found.map_or(2 * KINDS.len() - 3, |at| 2 * at)
    }

    /// The path of its objects, in one namespace or in all.
    pub fn path(&self, version: &str, namespace: Option<&str>) -> String {
        let root = match self.group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_before_what_they_own() {
        let rank = |kind: &str| {
            let group = KINDS.iter().find(|known| known.kind == kind).unwrap().group;
            KindToRead::rank(group, kind)
        };
        for (owner, owned) in [
            ("NodePool", "NodeClaim"),
            ("NodeClaim", "Node"),
            ("Node", "CSINode"),
            ("Node", "Pod"),
            ("Deployment", "ReplicaSet"),
            ("ReplicaSet", "Pod"),
            ("StatefulSet", "Pod"),
            ("CronJob", "Job"),
            ("Job", "Pod"),
            ("Namespace", "Pod"),
        ] {
            assert!(rank(owner) < rank(owned), "{owner} before {owned}");
        }
        let unknown = KindToRead::rank("example.com", "Gadget");
        assert!(unknown > rank("PodDisruptionBudget") && unknown < rank("Pod"));
    }
}
