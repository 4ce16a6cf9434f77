//! The instance types of the inputs, in the KWOK provider's file format.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::objects::{CAPACITY_TYPE, ZONE};

/// Which types an input offers.
#[derive(Clone, Copy)]
pub enum Catalogue {
    /// The 400 generated types of the original's benchmark.
    Fake,
    /// General-purpose AWS families of the fifth generation and later.
    AwsGeneral,
    /// The general ones and those with NVIDIA GPUs.
    AwsGpu,
    /// Every type of the AWS list.
    AwsAll,
}

/// Data the inputs are made from, read from `bench/data`.
pub struct Sources {
    aws: Vec<Value>,
    /// The trace, as CSV text.
    pub openb: String,
}

impl Sources {
    /// Reads both files.
    pub fn read(root: &Path) -> Result<Sources> {
        let data = root.join("bench").join("data");
        let read = |name: &str| {
            let path = data.join(name);
            fs::read_to_string(&path).with_context(|| format!("reading `{}`", path.display()))
        };
        let aws =
            serde_json::from_str(&read("aws-us-west-2.json")?).context("parsing `aws-us-west-2.json`")?;
        Ok(Sources { aws, openb: read("openb_pod_list_default.csv")? })
    }
}

/// The entries of `types.json`.
pub fn types(catalogue: Catalogue, sources: &Sources) -> Result<Vec<Value>> {
    let chosen = |wanted: &dyn Fn(&str) -> bool| -> Result<Vec<Value>> {
        let mut types = Vec::new();
        for entry in &sources.aws {
            let name = entry["name"].as_str().context("an AWS type has no `name`")?;
            if wanted(name) {
                types.push(entry.clone());
            }
        }
        Ok(types)
    };
    match catalogue {
        Catalogue::Fake => Ok((0..400).map(fake).collect()),
        Catalogue::AwsGeneral => chosen(&is_general),
        Catalogue::AwsAll => chosen(&|_| true),
        Catalogue::AwsGpu => {
            let mut types = chosen(&|name| is_general(name) || nvidia_gpus(name).is_some())?;
            for entry in &mut types {
                if let Some(gpus) = entry["name"].as_str().and_then(nvidia_gpus) {
                    entry["resources"]["nvidia.com/gpu"] = json!(gpus.to_string());
                }
            }
            Ok(types)
        }
    }
}

/// Type `index` of the original's benchmark: index + 1 CPUs, twice as many GiB, ten times as many pods. Its extra labels
/// `size`, `special` and `integer` cannot be said in the file format; no pod of the inputs asks for them.
fn fake(index: u32) -> Value {
    let cpu = index + 1;
    let bytes = f64::from(2 * cpu) * f64::from(1 << 30);
    let price = 0.1 * f64::from(cpu) + 0.1 * bytes / 1e9;
    let offerings: Vec<Value> = [
        ("spot", "test-zone-1"),
        ("spot", "test-zone-2"),
        ("on-demand", "test-zone-1"),
        ("on-demand", "test-zone-2"),
        ("on-demand", "test-zone-3"),
    ]
    .iter()
    .map(|(capacity_type, zone)| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": CAPACITY_TYPE, "operator": "In", "values": [capacity_type]},
            {"key": ZONE, "operator": "In", "values": [zone]},
        ]})
    })
    .collect();
    json!({
        "name": format!("fake-it-{index}"),
        "architecture": "amd64",
        "operatingSystems": ["linux", "windows", "darwin"],
        "resources": {"cpu": cpu.to_string(), "memory": format!("{}Gi", 2 * cpu), "pods": (10 * cpu).to_string()},
        "offerings": offerings,
    })
}

/// Names of the form `[cmr][5-9][a-z]*.SIZE`. Burstable families are left out: they are cheap because their CPU is a share.
fn is_general(name: &str) -> bool {
    let Some((family, _)) = name.split_once('.') else {
        return false;
    };
    let mut letters = family.chars();
    matches!(letters.next(), Some('c' | 'm' | 'r'))
        && matches!(letters.next(), Some('5'..='9'))
        && letters.all(|letter| letter.is_ascii_lowercase())
}

/// NVIDIA GPUs of an AWS type; the list the catalogue comes from does not carry them.
fn nvidia_gpus(name: &str) -> Option<u32> {
    let (family, size) = name.split_once('.')?;
    match (family, size) {
        ("g4dn", "12xlarge") => Some(4),
        ("g4dn", "metal") => Some(8),
        ("g5" | "g6" | "g6e", "12xlarge" | "24xlarge") => Some(4),
        ("g5" | "g6" | "g6e", "48xlarge") => Some(8),
        ("g4dn" | "g5" | "g6" | "g6e" | "gr6", _) => Some(1),
        ("p2", "xlarge") => Some(1),
        ("p2", "8xlarge") => Some(8),
        ("p2", "16xlarge") => Some(16),
        ("p3", "2xlarge") => Some(1),
        ("p3", "8xlarge") => Some(4),
        ("p3", "16xlarge") => Some(8),
        ("p3dn" | "p4d" | "p5", _) => Some(8),
        _ => None,
    }
}
