//! The last decisions as one ConfigMap, for whoever reads the API: `kubectl get configmap joiner-decisions -o jsonpath='{.data.decisions}'`.
//!
//! One object instead of an event per decision: events are cut at a kilobyte, hang on objects that go, and are forgotten after an hour. It is
//! bounded in size and written seldom, so it costs the server the same however much is decided.

use std::collections::BTreeMap;

use joiner_record::Ring;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

/// Its name.
pub const NAME: &str = "joiner-decisions";
/// Its key: decisions as JSON, one per line, newest first.
pub const KEY: &str = "decisions";
/// The text is no longer than this.
pub const MOST_BYTES: usize = 32 << 10;

/// The object that says what a ring holds, as much as there is room for.
pub fn of(ring: &Ring, namespace: &str) -> ConfigMap {
    let mut text = String::new();
    for decision in ring.newest_first() {
        // What is made of names and numbers can be written.
        let Ok(line) = serde_json::to_string(&**decision) else { continue };
        if text.len() + line.len() + 1 > MOST_BYTES {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(KEY.to_owned(), text), ("total".to_owned(), ring.total().to_string())])),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use joiner_record::{Decision, DecisionId, Subject, Verdict};

    #[test]
    fn the_newest_come_first_and_the_size_is_bounded() {
        let mut ring = Ring::new(10_000, usize::MAX);
        for number in 1..=1000 {
            ring.push(Decision {
                id: DecisionId { run: 0, number },
                time: Timestamp::UNIX_EPOCH,
                snapshot: number,
                verdict: Verdict::Terminated,
                subjects: vec![Subject::new("NodeClaim", "default-1x7q2", None)],
                more_subjects: 0,
                price: None,
                alternatives: Vec::new(),
                commands: Vec::new(),
                more_commands: 0,
                dry_run: false,
            });
        }
        let map = of(&ring, "kube-system");
        let data = map.data.unwrap();
        assert!(data[KEY].len() <= MOST_BYTES && data[KEY].len() > MOST_BYTES / 2);
        let read: Vec<Decision> = data[KEY].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read[0].id.number, 1000);
        assert_eq!(read[1].id.number, 999);
        assert_eq!(data["total"], "1000");
    }
}
