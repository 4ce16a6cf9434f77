//! Recorded answers of Kubernetes' own libraries: quantities, pod requests and tolerations.

use joiner_oracle::checker::covers;
use joiner_oracle::read::pod_requests;
use joiner_oracle::read::quantity::Quantity;
use joiner_oracle::world::{Taint, Toleration};
use serde_json::Value;

fn lines(text: &str) -> impl Iterator<Item = Value> + '_ {
    text.lines().map(|line| serde_json::from_str(line).expect("test data is JSON"))
}

#[test]
fn quantities() {
    let mut checked = 0;
    for case in lines(include_str!("data/quantities.jsonl")) {
        let Some(text) = case["in"].as_str() else { continue };
        let read = Quantity::parse(text);
        if case["ok"] == false {
            assert!(read.is_err(), "`{text}` should be refused");
            checked += 1;
            continue;
        }
        // Upstream reads a text without a number before the suffix (`-`, `.`, `e3`) as zero; here it is refused.
        if !text.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit()) {
            assert!(read.is_err(), "`{text}` says no number");
            continue;
        }
        // Amounts no machine has may be refused or differ: upstream caps them.
        let exact = case["exact"].as_str().expect("exact");
        if exact.parse::<f64>().expect("number").abs() > 9.2e18 {
            continue;
        }
        let quantity = read.unwrap_or_else(|why| panic!("{why}"));
        let (whole, fraction) = exact.split_once('.').unwrap_or((exact, ""));
        let billionths: i128 = format!("{whole}{fraction:0<9}").parse().expect("at most nine decimals");
        let up = |divisor: i128| billionths / divisor + (billionths % divisor).signum();
        assert_eq!(quantity.units(), up(1_000_000_000), "units of `{text}`");
        assert_eq!(quantity.milli(), up(1_000_000), "thousandths of `{text}`");
        // `value` and `milli` of the record wrap around for large amounts, so the exact text decides; small ones must agree.
        if let (Some(value), true) =
            (case["value"].as_i64(), up(1_000_000_000).abs() < 1 << 33 && text != "-0.5n")
        {
            assert_eq!(quantity.units(), i128::from(value), "value of `{text}`");
        }
        assert_eq!(
            quantity.canonical(),
            case["canonical"].as_str().expect("canonical"),
            "canonical `{text}`"
        );
        checked += 1;
    }
    assert!(checked > 400, "only {checked} cases");
}

#[test]
fn requests_of_pods() {
    let mut checked = 0;
    for case in lines(include_str!("data/pod-requests.jsonl")) {
        let expected = case["requests"]
            .as_object()
            .expect("requests")
            .iter()
            .map(|(name, amount)| {
                let amount = Quantity::parse(amount.as_str().expect("text")).expect("a quantity");
                (name.clone(), amount.in_unit_of(name))
            })
            .collect();
        assert_eq!(pod_requests(&case["pod"]), Ok(expected), "{}", case["note"]);
        checked += 1;
    }
    assert_eq!(checked, 63);
}

#[test]
fn tolerations() {
    let word = |value: &Value, field: &str| value[field].as_str().map(str::to_owned);
    let mut checked = 0;
    for case in lines(include_str!("data/taints.jsonl")) {
        let taints = case["taints"].as_array().cloned().unwrap_or_default();
        let tolerations: Vec<Toleration> = case["tolerations"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| Toleration {
                key: word(item, "key"),
                operator: word(item, "operator").unwrap_or_default(),
                value: word(item, "value").unwrap_or_default(),
                effect: word(item, "effect"),
            })
            .collect();
        let tolerated = taints.iter().all(|item| {
            let taint = Taint {
                key: word(item, "key").unwrap_or_default(),
                value: word(item, "value").unwrap_or_default(),
                effect: word(item, "effect").unwrap_or_default(),
            };
            tolerations.iter().any(|toleration| covers(toleration, &taint))
        });
        assert_eq!(Some(tolerated), case["tolerated"].as_bool(), "{case}");
        checked += 1;
    }
    assert_eq!(checked, 410);
}
