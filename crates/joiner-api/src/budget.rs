//! How many nodes of a pool may be disrupted at an instant, for a reason.
//!
//! A pool has a list of budgets; the smallest one that speaks about the reason and is in force counts. A
//! budget with a schedule is in force in the windows `[hit, hit + duration)`. Reading is kept apart from
//! evaluating: a [`Budgets`] is made once per version of the pool and asked as often as needed.
//!
//! The list fails closed: one budget that cannot be read allows nothing for any reason, whatever the others
//! say, because the unreadable one may have been the one that protects.

use jiff::{SignedDuration, Timestamp};

use crate::duration::{self, Duration};
use crate::nodepool::Budget;
use crate::schedule::{self, Schedule};

/// Why a budget cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `nodes` is neither a number nor a percentage.
    #[error("budget has `nodes` of `{0}`; write a number of nodes such as `5` or a share such as `10%`")]
    Nodes(String),
    /// `schedule` cannot be read.
    #[error("budget has a bad `schedule`: {0}")]
    Schedule(#[from] schedule::Error),
    /// `duration` cannot be read.
    #[error("budget has a bad `duration`: {0}")]
    Duration(#[from] duration::Error),
    /// A `duration` without a `schedule`.
    #[error("budget has a `duration` of `{0}` but no `schedule`; set both or neither")]
    DurationAlone(String),
}

/// How many nodes may be disrupted. Ordered: any number is less than no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowance {
    /// So many at a time.
    AtMost(u64),
    /// No budget says anything.
    Unlimited,
}

impl Allowance {
    /// Nothing may be disrupted.
    pub const NOTHING: Allowance = Allowance::AtMost(0);

    /// What is left when so many nodes are already being disrupted or are not ready.
    pub fn remaining(self, used: u64) -> Allowance {
        match self {
            Allowance::AtMost(limit) => Allowance::AtMost(limit.saturating_sub(used)),
            Allowance::Unlimited => Allowance::Unlimited,
        }
    }

    /// The limit as a number, no limit being the largest.
    pub fn as_u64(self) -> u64 {
        match self {
            Allowance::AtMost(limit) => limit,
            Allowance::Unlimited => u64::MAX,
        }
    }
}

/// One budget, read.
#[derive(Debug, Clone)]
pub struct CompiledBudget {
    nodes: Result<Nodes, Error>,
    /// `None` speaks about every reason, an empty list about none.
    reasons: Option<Vec<String>>,
    window: Result<Option<Window>, Error>,
}

#[derive(Debug, Clone, Copy)]
enum Nodes {
    Count(u64),
    Percent(u64),
}

#[derive(Debug, Clone)]
struct Window {
    schedule: Schedule,
    duration: SignedDuration,
}

impl CompiledBudget {
    /// Reads a budget. What cannot be read is reported when the budget is asked.
    pub fn compile(budget: &Budget) -> CompiledBudget {
        CompiledBudget {
            nodes: Nodes::parse(&budget.nodes),
            reasons: budget.reasons.clone(),
            window: Window::parse(budget.schedule.as_deref(), budget.duration.as_deref()),
        }
    }

    /// True when the budget speaks about this reason.
    pub fn covers(&self, reason: &str) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|covered| covered == reason))
    }

    /// True when the budget is in force.
    pub fn is_active(&self, now: Timestamp) -> Result<bool, Error> {
        match &self.window {
            Ok(None) => Ok(true),
            Ok(Some(window)) => Ok(window.contains(now)),
            Err(error) => Err(error.clone()),
        }
    }

    /// What this budget alone allows in a pool of so many nodes.
    ///
    /// A bad `nodes` in a budget that is not in force is no error.
    pub fn allowance(&self, nodes: u64, now: Timestamp) -> Result<Allowance, Error> {
        if !self.is_active(now)? {
            return Ok(Allowance::Unlimited);
        }
        match &self.nodes {
            Ok(Nodes::Count(count)) => Ok(Allowance::AtMost(*count)),
            // A started node counts whole: 10% of 11 nodes is 2.
            Ok(Nodes::Percent(percent)) => {
                let share = (u128::from(*percent) * u128::from(nodes)).div_ceil(100);
                Ok(Allowance::AtMost(u64::try_from(share).unwrap_or(u64::MAX)))
            }
            Err(error) => Err(error.clone()),
        }
    }
}

impl Nodes {
    fn parse(text: &str) -> Result<Nodes, Error> {
        let (number, percent) = match text.strip_suffix('%') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let (negative, digits) = match number.as_bytes().first() {
            Some(b'-') => (true, &number[1..]),
            Some(b'+') => (false, &number[1..]),
            _ => (false, number),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::Nodes(text.to_owned()));
        }
        // All digits: the only way to fail is to be larger than any pool. Less than nothing is nothing.
        let count = if negative { 0 } else { digits.parse().unwrap_or(u64::MAX) };
        Ok(if percent { Nodes::Percent(count) } else { Nodes::Count(count) })
    }
}

impl Window {
    fn parse(schedule: Option<&str>, duration: Option<&str>) -> Result<Option<Window>, Error> {
        let schedule = match (schedule, duration) {
            (None, None) => return Ok(None),
            (None, Some(duration)) => return Err(Error::DurationAlone(duration.to_owned())),
            (Some(schedule), _) => Schedule::parse(schedule)?,
        };
        // Without a duration every window is empty.
        let duration = duration.map_or(Ok(Duration::ZERO), Duration::parse)?.to_signed_duration();
        Ok(Some(Window { schedule, duration }))
    }

    /// A window is open if the first hit after `now − duration` has already been. A date that never comes
    /// counts as always open, which keeps the promise that a budget nobody can satisfy protects rather than
    /// exposes.
    fn contains(&self, now: Timestamp) -> bool {
        let from = now.checked_sub(self.duration).unwrap_or(Timestamp::MIN);
        self.schedule.next_after(from).is_none_or(|hit| hit <= now)
    }
}

/// All budgets of a pool, read.
#[derive(Debug, Clone, Default)]
pub struct Budgets(Vec<CompiledBudget>);

impl Budgets {
    /// Reads the budgets of a pool.
    pub fn compile(budgets: &[Budget]) -> Budgets {
        Budgets(budgets.iter().map(CompiledBudget::compile).collect())
    }

    /// The budgets one by one, in the order of the pool.
    pub fn iter(&self) -> std::slice::Iter<'_, CompiledBudget> {
        self.0.iter()
    }

    /// What all budgets together allow for a reason in a pool of so many nodes, or the first budget's error.
    pub fn try_allowed(&self, reason: &str, nodes: u64, now: Timestamp) -> Result<Allowance, Error> {
        let mut smallest = Allowance::Unlimited;
        for budget in &self.0 {
            // Evaluated before the reason is looked at: a broken budget of another reason closes this one
            // too.
            let allowance = budget.allowance(nodes, now)?;
            if budget.covers(reason) {
                smallest = smallest.min(allowance);
            }
        }
        Ok(smallest)
    }

    /// As [`Budgets::try_allowed`], with nothing allowed where a budget is broken.
    pub fn allowed(&self, reason: &str, nodes: u64, now: Timestamp) -> Allowance {
        self.try_allowed(reason, nodes, now).unwrap_or(Allowance::NOTHING)
    }
}

impl<'a> IntoIterator for &'a Budgets {
    type Item = &'a CompiledBudget;
    type IntoIter = std::slice::Iter<'a, CompiledBudget>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
