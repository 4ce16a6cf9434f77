//! Other autoscalers, known by their pods: `run` does not act beside one, and `doctor` names it.

use serde_json::Value;

/// Label selectors under which charts and manifests put autoscalers.
pub const SELECTORS: [&str; 3] = [
    "app.kubernetes.io/name in (karpenter, cluster-autoscaler, aws-cluster-autoscaler, azure-cluster-autoscaler, gce-cluster-autoscaler, \
     clusterapi-cluster-autoscaler, magnum-cluster-autoscaler)",
    "app=cluster-autoscaler",
    "k8s-app=cluster-autoscaler",
];

/// What an image is, if it is an autoscaler's.
pub fn of_image(image: &str) -> Option<&'static str> {
    let name = image.split(['@']).next().unwrap_or_default();
    // A colon before the last slash belongs to a port.
    let path = match name.rsplit_once('/') {
        Some((place, last)) => format!("{place}/{}", last.split(':').next().unwrap_or_default()),
        None => name.split(':').next().unwrap_or_default().to_owned(),
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    match last {
        _ if path.contains("joiner") => None,
        _ if last.starts_with("cluster-autoscaler") => Some("the cluster-autoscaler"),
        "karpenter" => Some("Karpenter"),
        "controller" if path.contains("karpenter") => Some("Karpenter"),
        _ => None,
    }
}

/// What the template of a workload, or a pod, runs.
pub fn of_pod_spec(spec: &Value) -> Option<&'static str> {
    spec["containers"].as_array()?.iter().find_map(|container| of_image(container["image"].as_str()?))
}

/// An autoscaler that a pod runs: what it is, and the pod. One that has ended does nothing any more.
pub fn of_pod(pod: &Value) -> Option<String> {
    let what = of_pod_spec(&pod["spec"])?;
    let over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let name = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    (!over).then(|| format!("{what} (pod {}/{})", name("namespace"), name("name")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn autoscalers_are_known_by_their_images() {
        for (image, what) in [
            ("registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0", Some("the cluster-autoscaler")),
            ("localhost:5000/cluster-autoscaler-arm64@sha256:0123", Some("the cluster-autoscaler")),
            ("public.ecr.aws/karpenter/controller:1.9.0@sha256:0123", Some("Karpenter")),
            ("localhost:5000/dev/karpenter", Some("Karpenter")),
            ("ghcr.io/joiner-sh/joiner:0.1.0", None),
            ("ghcr.io/example/controller:1", None),
            ("pause", None),
        ] {
            assert_eq!(of_image(image), what, "{image}");
        }
    }

    #[test]
    fn pods_that_have_ended_do_nothing() {
        let pod = |phase: &str| {
            json!({"metadata": {"namespace": "kube-system", "name": "ca-1"},
                "spec": {"containers": [{"image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1"}]},
                "status": {"phase": phase}})
        };
        assert_eq!(of_pod(&pod("Running")).as_deref(), Some("the cluster-autoscaler (pod kube-system/ca-1)"));
        assert_eq!(of_pod(&pod("Succeeded")), None);
    }
}
