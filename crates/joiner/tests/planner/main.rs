//! The planner from manifests to plans: against hand-worked scenarios, against the slow reference scheduler, against the checker.

mod cheapest;
mod cheapest_laws;
mod cheapest_optimum;
mod cheapest_weights;
mod cheapest_zones;
mod consolidation;
mod laws;
mod limits;
mod oracle;
mod order;
mod scenarios;
mod support;
