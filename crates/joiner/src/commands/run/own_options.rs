//! Flags that only joiner has: their variables begin with `JOINER_`.

use std::time::Duration;

use clap::Args;
use joiner_controllers::BreakerSettings;

use super::gates::boolean;
use super::options::{Lookup, duration};
use crate::report::InputError;

/// What stops joiner from going on with something that does harm, and what else only joiner can be told.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of joiner's own")]
pub struct OwnArgs {
    /// Machines that are leaving or being replaced count against limits until they are gone. [env: JOINER_STRICT_LIMITS] [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub strict_limits: Option<bool>,
    /// After so many machines that came up for pods of a kind, none of which ran there, no more are bought for them; 0: never.
    /// [env: JOINER_RUNAWAY_MACHINES] [default: 3]
    #[arg(long, value_name = "N")]
    pub runaway_machines: Option<u32>,
    /// So long until one more is tried, doubling up to an hour. [env: JOINER_RUNAWAY_PAUSE] [default: 5m]
    #[arg(long, value_name = "DURATION")]
    pub runaway_pause: Option<String>,
    /// After so many machines in a row that did not join, a pool is tried last, one machine at a time; 0: never.
    /// [env: JOINER_REGISTRATION_FAILURES] [default: 3]
    #[arg(long, value_name = "N")]
    pub registration_failures: Option<u32>,
    /// A list of machines that lacks more than so many at once, and more than the share below, is not believed.
    /// [env: JOINER_MISSING_MACHINES] [default: 3]
    #[arg(long, value_name = "N")]
    pub missing_machines: Option<u32>,
    /// In percent of the machines that are known. [env: JOINER_MISSING_SHARE] [default: 20]
    #[arg(long, value_name = "PERCENT")]
    pub missing_share: Option<u32>,
    /// If more than so many nodes, and more than the share below, are not ready, joiner removes none by its own will.
    /// [env: JOINER_UNREADY_NODES] [default: 3]
    #[arg(long, value_name = "N")]
    pub unready_nodes: Option<u32>,
    /// In percent of the nodes that neither start nor go; 0: never. [env: JOINER_UNREADY_SHARE] [default: 45]
    #[arg(long, value_name = "PERCENT")]
    pub unready_share: Option<u32>,
    /// So long is an offering left alone that could not be had, doubling up to half an hour. [env: JOINER_OFFERING_PAUSE] [default: 3m]
    #[arg(long, value_name = "DURATION")]
    pub offering_pause: Option<String>,
}

/// What was said.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "they are the flags")]
pub struct Own {
    pub strict_limits: bool,
    pub breakers: BreakerSettings,
    pub offering_pause: Duration,
}

impl OwnArgs {
    /// Flags first, then variables, then defaults.
    pub(super) fn resolve(&self, say: &Lookup) -> Result<Own, InputError> {
        let usual = BreakerSettings::default();
        let yes_no = |text: &str| boolean(text).ok_or_else(|| "neither `true` nor `false`".to_owned());
        let many = |flag: &str, given: Option<u32>, usual: usize| {
            let usual = u32::try_from(usual).unwrap_or(u32::MAX);
            say.own(flag, given, count, usual).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
        };
        let share = |flag: &str, given: Option<u32>, usual: usize| {
            let given = given.map(|percent| percent.to_string());
            let usual = u32::try_from(usual).unwrap_or(100);
            say.own_text(flag, given.as_ref(), percent, usual)
                .map(|percent| usize::try_from(percent).unwrap_or(100))
        };
        Ok(Own {
            strict_limits: say.own("strict-limits", self.strict_limits, yes_no, false)?,
            breakers: BreakerSettings {
                runaway_machines: say.own(
                    "runaway-machines",
                    self.runaway_machines,
                    count,
                    usual.runaway_machines,
                )?,
                runaway_pause: say.own_text(
                    "runaway-pause",
                    self.runaway_pause.as_ref(),
                    duration,
                    usual.runaway_pause,
                )?,
                registration_failures: say.own(
                    "registration-failures",
                    self.registration_failures,
                    count,
                    usual.registration_failures,
                )?,
                missing_machines: many("missing-machines", self.missing_machines, usual.missing_machines)?,
                missing_percent: share("missing-share", self.missing_share, usual.missing_percent)?,
                unready_nodes: many("unready-nodes", self.unready_nodes, usual.unready_nodes)?,
                unready_percent: share("unready-share", self.unready_share, usual.unready_percent)?,
                ..usual
            },
            offering_pause: say.own_text(
                "offering-pause",
                self.offering_pause.as_ref(),
                duration,
                Duration::from_secs(180),
            )?,
        })
    }
}

fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "not a whole number of 0 or more".to_owned())
}

fn percent(text: &str) -> Result<u32, String> {
    let percent = count(text)?;
    if percent > 100 {
        Err("more than 100 percent; give a number from 0 to 100".to_owned())
    } else {
        Ok(percent)
    }
}
