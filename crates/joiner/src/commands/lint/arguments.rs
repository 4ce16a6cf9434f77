//! Arguments of `lint`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::finding::Severity;
use crate::cli::Validate;
use crate::commands::catalogues::CatalogueArgs;

/// Arguments of `lint`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  joiner lint -f pools.yaml                                  what is wrong with these pools
  joiner lint -f shop/ -f pools.yaml --catalog aws           pools and pods together, on machines of AWS
  joiner lint -f pools/ -o sarif > joiner.sarif              for code scanning
  joiner lint --explain pool-matches-no-type                 what a rule means, with a bad and a good example

Exit codes: 0 nothing at or above --fail-on, 3 findings, 2 bad input (manifests that `plan` can't read either).")]
pub struct LintArgs {
    /// File, folder or `-` (standard input) with manifests, YAML or JSON; repeatable.
    #[arg(
        short = 'f',
        long = "filename",
        required_unless_present_any = ["explain", "list"],
        value_name = "FILE|DIR|-"
    )]
    pub filename: Vec<PathBuf>,
    /// Machines to judge pools by.
    #[command(flatten)]
    pub catalogue: CatalogueArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = LintOutput::Table, ignore_case = true)]
    pub output: LintOutput,
    /// The mildest finding that makes the exit code 3.
    #[arg(long, value_enum, default_value_t = Severity::Warning, ignore_case = true, value_name = "SEVERITY")]
    pub fail_on: Severity,
    /// Leave a rule out; repeatable.
    #[arg(long, value_name = "RULE")]
    pub skip: Vec<String>,
    /// Unknown fields in manifests: refuse them, warn, or ignore them.
    #[arg(long, value_enum, default_value_t = Validate::Strict, ignore_case = true)]
    pub validate: Validate,
    /// Tell what a rule means, with a bad and a good example, and end.
    #[arg(long, value_name = "RULE", conflicts_with = "list")]
    pub explain: Option<String>,
    /// List all rules and end.
    #[arg(long)]
    pub list: bool,
}

/// Formats of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LintOutput {
    /// For people.
    Table,
    /// One JSON object.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}
