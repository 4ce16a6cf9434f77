//! `instance-types list`: types with their size and prices.

use std::collections::BTreeMap;
use std::path::PathBuf;

use joiner_api::instance_type::PriceSource;
use joiner_api::names::{ARCH_LABEL, ON_DEMAND, OS_LABEL, RESERVED, SPOT};
use joiner_core::explain::nearest;
use joiner_provider_kwok::{Catalogue, Filter, TypeRow, rows};
use joiner_record::plan::PriceSourceWord;
use serde::Serialize;

use super::text_of;
use crate::cli::{Catalog, Format, ListArgs, Output};
use crate::commands::catalogues;
use crate::load::{Source, sources};
use crate::report::InputError;
use crate::show::{Table, amount, bytes, cores, value};
use crate::{BAD_INPUT, FINE, Streams};

/// Prints the list.
pub fn run(arguments: &ListArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let catalogue = match &arguments.filename {
        None => match arguments.catalog {
            Catalog::Kwok => Catalogue::hypothetical(),
            Catalog::Aws => {
                let (catalogue, notes) = catalogues::of_region(&arguments.aws)?;
                for note in notes {
                    writeln!(streams.err, "note: {note}")?;
                }
                catalogue
            }
        },
        Some(path) => {
            let source = only_source(path)?;
            match Catalogue::from_text(&source.name(), &text_of(&source, "-f")?) {
                Ok(catalogue) => catalogue,
                Err(refused) => {
                    for problem in &refused.problems {
                        writeln!(streams.err, "error: {}: {problem}", refused.file_name)?;
                    }
                    return Ok(BAD_INPUT);
                }
            }
        }
    };
    for note in &catalogue.notes {
        writeln!(streams.err, "note: {note}")?;
    }
    let filter = Filter {
        architecture: arguments.arch.clone(),
        operating_system: arguments.os.clone(),
        zone: arguments.zone.clone(),
        capacity_type: arguments.capacity_type.clone(),
        name_contains: arguments.name.clone(),
    };
    let mut shown = catalogue.clone();
    keep_offerings(&mut shown, &filter);
    let rows = rows(&shown, &filter);
    if rows.is_empty() {
        writeln!(streams.err, "{}", nothing_found(&catalogue, &filter))?;
    }
    let text = match arguments.output {
        Output::Table => table(&rows, false, arguments.no_headers).render(streams.width),
        Output::Wide => table(&rows, true, arguments.no_headers).render(streams.width),
        Output::Json => value(&records(&rows), Format::Json)?,
        Output::Yaml => value(&records(&rows), Format::Yaml)?,
    };
    // A heading over nothing helps nobody: the note says what there is.
    if !rows.is_empty() || !matches!(arguments.output, Output::Table | Output::Wide) {
        streams.out.write_all(text.as_bytes())?;
    }
    Ok(FINE)
}

/// Who asks for a zone or capacity type wants to see prices there, not the lowest anywhere.
fn keep_offerings(catalogue: &mut Catalogue, filter: &Filter) {
    let is = |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
    for of in &mut catalogue.types {
        of.offerings.retain(|offering| {
            is(&filter.zone, offering.zone()) && is(&filter.capacity_type, offering.capacity_type())
        });
    }
}

fn only_source(path: &PathBuf) -> Result<Source, InputError> {
    if path.is_dir() {
        let remedy = "name one file (`joiner instance-types check` takes folders)";
        return Err(InputError::of_file(&path.display().to_string(), "this is a folder", remedy));
    }
    let mut found = sources(std::slice::from_ref(path))?;
    Ok(found.remove(0))
}

// ---- For people ----

const HEADING: [&str; 8] = ["NAME", "ARCH", "CPU", "MEMORY", "PODS", "ZONES", "ON-DEMAND $/H", "SPOT $/H"];
const WIDE_HEADING: [&str; 12] = [
    "NAME",
    "ARCH",
    "CPU",
    "MEMORY",
    "PODS",
    "ZONES",
    "ON-DEMAND $/H",
    "SPOT $/H",
    "RESERVED $/H",
    "OS",
    "OFFERINGS",
    "OTHER RESOURCES",
];

fn table(rows: &[TypeRow], wide: bool, without_heading: bool) -> Table {
    let mut table = Table::new(if wide { &WIDE_HEADING } else { &HEADING });
    table = table.right(if wide { &[2, 3, 4, 6, 7, 8, 10] } else { &[2, 3, 4, 6, 7] });
    if without_heading {
        table = table.without_heading();
    }
    for row in rows {
        let mut cells = vec![
            row.name.clone(),
            row.architecture.clone(),
            cores(row.cpu.milli_saturating()),
            bytes(row.memory.value_saturating()),
            row.pods.to_string(),
            zones(&row.zones),
            price(row, ON_DEMAND, row.on_demand),
            price(row, SPOT, row.spot),
        ];
        if wide {
            let other: Vec<String> =
                row.other.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
            cells.push(price(row, RESERVED, row.reserved));
            cells.push(row.operating_systems.join(","));
            cells.push(if row.available == row.offerings {
                row.offerings.to_string()
            } else {
                format!("{}/{}", row.available, row.offerings)
            });
            cells.push(if other.is_empty() { "-".to_owned() } else { other.join(" ") });
        }
        table.push(cells);
    }
    table
}

