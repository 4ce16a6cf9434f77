//! Disruption budgets against recorded evaluations.

use jiff::Timestamp;
use joiner_api::budget::{Allowance, Budgets, CompiledBudget};
use joiner_api::nodepool::Budget;
use serde_json::Value;

const REASONS: [&str; 3] = ["Drifted", "Empty", "Underutilized"];
/// Recorded numbers are 32 bits wide; the largest stands for no limit.
const NO_LIMIT: i64 = i32::MAX as i64;

fn budgets(line: &Value) -> Vec<Budget> {
    let list = line["budgets"].as_array().expect("budgets").iter().map(|budget| {
        let mut budget = budget.clone();
        if budget["emptyReasons"] == true {
            budget["reasons"] = Value::Array(Vec::new());
        }
        serde_json::from_value(budget).expect("budget")
    });
    list.collect()
}

/// A recorded allowance: null is no limit, and less than nothing is nothing.
fn recorded(value: &Value) -> Allowance {
    match value.as_i64() {
        None | Some(NO_LIMIT) => Allowance::Unlimited,
        Some(limit) => Allowance::AtMost(u64::try_from(limit).unwrap_or(0)),
    }
}

/// Our answer on the scale of the recordings.
fn on_recorded_scale(allowance: Allowance) -> Allowance {
    if allowance.as_u64() == NO_LIMIT as u64 { Allowance::Unlimited } else { allowance }
}

fn instant(line: &Value) -> Timestamp {
    line["now"].as_str().expect("now").parse().expect("instant")
}

#[test]
fn every_recorded_budget_agrees() {
    let text = include_str!("data/golden/budgets.jsonl");
    assert_eq!(text.lines().count(), 152);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("golden lines are JSON");
        let budgets = Budgets::compile(&budgets(&line));
        let (nodes, now) = (line["nodes"].as_u64().expect("nodes"), instant(&line));
        let reason = line["reason"].as_str().expect("reason");
        assert_eq!(
            on_recorded_scale(budgets.allowed(reason, nodes, now)),
            recorded(&line["allowed"]),
            "{line}"
        );
        assert_eq!(budgets.try_allowed(reason, nodes, now).is_err(), line["error"].is_string(), "{line}");
        let active: Vec<bool> = budgets.iter().map(|budget| budget.is_active(now).unwrap_or(false)).collect();
        assert_eq!(line["active"], Value::from(active), "{line}");
    }
}

/// Recorded answers that are wrong: a number of nodes above 2³¹−1 wrapped around and allowed nothing.
const WRAPPED: [(&str, u64); 1] = [("nodes \"2147483648\"", 2_147_483_648)];

#[test]
fn every_recorded_schedule_agrees() {
    let text = include_str!("data/golden/budget-schedules.jsonl");
    assert_eq!(text.lines().count(), 150);
    let mut exceptions = 0;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("golden lines are JSON");
        let (nodes, now) = (line["nodes"].as_u64().expect("nodes"), instant(&line));
        let list = budgets(&line);
        let all = Budgets::compile(&list);
        let wrapped = WRAPPED.iter().find(|(name, _)| line["name"] == *name);
        if let Some((_, limit)) = wrapped {
            assert_eq!(all.allowed("Empty", nodes, now), Allowance::AtMost(*limit), "{line}");
            exceptions += 1;
            continue;
        }
        for reason in REASONS {
            let allowed = on_recorded_scale(all.allowed(reason, nodes, now));
            assert_eq!(allowed, recorded(&line["allowed"][reason]), "{reason}: {line}");
            assert_eq!(line["error"], all.try_allowed(reason, nodes, now).is_err(), "{reason}: {line}");
        }
        for (budget, each) in list.iter().zip(line["each"].as_array().unwrap_or(&Vec::new())) {
            let budget = CompiledBudget::compile(budget);
            let allowance = budget.allowance(nodes, now);
            assert_eq!(each["error"].is_string(), allowance.is_err(), "{line}");
            let allowance = on_recorded_scale(allowance.unwrap_or(Allowance::NOTHING));
            assert_eq!(allowance, recorded(&each["allowed"]), "{line}");
            assert_eq!(each["active"] == true, budget.is_active(now).unwrap_or(false), "{line}");
        }
    }
    assert_eq!(exceptions, WRAPPED.len());
}

#[test]
fn numbers_beyond_every_pool_do_not_wrap() {
    let allowed = |nodes: &str| {
        let budget = Budget { nodes: nodes.to_owned(), ..Budget::default() };
        Budgets::compile(&[budget]).allowed("Empty", u64::MAX, Timestamp::UNIX_EPOCH)
    };
    assert_eq!(allowed("8589934592"), Allowance::AtMost(8_589_934_592));
    assert_eq!(allowed("99999999999999999999999"), Allowance::AtMost(u64::MAX));
    assert_eq!(allowed("18446744073709551615%"), Allowance::AtMost(u64::MAX));
    assert_eq!(allowed("-99999999999999999999999"), Allowance::NOTHING);
    assert_eq!(Allowance::AtMost(3).remaining(5), Allowance::NOTHING);
    assert_eq!(Allowance::Unlimited.remaining(5), Allowance::Unlimited);
}

#[test]
fn errors_say_which_field() {
    let error = |budget: Budget| {
        let result = CompiledBudget::compile(&budget).allowance(10, Timestamp::UNIX_EPOCH);
        result.expect_err("broken").to_string()
    };
    assert_eq!(
        error(Budget { nodes: "ten".into(), ..Budget::default() }),
        "budget has `nodes` of `ten`; write a number of nodes such as `5` or a share such as `10%`"
    );
    assert_eq!(
        error(Budget { duration: Some("1h".into()), ..Budget::default() }),
        "budget has a `duration` of `1h` but no `schedule`; set both or neither"
    );
    let soon = Budget { schedule: Some("@daily".into()), duration: Some("1d".into()), ..Budget::default() };
    assert!(error(soon).starts_with("budget has a bad `duration`: duration `1d` has an unknown unit"));
}

#[test]
fn a_window_is_open_exactly_from_each_hit_for_its_duration() {
    use proptest::prelude::*;
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(minute in 0_i64..60, length in 0_i64..120, offset in 0_i64..1_000_000)| {
        let budget = Budget {
            nodes: "0".to_owned(),
            schedule: Some(format!("{minute} * * * *")),
            duration: Some(format!("{length}m")),
            ..Budget::default()
        };
        let now = Timestamp::from_second(1_800_000_000 + offset).expect("in range");
        let since_hit = (now.as_second() - minute * 60).rem_euclid(3600);
        let active = CompiledBudget::compile(&budget).is_active(now).expect("valid");
        prop_assert_eq!(active, since_hit < length * 60);
    });
}
