//! When a cluster has come to rest: nothing is under way, nothing is about to be done, and nothing has happened for a while by its own clock.

use jiff::{SignedDuration, Timestamp};
use joiner_controllers::Summary;
use joiner_sim::clock::Clock;
use tokio::sync::watch;

use super::feed::SharedBoard;
use crate::show::plural;
use crate::view::PodCounts;

/// Longer than anybody waits for the next look at things: autoscalers of pods look every fifteen seconds, pods without a place are tried again every
/// ten.
const QUIET: SignedDuration = SignedDuration::from_secs(20);
/// Longer than a machine may take before it is given up. What has not moved for so long is stuck.
const STUCK: SignedDuration = SignedDuration::from_mins(16);
/// A cluster in which something always happens is not waited for any longer.
const AT_MOST: SignedDuration = SignedDuration::from_hours(6);
/// Between two looks.
const LOOK: SignedDuration = SignedDuration::from_secs(1);

/// What changes as long as something happens.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    board: u64,
    decisions: u64,
    outcomes: u64,
    refused: usize,
}

/// Waits until a cluster has come to rest. Says what still goes on if it never does.
pub async fn reached(
    clock: &Clock,
    board: &SharedBoard,
    summary: &watch::Receiver<Summary>,
) -> Option<String> {
    let begun = clock.now();
    let (mut seen, mut since) = (None, begun);
    loop {
        let now = clock.now();
        let (is, wait, what) = look(board, &summary.borrow());
        if seen.as_ref() != Some(&is) {
            (seen, since) = (Some(is), now);
        }
        if now.duration_since(since) >= wait {
            return None;
        }
        if now.duration_since(begun) >= AT_MOST {
            return Some(format!("not at rest after {} hours of its time: {what}", AT_MOST.as_hours()));
        }
        clock.sleep_until(now.saturating_add(LOOK).unwrap_or(Timestamp::MAX)).await;
    }
}

/// What is to be seen now, how long it has to stay so, and what is under way in words.
fn look(board: &SharedBoard, summary: &Summary) -> (Seen, SignedDuration, String) {
    let board = board.open();
    let (counts, starting) = (board.counts(), board.starting());
    let seen = Seen {
        board: board.changes(),
        decisions: summary.decisions,
        outcomes: summary.journal_changes,
        refused: summary.refused_pods,
    };
    let moves = counts.starting > 0 || counts.leaving > 0 || starting > 0 || summary.under_way;
    let empty = SignedDuration::try_from(summary.empty_go_within).unwrap_or(STUCK);
    let wait = if moves { STUCK } else { QUIET.saturating_add(empty) };
    (seen, wait, words(counts, starting, summary))
}

/// What is under way.
pub fn words(counts: PodCounts, starting: usize, summary: &Summary) -> String {
    let waiting = counts.pending.saturating_sub(summary.refused_pods);
    let parts = [
        (starting.max(summary.starting), "node", "starting"),
        (summary.leaving, "node", "leaving"),
        (waiting, "pod", "pending"),
        (counts.starting, "pod", "starting"),
        (counts.leaving, "pod", "leaving"),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> =
        parts.map(|(count, thing, word)| format!("{} {word}", plural(count, thing))).collect();
    if words.is_empty() { "things keep changing".to_owned() } else { words.join(", ") }
}
