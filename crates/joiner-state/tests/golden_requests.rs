//! What pods ask for, against recorded answers.

use std::collections::BTreeMap;

use joiner_api::quantity::Quantity;
use joiner_state::requests::{Limits, pod_requests};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

const DATA: &str = include_str!("data/pod-requests.jsonl");

/// The recording leaves out fields of container statuses that a typed status cannot do without.
fn complete(pod: &mut Value) {
    for list in ["containerStatuses", "initContainerStatuses"] {
        for status in pod["status"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for (field, value) in [
                ("image", "".into()),
                ("imageID", "".into()),
                ("ready", true.into()),
                ("restartCount", 0.into()),
            ] {
                status[field] = value;
            }
        }
    }
}

#[test]
fn recorded_requests() {
    let mut lines = 0;
    for line in DATA.lines() {
        lines += 1;
        let mut line: Value = serde_json::from_str(line).expect("a line of JSON");
        let note = line["note"].as_str().expect("a note").to_owned();
        if line["pod"].get("status").is_some() {
            complete(&mut line["pod"]);
        }
        let pod: Pod = serde_json::from_value(line["pod"].clone()).expect(&note);
        let ours =
            pod_requests(&pod.spec.expect("a spec"), pod.status.as_ref(), Limits::Ignored).expect(&note);
        let recorded: BTreeMap<Box<str>, i64> = line["requests"]
            .as_object()
            .expect("requests")
            .iter()
            .map(|(name, text)| {
                let quantity = Quantity::parse(text.as_str().expect("a text")).expect("a quantity");
                let amount = if name == "cpu" { quantity.milli() } else { quantity.value() };
                (name.as_str().into(), amount.expect("in range"))
            })
            .collect();
        assert_eq!(ours, recorded, "{note}");
    }
    assert_eq!(lines, 63);
}
