//! A plan held against every hard rule, by the checker that shares no code with either program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use joiner_oracle::checker;
use joiner_oracle::world::World;
use serde_json::Value;

/// Broken rules of a plan with their number; one example of each goes to the terminal.
pub fn violations(dir: &Path, plan: &Value) -> Result<BTreeMap<String, u64>> {
    Ok(Judge::new(dir)?.violations(plan))
}

/// Holds several plans against one input.
pub struct Judge(World);

impl Judge {
    /// Reads an input with the checker's own reader.
    pub fn new(dir: &Path) -> Result<Judge> {
        let manifests = read(&dir.join("manifests.json"))?;
        let types = read(&dir.join("types.json"))?;
        let items = manifests["items"].as_array().context("`manifests.json` has no `items`")?;
        let types = types.as_array().context("`types.json` is no list")?;
        let world =
            World::from_manifests(items, types).map_err(|error| anyhow!("{}: {error}", dir.display()))?;
        Ok(Judge(world))
    }

    /// Broken rules of a plan with their number; one example of each goes to the terminal.
    pub fn violations(&self, plan: &Value) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for violation in checker::check(&self.0, plan) {
            let count = counts.entry(violation.rule.to_owned()).or_insert(0);
            if *count == 0 {
                eprintln!("    {violation}");
            }
            *count += 1;
        }
        counts
    }
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("reading `{}`", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parsing `{}`", path.display()))
}
