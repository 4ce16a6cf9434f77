//! Disruption budgets that never open, never close, or can't be read.
//!
//! Whether budgets ever open is found by walking from the end of one closed window to the next, over four years (one of them
//! a leap year) or, if all schedules repeat daily, over a few days.

use joiner_api::duration::Duration;
use joiner_api::nodepool::Budget;
use joiner_api::schedule::Schedule;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::commands::lint::finding::{Hit, Severity};
use crate::commands::lint::subject::{PoolView, Subject};

/// Reasons that budgets govern.
const REASONS: [&str; 3] = ["Drifted", "Empty", "Underutilized"];
/// 2025-01-01T00:00:00Z: any start will do, but it must be the same each time.
const START: i64 = 1_735_689_600;
const DAY: i64 = 86_400;
/// From 2025 to the end of 2028.
const ALL_DAYS: i64 = 1461;
/// Windows walked before giving up without a finding.
const STEPS_MAX: usize = 60_000;

fn budgets<'p>(pool: &'p PoolView) -> impl Iterator<Item = (usize, &'p Budget)> + Clone {
    pool.pool.spec.disruption.budgets.iter().flatten().enumerate()
}

fn path(at: usize, field: &str) -> String {
    format!("spec.disruption.budgets[{at}].{field}")
}

/// A closed window that comes again and again, or (`None`) one that never ends.
#[derive(Debug)]
struct Closed {
    window: Option<(Schedule, SignedDuration)>,
}

/// Whether a budget allows nothing while it is in force, and when that is; `None` for budgets that allow something, and for those
/// that another rule of this file is about.
fn closed(budget: &Budget) -> Option<Closed> {
    let nodes = budget.nodes.trim_end_matches('%').trim_start_matches('+');
    if nodes.starts_with('-') || nodes.is_empty() || !nodes.bytes().all(|byte| byte == b'0') {
        return None;
    }
    let Some(text) = &budget.schedule else { return Some(Closed { window: None }) };
    let schedule = Schedule::parse(text).ok()?;
    let duration = Duration::parse(budget.duration.as_deref()?).ok()?.to_signed_duration();
    let never = schedule.next_after(start()).is_none();
    (!never && duration > SignedDuration::ZERO).then_some(Closed { window: Some((schedule, duration)) })
}

fn start() -> Timestamp {
    Timestamp::from_second(START).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Whether these windows leave no instant open.
fn always(closed: &[Closed]) -> bool {
    if closed.iter().any(|closed| closed.window.is_none()) {
        return true;
    }
    let windows: Vec<&(Schedule, SignedDuration)> =
        closed.iter().filter_map(|closed| closed.window.as_ref()).collect();
    let daily = |schedule: &Schedule| {
        let fields: Vec<&str> = schedule.as_str().split_whitespace().collect();
        matches!(fields.as_slice(), [_, _, "*" | "?", "*" | "?", "*" | "?"])
            || matches!(fields.as_slice(), ["@hourly" | "@daily" | "@midnight"])
    };
    let days = if windows.iter().all(|(schedule, _)| daily(schedule)) { 3 } else { ALL_DAYS };
    // Windows that began before count from the start on.
    let mut now = start();
    let Ok(end) = Timestamp::from_second(START + days * DAY) else { return false };
    for _ in 0..STEPS_MAX {
        if now >= end {
            return true;
        }
        // The first hit later than `now - duration` opens the earliest window that may still be open.
        let ends = windows.iter().filter_map(|(schedule, duration)| {
            let hit = schedule.next_after(now.checked_sub(*duration).ok()?)?;
            (hit <= now).then(|| hit.checked_add(*duration).ok()).flatten()
        });
        match ends.max() {
            Some(until) if until > now => now = until,
            _ => return false,
        }
    }
    false
}

/// Budgets that together allow nothing at any time.
pub fn never_opens(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        let shut: Vec<&str> = REASONS
            .into_iter()
            .filter(|reason| {
                let covers = |budget: &Budget| {
                    budget.reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|r| r == reason))
                };
                let of_reason = budgets(pool).filter(|(_, budget)| covers(budget));
                let windows: Vec<Closed> = of_reason.filter_map(|(_, budget)| closed(budget)).collect();
                !windows.is_empty() && always(&windows)
            })
            .collect();
        let Some((at, _)) = budgets(pool).find(|(_, budget)| closed(budget).is_some()) else { continue };
        if shut.len() == REASONS.len() {
            hits.push(Hit::new(
                pool.object,
                path(at, "nodes"),
                "at no time may a node of the pool be disrupted: drifted nodes stay, empty ones too",
                "allow some nodes, or give the budget a schedule and a duration that leave time open",
            ));
        } else if !shut.is_empty() {
            hits.push(
                Hit::new(
                    pool.object,
                    path(at, "nodes"),
                    format!(
                        "at no time may a node of the pool be disrupted because it is {}",
                        shut.join(" or ")
                    ),
                    "fine if meant; otherwise allow some nodes or limit the budget to a schedule",
                )
                .with(Severity::Note),
            );
        }
    }
    hits
}

