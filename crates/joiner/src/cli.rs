//! Flags and subcommands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

mod packing;

pub use packing::{Packing, PackingArgs};

use crate::commands::catalogues::{AwsArgs, CatalogueArgs};
/// The most pods taken in unless somebody says otherwise.
pub const MAX_PODS: usize = 2_000_000;

/// What `joiner` alone prints.
pub const WELCOME: &str = "\
joiner adds the machines your pods need and takes away those they don't: node autoscaling
you can try, explain and trust.

  joiner plan -f examples/inflate.yaml       which machines manifests need, and what they cost
  joiner up --demo                           a day in a simulated cluster; `joiner up` is your own
  joiner instance-types list --catalog aws   the machines joiner can choose from, with prices
  joiner --help                              everything else
";

/// Node autoscaling you can try, explain and trust.
#[derive(Debug, Parser)]
#[command(
    name = "joiner",
    version,
    about,
    propagate_version = true,
    max_term_width = 110,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Colours on the terminal.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show which machines manifests need, what they cost, and why a pod can't be placed.
    Plan(Box<PlanArgs>),
    /// Show what a change does to the plan: nodes, price, pods that move or lose their place.
    WhatIf(Box<crate::commands::what_if::WhatIfArgs>),
    /// Find what is wrong with pools, pods and overlays before they are applied.
    Lint(Box<crate::commands::lint::LintArgs>),
    /// Print older NodePools, Provisioners and node classes of AWS as they are written today.
    Convert(ConvertArgs),
    /// Print the CustomResourceDefinitions joiner serves.
    Crds(CrdsArgs),
    /// Find what is wrong with a cluster, before joiner is installed and after; nothing is changed.
    Doctor(crate::commands::doctor::DoctorArgs),
    /// Print what the charts install, as `helm template` would.
    Manifests(crate::commands::manifests::ManifestsArgs),
    /// List, generate or check instance types.
    InstanceTypes(InstanceTypesArgs),
    /// Read a live cluster into a file, without secrets, to be tried with `up --from` and `plan --from`.
    Snapshot(crate::commands::snapshot::SnapshotArgs),
    /// Run the autoscaler on a real cluster, or on one that is simulated in this process.
    Run(Box<crate::commands::run::RunArgs>),
    /// Live a simulated cluster under faults, from a seed or a scenario, and check that every promise holds.
    Simulate(Box<crate::commands::simulate::SimulateArgs>),
    /// Start a simulated cluster on this machine with joiner in it, or only a Kubernetes API.
    Up(crate::commands::up::UpArgs),
    /// Print a completion script for a shell.
    Completion(CompletionArgs),
    /// Print the version.
    Version(VersionArgs),
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  joiner plan -f shop.yaml                                   the machines a shop needs on hypothetical types
  joiner plan -f shop.yaml --catalog aws                     the same on machines of AWS us-east-1
  joiner plan -f pools.yaml -f shop.yaml --prices spot.json  AWS pools, with prices that `aws` answered
  joiner plan -f shop/ -f pools.yaml -o wide                 several files or folders, more columns
  kubectl get nodepools,nodes,pods -A -o json | joiner plan -f -     what a cluster costs, and lacks
  joiner plan --from prod.yaml                               the same of a snapshot
  joiner plan --from prod.yaml --from-mode intent            what joiner would have built for a cluster's workloads
  joiner plan -f shop.yaml --explain default/web-0           why this pod goes where it goes

