//! How pods are packed onto machines: the options of every command that decides.

use clap::{Args, ValueEnum};
use joiner_core::decide;
use joiner_core::plan::MAX_TYPES;

/// Options of packing.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Packing")]
pub struct PackingArgs {
    /// How pods are packed.
    #[arg(long, value_enum, default_value_t = Packing::Cheapest, ignore_case = true)]
    pub packing: Packing,
    /// What a node costs beyond its price when plans are compared (agents, licences, care), in dollars per hour; by default what
    /// 0.4 CPUs cost where a CPU costs least, about $0.01 on AWS.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars, allow_negative_numbers = true)]
    pub node_charge: Option<f64>,
    /// By how much a plan may be dearer to keep what pods only prefer; beyond that preferences are given up.
    #[arg(long, value_name = "PERCENT", default_value = "3", value_parser = percent, allow_negative_numbers = true)]
    pub preference_premium: f64,
    /// The most instance types a new node lists, for a provider to choose from.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = at_least_one, allow_negative_numbers = true)]
    pub max_instance_types: usize,
    /// By how much an instance type that a new node lists may be dearer than its cheapest.
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = percent, allow_negative_numbers = true)]
    pub type_premium: f64,
    /// How long to look for a cheaper plan, as a multiple of the usual work.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor, allow_negative_numbers = true)]
    pub effort: f64,
    /// Seed of the search for a cheaper plan: equal input and seed give equal plans.
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
}

/// Packing strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Packing {
    /// The cheapest plan of several strategies; never dearer than `upstream`.
    Cheapest,
    /// As Karpenter packs, its known defects corrected.
    Upstream,
}

impl PackingArgs {
    /// Writes the options where the core reads them.
    pub fn apply(&self, options: &mut decide::Options) {
        options.packing = match self.packing {
            Packing::Cheapest => decide::Packing::Cheapest,
            Packing::Upstream => decide::Packing::Upstream,
        };
        options.node_charge_nano_usd = self.node_charge.map(|dollars| (dollars * 1e9).round() as i64);
        options.preference_premium = self.preference_premium;
        options.max_types = self.max_instance_types;
        options.type_premium = self.type_premium;
        options.packing_work = options.packing_work.times(self.effort);
        options.seed = self.seed;
    }
}

fn number(text: &str, what: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("give {what}, zero or more"))
}

fn dollars(text: &str) -> Result<f64, String> {
    let amount = number(text.trim_start_matches('$'), "dollars per hour, as in `0.02`")?;
    if amount > 1e6 {
        Err("a node does not cost more than a million dollars an hour".to_owned())
    } else {
        Ok(amount)
    }
}

fn percent(text: &str) -> Result<f64, String> {
    Ok(number(text.trim_end_matches('%'), "a percentage, as in `10` or `10%`")? / 100.0)
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = number(text, "a factor, as in `2`")?;
    if factor > 1000.0 { Err("give a factor of at most 1000".to_owned()) } else { Ok(factor) }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "give a whole number, zero or more".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=MAX_TYPES).contains(n));
    number.ok_or_else(|| format!("give a number of types, from 1 to {MAX_TYPES}"))
}
