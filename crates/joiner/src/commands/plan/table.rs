//! The plan for people: verdict first, then nodes grouped alike, then every refused pod with its cause.

use std::collections::BTreeMap;

use joiner_core::model::names::{CPU, MEMORY};
use joiner_core::model::resources::lane_of;
use joiner_core::model::{ResVec, Snapshot};
use joiner_core::plan::Plan;

use crate::Streams;
use crate::show::{self, Table};
use joiner_record::plan::{PlanDocument, PlanNode, PriceSourceWord, Unschedulable};

/// Hours in a month, as cloud bills count them.
pub(super) const HOURS_PER_MONTH: f64 = 730.0;
const BAR_CELLS: usize = 8;

/// Nodes alike: one line of the table.
#[derive(Debug, Default)]
struct Group {
    names: Vec<String>,
    pods: usize,
    buffer_pods: usize,
    price: Option<f64>,
    /// Whether some of it is an estimate.
    estimated: bool,
    used: [i64; 2],
    room: [i64; 2],
    options: usize,
}

/// Whether existing, pool, type, zone, capacity type.
type GroupKey = (bool, String, String, String, String);

/// Prints the plan.
pub fn write(
    document: &PlanDocument,
    snapshot: &Snapshot,
    plan: &Plan,
    wide: bool,
    streams: &mut Streams,
) -> std::io::Result<()> {
    if let Some(standing) = &document.standing {
        super::standing_table::write(standing, streams)?;
    }
    verdict(document, streams)?;
    let groups = groups(document, snapshot, plan);
    if !groups.is_empty() {
        writeln!(streams.out)?;
        nodes(&groups, wide, streams)?;
    }
    if !document.buffers.is_empty() {
        writeln!(streams.out)?;
        super::buffers::write(&document.buffers, streams)?;
    }
    if !document.unschedulable.is_empty() {
        writeln!(streams.out)?;
        refused(document, streams)?;
    }
    Ok(())
}

fn verdict(document: &PlanDocument, streams: &mut Streams) -> std::io::Result<()> {
    let totals = &document.totals;
    let placed = totals.pods - totals.unschedulable;
    let (good, bad, dim) = (show::GREEN, show::RED, show::DIM);
    let refused_style = if totals.unschedulable > 0 { bad } else { dim };
    let bold = show::BOLD;
    let estimated = document.nodes.iter().filter(|node| !node.existing).any(is_estimate);
    let mut parts = vec![
        format!("{good}+ {}{good:#}", show::plural(totals.new_nodes, "node")),
        format!("{} placed", show::plural(placed, "pod")),
        format!("{refused_style}{} refused{refused_style:#}", totals.unschedulable),
        format!(
            "{bold}{}/h{bold:#} ({}/month)",
            told(totals.price_per_hour, estimated),
            told(totals.price_per_hour * HOURS_PER_MONTH, estimated),
        ),
    ];
    if let Some(bound) = totals.lower_bound_per_hour.filter(|_| totals.new_nodes > 0) {
        let gap = if bound > 0.0 { totals.price_per_hour / bound - 1.0 } else { 0.0 };
        parts.push(format!("lower bound {}/h (gap {})", show::money(bound), show::percent(gap)));
    }
    let time = document.timing.solve_seconds;
    let time = if time < 1.0 { format!("{:.1} ms", time * 1e3) } else { format!("{time:.2} s") };
    parts.push(format!("{dim}solved in {time}{dim:#}"));
    writeln!(streams.out, "{}", show::flow(&parts, streams.width))?;
    savings(document, streams)
}

/// A price, with a mark if it is an estimate.
fn told(price: f64, estimated: bool) -> String {
    format!("{}{}", if estimated { "~" } else { "" }, show::money(price))
}

fn is_estimate(node: &PlanNode) -> bool {
    node.price_source == Some(PriceSourceWord::Estimate)
}

