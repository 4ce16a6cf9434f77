//! The pods that are scaled up, and the pool that both autoscalers buy for.

use serde_json::{Value, json};

/// Pods of one size.
struct Shape {
    name: &'static str,
    percent: u32,
    requests: &'static [(&'static str, &'static str)],
}

/// What is scaled up in one run.
pub struct Workload {
    /// Its name in the table.
    pub name: &'static str,
    /// How many pods there are unless somebody says otherwise.
    pub pods: u32,
    /// One sentence for the page.
    pub about: &'static str,
    shapes: &'static [Shape],
}

/// Equal pods, and a mixture as services have it.
pub const ALL: [Workload; 2] = [
    Workload {
        name: "one-cpu",
        pods: 500,
        about: "pods of one CPU each",
        shapes: &[Shape { name: "one-cpu", percent: 100, requests: &[("cpu", "1")] }],
    },
    Workload {
        name: "mixed",
        pods: 2000,
        about: "40 % 250m/512Mi, 25 % 500m/1Gi, 15 % 1/6Gi, 15 % 2/2Gi, 5 % 3500m/14Gi",
        shapes: &[
            Shape { name: "tiny", percent: 40, requests: &[("cpu", "250m"), ("memory", "512Mi")] },
            Shape { name: "small", percent: 25, requests: &[("cpu", "500m"), ("memory", "1Gi")] },
            Shape { name: "hungry", percent: 15, requests: &[("cpu", "1"), ("memory", "6Gi")] },
            Shape { name: "busy", percent: 15, requests: &[("cpu", "2"), ("memory", "2Gi")] },
            Shape { name: "large", percent: 5, requests: &[("cpu", "3500m"), ("memory", "14Gi")] },
        ],
    },
];

impl Workload {
    /// The Deployments that make so many pods.
    pub fn deployments(&self, pods: u32) -> Vec<Value> {
        let mut left = pods;
        let mut all = Vec::with_capacity(self.shapes.len());
        for (number, shape) in self.shapes.iter().enumerate() {
            // What rounding leaves over goes to the last.
            let last = number + 1 == self.shapes.len();
            let replicas = if last { left } else { pods * shape.percent / 100 };
            left -= replicas;
            let requests: Value =
                shape.requests.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount))).collect();
            let labels = json!({"app": shape.name});
            all.push(json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": shape.name},
                "spec": {
                    "replicas": replicas, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {
                        "terminationGracePeriodSeconds": 0,
                        "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}],
                    }},
                },
            }));
        }
        all
    }
}

/// The node class and the pool: on-demand, amd64, machines below 32 CPUs.
pub fn pool() -> [(&'static str, Value); 2] {
    let only = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let requirements = json!([
        only("karpenter.sh/capacity-type", "on-demand"),
        only("kubernetes.io/arch", "amd64"),
        only("kubernetes.io/os", "linux"),
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["32"]},
    ]);
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
    });
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            }},
            "disruption": {"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]},
        },
    });
    [("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", class), ("/apis/karpenter.sh/v1/nodepools", pool)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for workload in &ALL {
            for pods in [1, 7, 200, workload.pods] {
                let made = workload.deployments(pods);
                let sum: u64 = made.iter().filter_map(|one| one["spec"]["replicas"].as_u64()).sum();
                assert_eq!(sum, u64::from(pods), "{} of {pods}", workload.name);
            }
        }
        let mixed: Vec<_> =
            ALL[1].deployments(2000).iter().map(|one| one["spec"]["replicas"].clone()).collect();
        assert_eq!(mixed, [800, 500, 300, 300, 100]);
    }
}
