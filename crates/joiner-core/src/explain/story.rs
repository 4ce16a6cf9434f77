//! The story of one pod: what was asked before it found its place.

use crate::explain::{Reason, refusal};
use crate::model::Relaxed;
use crate::model::ids::*;
use crate::model::resources::{fits, sum};
use crate::offer_set;
use crate::pack::scratch::{Scratch, Spot};
use crate::pack::upstream::{self, Outcome};
use crate::plan::Plan;

/// Where a pod went, and what was looked at on the way.
#[derive(Debug)]
pub struct Story {
    /// The pod.
    pub pod: PodIdx,
    /// Its position in the queue, from 1.
    pub turn: usize,
    /// Pods in that queue.
    pub queue: usize,
    /// Existing nodes, by what kept the pod off them (or let it on), in the order of the questions.
    pub nodes: Vec<(&'static str, usize)>,
    /// Machines opened before it, likewise.
    pub machines: Vec<(&'static str, usize)>,
    /// Preferences given up for it.
    pub relaxed: Vec<Relaxed>,
    /// The place, if it got one.
    pub spot: Option<Spot>,
    /// Whether the machine was opened for it.
    pub opened: bool,
    /// Offerings of the machine's pool: all, matching its requirements, and also holding its pods.
    pub funnel: Option<Funnel>,
    /// Why there is no place, if so.
    pub reasons: Vec<Reason>,
    /// Where it ended after the machines were divided anew.
    pub divided: Option<Divided>,
}

/// The machine of a plan that a pod ended on.
#[derive(Debug, Clone, Copy)]
pub struct Divided {
    /// Its pool.
    pub pool: PoolIdx,
    /// Its number within the pool.
    pub number: usize,
    /// The cheapest offering that holds it.
    pub offering: OfferingIdx,
    /// Pods on it.
    pub pods: usize,
    /// Types that would do.
    pub types: usize,
    /// And how many more would, were it not for the limits of the pool.
    pub withheld: usize,
}

impl Story {
    /// Lets the story end where a plan put the pod.
    pub(crate) fn end_in(&mut self, plan: &Plan) {
        let machine = plan.machines.iter().find(|machine| machine.pods.contains(&self.pod));
        self.divided = machine.map(|machine| Divided {
            pool: machine.pool,
            number: machine.number,
            offering: machine.offering,
            pods: machine.pods.len(),
            types: machine.types.len(),
            withheld: machine.withheld,
        });
        // A limit that kept the pod out beside other machines may have room beside these.
        let node = plan.on_nodes.iter().chain(&plan.kept).find(|(_, pods)| pods.contains(&self.pod));
        if let Some((node, _)) = node {
            self.spot = Some(Spot::Node(*node));
            self.reasons.clear();
        } else if self.divided.is_some() {
            self.reasons.clear();
        } else if let Some(refused) = plan.refused.iter().find(|refused| refused.pod == self.pod) {
            self.reasons = refused.reasons.to_vec();
        }
    }
}

/// How the offerings of a pool narrowed down to those of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Funnel {
    /// The pool.
    pub pool: PoolIdx,
    /// Offerings in the catalogue.
    pub catalogue: usize,
    /// That the pool allows and that can be had.
    pub pool_allows: usize,
    /// That match the pod's asks too.
    pub pod_allows: usize,
    /// That hold the pod.
    pub fit: usize,
    /// That are left for the machine at the end of the run.
    pub left: usize,
    /// Types that would do for the machine, were it not for the limits of its pool.
    pub withheld: usize,
}

/// Runs the queue and writes down what happens to one pod.
pub fn follow(scratch: &mut Scratch, order: &[PodIdx], pod: PodIdx) -> (Story, Outcome) {
    let turn = order.iter().position(|p| *p == pod).map_or(0, |at| at + 1);
    let mut story = Story {
        pod,
        turn,
        queue: order.len(),
        nodes: Vec::new(),
        machines: Vec::new(),
        relaxed: Vec::new(),
        spot: None,
        opened: false,
        funnel: None,
        reasons: Vec::new(),
        divided: None,
    };
    let mut machines_before = 0;
    let outcome = upstream::run_to_rest(scratch, order, &mut |scratch, next| {
        if next == pod {
            machines_before = scratch.machines.len();
            look_around(scratch, pod, &mut story);
        }
    });
    // Whoever called might go on from here.
    let mark = scratch.mark();
    scratch.give_back();
    match outcome.placed[pod.at()] {
        Some((spot, rung)) => {
            let class = &scratch.snapshot.classes[scratch.snapshot.pods[pod.at()].class.at()];
            story.relaxed = class.given_up_on(rung);
            story.spot = Some(spot);
            if let Spot::Machine(machine) = spot {
                story.opened = machine.at() >= machines_before;
                story.funnel = Some(funnel(scratch, pod, rung, machine));
            }
        }
        None => {
            let failure = outcome.failed.iter().find(|(p, _)| *p == pod).map(|(_, failure)| *failure);
            let class = scratch.snapshot.pods[pod.at()].class;
            story.reasons = failure.map_or(Vec::new(), |failure| refusal(scratch, class, failure));
        }
    }
    scratch.rollback(mark);
    (story, outcome)
}

fn look_around(scratch: &mut Scratch, pod: PodIdx, story: &mut Story) {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
    let rung = &class.rungs[0];
    let words = ["cordoned or leaving", "taint", "labels", "room", "could take it, topology allowing"];
    let mut tally = [0usize; 5];
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let slot = if !node.accepts_pods {
            0
        } else if !scratch.algebra.tolerates(node.taints, class.tolerations, rung.spare_preferred) {
            1
        } else if !scratch.algebra.node_accepts(node.labels, rung.ask) {
            2
        } else if !fits(&class.requests, &scratch.room[at]) {
            3
        } else {
            4
        };
        tally[slot] += 1;
    }
    story.nodes = words.into_iter().zip(tally).filter(|(_, n)| *n > 0).collect();
    let words = ["taint", "requirements", "room", "could take it, topology allowing"];
    let mut tally = [0usize; 4];
    for at in 0..scratch.machines.len() {
        let machine = &scratch.machines[at];
        let (pool, requirements) = (machine.pool, machine.requirements);
        let mut set = machine.offers.to_vec();
        scratch.templates[pool.at()].keep_fitting(&mut set, &sum(&machine.requests, &class.requests));
        let taints = snapshot.pools[pool.at()].taints;
        let slot = if !scratch.algebra.tolerates(taints, class.tolerations, rung.spare_preferred) {
            0
        } else if scratch.algebra.meet(requirements, rung.ask).is_none() {
            1
        } else if offer_set::is_empty(&set) {
            2
        } else {
            3
        };
        tally[slot] += 1;
    }
    story.machines = words.into_iter().zip(tally).filter(|(_, n)| *n > 0).collect();
}

fn funnel(scratch: &mut Scratch, pod: PodIdx, rung: usize, machine: MachineIdx) -> Funnel {
    let snapshot = scratch.snapshot;
    let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
    let pool = scratch.machines[machine.at()].pool;
    let catalogue = snapshot.pools[pool.at()].catalogue;
    let base = scratch.templates[pool.at()].base.clone();
    let requirements = scratch.templates[pool.at()].requirements;
    let met = scratch.algebra.meet(requirements, class.rungs[rung].ask).unwrap_or(requirements);
    let mut asked = base.to_vec();
    let allowed = scratch.offers.of(snapshot, &scratch.algebra, catalogue, met);
    offer_set::and_into(&mut asked, &allowed);
    let mut fit = asked.clone();
    scratch.templates[pool.at()].keep_fitting(&mut fit, &class.requests);
    Funnel {
        pool,
        catalogue: snapshot.catalogues[catalogue.at()].offerings.len(),
        pool_allows: offer_set::iter(&base).count(),
        pod_allows: offer_set::iter(&asked).count(),
        fit: offer_set::iter(&fit).count(),
        left: offer_set::iter(&scratch.machines[machine.at()].offers).count(),
        withheld: scratch.machines[machine.at()].withheld,
    }
}
