//! Which offerings are left alone for a while because they could not be had: kept here, once, for all providers.
//!
//! A provider says what ran out ([`Scope`]) and perhaps for how long. Pauses that it does not name double with every failure in a row, up
//! to half an hour; a machine that was launched takes its offering's failures back. Pure: the moment is handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_api::nodepool::NodeClassReference;

use crate::{OfferingKey, Scope};

/// No pause that grows by itself is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// What could not be had of late, by provider.
#[derive(Debug)]
pub struct Health {
    first_pause: Duration,
    providers: BTreeMap<String, BTreeMap<Scope, Failure>>,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    since: Timestamp,
    pause: Duration,
    in_a_row: u32,
}

impl Failure {
    /// A failure in the future was before the clock was set back; it does not count, so that no pause outlasts a step of the clock.
    fn is_paused(&self, now: Timestamp) -> bool {
        now >= self.since && now < end(self.since, self.pause)
    }

    /// The next failure still counts as one in a row.
    fn is_remembered(&self, now: Timestamp) -> bool {
        self.is_paused(now)
            || (now >= self.since && now < end(end(self.since, self.pause), self.pause.min(LONGEST_PAUSE)))
    }
}

fn end(since: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    since.checked_add(pause).unwrap_or(Timestamp::MAX)
}

impl Health {
    /// Nothing has failed. The first failure pauses for so long where the provider names no time.
    pub fn new(first_pause: Duration) -> Self {
        Self { first_pause, providers: BTreeMap::new() }
    }

    /// Takes a failure in.
    pub fn failed(&mut self, provider: &str, scope: Scope, retry_after: Option<Duration>, now: Timestamp) {
        let scopes = self.providers.entry(provider.to_owned()).or_default();
        scopes.retain(|_, failure| failure.is_remembered(now));
        let in_a_row = match scopes.get(&scope) {
            // One outage is told by every launch that was under way: that is not a row of failures.
            Some(before) if before.is_paused(now) => before.in_a_row,
            Some(before) => before.in_a_row.saturating_add(1),
            None => 1,
        };
        let grown = self.first_pause.saturating_mul(1 << (in_a_row - 1).min(20)).min(LONGEST_PAUSE);
        let pause = retry_after.unwrap_or(grown.max(self.first_pause));
        scopes.insert(scope, Failure { since: now, pause, in_a_row });
    }

    /// A machine was launched: what stood against its offering was wrong or is over.
    pub fn succeeded(&mut self, provider: &str, class: &NodeClassReference, offering: &OfferingKey) {
        let Some(scopes) = self.providers.get_mut(provider) else { return };
        scopes.retain(|scope, _| !Unavailable::of_scope(scope, class).contains(offering));
    }

    /// What machines of a class cannot be launched as now.
    pub fn unavailable(&self, provider: &str, class: &NodeClassReference, now: Timestamp) -> Unavailable {
        let mut unavailable = Unavailable::default();
        let scopes = self.providers.get(provider).into_iter().flatten();
        for (scope, _) in scopes.filter(|(_, failure)| failure.is_paused(now)) {
            unavailable.add(scope, class);
        }
        unavailable
    }

    /// How many scopes are left alone now.
    pub fn paused(&self, now: Timestamp) -> usize {
        self.providers.values().flat_map(BTreeMap::values).filter(|failure| failure.is_paused(now)).count()
    }

    /// When the first of the present pauses ends: what was refused may then be possible.
    pub fn next_recovery(&self, now: Timestamp) -> Option<Timestamp> {
        let failures = self.providers.values().flat_map(BTreeMap::values);
        failures.filter(|of| of.is_paused(now)).map(|of| end(of.since, of.pause)).min()
    }
}

/// What cannot be had now, for machines of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unavailable {
    offerings: BTreeSet<OfferingKey>,
    zones: BTreeSet<(String, Option<String>)>,
    quotas: Vec<(BTreeSet<String>, Option<String>)>,
    subnets: BTreeSet<String>,
    without_reserved: bool,
}

impl Unavailable {
    fn of_scope(scope: &Scope, class: &NodeClassReference) -> Self {
        let mut unavailable = Self::default();
        unavailable.add(scope, class);
        unavailable
    }

    fn add(&mut self, scope: &Scope, class: &NodeClassReference) {
        match scope {
            Scope::Offering { class: of, offering } if of.as_ref().is_none_or(|of| of == class) => {
                self.offerings.insert(offering.clone());
            }
            Scope::Offering { .. } => {}
            Scope::Zone { zone, capacity_type } => {
                self.zones.insert((zone.clone(), capacity_type.clone()));
            }
            Scope::Subnet { class: of, zone, subnet, subnets_of_zone } => {
                self.subnets.insert(subnet.clone());
                if of == class && subnets_of_zone.is_subset(&self.subnets) {
                    self.zones.insert((zone.clone(), None));
                }
            }
            Scope::Quota { instance_types, capacity_type, .. } => {
                self.quotas.push((instance_types.clone(), capacity_type.clone()));
            }
        }
    }

    /// Leaves reserved capacity out, whatever there is of it.
    pub fn leave_out_reserved(&mut self) {
        self.without_reserved = true;
    }

    /// Whether an offering cannot be had.
    pub fn contains(&self, key: &OfferingKey) -> bool {
        let in_zone = || {
            self.zones.iter().any(|(zone, capacity_type)| {
                key.zone.as_ref() == Some(zone)
                    && (capacity_type.is_none() || key.capacity_type == *capacity_type)
            })
        };
        let in_quota = || {
            self.quotas.iter().any(|(types, capacity_type)| {
                (types.is_empty() || types.contains(&key.instance_type))
                    && (capacity_type.is_none() || key.capacity_type == *capacity_type)
            })
        };
        self.without_reserved && key.is_reserved() || self.offerings.contains(key) || in_zone() || in_quota()
    }

    /// Subnets without addresses.
    pub fn subnets(&self) -> &BTreeSet<String> {
        &self.subnets
    }

    /// Whether everything can be had.
    pub fn is_empty(&self) -> bool {
        self.offerings.is_empty()
            && self.zones.is_empty()
            && self.quotas.is_empty()
            && self.subnets.is_empty()
            && !self.without_reserved
    }
}

#[cfg(test)]
mod tests;
