//! The comparison for people: verdict first, then sums, nodes by type, and what happens to pods.

use joiner_record::plan::StaysDocument;

use super::compare::{Place, Repack, Totals, WhatIf};
use super::stand::{self, Row};
use crate::Streams;
use crate::commands::plan::ReasonDocument;
use crate::show::{self, BOLD, DIM, GREEN, RED, Table, YELLOW};

/// Groups of moved or placed pods shown.
const GROUPS_SHOWN: usize = 8;

/// Prints the comparison.
pub fn write(what_if: &WhatIf, before: &[Row], after: &[Row], streams: &mut Streams) -> std::io::Result<()> {
    verdict(what_if, streams)?;
    for change in &what_if.changes {
        writeln!(streams.out, "{DIM}  {change}{DIM:#}")?;
    }
    writeln!(streams.out)?;
    write!(streams.out, "{}", sums(&what_if.before, &what_if.after).render(streams.width))?;
    if let Some(repack) = &what_if.repack {
        for (title, rows) in [("today", before), ("repacked", after)] {
            writeln!(streams.out, "\n{BOLD}{title}{BOLD:#}")?;
            write!(streams.out, "{}", stand::table(rows).render(streams.width))?;
        }
        stays(repack, streams)?;
    } else if !what_if.nodes_by_type.is_empty() {
        writeln!(streams.out)?;
        write!(streams.out, "{}", types(what_if).render(streams.width))?;
    }
    pods(what_if, streams)
}

/// What keeps nodes from being given up, and what would come of it if nothing did.
fn stays(repack: &Repack, streams: &mut Streams) -> std::io::Result<()> {
    let mut nodes: Vec<(&str, Vec<&StaysDocument>)> = Vec::new();
    for stay in &repack.stays {
        match nodes.last_mut() {
            Some((node, list)) if *node == stay.node => list.push(stay),
            _ => nodes.push((&stay.node, vec![stay])),
        }
    }
    if !nodes.is_empty() {
        writeln!(streams.out, "\n{YELLOW}{}{YELLOW:#}", stay_title(nodes.len()))?;
    }
    for (node, list) in nodes.iter().take(GROUPS_SHOWN) {
        writeln!(streams.out, "  {node}")?;
        let told = list.iter().map(|stay| (stay.pod.as_deref().unwrap_or(""), stay.message.clone()));
        for (message, pods) in grouped(told) {
            let pods = if pods == [""] { String::new() } else { format!("{}: ", some(&pods)) };
            writeln!(streams.out, "      {pods}{message}")?;
        }
    }
    if let Some(rest) = nodes.get(GROUPS_SHOWN..).filter(|rest| !rest.is_empty()) {
        writeln!(
            streams.out,
            "  {DIM}and {} more (-o json lists all){DIM:#}",
            show::plural(rest.len(), "node")
        )?;
    }
    if let Some(afresh) = repack.packed_afresh.as_ref().filter(|_| !repack.stays.is_empty()) {
        let bound = afresh.lower_bound_per_hour.map(|bound| format!(" (bound {}/h)", show::money(bound)));
        writeln!(
            streams.out,
            "\n{DIM}the pods of today, packed afresh without regard to that: {}, {}/h{}{DIM:#}",
            show::plural(afresh.nodes, "node"),
            show::money(afresh.price_per_hour),
            bound.unwrap_or_default(),
        )?;
    }
    Ok(())
}

fn stay_title(nodes: usize) -> String {
    if nodes == 1 { "1 node stays".to_owned() } else { format!("{nodes} nodes stay") }
}

fn verdict(what_if: &WhatIf, streams: &mut Streams) -> std::io::Result<()> {
    let (before, after) = (&what_if.before, &what_if.after);
    let mut parts = Vec::new();
    let nodes = after.nodes as i64 - before.nodes as i64;
    if nodes != 0 {
        let sign = if nodes > 0 { "+" } else { "-" };
        parts.push(format!("{sign}{}", show::plural(nodes.unsigned_abs() as usize, "node")));
    }
    let price = after.price_per_hour - before.price_per_hour;
    if price.abs() > 1e-9 {
        let share = if before.price_per_hour > 0.0 {
            format!(" ({})", show::signed_percent(price / before.price_per_hour))
        } else {
            String::new()
        };
        // What is not run costs nothing: that is no merit of the change, and the reverse is no fault of it.
        let because = match after.unschedulable.cmp(&before.unschedulable) {
            std::cmp::Ordering::Greater if price < 0.0 => " because less runs",
            std::cmp::Ordering::Less if price > 0.0 => " because more runs",
            _ => "",
        };
        parts.push(format!("{BOLD}{}/h{BOLD:#}{share}{because}", signed_money(price)));
    }
    let (refused, placed) = (what_if.newly_refused.len(), what_if.newly_placed.len());
    if refused > 0 {
        let pods = if refused == 1 { "pod" } else { "pods" };
        parts.push(format!("{RED}{refused} more {pods} refused{RED:#}"));
    }
    if placed > 0 {
        parts.push(format!("{GREEN}{} newly placed{GREEN:#}", show::plural(placed, "pod")));
    }
    if !what_if.pods_moved.is_empty() {
        parts.push(format!("{YELLOW}{} moved{YELLOW:#}", show::plural(what_if.pods_moved.len(), "pod")));
    }
    if parts.is_empty() {
        parts.push("nothing changes".to_owned());
    }
    writeln!(streams.out, "{}", parts.join("   "))
}

