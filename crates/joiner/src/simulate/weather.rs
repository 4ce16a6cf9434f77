//! Faults as they come: drawn from a seed, for a while, then never again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::simulate::outside::Fate;

/// A time in which something goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spell {
    /// When it begins.
    pub from: Timestamp,
    /// When it is over.
    pub until: Timestamp,
    /// What goes wrong.
    pub kind: Fault,
}

/// What goes wrong for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No call gets through.
    Outage,
    /// So many of a hundred calls fail, each in a way of its own.
    Shaky(u32),
    /// So many of a hundred calls that change something are carried out and not answered.
    Forgetful(u32),
    /// So many of a hundred calls are asked to come later.
    Overloaded(u32),
    /// Calls are not answered at all.
    Frozen,
    /// The cloud refuses so many of a hundred launches, and is slow to list.
    PoorCloud(u32),
}

/// All that befalls the calls of a run.
#[derive(Debug)]
pub struct Weather {
    clock: joiner_sim::clock::Clock,
    spells: Vec<Spell>,
    chance: ChaCha8Rng,
    /// How many calls met something.
    pub met: usize,
}

impl Weather {
    /// Weather of these spells.
    pub fn new(clock: joiner_sim::clock::Clock, spells: Vec<Spell>, seed: u64) -> Self {
        Self { clock, spells, chance: ChaCha8Rng::seed_from_u64(seed ^ 0x77ea_7e44), met: 0 }
    }

    /// What becomes of a call.
    pub fn fate(&mut self, what: &str, is_read: bool) -> Fate {
        let now = self.clock.now();
        let is_cloud = what.starts_with("cloud ");
        let under: Vec<Fault> = self
            .spells
            .iter()
            .filter(|spell| spell.from <= now && now < spell.until)
            .map(|spell| spell.kind)
            .collect();
        for fault in under {
            let mut hits = |share: u32| self.chance.random_range(0..100) < share;
            let fate = match fault {
                Fault::Outage if !is_cloud => Fate::NotSent,
                Fault::Frozen if !is_cloud => Fate::Void,
                Fault::Shaky(share) if hits(share) => match (self.chance.random_range(0..6), is_read) {
                    (0, _) => Fate::Instead(500),
                    (1, _) => Fate::Instead(503),
                    (2, false) => Fate::Instead(409),
                    (3, false) => Fate::After(504),
                    (4, false) => Fate::Silence,
                    _ => Fate::NotSent,
                },
                Fault::Forgetful(share) if !is_read && hits(share) => Fate::Lost,
                Fault::Overloaded(share) if !is_cloud && hits(share) => Fate::Instead(429),
                Fault::PoorCloud(share) if is_cloud && hits(share) => Fate::Instead(503),
                _ => continue,
            };
            self.met += 1;
            return fate;
        }
        Fate::Fine
    }

    /// Draws the spells of a run that begin within `span` of `begin`.
    pub fn draw(chance: &mut ChaCha8Rng, begin: Timestamp, span: Duration) -> Vec<Spell> {
        let end = begin + SignedDuration::try_from(span).unwrap_or_default();
        let count = chance.random_range(1..=5);
        let mut spells: Vec<Spell> = (0..count)
            .map(|_| {
                let from =
                    begin + SignedDuration::from_secs(chance.random_range(0..span.as_secs().max(1)) as i64);
                let (kind, longest) = match chance.random_range(0..6) {
                    0 => (Fault::Outage, 180),
                    1 => (Fault::Shaky(chance.random_range(5..60)), 600),
                    2 => (Fault::Forgetful(chance.random_range(5..60)), 600),
                    3 => (Fault::Overloaded(chance.random_range(20..90)), 300),
                    4 => (Fault::Frozen, 90),
                    _ => (Fault::PoorCloud(chance.random_range(20..90)), 600),
                };
                let length = SignedDuration::from_secs(chance.random_range(5..=longest));
                Spell { from, until: (from + length).min(end), kind }
            })
            .collect();
        spells.sort_by_key(|spell| spell.from);
        spells
    }
}
