//! `--explain`: the story of one pod.

use joiner_core::explain::Story;
use joiner_core::model::{Relaxed, Snapshot};
use joiner_core::pack::scratch::Spot;

use crate::Streams;
use crate::show;

/// Prints the story.
pub fn write(snapshot: &Snapshot, story: &Story, streams: &mut Streams) -> std::io::Result<()> {
    let name = &snapshot.pods[story.pod.at()].name;
    let (good, bad) = (show::GREEN, show::RED);
    match story.spot {
        Some(Spot::Machine(_)) | None if story.divided.is_some() => divided(snapshot, story, streams)?,
        Some(Spot::Node(node)) => {
            let node = &snapshot.nodes[node.at()].name;
            writeln!(
                streams.out,
                "{good}Pod {name} goes onto the existing node {node}{good:#}: the first that takes it."
            )?;
        }
        Some(Spot::Machine(machine)) if story.opened => {
            let pool = story.funnel.map(|funnel| &snapshot.pools[funnel.pool.at()].name);
            let pool = pool.map_or("", |name| name);
            writeln!(
                streams.out,
                "{good}Pod {name} gets a new node from nodepool/{pool}{good:#} (the {} opened): nothing there takes it.",
                ordinal(machine.at() + 1)
            )?;
        }
        Some(Spot::Machine(machine)) => writeln!(
            streams.out,
            "{good}Pod {name} joins the {} node opened in this plan{good:#}: of those that take it, the one with the fewest pods.",
            ordinal(machine.at() + 1)
        )?,
        None => {
            writeln!(streams.out, "{bad}Pod {name} has no place{bad:#}: no node will be created for it.")?
        }
    }
    writeln!(streams.out)?;
    writeln!(streams.out, "  queue          {} of {} (largest CPU request first)", story.turn, story.queue)?;
    tally(streams, "existing nodes", &story.nodes)?;
    tally(streams, "opened nodes", &story.machines)?;
    if let Some(funnel) = story.funnel {
        writeln!(
            streams.out,
            "  funnel         {} offerings → {} allowed by nodepool/{} → {} match the pod → {} hold it → {} left with all pods of its node",
            funnel.catalogue,
            funnel.pool_allows,
            snapshot.pools[funnel.pool.at()].name,
            funnel.pod_allows,
            funnel.fit,
            funnel.left,
        )?;
    }
    let withheld = match (story.divided, story.funnel) {
        (Some(divided), _) => Some((divided.pool, divided.withheld)),
        (None, funnel) => funnel.map(|funnel| (funnel.pool, funnel.withheld)),
    };
    if let Some((pool, types)) = withheld.filter(|(_, types)| *types > 0) {
        writeln!(
            streams.out,
            "  withheld       {} that would do for its node: the limits of nodepool/{} leave no room for what it would be then",
            show::plural(types, "more type"),
            snapshot.pools[pool.at()].name,
        )?;
    }
    for relaxed in &story.relaxed {
        writeln!(streams.out, "  given up       {}", words(*relaxed))?;
    }
    for reason in &story.reasons {
        let pool = reason
            .pool
            .map_or(String::new(), |pool| format!("nodepool/{}: ", snapshot.pools[pool.at()].name));
        writeln!(streams.out, "  cause          {pool}{} [{}]", reason.message(), reason.code().code())?;
    }
    Ok(())
}

fn divided(snapshot: &Snapshot, story: &Story, streams: &mut Streams) -> std::io::Result<()> {
    let Some(divided) = story.divided else { return Ok(()) };
    let good = show::GREEN;
    let pool = &snapshot.pools[divided.pool.at()];
    let catalogue = &snapshot.catalogues[pool.catalogue.at()];
    let offering = &catalogue.offerings[divided.offering.at()];
    let company = match divided.pods {
        1 => "alone".to_owned(),
        n => format!("with {}", show::plural(n - 1, "other pod")),
    };
    writeln!(
        streams.out,
        "{good}Pod {} goes onto the new node {}-{}{good:#} ({} at {}/h, or one of {}), {company}: the cheapest division of all pods found.",
        snapshot.pods[story.pod.at()].name,
        pool.name,
        divided.number,
        catalogue.types[offering.instance_type.at()].name,
        show::money(offering.price),
        show::plural(divided.types, "type"),
    )
}

fn tally(streams: &mut Streams, what: &str, list: &[(&str, usize)]) -> std::io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    let parts: Vec<String> = list
        .iter()
        .map(|(word, count)| match *word {
            "taint" => format!("{count} refuse it by a taint"),
            "labels" => format!("{count} lack labels it asks for"),
            "requirements" => format!("{count} contradict its requirements"),
            "room" => format!("{count} have no room"),
            word => format!("{count} {word}"),
        })
        .collect();
    writeln!(streams.out, "  {what:<14} {}", parts.join(", "))
}

pub(super) fn words(relaxed: Relaxed) -> &'static str {
    match relaxed {
        Relaxed::RequiredTerm => "one of several required node-affinity terms (any of them will do)",
        Relaxed::PodAffinity => "a preferred pod affinity",
        Relaxed::PodAntiAffinity => "a preferred pod anti-affinity",
        Relaxed::NodeAffinity => "a preferred node affinity",
        Relaxed::Spread => "a ScheduleAnyway topology spread",
        Relaxed::PreferNoSchedule => "staying away from PreferNoSchedule taints",
    }
}

fn ordinal(n: usize) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}
