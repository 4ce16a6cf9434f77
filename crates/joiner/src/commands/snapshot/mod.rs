//! `joiner snapshot`: a live cluster as a file, read only.

mod cluster;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use self::cluster::{Absence, Reading};
use crate::snapshot::file::{self, Form};
use crate::snapshot::kinds::KINDS;
use crate::snapshot::rename::Renamer;
use crate::snapshot::scrub::{Scrubber, tell_templates_apart};
use crate::{FINE, Streams};

/// Arguments of `snapshot`.
#[derive(Debug, Args)]
#[command(after_help = "\
The cluster is only read: lists, page by page, of nodes, pods, workloads, pools, claims, budgets, volumes and classes. Kinds that the user may
not list, or that the cluster does not serve, are left out, and each is named on standard error.

Secrets and config maps are not asked for. Of every object only the fields that placement and autoscaling look at are kept: no environment, no
arguments, no commands, no probes, no messages, no annotations but well-known ones; images are kept as hashes. Pods and jobs that have ended are
left out. With --rename, names and namespaces become hashes too, everywhere alike.

Examples:
  # The cluster of the present context, and a copy of it on this machine:
  joiner snapshot -o prod.yaml
  joiner up --from prod.yaml

  # Names replaced, to hand it to somebody else; the same key gives the same names next time:
  joiner snapshot --context prod --rename \"$(cat key)\" -o prod.yaml

  # What its pending pods need:
  joiner snapshot -o - | joiner plan --from -")]
pub struct SnapshotArgs {
    /// The context of the kubeconfig; the present one if not given.
    #[arg(long)]
    pub context: Option<String>,
    /// The kubeconfig; if not given, what KUBECONFIG names, ~/.kube/config, or the account of the pod this runs in.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where to write: a file (a list in JSON if it ends in .json, otherwise YAML), or - for standard output. The file is there whole or not at
    /// all, and only its owner may read it.
    #[arg(short, long, value_name = "FILE|-", required = true)]
    pub output: PathBuf,
    /// Replace names, namespaces and the labels that contain them by hashes under this key.
    #[arg(long, value_name = "KEY", env = "JOINER_RENAME_KEY", hide_env_values = true)]
    pub rename: Option<String>,
    /// Only objects of this namespace, beside those that are in none; repeatable.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &SnapshotArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut objects, absences) = runtime.block_on(read(arguments))?;
    for absence in &absences {
        match absence.detail() {
            Some(detail) => writeln!(streams.err, "note: {absence} ({detail})")?,
            None => writeln!(streams.err, "note: {absence}")?,
        }
    }
    tell_templates_apart(&mut objects);
    if let Some(key) = &arguments.rename {
        let renamer = Renamer::new(key, &objects);
        objects.iter_mut().for_each(|object| renamer.object(object));
    }
    file::sort(&mut objects);
    let mut remarks =
        vec!["A snapshot of a cluster by joiner. `joiner up --from` makes a cluster of it.".to_owned()];
    remarks.extend(absences.iter().map(ToString::to_string));
    if arguments.output.as_os_str() == "-" {
        file::write(&mut *streams.out, Form::Yaml, &remarks, &objects)?;
    } else {
        let path = &arguments.output;
        file::write_whole(path, |out| file::write(out, Form::of(path), &remarks, &objects))
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    writeln!(streams.err, "{}", summary(&objects))?;
    Ok(FINE)
}

async fn read(arguments: &SnapshotArgs) -> anyhow::Result<(Vec<Value>, Vec<Absence>)> {
    let client = cluster::connect(arguments.kubeconfig.as_deref(), arguments.context.as_deref()).await?;
    let progress = indicatif::ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    let scrubber = Scrubber::new(arguments.rename.as_deref().unwrap_or_default());
    let mut reading = Reading { client, scrubber, objects: Vec::new(), absences: Vec::new() };
    for kind in KINDS {
        progress.set_message(format!("reading {}: {} objects so far", kind.plural, reading.objects.len()));
        reading.read(kind, &arguments.namespace, &progress).await?;
    }
    progress.finish_and_clear();
    Ok((reading.objects, reading.absences))
}

fn summary(objects: &[Value]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects {
        *counts.entry(object["kind"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let of = |kind: &str| counts.get(kind).copied().unwrap_or(0);
    format!("{} objects: {} nodes, {} pods", objects.len(), of("Node"), of("Pod"))
}
