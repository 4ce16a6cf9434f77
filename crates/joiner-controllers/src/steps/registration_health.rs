//! Whether what a pool launched of late has also joined. The last results count; after a restart the pool's condition stands for them.

use std::collections::VecDeque;

use joiner_api::NodePool;
use joiner_api::condition::{ConditionSet, Status};
use joiner_api::names::conditions;

/// Results that count.
const RESULTS: usize = 4;
/// So many failures among them make a pool unhealthy, however few results there are.
const FAILURES: usize = 2;

/// Why a machine did not join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// One word in CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// The last results of a pool, newest last.
#[derive(Debug, Default)]
pub struct Results {
    joined: VecDeque<bool>,
    last_failure: Option<Failed>,
}

impl Results {
    /// A machine has joined, or it has not.
    pub fn add(&mut self, result: Result<(), Failed>) {
        self.joined.push_back(result.is_ok());
        if self.joined.len() > RESULTS {
            self.joined.pop_front();
        }
        if let Err(failed) = result {
            self.last_failure = Some(failed);
        }
    }

    /// What the results amount to.
    pub fn status(&self) -> Status {
        let failures = self.joined.iter().filter(|joined| !**joined).count();
        match (self.joined.is_empty(), failures >= FAILURES) {
            (true, _) => Status::Unknown,
            (false, true) => Status::False,
            (false, false) => Status::True,
        }
    }

    /// Begins anew when pool or class have changed since; after a restart, with what the pool's condition says.
    pub fn follow(&mut self, pool: &NodePool, class_generation: Option<i64>) {
        if is_outdated(pool, class_generation) {
            *self = Self::default();
        } else if self.joined.is_empty() {
            match stored(pool).map(Status::of) {
                Some(Status::True) => self.joined.push_back(true),
                Some(Status::False) => self.joined.extend([false; FAILURES]),
                _ => {}
            }
        }
    }
}

fn stored(pool: &NodePool) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let status = pool.status.as_ref()?;
    status.conditions.iter().find(|condition| condition.type_ == conditions::NODE_REGISTRATION_HEALTHY)
}

/// Whether the condition speaks of another template or another class than there are now. Without a class nothing is known anew.
fn is_outdated(pool: &NodePool, class_generation: Option<i64>) -> bool {
    let Some(class_generation) = class_generation else { return false };
    let observed = pool.status.as_ref().and_then(|status| status.node_class_observed_generation);
    stored(pool).is_none_or(|condition| condition.observed_generation != pool.metadata.generation)
        || observed != Some(class_generation)
}

/// Writes the health of a pool into its conditions. `class_generation` is that of its node class, if there is one.
pub fn tell(pool: &NodePool, results: &Results, class_generation: Option<i64>, set: &mut ConditionSet) {
    const TYPE: &str = conditions::NODE_REGISTRATION_HEALTHY;
    if is_outdated(pool, class_generation) {
        set.set_unknown(TYPE);
    }
    let status = results.status();
    if set.get(TYPE).is_none() || status == set.status(TYPE) {
        return;
    }
    match (status, &results.last_failure) {
        (Status::True, _) => drop(set.set_true(TYPE)),
        (Status::False, Some(Failed { reason, message })) => drop(set.set_false(TYPE, reason, message)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_api::condition::{ConditionTypes, Subject};
    use serde_json::{Value, json};

    fn failed() -> Result<(), Failed> {
        Err(Failed { reason: "RegistrationFailed".to_owned(), message: "no node".to_owned() })
    }

    #[test]
    fn two_failures_of_the_last_four_results_are_too_many() {
        let status = |results: &str| {
            let mut all = Results::default();
            for result in results.chars() {
                all.add(if result == '+' { Ok(()) } else { failed() });
            }
            all.status()
        };
        let cases = [
            ("", Status::Unknown),
            ("+", Status::True),
            ("-", Status::True),
            ("--", Status::False),
            ("-+-", Status::False),
            ("--++", Status::False),
            ("--+++", Status::True),
            ("-+++-", Status::True),
            ("++++--", Status::False),
        ];
        for (results, expected) in cases {
            assert_eq!(status(results), expected, "{results}");
        }
    }

    fn pool(generation: i64, status: Value) -> NodePool {
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "generation": generation},
            "spec": {"disruption": {}, "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}},
            "status": status}))
        .unwrap()
    }

    fn with(status: &str, of_pool: i64, of_class: i64) -> Value {
        json!({"nodeClassObservedGeneration": of_class, "conditions": [{"type": "NodeRegistrationHealthy", "status": status,
            "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": of_pool}]})
    }

    fn told(pool: &NodePool, results: &Results, class: Option<i64>) -> Option<(Status, String)> {
        let subject = Subject {
            created: "2026-01-01T00:00:00Z".parse().unwrap(),
            generation: pool.metadata.generation.unwrap(),
            deleting: false,
            now: "2026-01-01T00:00:09Z".parse().unwrap(),
        };
        let mut list = pool.status.clone().unwrap_or_default().conditions;
        let mut set = ConditionSet::open(ConditionTypes::NODE_POOL, subject, &mut list);
        tell(pool, results, class, &mut set);
        set.get(conditions::NODE_REGISTRATION_HEALTHY).map(|of| (Status::of(of), of.reason.clone()))
    }

    #[test]
    fn after_a_restart_the_condition_stands_for_the_results() {
        for (stored, more, expected) in
            [("True", 1, Status::True), ("True", 2, Status::False), ("False", 0, Status::False)]
        {
            let pool = pool(3, with(stored, 3, 2));
            let mut results = Results::default();
            results.follow(&pool, Some(2));
            (0..more).for_each(|_| results.add(failed()));
            results.follow(&pool, Some(2));
            assert_eq!(told(&pool, &results, Some(2)).unwrap().0, expected, "{stored} and {more} failures");
        }
    }

    #[test]
    fn another_template_or_class_begins_anew() {
        for (pool, class) in [
            (pool(4, with("False", 3, 2)), Some(2)),
            (pool(3, with("False", 3, 2)), Some(5)),
            (pool(3, json!({})), Some(2)),
        ] {
            let mut results = Results::default();
            (0..3).for_each(|_| results.add(failed()));
            results.follow(&pool, class);
            assert_eq!(results.status(), Status::Unknown);
            assert_eq!(
                told(&pool, &results, class).unwrap(),
                (Status::Unknown, "AwaitingReconciliation".to_owned())
            );
        }
        let unhealthy = pool(4, with("False", 3, 2));
        let mut results = Results::default();
        results.follow(&unhealthy, None);
        assert_eq!(
            told(&unhealthy, &results, None).unwrap(),
            (Status::False, "R".to_owned()),
            "nothing is known of the class"
        );
    }

    #[test]
    fn a_change_is_told_with_the_last_failure() {
        let healthy = pool(3, with("True", 3, 2));
        let mut results = Results::default();
        results.follow(&healthy, Some(2));
        results.add(failed());
        results.add(failed());
        assert_eq!(
            told(&healthy, &results, Some(2)).unwrap(),
            (Status::False, "RegistrationFailed".to_owned())
        );
    }
}