Exit codes: 0 every pod has a place, 3 some pods were refused, 2 bad input.")]
pub struct PlanArgs {
    /// File, folder or `-` (standard input) with manifests, YAML or JSON; repeatable.
    #[arg(short = 'f', long = "filename", required_unless_present = "from", value_name = "FILE|DIR|-")]
    pub filename: Vec<PathBuf>,
    /// A cluster to plan for: a file of `joiner snapshot`, lists of `kubectl get -o yaml`, or a KWOK snapshot; repeatable. What `-f` gives takes
    /// the place of objects of the same name.
    #[arg(long, value_name = "FILE|DIR|-")]
    pub from: Vec<PathBuf>,
    /// What to make of it: the cluster as it was, or only what was asked for, on no nodes at all.
    #[arg(long, value_enum, default_value_t = crate::import::FromMode::AsIs, requires = "from")]
    pub from_mode: crate::import::FromMode,
    /// Machines to choose from.
    #[command(flatten)]
    pub catalogue: CatalogueArgs,
    /// Scheduler configuration with default topology spread constraints for pods that have none, YAML or JSON:
    /// `podTopologySpread.defaultConstraints`, or a whole KubeSchedulerConfiguration.
    #[arg(long, value_name = "FILE")]
    pub scheduler_config: Option<PathBuf>,
    /// Tell why this pod (NAME or NAMESPACE/NAME) goes where it goes, or nowhere.
    #[arg(long, value_name = "POD")]
    pub explain: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table, ignore_case = true)]
    pub output: Output,
    /// How pods are packed.
    #[command(flatten)]
    pub packing: PackingArgs,
    /// Whether preferred terms and ScheduleAnyway constraints are kept as long as possible or ignored.
    #[arg(long, value_enum, default_value_t = PreferencePolicy::Respect, ignore_case = true, env = "PREFERENCE_POLICY")]
    pub preference_policy: PreferencePolicy,
    /// What happens when fewer values are there than a pool's minValues asks for.
    #[arg(long, value_enum, default_value_t = MinValuesPolicy::Strict, ignore_case = true, env = "MIN_VALUES_POLICY")]
    pub min_values_policy: MinValuesPolicy,
    /// What happens when capacity reservations that a pod could use are all taken.
    #[arg(long, value_enum, default_value_t = ReservedCapacity::Strict, ignore_case = true)]
    pub reserved_capacity: ReservedCapacity,
    /// What machines really cost: a file of NodeOverlay and CostModel objects, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub cost_model: Option<PathBuf>,
    /// Threads for reading manifests, 256 at most; 0 = one per core. The plan does not depend on it.
    #[arg(long, default_value_t = 0, value_parser = RangedU64ValueParser::<usize>::new().range(..=256))]
    pub threads: usize,
    /// Unknown fields in manifests: refuse them, warn, or ignore them.
    #[arg(long, value_enum, default_value_t = Validate::Strict, ignore_case = true)]
    pub validate: Validate,
    /// The most pods taken in; more are refused as a likely mistake.
    #[arg(long, default_value_t = MAX_PODS, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(..=100_000_000))]
    pub max_pods: usize,
    /// Leave the lower bound out (it is the slowest part for many kinds of pods).
    #[arg(long)]
    pub no_lower_bound: bool,
    /// Do not work out what the pods of the nodes that stand would cost packed afresh (with many pods it takes as long as the plan).
    #[arg(long)]
    pub no_afresh: bool,
}

/// Arguments of `convert`.
#[derive(Debug, Args)]
#[command(after_help = "\
What changed meaning is said on standard error, one line each. Objects that are current already are printed as they are.

Examples:
  joiner convert -f provisioner.yaml > nodepool.yaml
  joiner convert -f old/ | kubectl apply -f -                kubelet settings go from pools to classes
  kubectl get provisioners -o yaml | joiner convert -f -")]
pub struct ConvertArgs {
    /// File, folder or `-` (standard input); repeatable.
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE|DIR|-")]
    pub filename: Vec<PathBuf>,
    /// Leave out the requirements that the old AWS webhook added to Provisioners.
    #[arg(long)]
    pub skip_aws_defaults: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, ignore_case = true)]
    pub output: Format,
}

/// Arguments of `crds`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  joiner crds | kubectl apply -f -")]
pub struct CrdsArgs {
    /// Only these (plural, kind or full name), e.g. `nodepools`. `ec2nodeclasses`, of the AWS provider, are printed when they are named.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, ignore_case = true)]
    pub output: Format,
}

/// Arguments of `instance-types`.
#[derive(Debug, Args)]
pub struct InstanceTypesArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: InstanceTypesCommand,
}

/// What to do with instance types.
#[derive(Debug, Subcommand)]
pub enum InstanceTypesCommand {
    /// List types with their size and prices.
    List(ListArgs),
    /// Print a generated list in KWOK's file format.
    Generate(GenerateArgs),
    /// Check an instance-type file: every mistake by file, entry and key.
    Check(CheckArgs),
}

