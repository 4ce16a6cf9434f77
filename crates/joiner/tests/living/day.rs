//! A day of many services, made from a seed: scalings spread over twenty-four hours that follow the sun, with chance in their
//! size.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::deeds::Hands;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Services among which scalings are spread.
const SERVICES: usize = 25;
/// Pods of one CPU that a machine of four takes.
const PODS_PER_NODE: usize = 3;

/// What a day is made from.
pub(crate) struct Day {
    pub(crate) seed: u64,
    /// Nodes that are needed at noon, about.
    pub(crate) nodes: usize,
    /// How often a service is scaled.
    pub(crate) scalings: usize,
}

/// A service gets so many replicas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scaling {
    pub(crate) after: Duration,
    pub(crate) service: usize,
    pub(crate) replicas: usize,
}

impl Day {
    fn services(&self) -> usize {
        SERVICES.min(self.nodes * PODS_PER_NODE)
    }

    /// Scalings in the order of time.
    pub(crate) fn scalings(&self) -> Vec<Scaling> {
        let mut chance = ChaCha8Rng::seed_from_u64(self.seed);
        let pods = self.nodes * PODS_PER_NODE;
        // Some services are large, most are not.
        let weights: Vec<f64> =
            (0..self.services()).map(|_| chance.random_range(0.2_f64..2.0).powi(2)).collect();
        let total: f64 = weights.iter().sum();
        let mut moments: Vec<Duration> = (0..self.scalings)
            .map(|_| Duration::from_millis(chance.random_range(0..DAY.as_millis() as u64)))
            .collect();
        moments.sort_unstable();
        let scale = |after: Duration| {
            let service = chance.random_range(0..weights.len());
            let share = pods as f64 * weights[service] / total;
            let replicas = share * (0.25 + 0.75 * daylight(after)) * chance.random_range(0.8..1.2);
            Scaling { after, service, replicas: (replicas.round() as usize).max(1) }
        };
        moments.into_iter().map(scale).collect()
    }

    fn objects(&self) -> Vec<Value> {
        let requirement =
            |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
        let mut objects = vec![
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
                "spec": {
                    "template": {"spec": {
                        "requirements": [
                            requirement("kubernetes.io/arch", &["amd64"]),
                            requirement("kubernetes.io/os", &["linux"]),
                            requirement("karpenter.sh/capacity-type", &["spot", "on-demand"]),
                            requirement("node.kubernetes.io/instance-type", &["c-4x-amd64-linux"]),
                        ],
                        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                        "expireAfter": "Never",
                    }},
                    "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"},
                },
            }),
            json!({
                "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
                "spec": {"nodeRegistrationDelay": "30s"},
            }),
        ];
        objects.extend((0..self.services()).map(|number| {
            let app = format!("service-{number:02}");
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
                "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": app}},
                    "template": {
                        "metadata": {"labels": {"app": app}},
                        "spec": {"containers": [{
                            "name": "main", "image": "example.com/app:1",
                            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                        }]},
                    },
                },
            })
        }));
        objects
    }

    /// Lives it from six to six.
    pub(crate) async fn live(&self, hands: &mut Hands) {
        for object in self.objects() {
            hands.apply_one(&object).await;
        }
        let mut hour = 0;
        for scaling in self.scalings() {
            hands.wait_until(scaling.after).await;
            hands.scale("Deployment", &format!("service-{:02}", scaling.service), scaling.replicas).await;
            if scaling.after.as_secs() / 3600 > hour {
                hour = scaling.after.as_secs() / 3600;
                hands.note().await;
            }
        }
        hands.wait_until(DAY).await;
    }
}

/// How high the sun stands, from 0 to 1; the day begins at six.
fn daylight(after: Duration) -> f64 {
    (after.as_secs_f64() / DAY.as_secs_f64() * std::f64::consts::TAU).sin().max(0.0)
}

#[test]
fn a_day_follows_from_its_seed() {
    let day = |seed| Day { seed, nodes: 100, scalings: 1000 }.scalings();
    assert_eq!(day(1), day(1));
    assert_ne!(day(1), day(2));
    let scalings = day(1);
    assert_eq!(scalings.len(), 1000);
    assert!(scalings.is_sorted_by_key(|scaling| scaling.after));
    let mean = |hours: std::ops::Range<u64>| {
        let then: Vec<usize> = scalings
            .iter()
            .filter(|scaling| hours.contains(&(scaling.after.as_secs() / 3600)))
            .map(|scaling| scaling.replicas)
            .collect();
        then.iter().sum::<usize>() / then.len()
    };
    assert!(mean(4..8) > 2 * mean(14..22), "noon is not midnight");
}
