//! `aws-catalogue`: packs what `joiner-provider-aws` knows of machine types, regions and prices.
//!
//! The facts stand in `crates/joiner-provider-aws/data` as JSON lines; `data/README.md` there tells where they are from. Packed they are one line of text per
//! region and per type, under zstd. `--check` packs again and compares, for CI.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

/// As small as it gets; it takes a second.
const COMPRESSION: i32 = 22;
const FOLDER: &str = "crates/joiner-provider-aws/data";
const PACKED: &str = "catalogue.tsv.zst";
/// The list that estimates start from.
const BASE_LIST: &str = "us-east-1";
/// The letter of zone set 0, nothing. A set is a number of 6 bits.
const NO_ZONE: u8 = b'0';
const ZONES_MAX: usize = 6;

/// Arguments of `aws-catalogue`.
#[derive(clap::Args)]
pub struct Args {
    /// Write nothing; fail if what would be written is not what is there
    #[arg(long)]
    check: bool,
}

/// Packs the catalogue.
pub fn run(args: &Args, root: &Path) -> anyhow::Result<()> {
    let folder = root.join(FOLDER);
    let text = text(&folder)?;
    let file = folder.join(PACKED);
    if args.check {
        let there = fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        if zstd::decode_all(there.as_slice())? != text.as_bytes() {
            bail!("`{FOLDER}/{PACKED}` does not hold what the data say: run `cargo xtask aws-catalogue`");
        }
        return Ok(());
    }
    let packed = zstd::bulk::compress(text.as_bytes(), COMPRESSION)?;
    fs::write(&file, &packed).with_context(|| format!("cannot write `{}`", file.display()))?;
    println!(
        "{FOLDER}/{PACKED}: {} lines, {} bytes, packed {}",
        text.lines().count(),
        text.len(),
        packed.len()
    );
    Ok(())
}

/// One region with where its types are to be had.
struct Region {
    name: String,
    /// Last letters of its zones.
    zones: Vec<String>,
    /// Number of its price list, or what the first list is multiplied with.
    prices: Result<usize, f64>,
    /// Zone sets by type.
    offered: BTreeMap<String, u8>,
}

fn text(folder: &Path) -> anyhow::Result<String> {
    let lists = price_lists(folder)?;
    let regions = regions(folder, &lists)?;
    let network: BTreeMap<String, Value> = lines(folder, "network.jsonl")?
        .into_iter()
        .filter_map(|line| Some((line["type"].as_str()?.to_owned(), line)))
        .collect();
    let mut text = String::new();
    for region in &regions {
        let prices = match region.prices {
            Ok(list) => format!("list {list}"),
            Err(factor) => format!("times {factor}"),
        };
        writeln!(text, "{}\t{}\t{prices}", region.name, region.zones.join(","))?;
    }
    text.push('\n');
    let mut types = lines(folder, "types.jsonl")?;
    types.sort_by(|a, b| a["InstanceType"].as_str().cmp(&b["InstanceType"].as_str()));
    for of in &types {
        let name = of["InstanceType"].as_str().context("a type without a name")?;
        let offered: String = regions
            .iter()
            .map(|region| char::from(NO_ZONE + region.offered.get(name).copied().unwrap_or(0)))
            .collect();
        let mut columns = machine(name, of, network.get(name).unwrap_or(&Value::Null))?;
        columns.push(offered.trim_end_matches(char::from(NO_ZONE)).to_owned());
        let price = |list: &BTreeMap<String, f64>| list.get(name).map(f64::to_string).unwrap_or_default();
        columns.extend(lists.iter().map(|(_, list)| price(list)));
        writeln!(text, "{}", columns.join("\t").trim_end_matches('\t'))?;
    }
    Ok(text)
}