/// Arguments of `instance-types list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Shipped catalogue.
    #[arg(long, value_enum, default_value_t = Catalog::Kwok, ignore_case = true)]
    pub catalog: Catalog,
    /// A file instead of a shipped catalogue.
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "catalog")]
    pub filename: Option<PathBuf>,
    /// What holds for machines of AWS.
    #[command(flatten)]
    pub aws: AwsArgs,
    /// Only this architecture.
    #[arg(long)]
    pub arch: Option<String>,
    /// Only this operating system.
    #[arg(long)]
    pub os: Option<String>,
    /// Only types offered in this zone.
    #[arg(long)]
    pub zone: Option<String>,
    /// Only types offered at this capacity type.
    #[arg(long)]
    pub capacity_type: Option<String>,
    /// Only types whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table, ignore_case = true)]
    pub output: Output,
    /// Leave the heading out.
    #[arg(long)]
    pub no_headers: bool,
}

/// Arguments of `instance-types generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// CPU counts.
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub cpus: Vec<u32>,
    /// GiB of memory per CPU.
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub memory_factors: Vec<u32>,
    /// Operating systems.
    #[arg(long, value_delimiter = ',', value_name = "OS,…")]
    pub os: Vec<String>,
    /// Architectures.
    #[arg(long, value_delimiter = ',', value_name = "ARCH,…")]
    pub arch: Vec<String>,
    /// Zones.
    #[arg(long, value_delimiter = ',', value_name = "ZONE,…")]
    pub zones: Vec<String>,
    /// Dollars per hour and CPU.
    #[arg(long)]
    pub price_per_cpu: Option<f64>,
    /// Dollars per hour and gigabyte of memory.
    #[arg(long)]
    pub price_per_gb: Option<f64>,
    /// Spot price as a share of the on-demand price.
    #[arg(long)]
    pub spot_factor: Option<f64>,
    /// How much dearer each further zone is, as a share.
    #[arg(long)]
    pub zone_skew: Option<f64>,
    /// GPU types, each FAMILY:CPUS:MEMORY_GIB:GPUS:PRICE_PER_GPU[:RESOURCE]; repeatable.
    #[arg(long = "gpu", value_name = "SPEC")]
    pub gpus: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Json, ignore_case = true)]
    pub output: Format,
}

/// Arguments of `instance-types check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table, ignore_case = true)]
    pub output: Output,
}

/// Arguments of `completion`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  source <(joiner completion bash)")]
pub struct CompletionArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Arguments of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Output format.
    #[arg(short, long, value_enum, ignore_case = true)]
    pub output: Option<Format>,
}

/// Shipped catalogues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Catalog {
    /// 144 hypothetical types.
    Kwok,
    /// The machines of an AWS region as EC2NodeClasses make them: list prices where there are some, else estimates.
    Aws,
}

/// Formats for people and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table.
    Table,
    /// A table with more columns.
    Wide,
    /// One JSON object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Formats for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// Karpenter's preference policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PreferencePolicy {
    /// Keep preferences as long as possible.
    Respect,
    /// Ignore them.
    Ignore,
}

/// Karpenter's minValues policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MinValuesPolicy {
    /// Refuse.
    Strict,
    /// Lower the number.
    #[value(name = "besteffort", alias = "best-effort")]
    BestEffort,
}

/// What to do when reservations are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReservedCapacity {
    /// Wait for them, as Karpenter does when it provisions.
    Strict,
    /// Go on with spot or on-demand.
    Fallback,
}

/// What to do with unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Validate {
    /// Refuse them.
    Strict,
    /// Warn about them.
    Warn,
    /// Ignore them.
    Ignore,
}

/// As a kubectl plugin the program is called `kubectl-joiner`; help should say `kubectl joiner`.
pub fn called_as(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(first) = arguments.first_mut() {
        let name = std::path::Path::new(&*first).file_stem().map(|s| s.to_string_lossy().into_owned());
        if name.as_deref() == Some("kubectl-joiner") {
            *first = "kubectl joiner".into();
        }
    }
    arguments
}
