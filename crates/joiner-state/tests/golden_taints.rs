//! Taints and tolerations, against recorded answers.

use joiner_core::model::taint::untolerated;
use joiner_core::model::{Effect, Taint, Toleration, TolerationOperator};
use joiner_state::is_ephemeral;
use serde_json::Value;

const DATA: &str = include_str!("data/taints.jsonl");

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

#[test]
fn recorded_verdicts() {
    let mut lines = 0;
    for line in DATA.lines() {
        lines += 1;
        let case: Value = serde_json::from_str(line).expect("a line of JSON");
        let taints: Vec<Taint> = case["taints"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|t| Taint {
                key: text(t, "key").into(),
                value: text(t, "value").into(),
                effect: Effect::parse(text(t, "effect")).expect("a known effect"),
            })
            .collect();
        let tolerations: Vec<Toleration> = case["tolerations"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|t| Toleration {
                key: text(t, "key").into(),
                operator: match text(t, "operator") {
                    "" | "Equal" => TolerationOperator::Equal,
                    "Exists" => TolerationOperator::Exists,
                    "Lt" => TolerationOperator::Lt,
                    "Gt" => TolerationOperator::Gt,
                    _ => TolerationOperator::Unknown,
                },
                value: text(t, "value").into(),
                effect: match text(t, "effect") {
                    "" => None,
                    other => Some(Effect::parse(other).expect("a known effect")),
                },
            })
            .collect();
        let tolerated = untolerated(&taints, &tolerations, false).is_none();
        assert_eq!(Some(tolerated), case["tolerated"].as_bool(), "{line}");
        let ephemeral: Vec<bool> = taints.iter().map(is_ephemeral).collect();
        let recorded: Vec<bool> =
            case["ephemeral"].as_array().into_iter().flatten().filter_map(Value::as_bool).collect();
        assert_eq!(ephemeral, recorded, "{line}");
    }
    assert_eq!(lines, 410);
}
