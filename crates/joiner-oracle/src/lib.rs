//! The second opinion: a slow scheduler over strings and a checker of plans, neither of which shares code with the planner.
//!
//! The planner interns names, works on bit sets and places equal pods by count. Each of these tricks can go wrong in a way its own
//! tests would not see, because the tests would make the same assumption. So this crate reads the same manifests again with its own
//! reader ([`read`]), into a data model of plain strings and whole numbers ([`world`]), and answers three questions in the most
//! obvious way it can:
//!
//! - *Is this plan allowed?* [`checker::check`] takes the JSON a plan command prints and holds it against every hard rule: those
//!   kube-scheduler will enforce when the pods bind, and those of the pool contract (limits, offerings, daemons, `minValues`).
//!   It never asks how the plan came about and accepts any plan that keeps the rules.
//! - *Is this the plan the rule book prescribes?* [`scheduler`] plays the rule book step by step, so that the
//!   planner's plan can be compared with it to the letter, over worlds that [`generate`] draws.
//! - *Could it be cheaper?* [`exact::optimum`] looks at every division of a dozen pods, so that what a search finds can be held against the best there is.
//!
//! The key decision is to evaluate and not to reason: where the planner intersects requirements symbolically, the checker asks whether
//! *some label value* satisfies all expressions; where the planner keeps counts, the checker counts. Slowness is
//! fine here (though plans of some ten thousand pods must pass in seconds); cleverness is not.
//!
//! Only `serde_json` is used, and nothing of `joiner-api`, `joiner-core` or `joiner-state`: that independence is the point.

pub mod checker;
pub mod exact;
pub mod generate;
pub mod read;
pub mod scheduler;
pub mod world;
