//! Machines of which there are only so many.

use std::collections::BTreeMap;

use joiner_api::KwokCapacity;
use joiner_provider::{Error, OfferingKey};
use parking_lot::Mutex;

use super::instances::Standing;
use crate::chaos::draws_on;
use crate::launch::Choice;

/// What launches of this process have taken, by the Node's name: their Nodes may not be known yet.
#[derive(Default)]
pub(super) struct Stock(Mutex<BTreeMap<String, OfferingKey>>);

impl Stock {
    /// Takes what is chosen among the offerings that are left. Choosing and taking are one step: two launches never get the last machine both.
    pub(super) fn take<'t>(
        &self,
        name: &str,
        stocks: &[KwokCapacity],
        standing: &BTreeMap<String, Standing>,
        choose: impl FnOnce(&dyn Fn(&OfferingKey) -> bool) -> Result<Choice<'t>, Error>,
    ) -> Result<Choice<'t>, Error> {
        if stocks.is_empty() {
            return choose(&|_| true);
        }
        let mut taken = self.0.lock();
        // A launch that is repeated does not stand in its own way.
        taken.remove(name);
        let mut used = vec![0_i64; stocks.len()];
        let known = standing.iter().filter(|(node, _)| *node != name && !taken.contains_key(*node));
        let known = known.filter_map(|(_, machine)| machine.offering.as_ref());
        for offering in known.chain(taken.values()) {
            for (stock, used) in stocks.iter().zip(&mut used) {
                *used += i64::from(draws_on(stock, offering));
            }
        }
        let choice = choose(&|offering| {
            stocks.iter().zip(&used).all(|(stock, used)| *used < stock.machines || !draws_on(stock, offering))
        })?;
        taken.insert(name.to_owned(), OfferingKey::of(choice.instance_type, choice.offering));
        Ok(choice)
    }

    /// The machine behind a Node is no more.
    pub(super) fn give_back(&self, name: &str) {
        self.0.lock().remove(name);
    }
}
