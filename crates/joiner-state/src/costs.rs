//! Cost models: discounts, fees per node and prices agreed for a number of nodes.
//!
//! They come after overlays. Per offering: the price, less the first discount that picks it, plus every fee that picks it. A commitment adds a
//! second offering on the same terms at the agreed price (fees on top), which draws from a number of units, as a reservation does; but nobody
//! waits for it. Nodes that are there already use units up first.

use std::collections::BTreeSet;

use joiner_api::CostModel;
use joiner_api::instance_type::{InstanceType, PriceSource, Reservation};

use crate::cluster::{Cluster, cluster_name};
use crate::lower::Lowering;
use crate::nodes::ResolvedNode;
use crate::overlays::PoolTypes;
use crate::problem::Problem;
use crate::selector::Selector;

/// What ids of commitments begin with; those of providers do not.
const COMMITMENT: &str = "commitment/";

/// Whether a reservation is a price only.
pub(crate) fn is_commitment(id: &str) -> bool {
    id.starts_with(COMMITMENT)
}

/// Selectors of all models, ready for use.
pub(crate) struct Costs<'c> {
    discounts: Vec<(Selector, f64)>,
    fees: Vec<(Selector, f64)>,
    commitments: Vec<(Selector, &'c joiner_api::costmodel::Commitment)>,
}

impl Cluster {
    /// Takes a cost model in, after validating it.
    pub fn add_cost_model(&mut self, model: &CostModel) -> Result<(), Problem> {
        let name = cluster_name("CostModel", &model.metadata)?;
        let found = joiner_api::validation::validate_costmodel(model, &self.well_known);
        Problem::first_of(found, &format!("CostModel {name}"))?;
        let others = self.cost_models.iter().filter(|(other, _)| **other != name);
        let taken: BTreeSet<&str> =
            others.flat_map(|(_, other)| &other.spec.commitments).map(|c| c.name.as_str()).collect();
        for (at, commitment) in model.spec.commitments.iter().enumerate() {
            if taken.contains(commitment.name.as_str()) {
                return Err(Problem {
                    object: format!("CostModel {name}"),
                    path: format!("spec.commitments[{at}].name"),
                    value: commitment.name.clone(),
                    message: "another cost model has a commitment of this name".to_owned(),
                    remedy: "give each its own, or it would be counted twice".to_owned(),
                });
            }
        }
        self.changes.frame = true;
        if self.cost_models.insert(name.clone(), model.clone()).is_some() {
            self.note_duplicate("CostModel", &name);
        }
        Ok(())
    }
}

impl<'c> Lowering<'c> {
    pub(crate) fn costs(&mut self) -> Costs<'c> {
        let mut costs = Costs { discounts: Vec::new(), fees: Vec::new(), commitments: Vec::new() };
        let cluster = self.cluster;
        let vocabulary = &mut self.frame.snapshot.vocabulary;
        for model in cluster.cost_models.values() {
            for discount in &model.spec.discounts {
                costs.discounts.push((Selector::new(vocabulary, &discount.requirements), discount.percent));
            }
            for fee in &model.spec.per_node_fees {
                costs.fees.push((Selector::new(vocabulary, &fee.requirements), fee.price_per_hour));
            }
            for commitment in &model.spec.commitments {
                costs.commitments.push((Selector::new(vocabulary, &commitment.requirements), commitment));
            }
        }
        costs
    }

    /// Puts costs into the types of one pool; true if anything changed.
    pub(crate) fn apply_costs(&self, costs: &Costs, pool: &PoolTypes, types: &mut [InstanceType]) -> bool {
        let names = &self.frame.snapshot.vocabulary.names;
        let mut changed = false;
        for (of, facts) in types.iter_mut().zip(pool.type_facts) {
            let mut committed = Vec::new();
            for at in 0..of.offerings.len() {
                let picks = |selector: &Selector| selector.picks(names, &pool.facts, facts, at);
                let offering = &mut of.offerings[at];
                let discount = costs.discounts.iter().find(|(selector, _)| picks(selector));
                let fees = costs.fees.iter().filter(|(selector, _)| picks(selector));
                let fees = fees
                    .map(|(_, fee)| *fee)
                    .fold(None, |sum: Option<f64>, fee| Some(sum.unwrap_or(0.0) + fee));
                if let Some((_, percent)) = discount {
                    offering.price *= 1.0 - percent / 100.0;
                }
                offering.price += fees.unwrap_or(0.0);
                changed |= discount.is_some() || fees.is_some();
                if offering.reservation.is_some() {
                    continue;
                }
                for (_, commitment) in costs.commitments.iter().filter(|(selector, _)| picks(selector)) {
                    let mut agreed = offering.clone();
                    agreed.price = commitment.price_per_hour + fees.unwrap_or(0.0);
                    agreed.price_source = PriceSource::Stated;
                    agreed.reservation = Some(Reservation {
                        id: format!("{COMMITMENT}{}", commitment.name),
                        capacity: u32::try_from(commitment.nodes).unwrap_or(u32::MAX),
                    });
                    committed.push(agreed);
                    changed = true;
                }
            }
            of.offerings.extend(committed);
        }
        changed
    }

    /// Lets nodes that are there use up commitments: each the cheapest that covers it, in the order of nodes.
    pub(crate) fn use_up_commitments(&mut self, nodes: &mut [ResolvedNode]) {
        let costs = self.costs();
        if costs.commitments.is_empty() {
            return;
        }
        let names = &self.frame.snapshot.vocabulary.names;
        let mut order: Vec<usize> = (0..costs.commitments.len()).collect();
        order.sort_by(|a, b| {
            let price = |at: usize| costs.commitments[at].1.price_per_hour;
            price(*a)
                .total_cmp(&price(*b))
                .then_with(|| costs.commitments[*a].1.name.cmp(&costs.commitments[*b].1.name))
        });
        for node in nodes.iter_mut().filter(|node| !node.leaving) {
            for at in &order {
                let (selector, commitment) = &costs.commitments[*at];
                let id = format!("{COMMITMENT}{}", commitment.name);
                let row = self.frame.snapshot.reservations.iter_mut().find(|row| *row.id == *id);
                if let Some(row) = row.filter(|row| row.capacity > 0)
                    && selector.holds_on(names, &node.labels)
                {
                    row.capacity -= 1;
                    let fees = costs.fees.iter().filter(|(fee, _)| fee.holds_on(names, &node.labels));
                    let fees: f64 = fees.map(|(_, fee)| fee).sum();
                    node.agreed_price = Some(commitment.price_per_hour + fees);
                    break;
                }
            }
        }
    }
}
