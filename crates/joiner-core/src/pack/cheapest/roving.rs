//! Pods that may change their zone.
//!
//! The first pass deals pods that spread over zones out evenly, one zone after the other, without a look at what machines hold. A spread rule
//! allows more than that: which zones get one pod more than the others is open, and with a larger skew even how many more. In every zone
//! the last machine is partly empty, so moving a few pods can save one.
//!
//! What may move here are pods on which only spread rules of their own bear, all by the same key; and these rules count nobody but such
//! pods. Then the numbers per value decide whether a rule holds, and whoever keeps the numbers within its skew keeps the rule.

use std::rc::Rc;

use super::filling::Stock;
use super::mending::Draw;
use super::task::Task;
use crate::filter;
use crate::model::ids::{GroupIdx, ValueId};
use crate::pack::place::OwnSpread;

/// Pods alike, and the kinds they can be: one for every value of the key.
#[derive(Debug)]
pub(super) struct Rover {
    pub values: Rc<[ValueId]>,
    /// In the order of the values.
    pub kinds: Vec<u32>,
    /// The rules that count these pods.
    pub rules: Vec<u32>,
}

/// A spread rule with the numbers of pods it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub group: GroupIdx,
    domains: Rc<[ValueId]>,
    counts: Vec<i64>,
    max_skew: i64,
    min_domains: i64,
}

impl Rule {
    /// A rule of a pod's own, with the pods there are.
    pub fn new(own: OwnSpread, count: impl Fn(ValueId) -> u32) -> Self {
        Self {
            group: own.group,
            counts: own.domains.iter().map(|value| i64::from(count(*value))).collect(),
            domains: own.domains,
            max_skew: own.max_skew,
            min_domains: own.min_domains,
        }
    }

    /// Whether no value has more pods than the rule allows.
    pub fn holds(&self) -> bool {
        let least = self.counts.iter().copied().min();
        let floor = filter::spread_floor(least, self.counts.len(), self.min_domains);
        self.counts.iter().all(|count| count - floor <= self.max_skew)
    }

    fn shift(&mut self, from: ValueId, to: ValueId) {
        for (value, count) in self.domains.iter().zip(&mut self.counts) {
            *count += i64::from(*value == to) - i64::from(*value == from);
        }
    }
}

/// Moves some of what is in stock to other values, as far as all rules allow. Says whether it moved any.
pub(super) fn rove(task: &Task, stock: &mut Stock, rules: &mut [Rule], draw: &mut Draw) -> bool {
    let here: Vec<&Rover> = task
        .rovers
        .iter()
        .filter(|rover| rover.kinds.iter().any(|kind| stock.kinds[*kind as usize] > 0))
        .collect();
    if here.is_empty() {
        return false;
    }
    // To one value, so that another can do with less; or here and there.
    let some = here[draw.below(here.len() as u64) as usize];
    let at = some.kinds.iter().map(|kind| stock.kinds[*kind as usize]);
    let present: Vec<usize> = at.enumerate().filter(|(_, n)| *n > 0).map(|(at, _)| at).collect();
    let goal = some.values[present[draw.below(present.len() as u64) as usize]];
    let gather = draw.below(2) == 0;
    let mut moved = false;
    for rover in here {
        for from in 0..rover.kinds.len() {
            let mut n = stock.kinds[rover.kinds[from] as usize];
            if !gather {
                n = n.min(1);
            }
            for _ in 0..n {
                if draw.below(2) == 0 {
                    continue;
                }
                let to = match gather {
                    true => rover.values.iter().position(|value| *value == goal),
                    false => Some(draw.below(rover.kinds.len() as u64) as usize),
                };
                let Some(to) = to.filter(|to| *to != from) else { continue };
                if shift(rover, rules, from, to) {
                    move_one(task, stock, rover.kinds[from], rover.kinds[to]);
                    moved = true;
                }
            }
        }
    }
    moved
}

/// Counts one pod at another value if all rules still hold then.
fn shift(rover: &Rover, rules: &mut [Rule], from: usize, to: usize) -> bool {
    let (from, to) = (rover.values[from], rover.values[to]);
    for at in &rover.rules {
        rules[*at as usize].shift(from, to);
    }
    let holds = rover.rules.iter().all(|at| rules[*at as usize].holds());
    if !holds {
        for at in &rover.rules {
            rules[*at as usize].shift(to, from);
        }
    }
    holds
}

fn move_one(task: &Task, stock: &mut Stock, from: u32, to: u32) {
    let (from, to) = (from as usize, to as usize);
    stock.kinds[from] -= 1;
    stock.kinds[to] += 1;
    stock.shapes[task.kinds[from].shape as usize] -= 1;
    stock.shapes[task.kinds[to].shape as usize] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(max_skew: i64, min_domains: i64, counts: &[u32]) -> Rule {
        let domains: Rc<[ValueId]> = (0..counts.len() as u32).map(ValueId).collect();
        let own = OwnSpread { group: GroupIdx(0), max_skew, min_domains, domains };
        Rule::new(own, |value| counts[value.at()])
    }

    #[test]
    fn a_rule_holds_within_its_skew_of_the_least() {
        assert!(rule(1, 1, &[2, 1, 1]).holds());
        assert!(!rule(1, 1, &[3, 1, 2]).holds());
        assert!(rule(2, 1, &[3, 1, 2]).holds());
        // With fewer values than there should be the least counts as none.
        assert!(!rule(2, 4, &[3, 1, 2]).holds());
    }

    #[test]
    fn a_shift_that_breaks_a_rule_is_taken_back() {
        let mut rules = [rule(1, 1, &[2, 1, 1]), rule(2, 1, &[4, 2, 2])];
        let values: Rc<[ValueId]> = (0..3).map(ValueId).collect();
        let rover = Rover { values, kinds: vec![0, 1, 2], rules: vec![0, 1] };
        let before = rules.clone();
        assert!(!shift(&rover, &mut rules, 1, 0));
        assert_eq!(rules, before);
        assert!(shift(&rover, &mut rules, 0, 2));
        assert_eq!(rules, [rule(1, 1, &[1, 1, 2]), rule(2, 1, &[3, 2, 3])]);
    }
}