/// Budgets that are never in force.
pub fn never_applies(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        for (at, budget) in budgets(pool) {
            let duration = budget.duration.as_deref().and_then(|text| Duration::parse(text).ok());
            if duration.is_some_and(|duration| duration.to_signed_duration() <= SignedDuration::ZERO) {
                hits.push(Hit::new(
                    pool.object,
                    path(at, "duration"),
                    "a window of no length: the budget is never in force",
                    "write how long it applies from each time of the schedule, e.g. `8h`",
                ));
            }
            if budget.reasons.as_ref().is_some_and(Vec::is_empty) {
                hits.push(Hit::new(
                    pool.object,
                    path(at, "reasons"),
                    "an empty list means no reason: the budget never applies",
                    "leave `reasons` out to mean every reason",
                ));
            }
        }
    }
    hits
}

/// Schedules with a date that never comes.
pub fn never_fires(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        for (at, budget) in budgets(pool) {
            let Some(text) = &budget.schedule else { continue };
            if Schedule::parse(text).is_ok_and(|schedule| schedule.next_after(start()).is_none()) {
                hits.push(Hit::new(
                    pool.object,
                    path(at, "schedule"),
                    format!(
                        "`{text}` never comes, which counts as always: at most {} nodes at any time",
                        budget.nodes
                    ),
                    "write a date that exists, or leave `schedule` and `duration` out",
                ));
            }
        }
    }
    hits
}

/// Schedules that can't be read.
pub fn unreadable(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        for (at, budget) in budgets(pool) {
            // What the pattern of the API refuses is told with the other fields it refuses.
            let passes = |text: &&String| joiner_api::schedule::matches_pattern(text);
            if let Some(Err(error)) =
                budget.schedule.as_ref().filter(passes).map(|text| Schedule::parse(text))
            {
                hits.push(Hit::new(
                    pool.object,
                    path(at, "schedule"),
                    format!("{error}; until it can be read, no node of the pool may be disrupted"),
                    "write five cron fields in UTC (day of week 0 to 6) or a macro such as `@daily`",
                ));
            }
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shut(windows: &[(&str, &str)]) -> bool {
        let budgets = windows.iter().map(|(schedule, duration)| Budget {
            nodes: "0".to_owned(),
            schedule: Some((*schedule).to_owned()),
            duration: Some((*duration).to_owned()),
            ..Budget::default()
        });
        let windows: Vec<Closed> = budgets.filter_map(|budget| closed(&budget)).collect();
        assert!(!windows.is_empty());
        always(&windows)
    }

    #[test]
    fn windows_that_leave_nothing_open() {
        assert!(shut(&[("@daily", "24h")]));
        assert!(shut(&[("0 0 * * *", "12h"), ("0 12 * * *", "12h")]));
        assert!(shut(&[("0 8 * * *", "24h")]));
        assert!(shut(&[("* * * * *", "1m")]));
        assert!(shut(&[("0 0 * * 1-5", "24h"), ("0 0 * * 0,6", "24h")]));
        assert!(shut(&[("0 0 1 * *", "744h")]));
        assert!(shut(&[("0 0 * * 0", "168h")]));
    }

    #[test]
    fn windows_that_leave_time_open() {
        assert!(!shut(&[("@daily", "23h59m")]));
        assert!(!shut(&[("0 0 * * *", "12h"), ("1 12 * * *", "12h")]));
        assert!(!shut(&[("0 0 * * 1-5", "24h")]));
        assert!(!shut(&[("0 0 1 * *", "720h")]));
        assert!(!shut(&[("0 9 * * mon-fri", "8h")]));
        assert!(!shut(&[("0 0 1 1 *", "24h")]));
    }

    #[test]
    fn only_zero_closes() {
        for (nodes, closes) in
            [("0", true), ("0%", true), ("00", true), ("1", false), ("10%", false), ("-1", false)]
        {
            let budget = Budget { nodes: nodes.to_owned(), ..Budget::default() };
            assert_eq!(closed(&budget).is_some(), closes, "{nodes}");
        }
    }
}
