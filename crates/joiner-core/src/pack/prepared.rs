//! What can be worked out from a snapshot before any pod is looked at, and held with it.
//!
//! A controller that decides again and again on snapshots that differ in their pods keeps this; everybody else makes it on the way.

use hashbrown::HashMap;

use crate::algebra::Algebra;
use crate::model::ids::{ReqId, TaintsId};
use crate::model::resources::{add_into, lane_of};
use crate::model::{FixedState, Node, Port, ResVec, Snapshot, fixed_state};
use crate::pack::template::{OfferTable, Template};

/// Pools, nodes and daemons of a snapshot, evaluated.
#[derive(Debug)]
pub struct Prepared {
    /// One per pool.
    pub templates: Vec<Template>,
    /// Free room per node, expected daemons taken off.
    pub room: Vec<ResVec>,
    /// Host ports that the daemons expected on each node take, whether they are there yet or not.
    pub daemon_ports: Vec<std::sync::Arc<[Port]>>,
}

impl Prepared {
    /// Evaluates a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut algebra = Algebra::new(&snapshot.vocabulary);
        let mut offers = OfferTable::default();
        let templates = (0..snapshot.pools.len())
            .map(|at| Template::new(snapshot, &mut algebra, &mut offers, at))
            .collect();
        let (room, daemon_ports) = node_room(snapshot, &mut algebra);
        Self { templates, room, daemon_ports }
    }
}

/// What the daemons expected on nodes alike need.
struct Expected {
    requests: ResVec,
    ports: std::sync::Arc<[Port]>,
}

/// Per node: available less what expected daemons still lack, and the host ports those daemons take.
fn node_room(snapshot: &Snapshot, algebra: &mut Algebra) -> (Vec<ResVec>, Vec<std::sync::Arc<[Port]>>) {
    let nothing: std::sync::Arc<[Port]> = std::sync::Arc::from([]);
    if snapshot.daemons.is_empty() {
        let room = snapshot.nodes.iter().map(|node| node.available.clone()).collect();
        return (room, vec![nothing; snapshot.nodes.len()]);
    }
    let mut expected: HashMap<(ReqId, TaintsId), Expected, FixedState> = HashMap::with_hasher(fixed_state());
    let mut one = |node: &Node| {
        let mut room = node.available.clone();
        let wanted = expected.entry((node.labels, node.taints)).or_insert_with(|| {
            let mut requests = ResVec::new();
            let mut ports = Vec::new();
            for daemon in &snapshot.daemons {
                if algebra.tolerates(node.taints, daemon.tolerations, true)
                    && daemon.asks.iter().any(|ask| algebra.node_accepts(node.labels, *ask))
                {
                    add_into(&mut requests, &daemon.requests);
                    ports.extend(daemon.ports.iter().cloned());
                }
            }
            Expected { requests, ports: ports.into() }
        });
        for (lane, want) in wanted.requests.iter().enumerate() {
            let lack = (want - lane_of(&node.daemons_present, lane)).max(0);
            if lack > 0 {
                if room.len() <= lane {
                    room.resize(lane + 1, 0);
                }
                room[lane] = room[lane].saturating_sub(lack);
            }
        }
        (room, wanted.ports.clone())
    };
    snapshot.nodes.iter().map(|node| one(node)).unzip()
}