/// Lists in dollars, that of [`BASE_LIST`] first.
fn price_lists(folder: &Path) -> anyhow::Result<Vec<(String, BTreeMap<String, f64>)>> {
    let mut lists = Vec::new();
    for line in lines(folder, "on-demand-prices.jsonl")? {
        if line["currency"] != "USD" {
            continue;
        }
        let region = line["region"].as_str().context("a price list without a region")?.to_owned();
        let prices = line["onDemand"].as_object().context("a price list without prices")?;
        let prices = prices.iter().map(|(name, price)| {
            Ok((name.clone(), price.as_f64().filter(|price| *price > 0.0).context("a price that is none")?))
        });
        lists.push((region, prices.collect::<anyhow::Result<_>>()?));
    }
    lists.sort_by(|(a, _), (b, _)| (a != BASE_LIST, a).cmp(&(b != BASE_LIST, b)));
    Ok(lists)
}

fn regions(folder: &Path, lists: &[(String, BTreeMap<String, f64>)]) -> anyhow::Result<Vec<Region>> {
    // By region and zone: types.
    let mut offered: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let texts = |of: &Value| -> Vec<String> {
        of.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for line in lines(folder, "offerings.jsonl")? {
        let region = line["region"].as_str().context("an offering without a region")?;
        let zones = offered.entry(region.to_owned()).or_default();
        for zone in texts(&line["zones"]) {
            zones.entry(zone).or_default().extend(texts(&line["types"]));
        }
    }
    let file = folder.join("regions.tsv");
    let told = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let told: BTreeMap<&str, (&str, &str)> = told
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split('\t');
            Some((columns.next()?, (columns.next()?, columns.next()?)))
        })
        .collect();
    // Where nobody lists offerings, a type with a price is one that is sold.
    for (name, (_, zones)) in told.iter().filter(|(_, (_, zones))| !zones.is_empty()) {
        let (_, list) =
            lists.iter().find(|(of, _)| of == name).with_context(|| format!("no prices of {name}"))?;
        let of_region = offered.entry((*name).to_owned()).or_default();
        for zone in zones.split(',') {
            of_region.insert(format!("{name}{zone}"), list.keys().cloned().collect());
        }
    }
    let mut regions = Vec::new();
    for (name, by_zone) in offered {
        let prices = match lists.iter().position(|(of, _)| *of == name) {
            Some(list) => Ok(list),
            None => {
                let factor = told.get(name.as_str()).map_or("", |(factor, _)| factor);
                Err(factor.parse().with_context(|| format!("`regions.tsv` has no estimate for {name}"))?)
            }
        };
        if by_zone.len() > ZONES_MAX {
            bail!("{name} has more than {ZONES_MAX} zones");
        }
        let mut region = Region { zones: Vec::new(), prices, offered: BTreeMap::new(), name };
        for (at, (zone, types)) in by_zone.into_iter().enumerate() {
            let letter = zone.strip_prefix(&region.name).with_context(|| format!("`{zone}` is elsewhere"))?;
            region.zones.push(letter.to_owned());
            for of in types {
                *region.offered.entry(of).or_default() |= 1 << at;
            }
        }
        regions.push(region);
    }
    Ok(regions)
}

