//! A picture as plain lines, for pipes and files: a line when something has changed, and a whole frame when asked for one.

use std::fmt::Write;

use super::{Picture, screen};
use crate::show::{Table, plural};

/// What the last line said, so that nothing is said twice.
#[derive(Debug, Default)]
pub struct Told {
    summary: String,
    decisions: usize,
}

impl Told {
    /// Lines for what is new in a picture; `decisions_made` counts all decisions so far, also those no longer in the picture.
    pub fn news(&mut self, picture: &Picture, decisions_made: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let fresh = decisions_made.saturating_sub(self.decisions).min(picture.decisions.len());
        for decision in &picture.decisions[picture.decisions.len() - fresh..] {
            lines.push(format!("{}  {}", decision.at.strftime(screen::MOMENT), decision.what));
        }
        self.decisions = decisions_made;
        let [counts, bill] = screen::verdict(picture);
        let summary = format!("{counts}  {bill}");
        if summary != self.summary {
            lines.push(format!("{}  {summary}", picture.now.strftime(screen::MOMENT)));
            self.summary = summary;
        }
        lines
    }
}

/// One whole frame.
pub fn frame(picture: &Picture, width: usize) -> String {
    let [counts, bill] = screen::verdict(picture);
    let mut text = format!("{counts}\n{bill}\n");
    for warning in &picture.warnings {
        let _ = writeln!(text, "! {warning}");
    }
    if !picture.nodes.is_empty() {
        let heading = ["NODE", "TYPE", "ZONE", "CAPACITY", "STATE", "PODS", "CPU", "MEMORY", "$/H"];
        let mut table = Table::new(&heading).right(&[5, 8]);
        for node in &picture.nodes {
            table.push(vec![
                node.name.clone(),
                node.instance_type.clone(),
                node.zone.clone(),
                node.capacity_type.clone(),
                node.state.word().to_owned(),
                node.pods.to_string(),
                screen::cpu(node),
                screen::memory(node),
                screen::price(node),
            ]);
        }
        let _ = write!(text, "\n{}", table.render(width));
    }
    if !picture.waiting.is_empty() {
        text.push('\n');
    }
    for waiting in &picture.waiting {
        let _ = writeln!(text, "{} waits: {}", waiting.pod, waiting.scheduler);
        if let Some(why) = &waiting.joiner {
            let _ = writeln!(text, "    no machine would help: {why}");
        } else if let Some(what) = &waiting.awaits {
            let _ = writeln!(text, "    {what}");
        }
    }
    if let Some(more) = picture.pods.pending.checked_sub(picture.waiting.len()).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {}", plural(more, "more pod"));
    }
    text
}