/// What the original's strategy would have paid for the same pods.
fn savings(document: &PlanDocument, streams: &mut Streams) -> std::io::Result<()> {
    let totals = &document.totals;
    let (Some(price), Some(nodes)) = (totals.upstream_price_per_hour, totals.upstream_new_nodes) else {
        return Ok(());
    };
    if nodes == 0 {
        return Ok(());
    }
    let good = show::GREEN;
    let mut parts =
        vec![format!("  Karpenter's packing: {}, {}/h", show::plural(nodes, "node"), show::money(price))];
    match saved(price, totals.price_per_hour) {
        Saved::Some(dollars) => parts.push(format!(
            "{good}saved {}/h ({}/month, {}){good:#}",
            show::money(dollars),
            show::money(dollars * HOURS_PER_MONTH),
            show::percent(dollars / price),
        )),
        Saved::Nothing => parts[0].push_str(": nothing to save"),
        // For the same pods it is never cheaper.
        Saved::Less => parts[0].push_str(": cheaper because less runs, it leaves more pods without a place"),
    }
    // What was saved at the cost of wishes is not to be had for nothing: both belong together.
    if let Some(kept) = totals.preferences_price_per_hour {
        parts.push(format!("preferences of {} given up", show::plural(totals.preferences_given_up, "pod")));
        let still = match saved(price, kept) {
            Saved::Some(dollars) => {
                format!("saves {}/h ({})", show::money(dollars), show::percent(dollars / price))
            }
            Saved::Nothing => "saves nothing".to_owned(),
            Saved::Less => format!("costs {}/h more", show::money(kept - price)),
        };
        let more = totals.preferences_would_cost_percent.map_or(String::new(), |percent| {
            format!(", {} more than this with the charge per node", show::percent(percent / 100.0))
        });
        parts.push(format!("keeping all {still}: {}/h{more}", show::money(kept)));
        parts.push("see --preference-premium".to_owned());
    }
    writeln!(streams.out, "{}", show::flow(&parts, streams.width))
}

/// What a price is below another.
enum Saved {
    Some(f64),
    Nothing,
    Less,
}

fn saved(theirs: f64, ours: f64) -> Saved {
    let enough = theirs * 1e-6;
    match theirs - ours {
        saved if saved > enough => Saved::Some(saved),
        saved if saved < -enough => Saved::Less,
        _ => Saved::Nothing,
    }
}

fn groups(document: &PlanDocument, snapshot: &Snapshot, plan: &Plan) -> BTreeMap<GroupKey, Group> {
    let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
    for (at, node) in document.nodes.iter().enumerate() {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let key = (
            node.existing,
            text(&node.node_pool),
            text(&node.instance_type),
            text(&node.zone),
            text(&node.capacity_type),
        );
        let group = groups.entry(key).or_default();
        group.names.push(node.name.clone());
        group.pods += node.pods.len();
        group.buffer_pods += node.buffer_pods.len();
        group.options = group.options.max(node.instance_type_options.len());
        if let Some(price) = node.price_per_hour {
            *group.price.get_or_insert(0.0) += price;
            group.estimated |= is_estimate(node);
        }
        let (used, room) = load(snapshot, plan, at);
        for (slot, lane) in [CPU, MEMORY].into_iter().enumerate() {
            group.used[slot] += lane_of(&used, lane);
            group.room[slot] += lane_of(&room, lane);
        }
    }
    groups
}

/// What is used of what a node of the plan has, daemons and earlier pods included.
fn load(snapshot: &Snapshot, plan: &Plan, at: usize) -> (ResVec, ResVec) {
    if let Some(machine) = plan.machines.get(at) {
        let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
        return (Plan::used(machine), catalogue.offerings[machine.offering.at()].allocatable.clone());
    }
    let at = at - plan.machines.len();
    let (node, pods) = plan.kept.get(at).unwrap_or_else(|| &plan.on_nodes[at - plan.kept.len()]);
    let node = &snapshot.nodes[node.at()];
    let mut used = node.shown.allocatable.clone();
    joiner_core::model::resources::sub_into(&mut used, &node.available);
    for pod in pods {
        let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
        joiner_core::model::resources::add_into(&mut used, &class.requests);
    }
    (used, node.shown.allocatable.clone())
}

/// Columns that give way on a narrow terminal, one step after the other: bars first, then what matters least for the price.
const GIVING_WAY: [&[usize]; 4] = [&[], &[7, 9], &[4, 7, 9], &[3, 4, 7, 8, 9]];

