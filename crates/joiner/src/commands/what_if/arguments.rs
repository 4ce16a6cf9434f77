//! Arguments of `what-if`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::PlanArgs;

/// Arguments of `what-if`.
#[derive(Debug, Args)]
#[command(
    mut_arg("explain", |argument| argument.hide(true)),
    mut_arg("no_lower_bound", |argument| argument.hide(true)),
    mut_arg("no_afresh", |argument| argument.hide(true)),
    mut_arg("output", |argument| argument.help("Output format; `wide` is the same as `table`")),
    after_help = "\
Changes are applied in this order: --change (and what a later -f gives again), --remove, --edit, --scale;
then --no-spot, --zone-out and --price to the instance types; --repack or --consolidate comes last. Targets
are KIND/NAME or NAMESPACE/KIND/NAME, kinds as kubectl abbreviates them.

Examples:
  joiner what-if -f shop.yaml --scale deploy/web=200            more replicas
  joiner what-if -f shop.yaml --change pool.yaml                another pool of the same name
  joiner what-if -f shop.yaml --edit 'nodepool/default:spec.limits.cpu=2000'
  joiner what-if -f shop.yaml --no-spot --zone-out us-west-2a   a bad day
  joiner what-if --from prod.yaml --remove node/node-7          a node less in a snapshot
  joiner what-if --from prod.yaml --repack                      what could be saved, and what hinders
  joiner what-if --from prod.yaml --consolidate                 which nodes would go, and where their pods
  kubectl get nodepools,nodes,pods -A -o json | joiner what-if -f - --remove node/node-7

Exit codes: 0 no pod loses by the change, 3 pods are refused that were not refused before, 2 bad input."
)]
pub struct WhatIfArgs {
    /// The base, and how to decide: as for `plan`.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// File, folder or `-` with objects that replace those of the same kind, namespace and name, or are added; repeatable.
    #[arg(long, value_name = "FILE|DIR|-", help_heading = "Changes")]
    pub change: Vec<PathBuf>,
    /// Take an object away; the pods of a node then wait for another; repeatable.
    #[arg(long, value_name = "KIND/NAME", help_heading = "Changes")]
    pub remove: Vec<String>,
    /// Set a field, e.g. `nodepool/default:spec.limits.cpu=2000`; the value is YAML, `null` removes the field; repeatable.
    #[arg(long, value_name = "KIND/NAME:PATH=VALUE", help_heading = "Changes")]
    pub edit: Vec<String>,
    /// Set the number of pods of a Deployment, StatefulSet, ReplicaSet or Job; repeatable.
    #[arg(long, value_name = "KIND/NAME=N", help_heading = "Changes")]
    pub scale: Vec<String>,
    /// No spot capacity can be launched.
    #[arg(long, help_heading = "Changes")]
    pub no_spot: bool,
    /// Nothing can be launched in this zone; nodes that are there stay; repeatable. The end of a name is enough where only one zone has it:
    /// `a` for us-west-2a.
    #[arg(long, value_name = "ZONE", help_heading = "Changes")]
    pub zone_out: Vec<String>,
    /// Multiply prices: all of them, those of a type (`m5.large`, `m5.*`) or of a capacity type (`spot`); repeatable.
    #[arg(long, value_name = "[TYPE=]FACTOR", allow_negative_numbers = true, help_heading = "Changes")]
    pub price: Vec<String>,
    /// Give up every node whose pods may move, and place these again; says which pods keep the other nodes.
    #[arg(long, help_heading = "Changes")]
    pub repack: bool,
    /// Take away or replace nodes where that saves, all budgets aside; says which pods move and why others stay.
    #[arg(long, help_heading = "Changes", conflicts_with = "repack")]
    pub consolidate: bool,
    /// Namespace of targets that name none.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

impl WhatIfArgs {
    /// Whether some flag asks for a change.
    pub fn asks_for_change(&self) -> bool {
        let lists =
            [self.remove.len(), self.edit.len(), self.scale.len(), self.zone_out.len(), self.price.len()];
        self.no_spot
            || self.repack
            || self.consolidate
            || !self.change.is_empty()
            || lists.iter().any(|count| *count > 0)
    }
}
