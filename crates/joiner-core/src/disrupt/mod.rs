//! Taking machines away: which nodes can go, which can be had cheaper, and why the others stay.
//!
//! The input is a [`Fleet`]: a snapshot in which the pods that would need another node are listed beside those that wait, and facts per node and
//! pool. The output is a [`Consolidation`]: commands, a verdict per node with its numbers, and the pods that move. Nothing here knows a clock, a
//! client or an object: who watches a cluster lowers it to a fleet (`joiner-state`), and carries commands out.
//!
//! ```text
//! fleet ─> facts: blocked nodes fall out, each with its reason
//!       ─> deletes: one after the other, dearest per disruption first; what succeeds is kept, so the next one sees it
//!       ─> in order: the same deletes, pods placed one by one as kube-scheduler does; what does not hold is dropped
//!       ─> replaces: sets of the nodes that overpay most, each packed anew; the best is kept
//!       ─> commands, verdicts, moves
//! ```
//!
//! A trial never copies anything: the scratch is marked, the nodes are taken, their pods placed, the bill read, and all of it rolled back. The
//! finders stay as they are meanwhile, so a node that is full is asked once for each kind of pod and not once for each candidate.
//!
//! *Why a set overpays.* The shadow prices behind the lower bound say what a pod of each class costs on machines bought at best. What a node costs
//! beyond its pods' worth is the most that packing them anew can save, room on other nodes aside. So sets are built from the largest
//! overpay down, and who overpays nothing is left alone.
//!
//! *The objective* is provisioning's own, price and charge per node, and the price alone must fall strictly: otherwise one would undo what the
//! other does.
//!
//! *For a controller.* It keeps the facts, asks [`consolidate`] on a worker with the cursor of the last search, and queues the commands. A command
//! names nodes, machines to launch before, and pods; before it is carried out its nodes are held against a fresh fleet by [`holds`]. Verdicts are what
//! records, events and `why` are made of; they name positions of their fleet and are to be turned into names while it is at hand.

mod balanced;
mod commands;
mod cost;
mod deletes;
mod facts;
mod price;
mod replaces;
mod search;
mod trial;
mod verdict;

pub use balanced::{Approval, Share, THRESHOLD, approves};
pub use cost::{disruption_cost, eviction_cost, is_empty, lifetime_left, rescheduling_cost};
pub use facts::{Block, Fleet, NodeFacts, Policy, PoolFacts, Resident};
pub use price::{CapacityType, Choice, cheaper_than, worst_launch_price};
pub use search::{Cursor, Options, consolidate, holds};
pub use verdict::{Command, Consolidation, Kind, Move, Place, Verdict, Why};