/// The columns of a machine.
fn machine(name: &str, of: &Value, network: &Value) -> anyhow::Result<Vec<String>> {
    let number = |pointer: &str| of.pointer(pointer).and_then(Value::as_f64);
    let whole = |pointer: &str| number(pointer).map(|n| format!("{n:.0}")).unwrap_or_default();
    let text = |pointer: &str| of.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let holds = |pointer: &str, value: &str| {
        of.pointer(pointer)
            .and_then(Value::as_array)
            .is_some_and(|list| list.iter().any(|item| item == value))
    };
    let is = |pointer: &str| of.pointer(pointer) == Some(&Value::Bool(true));
    let architecture = match () {
        () if holds("/ProcessorInfo/SupportedArchitectures", "arm64") => "arm64",
        () if holds("/ProcessorInfo/SupportedArchitectures", "x86_64") => "amd64",
        () => bail!("{name} is neither x86_64 nor arm64"),
    };
    let has_local = of.get("InstanceStorageInfo").is_some();
    let flags = [
        ('m', is("/BareMetal")),
        ('n', text("/Hypervisor") == "nitro"),
        ('x', text("/Hypervisor") == "xen"),
        ('s', holds("/SupportedUsageClasses", "spot")),
        ('e', is("/NetworkInfo/EncryptionInTransitSupported")),
        ('c', text("/NitroEnclavesSupport") == "supported"),
        ('v', holds("/ProcessorInfo/SupportedFeatures", "nested-virtualization")),
        ('d', has_local && text("/InstanceStorageInfo/NvmeSupport") != "unsupported"),
    ];
    let ebs = match text("/EbsInfo/EbsOptimizedSupport") {
        "default" => whole("/EbsInfo/EbsOptimizedInfo/MaximumBandwidthInMbps"),
        _ => String::new(),
    };
    let clock = number("/ProcessorInfo/SustainedClockSpeedInGhz").map(|ghz| format!("{:.0}", ghz * 1000.0));
    let cards =
        of.pointer("/NetworkInfo/NetworkCards").and_then(Value::as_array).context("no network cards")?;
    let cards = cards.iter().map(|card| {
        let efa =
            card["InterfaceTypes"].as_array().is_some_and(|types| types.iter().any(|of| of == "efa-only"));
        format!("{}{}", card["MaximumNetworkInterfaces"], if efa { "e" } else { "" })
    });
    let only = |pointer: &str| {
        of.pointer(pointer)
            .and_then(Value::as_array)
            .filter(|list| list.len() == 1)
            .and_then(|list| list.first())
    };
    let part = |of: &Value, pointer: &str| of.pointer(pointer).map_or(String::new(), word);
    let device = |pointer: &str, parts: [&str; 4]| {
        only(pointer).map(|of| parts.map(|pointer| part(of, pointer)).join("|")).unwrap_or_default()
    };
    let of_network =
        |key: &str| network[key].as_u64().filter(|n| *n > 0).map(|n| n.to_string()).unwrap_or_default();
    Ok(vec![
        name.to_owned(),
        architecture.to_owned(),
        whole("/VCpuInfo/DefaultVCpus"),
        whole("/MemoryInfo/SizeInMiB"),
        flags.into_iter().filter(|(_, holds)| *holds).map(|(flag, _)| flag).collect(),
        whole("/InstanceStorageInfo/TotalSizeInGB"),
        ebs,
        clock.unwrap_or_default(),
        word(&of["ProcessorInfo"]["Manufacturer"]),
        whole("/NetworkInfo/Ipv4AddressesPerInterface"),
        cards.collect::<Vec<_>>().join(","),
        whole("/NetworkInfo/EfaInfo/MaximumEfaInterfaces"),
        of_network("bandwidthMbps"),
        of_network("branchInterfaces"),
        device("/GpuInfo/Gpus", ["/Name", "/Manufacturer", "/Count", "/MemoryInfo/SizeInMiB"]),
        device("/InferenceAcceleratorInfo/Accelerators", ["/Name", "/Manufacturer", "/Count", "/none"]),
        device("/NeuronInfo/NeuronDevices", ["/Name", "/none", "/Count", "/CoreInfo/Count"]),
    ])
}

/// A value as labels have it: lower case, dashes for blanks.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_lowercase().replace(' ', "-"),
        other => other.to_string(),
    }
}

fn lines(folder: &Path, name: &str) -> anyhow::Result<Vec<Value>> {
    let file = folder.join(name);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
    text.lines()
        .enumerate()
        .map(|(at, line)| {
            serde_json::from_str(line).with_context(|| format!("{}:{}: not JSON", file.display(), at + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packed_catalogue_holds_what_the_data_say() {
        run(&Args { check: true }, &crate::root()).unwrap();
    }
}
