//! Which machine types each pool may launch: by its provider, by its node class, by the region it stands in.
//!
//! ```text
//! objects -> survey (pools, classes, regions named) ─┐
//! arguments, files of types and prices ──────────────┴-> choose -> catalogues -> snapshot, lint, what-if
//! ```
//!
//! A pool of AWS gets the machines of its region as its EC2NodeClass makes them; any other pool KWOK's computed types. One that was named in the
//! arguments serves all.

mod arguments;
mod choose;
mod living;
mod prices;
mod survey;

use std::collections::BTreeSet;

use joiner_api::names::{AWS_WELL_KNOWN_LABELS, KWOK_WELL_KNOWN_LABELS};
use joiner_provider_kwok::Catalogue;

pub use arguments::{AwsArgs, CatalogueArgs};
pub use choose::{choose, of_region};
pub use living::types_of_classes;
pub use survey::{Slot, Survey};

/// Catalogues by pool.
#[derive(Debug, Clone, Default)]
pub struct Catalogues {
    /// That of pools without one of their own.
    pub everybody: Option<Catalogue>,
    /// Those of some pools, by their names.
    pub of_pools: Vec<(BTreeSet<String>, Catalogue)>,
    /// Where machines and prices are from, and what else the user should know.
    pub notes: Vec<String>,
}

impl From<Catalogue> for Catalogues {
    fn from(catalogue: Catalogue) -> Self {
        Self { everybody: Some(catalogue), ..Self::default() }
    }
}

impl Catalogues {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Catalogue> {
        self.everybody.iter().chain(self.of_pools.iter().map(|(_, catalogue)| catalogue))
    }

    /// All of them, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Catalogue> {
        self.everybody.iter_mut().chain(self.of_pools.iter_mut().map(|(_, catalogue)| catalogue))
    }

    /// What a pool launches from, by its number in [`all`](Self::all).
    pub fn number_of(&self, pool: &str) -> Option<usize> {
        let own = self.of_pools.iter().position(|(pools, _)| pools.contains(pool));
        let before = usize::from(self.everybody.is_some());
        own.map(|at| at + before).or(self.everybody.as_ref().map(|_| 0))
    }

    /// What a pool launches from.
    pub fn of_pool(&self, pool: &str) -> Option<&Catalogue> {
        self.all().nth(self.number_of(pool)?)
    }

    /// Lets machines of one provider say that they lack the labels of another, where both are there.
    fn tell_apart(&mut self) {
        let has = |labels: &[&str], of: &Catalogue| {
            labels.iter().any(|key| of.well_known.iter().any(|have| have == key))
        };
        let of_both: Vec<&[&str]> = [&KWOK_WELL_KNOWN_LABELS[..], &AWS_WELL_KNOWN_LABELS[..]]
            .into_iter()
            .filter(|labels| self.all().any(|of| has(labels, of)))
            .collect();
        for catalogue in self.all_mut() {
            for labels in &of_both {
                if !has(labels, catalogue) {
                    catalogue.deny(labels);
                }
            }
        }
    }
}