/// A price, with a mark if it is an estimate.
fn price(row: &TypeRow, capacity_type: &str, per_hour: Option<f64>) -> String {
    let mark = if row.price_sources.get(capacity_type) == Some(&PriceSource::Estimate) { "~" } else { "" };
    format!("{mark}{}", decimals(per_hour))
}

/// Four decimals, so that a column of prices can be compared at a glance.
fn decimals(per_hour: Option<f64>) -> String {
    match per_hour {
        None => "-".to_owned(),
        Some(price) if price != 0.0 && price.abs() < 0.001 => amount(price),
        Some(price) => format!("{price:.4}"),
    }
}

/// `us-west-2a,b,c`: zones that differ in their last letter are shortened.
fn zones(zones: &[String]) -> String {
    let stem = |zone: &str| zone.char_indices().last().map(|(at, _)| zone[..at].to_owned());
    match zones {
        [first, rest @ ..] if !rest.is_empty() => {
            let of_first = stem(first);
            let alike = of_first.as_ref().is_some_and(|of| !of.is_empty())
                && rest.iter().all(|zone| stem(zone) == of_first);
            if !alike {
                return zones.join(",");
            }
            let ends = rest.iter().filter_map(|zone| zone.chars().last()).map(|end| format!(",{end}"));
            ends.fold(first.clone(), |text, end| text + &end)
        }
        _ => zones.join(","),
    }
}

/// Why the list is empty: the first filter that nothing passes, and what there is instead.
fn nothing_found(catalogue: &Catalogue, filter: &Filter) -> String {
    let values = |key: &str| {
        let requirements = catalogue.types.iter().filter_map(|of| of.requirement(key));
        sorted(requirements.flat_map(|requirement| requirement.values.iter().map(String::as_str)))
    };
    let offerings = || catalogue.types.iter().flat_map(|of| &of.offerings);
    let questions = [
        ("architecture", &filter.architecture, values(ARCH_LABEL)),
        ("operating system", &filter.operating_system, values(OS_LABEL)),
        ("zone", &filter.zone, sorted(offerings().filter_map(|offering| offering.zone()))),
        (
            "capacity type",
            &filter.capacity_type,
            sorted(offerings().filter_map(|offering| offering.capacity_type())),
        ),
    ];
    for (what, wanted, known) in questions {
        let Some(wanted) = wanted.as_deref().filter(|wanted| !known.contains(wanted)) else { continue };
        let hint = match nearest(wanted, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        return format!("no instance type has {what} `{wanted}`; {hint}");
    }
    match &filter.name_contains {
        Some(part) if !catalogue.types.iter().any(|of| of.name.contains(part.as_str())) => {
            format!("no instance type has `{part}` in its name")
        }
        _ => "no instance type passes all these filters; leave one out".to_owned(),
    }
}

fn sorted<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut values: Vec<&str> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

// ---- For programs ----

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    name: &'a str,
    architecture: &'a str,
    operating_systems: &'a [String],
    resources: BTreeMap<&'a str, String>,
    zones: &'a [String],
    /// Lowest dollars per hour by capacity type, of what can be had.
    lowest_price_per_hour: BTreeMap<&'static str, f64>,
    /// How well these prices are known; what the list states itself is left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    price_source: BTreeMap<&'static str, PriceSourceWord>,
    offerings: usize,
    available_offerings: usize,
}

fn word(source: PriceSource) -> Option<PriceSourceWord> {
    match source {
        PriceSource::Stated => None,
        PriceSource::List => Some(PriceSourceWord::List),
        PriceSource::Estimate => Some(PriceSourceWord::Estimate),
        PriceSource::File => Some(PriceSourceWord::File),
    }
}

fn records(rows: &[TypeRow]) -> Vec<Record<'_>> {
    rows.iter()
        .map(|row| {
            let other = row.other.iter().map(|(name, amount)| (name.as_str(), amount.to_string()));
            let main = [("cpu", row.cpu), ("memory", row.memory), ("pods", row.pods)];
            let prices = [(ON_DEMAND, row.on_demand), (SPOT, row.spot), (RESERVED, row.reserved)];
            Record {
                name: &row.name,
                architecture: &row.architecture,
                operating_systems: &row.operating_systems,
                resources: main
                    .map(|(name, amount)| (name, amount.to_string()))
                    .into_iter()
                    .chain(other)
                    .collect(),
                zones: &row.zones,
                lowest_price_per_hour: prices
                    .into_iter()
                    .filter_map(|(of, price)| Some((of, price?)))
                    .collect(),
                price_source: row
                    .price_sources
                    .iter()
                    .filter_map(|(of, source)| Some((*of, word(*source)?)))
                    .collect(),
                offerings: row.offerings,
                available_offerings: row.available,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_shortened_only_where_nothing_is_lost() {
        let shown = |names: &[&str]| zones(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(shown(&["us-west-2a", "us-west-2b", "us-west-2c"]), "us-west-2a,b,c");
        assert_eq!(shown(&["us-west-2a", "us-west-2-lax-1a"]), "us-west-2a,us-west-2-lax-1a");
        assert_eq!(shown(&["a", "b"]), "a,b");
        assert_eq!(shown(&["cellar"]), "cellar");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn prices_have_four_decimals_unless_that_would_hide_them() {
        assert_eq!(decimals(Some(0.1)), "0.1000");
        assert_eq!(decimals(Some(12.345_67)), "12.3457");
        assert_eq!(decimals(Some(0.000_012_3)), "0.0000123");
        assert_eq!(decimals(Some(0.0)), "0.0000");
        assert_eq!(decimals(None), "-");
    }
}
