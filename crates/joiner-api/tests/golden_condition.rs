//! Status conditions against recorded sequences of changes.

use jiff::{SignedDuration, Timestamp};
use joiner_api::condition::{ConditionSet, ConditionTypes, Status, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

fn stored(conditions: &[Condition], created: Timestamp) -> Value {
    let list = conditions.iter().map(|condition| {
        json!({
            "type": condition.type_,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "at": condition.last_transition_time.0.as_second() - created.as_second(),
            "observedGeneration": condition.observed_generation,
        })
    });
    Value::Array(list.collect())
}

#[test]
fn every_recorded_sequence_agrees() {
    let text = include_str!("data/golden/conditions.jsonl");
    assert_eq!(text.lines().count(), 19);
    let created: Timestamp = "2026-01-01T00:00:00Z".parse().expect("instant");
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("golden lines are JSON");
        let types = match line["kind"].as_str() {
            Some("NodeClaim") => ConditionTypes::NODE_CLAIM,
            Some("NodePool") => ConditionTypes::NODE_POOL,
            Some("KWOKNodeClass") => ConditionTypes::ROOT_ONLY,
            other => panic!("unknown kind {other:?}"),
        };
        let first =
            SignedDuration::from_secs(line["firstStepSecondsAfterCreation"].as_i64().expect("offset"));
        let mut subject = Subject { created, generation: 1, deleting: false, now: created + first };
        let mut conditions = Vec::new();
        for (index, step) in line["steps"].as_array().expect("steps").iter().enumerate() {
            let context = format!("{} step {index}: {}", line["name"], step["op"]);
            let text = |key: &str| step[key].as_str().unwrap_or_default();
            match text("op") {
                "advance" => subject.now += SignedDuration::from_secs(step["n"].as_i64().expect("seconds")),
                "generation" => subject.generation = step["n"].as_i64().expect("generation"),
                "delete" => subject.deleting = true,
                operation => {
                    let mut set = ConditionSet::open(types, subject, &mut conditions);
                    let (condition_type, reason, message) = (text("type"), text("reason"), text("message"));
                    let modified = match operation {
                        "read" => None,
                        "true" => Some(set.set_true(condition_type)),
                        "trueWithReason" => Some(set.set(condition_type, Status::True, reason, message)),
                        "false" => Some(set.set_false(condition_type, reason, message)),
                        "unknown" => Some(set.set_unknown(condition_type)),
                        "unknownWithReason" => {
                            Some(set.set(condition_type, Status::Unknown, reason, message))
                        }
                        "clear" => {
                            let refused = set.clear(condition_type).is_err();
                            assert_eq!(refused, step["error"].is_string(), "{context}");
                            None
                        }
                        other => panic!("unknown step {other}"),
                    };
                    if let Some(modified) = modified {
                        assert_eq!(step["modified"], modified, "{context}");
                    }
                }
            }
            assert_eq!(stored(&conditions, created), step["conditions"], "{context}");
        }
    }
}

#[test]
fn stored_times_have_whole_seconds() {
    let created: Timestamp = "2026-01-01T00:00:00.25Z".parse().expect("instant");
    let now: Timestamp = "2026-01-01T00:00:07.999Z".parse().expect("instant");
    let mut conditions = Vec::new();
    let subject = Subject { created, generation: 1, deleting: false, now };
    ConditionSet::open(ConditionTypes::NODE_POOL, subject, &mut conditions)
        .set_true("NodeRegistrationHealthy");
    let times: Vec<String> =
        conditions.iter().map(|condition| condition.last_transition_time.0.to_string()).collect();
    assert_eq!(
        times,
        ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z", "2026-01-01T00:00:00Z"]
    );
}

#[test]
fn clearing_what_readiness_needs_is_refused_with_a_remedy() {
    let subject = Subject {
        created: Timestamp::UNIX_EPOCH,
        generation: 1,
        deleting: false,
        now: Timestamp::UNIX_EPOCH,
    };
    let mut conditions = Vec::new();
    let mut set = ConditionSet::open(ConditionTypes::NODE_CLAIM, subject, &mut conditions);
    assert_eq!(
        set.clear("Launched").expect_err("refused").to_string(),
        "condition `Launched` cannot be cleared: readiness depends on it; set it to Unknown instead"
    );
    assert_eq!(set.clear("Drifted"), Ok(false));
    assert_eq!((set.status("Launched"), set.status("Nonsense")), (Status::Unknown, Status::Unknown));
}