fn signed_money(dollars: f64) -> String {
    if dollars > 0.0 { format!("+{}", show::money(dollars)) } else { show::money(dollars) }
}

fn sums(before: &Totals, after: &Totals) -> Table {
    let count = |name: &str, was: usize, is: usize| {
        let change = is as i64 - was as i64;
        vec![name.to_owned(), was.to_string(), is.to_string(), signed(change)]
    };
    let money = |name: &str, was: f64, is: f64| {
        let change = if (is - was).abs() > 1e-9 { signed_money(is - was) } else { String::new() };
        vec![name.to_owned(), show::money(was), show::money(is), change]
    };
    Table::new(&["", "BEFORE", "AFTER", "CHANGE"])
        .right(&[1, 2, 3])
        .row(count("nodes", before.nodes, after.nodes))
        .row(count("  new", before.new_nodes, after.new_nodes))
        .row(money("per hour", before.price_per_hour, after.price_per_hour))
        .row(money("per month", before.price_per_month, after.price_per_month))
        .row(count("pods to place", before.pods, after.pods))
        .row(count("  refused", before.unschedulable, after.unschedulable))
}

fn signed(change: i64) -> String {
    if change == 0 { String::new() } else { format!("{change:+}") }
}

fn types(what_if: &WhatIf) -> Table {
    let mut table = Table::new(&["TYPE", "CAPACITY", "BEFORE", "AFTER", "CHANGE", "$/H BEFORE", "$/H AFTER"])
        .right(&[2, 3, 4, 5, 6]);
    for row in &what_if.nodes_by_type {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        table.push(vec![
            text(&row.instance_type),
            text(&row.capacity_type),
            row.before.to_string(),
            row.after.to_string(),
            signed(row.after as i64 - row.before as i64),
            show::money(row.price_per_hour_before),
            show::money(row.price_per_hour_after),
        ]);
    }
    table
}

fn pods(what_if: &WhatIf, streams: &mut Streams) -> std::io::Result<()> {
    let refused = grouped(
        what_if.newly_refused.iter().map(|refused| (refused.pod.as_str(), reasons(&refused.reasons))),
    );
    if !refused.is_empty() {
        writeln!(streams.out, "\n{RED}newly refused{RED:#}")?;
    }
    for (reasons, pods) in refused {
        writeln!(streams.out, "  {}", some(&pods))?;
        for reason in reasons.lines() {
            writeln!(streams.out, "      {reason}")?;
        }
    }
    let placed = what_if.newly_placed.iter().map(|placed| (placed.pod.as_str(), told(&placed.to)));
    moves("newly placed", grouped(placed), streams)?;
    let moved =
        what_if.pods_moved.iter().map(|m| (m.pod.as_str(), format!("{} -> {}", told(&m.from), told(&m.to))));
    moves("moved", grouped(moved), streams)
}

fn moves(title: &str, groups: Vec<(String, Vec<&str>)>, streams: &mut Streams) -> std::io::Result<()> {
    if !groups.is_empty() {
        writeln!(streams.out, "\n{BOLD}{title}{BOLD:#}")?;
    }
    for (place, pods) in groups.iter().take(GROUPS_SHOWN) {
        writeln!(streams.out, "  {}: {place}", some(pods))?;
    }
    if let Some(rest) = groups.get(GROUPS_SHOWN..).filter(|rest| !rest.is_empty()) {
        let pods: usize = rest.iter().map(|(_, pods)| pods.len()).sum();
        writeln!(streams.out, "  {DIM}and {} more (-o json lists all){DIM:#}", show::plural(pods, "pod"))?;
    }
    Ok(())
}

/// Pods of which the same is to be said, in order of appearance.
fn grouped<'p>(pods: impl Iterator<Item = (&'p str, String)>) -> Vec<(String, Vec<&'p str>)> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (pod, text) in pods {
        match groups.iter_mut().find(|(have, _)| *have == text) {
            Some((_, pods)) => pods.push(pod),
            None => groups.push((text, vec![pod])),
        }
    }
    groups
}

fn some(pods: &[&str]) -> String {
    match pods {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

fn told(place: &Place) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    match &place.node {
        Some(node) => node.clone(),
        None => {
            format!("new {} {} {}", text(&place.instance_type), text(&place.zone), text(&place.capacity_type))
        }
    }
}

fn reasons(reasons: &[ReasonDocument]) -> String {
    let lines: Vec<String> = reasons
        .iter()
        .map(|reason| match &reason.node_pool {
            Some(pool) => format!("nodepool/{pool}: {}", reason.message),
            None => reason.message.clone(),
        })
        .collect();
    lines.join("\n")
}
