//! Which of the nodes that accept a pod is best.
//!
//! Seven rules give each node up to a hundred points and are added with their weights. Arithmetic is done as the original does it, down to where
//! integers are cut off: a point more or less moves a pod.

use joiner_core::model::names::{CPU, MEMORY};
use joiner_core::model::resources::lane_of;
use smallvec::SmallVec;

use super::nodes::{MISSING, NodeId};
use super::view::View;

const MOST: i64 = 100;
/// Below the first nothing is gained from an image, above the second (per container) nothing more.
const IMAGE_THRESHOLDS: (i64, i64) = (23 << 20, 1000 << 20);

impl View<'_> {
    /// The total score of each node.
    pub(crate) fn scores(&self, nodes: &[NodeId]) -> Vec<i64> {
        let mut totals = vec![0; nodes.len()];
        let mut scores: Vec<i64> = Vec::with_capacity(nodes.len());
        let statics = &self.state.statics;

        scores.extend(nodes.iter().map(|node| statics[*node as usize].disliked));
        normalise(&mut scores, true);
        add(&mut totals, &scores, 3);

        if self.class.preferred.is_some() {
            scores.clear();
            scores.extend(nodes.iter().map(|node| statics[*node as usize].preferred));
            normalise(&mut scores, false);
            add(&mut totals, &scores, 2);
        }

        for (total, node) in totals.iter_mut().zip(nodes) {
            *total += self.least_allocated(*node) + self.balanced(*node) + self.images(*node);
        }

        if !self.state.soft.is_empty() {
            self.spread_scores(nodes, &mut scores);
            add(&mut totals, &scores, 2);
        }
        if !self.state.pulls.is_empty() {
            self.pull_scores(nodes, &mut scores);
            add(&mut totals, &scores, 2);
        }
        totals
    }

    /// The more is left of CPU and memory, the better.
    fn least_allocated(&self, node: NodeId) -> i64 {
        let row = &self.nodes.rows[node as usize];
        let (mut sum, mut weights) = (0, 0);
        for (at, lane) in [CPU, MEMORY].into_iter().enumerate() {
            let capacity = lane_of(&row.allocatable, lane);
            if capacity == 0 {
                continue;
            }
            let requested = row.scored[at].saturating_add(self.class.scored[at]);
            if requested <= capacity {
                sum += (capacity - requested).saturating_mul(MOST) / capacity;
            }
            weights += 1;
        }
        if weights == 0 { 0 } else { sum / weights }
    }

    /// The more alike the shares of CPU and memory in use, the better.
    fn balanced(&self, node: NodeId) -> i64 {
        if self.class.asks_for_nothing() {
            return 0;
        }
        let row = &self.nodes.rows[node as usize];
        let mut shares: SmallVec<[f64; 2]> = SmallVec::new();
        for lane in [CPU, MEMORY] {
            let capacity = lane_of(&row.allocatable, lane);
            if capacity == 0 {
                continue;
            }
            let used = capacity - lane_of(&row.room, lane) + lane_of(&self.class.requests, lane);
            shares.push((used as f64 / capacity as f64).min(1.0));
        }
        let deviation = match shares[..] {
            [a, b] => ((a - b) / 2.0).abs(),
            _ => 0.0,
        };
        ((1.0 - deviation) * MOST as f64) as i64
    }

    /// Images that are there already are a gain, the larger and the more common the greater.
    fn images(&self, node: NodeId) -> i64 {
        if !self.nodes.has_images(node) {
            return 0;
        }
        let all = self.nodes.len() as f64;
        let mut sum = 0;
        for image in &self.class.images {
            if let Some((size, holders)) = self.nodes.image_on(node, image) {
                sum += (size as f64 * (holders as f64 / all)) as i64;
            }
        }
        let (low, high) = (IMAGE_THRESHOLDS.0, IMAGE_THRESHOLDS.1 * self.class.images.len() as i64);
        MOST * (sum.clamp(low, high.max(low)) - low) / (high - low).max(1)
    }

    /// The fewer pods alike in a domain, the better.
    fn spread_scores(&self, nodes: &[NodeId], scores: &mut Vec<i64>) {
        let state = self.state;
        let value = |column: usize, node: NodeId| self.nodes.columns[column].values[node as usize];
        let ignored = |node: NodeId| {
            state.soft_needs_all
                && state.soft.iter().any(|spread| value(spread.tally.column, node) == MISSING)
        };
        let taken: Vec<bool> = nodes.iter().map(|node| !ignored(*node)).collect();
        let weights: SmallVec<[f64; 4]> = state
            .soft
            .iter()
            .map(|spread| {
                let considered = nodes.iter().zip(&taken).filter(|(_, taken)| **taken);
                let size = if spread.by_host {
                    considered.count()
                } else {
                    // Nodes without the label together make one more value.
                    let mut seen = vec![false; spread.tally.by_value.len() + 1];
                    considered.for_each(|(node, _)| {
                        let value = value(spread.tally.column, *node) as usize;
                        let place = value.min(seen.len() - 1);
                        seen[place] = true;
                    });
                    seen.iter().filter(|seen| **seen).count()
                };
                ((size + 2) as f64).ln()
            })
            .collect();
        scores.clear();
        for (node, taken) in nodes.iter().zip(&taken) {
            let mut score = 0.0;
            for (spread, weight) in state.soft.iter().zip(&weights) {
                let value = value(spread.tally.column, *node);
                if !*taken || value == MISSING {
                    continue;
                }
                let count = if spread.by_host {
                    let counter = spread.tally.counter.map(|counter| &self.counts.counters[counter as usize]);
                    counter.map_or(0, |counter| counter.on(*node))
                } else {
                    spread.tally.at(value)
                };
                score += count as f64 * weight + (spread.max_skew - 1) as f64;
            }
            scores.push(score.round() as i64);
        }
        let considered = || scores.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(score, _)| *score);
        let (least, most) = (considered().min().unwrap_or(0), considered().max().unwrap_or(0).max(0));
        for (score, taken) in scores.iter_mut().zip(&taken) {
            *score = match (*taken, most) {
                (false, _) => 0,
                (true, 0) => MOST,
                (true, most) => MOST * (most + least - *score) / most,
            };
        }
    }

    /// Near pods it likes or is liked by, far from those it or they do not.
    fn pull_scores(&self, nodes: &[NodeId], scores: &mut Vec<i64>) {
        scores.clear();
        scores.resize(nodes.len(), 0);
        for (weight, tally) in self.state.pulls.iter().filter(|(_, tally)| tally.total != 0) {
            let column = &self.nodes.columns[tally.column].values;
            for (score, node) in scores.iter_mut().zip(nodes) {
                let value = column[*node as usize];
                if value != MISSING {
                    *score += weight * tally.at(value);
                }
            }
        }
        let (least, most) = (scores.iter().min().copied(), scores.iter().max().copied());
        let (least, range) = (least.unwrap_or(0), most.unwrap_or(0) - least.unwrap_or(0));
        for score in scores {
            *score =
                if range > 0 { (MOST as f64 * ((*score - least) as f64 / range as f64)) as i64 } else { 0 };
        }
    }
}

/// Scales to a hundred; `reverse` makes the largest the worst.
fn normalise(scores: &mut [i64], reverse: bool) {
    let most = scores.iter().copied().max().unwrap_or(0).max(0);
    for score in scores {
        let scaled = if most == 0 { 0 } else { MOST * *score / most };
        *score = if reverse { MOST - scaled } else { scaled };
    }
}

fn add(totals: &mut [i64], scores: &[i64], weight: i64) {
    for (total, score) in totals.iter_mut().zip(scores) {
        *total += weight * score;
    }
}
