//! `joiner doctor`: what is wrong with a cluster, before joiner is installed and after, each with a command that mends it. It only reads.
//!
//! [`seen`] reads, [`checks`] judge what was read without asking anybody, [`pods`] plans for pods that wait, [`report`] tells.

mod checks;
mod pods;
mod report;
mod seen;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

pub use self::report::{Finding, NotMade, Report};
use crate::chart::Release;
use crate::chart::files::JOINER;
use crate::cli::{Format, Output};
use crate::commands::manifests;
use crate::{FINDINGS, FINE, Streams, connection, show};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
It looks at: the version of Kubernetes, clocks, the definitions of pools and claims (missing, older, whose), other autoscalers, second installations, the
rights of joiner's account, node classes of pools, KWOK's stages, webhooks that older versions left, finalizers nobody will take away, and pods that
wait and that no pool can serve. Nothing is written.

Examples:
  joiner doctor                      the cluster of the present context
  joiner doctor -o json | jq -r '.findings[].remedy'

Exit codes: 0 nothing is wrong, 3 findings, 1 the cluster cannot be read.")]
pub struct DoctorArgs {
    /// The context of the kubeconfig; the present one if not given.
    #[arg(long)]
    pub context: Option<String>,
    /// The kubeconfig; if not given, what KUBECONFIG names, ~/.kube/config, or the account of the pod this runs in.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table, ignore_case = true)]
    pub output: Output,
}

/// Runs the command.
pub fn run(arguments: &DoctorArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let config =
            connection::config(arguments.kubeconfig.as_deref(), arguments.context.as_deref()).await?;
        let client = Client::try_from(config)?;
        let progress = indicatif::ProgressBar::new_spinner();
        progress.enable_steady_tick(Duration::from_millis(200));
        let report = examine(&client, Timestamp::now(), |what| progress.set_message(what.to_owned())).await;
        progress.finish_and_clear();
        report
    })?;
    match arguments.output {
        Output::Table | Output::Wide => report.write(streams)?,
        Output::Json => streams.out.write_all(show::value(&report, Format::Json)?.as_bytes())?,
        Output::Yaml => streams.out.write_all(show::value(&report, Format::Yaml)?.as_bytes())?,
    }
    Ok(if report.findings.is_empty() { FINE } else { FINDINGS })
}

/// Looks at a cluster.
///
/// # Errors
/// The cluster cannot be reached, or fails.
pub async fn examine(
    client: &Client,
    now: Timestamp,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<Report> {
    let seen = seen::read(client, &mut progress).await?;
    let mut report = Report {
        api_version: "joiner.sh/v1alpha1",
        kind: "Diagnosis",
        kubernetes: seen.version["gitVersion"].as_str().unwrap_or("of unknown version").to_owned(),
        findings: Vec::new(),
        passed: Vec::new(),
        not_made: Vec::new(),
    };
    checks::make(&seen, now, &mut report);
    let waiting = pods::waiting(&seen);
    drop(seen);
    match waiting {
        Ok(waiting) => report.add("Pods", pods::served(client, &waiting, &mut progress).await?),
        Err(why) => report.add("Pods", Err(why)),
    }
    Ok(report)
}

/// The roles that the chart makes for joiner itself when it is installed in this namespace.
fn roles_of_the_chart(namespace: &str) -> Result<Vec<Value>, String> {
    let release = Release { name: "joiner".to_owned(), namespace: namespace.to_owned() };
    let given = serde_json::json!({"rbac": {"aggregateToAdmin": false}});
    let text = manifests::rendered(&JOINER, &release, given).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for document in text.split("---\n").filter(|text| !text.trim().is_empty()) {
        let object =
            crate::load::parse_yaml(document).map_err(|error| error.without_snippet().to_string())?;
        if matches!(object["kind"].as_str(), Some("ClusterRole" | "Role")) {
            found.push(object);
        }
    }
    Ok(found)
}