fn nodes(groups: &BTreeMap<GroupKey, Group>, wide: bool, streams: &mut Streams) -> std::io::Result<()> {
    // Who asks for more columns gets them all, bars excepted.
    let steps = if wide { &GIVING_WAY[..2] } else { &GIVING_WAY[..] };
    let mut table = Table::default();
    for left_out in steps {
        table = node_table(groups, wide, left_out, streams);
        let whole = table.render(usize::MAX);
        if whole.lines().all(|line| line.chars().count() <= streams.width) {
            break;
        }
    }
    write!(streams.out, "{}", table.render(streams.width))
}

fn node_table(
    groups: &BTreeMap<GroupKey, Group>,
    wide: bool,
    left_out: &[usize],
    streams: &Streams,
) -> Table {
    let mut headings =
        vec!["NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "PODS", "CPU", "", "MEMORY", "", "$/H"];
    if wide {
        headings.extend(["$/H EACH", "OPTIONS", "NAMES"]);
    }
    let shown: Vec<usize> = (0..headings.len()).filter(|at| !left_out.contains(at)).collect();
    let headings: Vec<&str> = shown.iter().map(|at| headings[*at]).collect();
    let is_number = |at: &usize| [5, 6, 8, 10, 11, 12].contains(&shown[*at]);
    let numbers: Vec<usize> = (0..shown.len()).filter(is_number).collect();
    let mut table = Table::new(&headings).right(&numbers);
    for ((existing, pool, instance_type, zone, capacity), group) in groups {
        let count = group.names.len();
        let sign = if *existing { "=" } else { "+" };
        let share = |slot: usize| group.used[slot] as f64 / (group.room[slot].max(1)) as f64;
        let mut row = vec![
            format!("{sign} {count}"),
            pool.clone(),
            instance_type.clone(),
            zone.clone(),
            capacity.clone(),
            match group.buffer_pods {
                0 => group.pods.to_string(),
                more => format!("{}+{more}", group.pods),
            },
            format!("{}/{}", show::cores(group.used[0]), show::cores(group.room[0])),
            show::bar(share(0), BAR_CELLS, streams.unicode),
            format!("{}/{}", show::bytes(group.used[1]), show::bytes(group.room[1])),
            show::bar(share(1), BAR_CELLS, streams.unicode),
            group.price.map_or("-".to_owned(), |price| told(price, group.estimated)),
        ];
        if wide {
            row.push(group.price.map_or("-".to_owned(), |price| told(price / count as f64, group.estimated)));
            row.push(if *existing { "-".to_owned() } else { group.options.to_string() });
            let shown = group.names.iter().take(3).cloned().collect::<Vec<_>>().join(",");
            row.push(if count > 3 { format!("{shown},…") } else { shown });
        }
        table.push(shown.iter().map(|at| std::mem::take(&mut row[*at])).collect());
    }
    table
}

/// Pods refused for the same reasons are shown together.
fn refused(document: &PlanDocument, streams: &mut Streams) -> std::io::Result<()> {
    let mut alike: Vec<(Vec<&Unschedulable>, String)> = Vec::new();
    for refused in &document.unschedulable {
        let reasons = refused
            .reasons
            .iter()
            .map(|reason| match &reason.node_pool {
                Some(pool) => format!("nodepool/{pool}: {}", reason.message),
                None => reason.message.clone(),
            })
            .collect::<Vec<_>>()
            .join("\n");
        match alike.iter_mut().find(|(_, have)| *have == reasons) {
            Some((pods, _)) => pods.push(refused),
            None => alike.push((vec![refused], reasons)),
        }
    }
    let bad = show::RED;
    for (pods, reasons) in alike {
        let more =
            if pods.len() > 1 { format!(" and {} more like it", pods.len() - 1) } else { String::new() };
        writeln!(streams.out, "{bad}x{bad:#} {}{more}", pods[0].pod)?;
        for reason in reasons.lines() {
            writeln!(streams.out, "    {reason}")?;
        }
    }
    if let Some(first) = document.unschedulable.first() {
        let dim = show::DIM;
        writeln!(streams.out, "{dim}more: add --explain {}{dim:#}", first.pod)?;
    }
    Ok(())
}
