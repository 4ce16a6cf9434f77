//! Whether one more instance type to choose from makes a plan dearer. It never should, but the search is no proof: how often it does and by
//! how much is part of the cost comparison.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::measure;
use crate::inputs::families::{Family, Scenario};
use crate::inputs::{self, Catalogue, Sources};

/// Trials of a full run.
const TRIALS: u32 = 300;
/// Trials of a quick run.
const QUICK: u32 = 6;
/// Families the workloads come from, in turn.
const FAMILIES: [Family; 4] = [Family::Unconstrained, Family::Services, Family::Spread, Family::AntiAffinity];
/// The charge per node of half of the trials. It is given because the default follows the catalogue, and would move with it.
const CHARGE: f64 = 0.01;

/// One workload planned twice.
pub struct Addition {
    /// The charge per node.
    pub charge: f64,
    /// Price and charges with the smaller catalogue.
    pub before: f64,
    /// Price and charges with one type more.
    pub after: f64,
}

impl Addition {
    /// By what share the plan got dearer; negative if it got cheaper.
    pub fn dearer_by(&self) -> f64 {
        self.after / self.before - 1.0
    }
}

/// Runs joiner on workloads with a part of the catalogue, and with one type more.
pub fn trials(joiner: &Path, directory: &Path, sources: &Sources, quick: bool) -> Result<Vec<Addition>> {
    let all = inputs::types_of(Catalogue::AwsGeneral, sources)?;
    let dir = directory.join("one-more-type");
    fs::create_dir_all(&dir).with_context(|| format!("creating `{}`", dir.display()))?;
    let mut additions = Vec::new();
    for number in 0..if quick { QUICK } else { TRIALS } {
        let family = FAMILIES[number as usize % FAMILIES.len()];
        // Numbers above those of the comparison, so that these are other workloads.
        let scenario = Scenario { family, number: 1_000 + number, pods: 40 + number % 7 * 30 };
        let mut manifests = Vec::new();
        scenario.write(inputs::DEFAULT_SEED, &mut manifests)?;
        fs::write(dir.join("manifests.json"), manifests)?;
        let mut draw = inputs::Draw::new(inputs::DEFAULT_SEED, 7_000_000 + u64::from(number));
        // Some types of every family and size: types are listed by family.
        let every = 3 + draw.below(12);
        let offset = draw.below(every);
        let in_cut = |at: u32| at % every == offset;
        let added = loop {
            let at = draw.below(all.len() as u32);
            if !in_cut(at) {
                break at;
            }
        };
        let charge = if number % 2 == 0 { CHARGE } else { 0.0 };
        let cost = |with: Option<u32>| -> Result<(f64, u64)> {
            let types: Vec<&Value> = (0u32..)
                .zip(&all)
                .filter(|(at, _)| in_cut(*at) || Some(*at) == with)
                .map(|(_, entry)| entry)
                .collect();
            fs::write(dir.join("types.json"), serde_json::to_string(&types)?)?;
            let charged = charge.to_string();
            let options = ["--packing", "cheapest", "--no-lower-bound", "--node-charge", &charged];
            let (measure, _) = measure::run_joiner_with(joiner, &dir, &options)?;
            Ok((measure.price_per_hour + charge * measure.nodes as f64, measure.unschedulable))
        };
        let (before, left_out) = cost(None)?;
        let (after, left_out_after) = cost(Some(added))?;
        // With a type that makes room for more pods the bills are not for the same pods.
        if before > 0.0 && left_out == left_out_after {
            additions.push(Addition { charge, before, after });
        }
    }
    fs::remove_dir_all(&dir)?;
    Ok(additions)
}
