//! What stands, for people: what it costs, what of that is wasted, and what the same pods would cost packed afresh.

use super::table::HOURS_PER_MONTH;
use super::{AfreshDocument, StandingDocument};
use crate::Streams;
use crate::show::{self, BOLD, DIM, GREEN, plural};

/// Prints a line or two, and one for nodes that are counted apart.
pub fn write(standing: &StandingDocument, streams: &mut Streams) -> std::io::Result<()> {
    if standing.nodes > 0 {
        let price = standing.price_per_hour;
        let mut parts = vec![
            format!(
                "{BOLD}{}/h today{BOLD:#} ({}/month)",
                show::money(price),
                show::money(price * HOURS_PER_MONTH)
            ),
            plural(standing.nodes, "node"),
            plural(standing.pods, "pod"),
        ];
        if let Some(percent) = standing.waste_percent {
            parts.push(format!("waste {}/h ({percent:.1} %)", show::money(standing.waste_per_hour)));
        }
        writeln!(streams.out, "{}", show::flow(&parts, streams.width))?;
        if let Some(afresh) = &standing.packed_afresh {
            write_afresh(standing, afresh, streams)?;
        }
    }
    if standing.nodes_of_unknown_price > 0 {
        writeln!(
            streams.out,
            "{DIM}  {} of unknown price, with {}: counted apart{DIM:#}",
            plural(standing.nodes_of_unknown_price, "node"),
            plural(standing.pods_of_unknown_price, "pod"),
        )?;
    }
    Ok(())
}

fn write_afresh(
    standing: &StandingDocument,
    afresh: &AfreshDocument,
    streams: &mut Streams,
) -> std::io::Result<()> {
    let bound = afresh
        .lower_bound_per_hour
        .map(|bound| format!(" (bound {}/h)", show::money(bound)))
        .unwrap_or_default();
    let mut parts = vec![
        format!("  packed afresh {}/h{bound}", show::money(afresh.price_per_hour)),
        plural(afresh.nodes, "node"),
    ];
    let saved = standing.price_per_hour - afresh.price_per_hour;
    if saved > standing.price_per_hour * 1e-6 {
        let percent = saved / standing.price_per_hour * 100.0;
        parts.push(format!("{GREEN}{}/h less ({percent:.1} %){GREEN:#}", show::money(saved)));
    } else {
        parts.push("nothing to save".to_owned());
    }
    if !afresh.stays.is_empty() {
        parts.push(format!("{} as they are", plural(afresh.stays.len(), "node")));
    }
    writeln!(streams.out, "{}", show::flow(&parts, streams.width))
}
