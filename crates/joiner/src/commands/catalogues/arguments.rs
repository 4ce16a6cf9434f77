//! Arguments that say what can be launched.

use std::path::PathBuf;

use clap::Args;

use crate::cli::Catalog;

/// Which machine types there are.
#[derive(Debug, Clone, Args)]
pub struct CatalogueArgs {
    /// Instance types to choose from (KWOK's file format, JSON or YAML), for all pools, instead of a shipped catalogue.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["catalog", "region", "prices"])]
    pub instance_types: Option<PathBuf>,
    /// Shipped catalogue for all pools: `kwok` (144 hypothetical types) or `aws` (those of an AWS region). Without it, pools of an
    /// EC2NodeClass get `aws`, others `kwok`.
    #[arg(long, value_enum, ignore_case = true)]
    pub catalog: Option<Catalog>,
    /// What holds for machines of AWS.
    #[command(flatten)]
    pub aws: AwsArgs,
}

/// What holds for machines of AWS.
#[derive(Debug, Clone, Args)]
pub struct AwsArgs {
    /// Region of AWS machines. Without it, the one whose zones pools, volumes and nodes name, else us-east-1.
    #[arg(long, value_name = "REGION", help_heading = "AWS")]
    pub region: Option<String>,
    /// Prices of AWS machines per hour: a table (CSV) or list (JSON) of type, region, zone, capacity type and price, or what `aws pricing
    /// get-products` or `aws ec2 describe-spot-price-history` answers; repeatable, later files win.
    #[arg(long, value_name = "FILE", help_heading = "AWS")]
    pub prices: Vec<PathBuf>,
    /// Share of an AWS machine's memory that hypervisor and firmware keep.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = AwsArgs::default().vm_memory_overhead_percent,
        value_parser = share,
        env = "VM_MEMORY_OVERHEAD_PERCENT",
        help_heading = "AWS"
    )]
    pub vm_memory_overhead_percent: f64,
    /// Network interfaces of AWS machines that are not for pods.
    #[arg(long, value_name = "N", default_value_t = 0, env = "RESERVED_ENIS", help_heading = "AWS")]
    pub reserved_enis: u32,
}

impl Default for AwsArgs {
    fn default() -> Self {
        let usual = joiner_provider_aws::resources::Settings::default();
        Self {
            region: None,
            prices: Vec::new(),
            vm_memory_overhead_percent: usual.vm_memory_overhead,
            reserved_enis: usual.reserved_enis,
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| (0.0..1.0).contains(share));
    share.ok_or_else(|| "give a share from 0 to less than 1, e.g. 0.075 for 7.5 %".to_owned())
}
