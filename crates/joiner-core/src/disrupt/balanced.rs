//! The policy `Balanced`: a move is approved where the share of a pool's price that it saves is worth the share of its disruption.

/// A share of disruption may be twice the share of savings.
pub const THRESHOLD: f64 = 0.5;

/// The part of a move in one pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Whether the pool's policy is `Balanced`: only such pools are asked.
    pub balanced: bool,
    /// What the nodes that go cost.
    pub price: f64,
    /// Their disruption cost.
    pub disruption: f64,
    /// What all nodes of the pool cost.
    pub pool_price: f64,
    /// The disruption cost of all of them.
    pub pool_disruption: f64,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Whether every pool that is asked approves.
    pub approved: bool,
    /// The score of every share, `None` where the pool is not asked.
    pub scores: Vec<Option<f64>>,
}

/// Asks all pools of a move that saves so much in all. What nodes of different pools save is divided by what they cost.
pub fn approves(shares: &[Share], saving: f64) -> Approval {
    let all: f64 = shares.iter().map(|share| share.price).sum();
    let scores: Vec<Option<f64>> = shares
        .iter()
        .map(|share| {
            share.balanced.then(|| {
                let part = if shares.len() == 1 {
                    saving
                } else if all > 0.0 {
                    saving * share.price / all
                } else {
                    0.0
                };
                score(share, part)
            })
        })
        .collect();
    let approved = !shares.is_empty() && scores.iter().flatten().all(|score| *score >= THRESHOLD);
    Approval { approved, scores }
}

fn score(share: &Share, saving: f64) -> f64 {
    if saving <= 0.0 || share.pool_price <= 0.0 || share.pool_disruption <= 0.0 {
        return 0.0;
    }
    let disrupted = share.disruption / share.pool_disruption;
    if disrupted > 0.0 { (saving / share.pool_price) / disrupted } else { f64::INFINITY }
}
