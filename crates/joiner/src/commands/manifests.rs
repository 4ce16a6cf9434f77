//! `manifests`: what the charts install, without helm.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::chart::files::{Chart, JOINER, JOINER_CRD};
use crate::chart::{self, Release, values};
use crate::load;
use crate::report::InputError;
use crate::{FINE, Streams};

/// Arguments of `manifests`.
#[derive(Debug, Args)]
#[command(after_help = "\
It prints what `helm template` prints for the same chart and values, byte for byte. Values are those of charts/joiner/README.md.

Examples:
  joiner manifests --chart joiner-crd | kubectl apply --server-side -f -     the definitions, first
  joiner manifests -n kube-system | kubectl apply -f -
  joiner manifests -f values.yaml --set replicas=1 | kubectl apply -f -      with values written for Karpenter's chart, too
  joiner manifests | kubectl delete -f -                                     and away again; machines stay, see docs/guide/install.md")]
pub struct ManifestsArgs {
    /// Which chart.
    #[arg(long, value_enum, default_value_t = Which::Joiner)]
    pub chart: Which,
    /// The namespace to install in.
    #[arg(short, long, default_value = "kube-system")]
    pub namespace: String,
    /// The name of the release: that of the Deployment and of what belongs to it.
    #[arg(long, default_value = "joiner", value_name = "NAME")]
    pub release: String,
    /// A file of values; repeatable, later ones win.
    #[arg(short = 'f', long = "values", value_name = "FILE|-")]
    pub values: Vec<PathBuf>,
    /// One value, as in `settings.clusterName=mine`; repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// The charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The program, with its rights.
    Joiner,
    /// The definitions of pools, claims and node classes.
    JoinerCrd,
}

/// Prints manifests.
pub fn run(arguments: &ManifestsArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let chart = match arguments.chart {
        Which::Joiner => &JOINER,
        Which::JoinerCrd => &JOINER_CRD,
    };
    for (flag, name) in [("--namespace", &arguments.namespace), ("--release", &arguments.release)] {
        check_name(flag, name)?;
    }
    let release = Release { name: arguments.release.clone(), namespace: arguments.namespace.clone() };
    let text = rendered(chart, &release, given(arguments)?)?;
    streams.out.write_all(text.as_bytes())?;
    Ok(FINE)
}

/// The manifests of a chart with values over its own.
///
/// # Errors
/// The values make no sense.
pub fn rendered(chart: &Chart, release: &Release, given: Value) -> Result<String, InputError> {
    let mut all = values::read("values.yaml", chart.values)?;
    values::put_over(&mut all, given);
    let schema = serde_json::from_str(chart.schema)
        .map_err(|error| InputError::of_file("values.schema.json", error.to_string(), "report this"))?;
    values::check(&schema, &all)?;
    chart::render(chart, release, &all).map_err(|message| InputError { message, ..InputError::default() })
}

/// What the files and `--set` say.
fn given(arguments: &ManifestsArgs) -> anyhow::Result<Value> {
    let mut given = Value::Object(serde_json::Map::new());
    for source in load::sources_of("--values", &arguments.values)? {
        let mut text = String::new();
        let name = source.name();
        source.open_for("--values")?.read_to_string(&mut text).map_err(|error| {
            InputError::of_file(&name, format!("cannot be read: {error}"), "give a text file in UTF-8")
        })?;
        put_file_over(&mut given, values::read(&name, &text)?);
    }
    for text in &arguments.set {
        values::set(&mut given, text)?;
    }
    Ok(given)
}

/// Files over files: `null` stays, to take a default of the chart away.
fn put_file_over(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                put_file_over(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// The name of an object, which goes into a manifest as it is.
fn check_name(flag: &str, name: &str) -> Result<(), InputError> {
    let is_edge = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let fits = (1..=53).contains(&name.len())
        && name.chars().all(|letter| is_edge(letter) || letter == '-')
        && name.starts_with(is_edge)
        && name.ends_with(is_edge);
    match fits {
        true => Ok(()),
        false => Err(InputError {
            path: Some(flag.to_owned()),
            value: Some(name.to_owned()),
            message: "no name of an object".to_owned(),
            remedy: Some("use lower-case letters, digits and `-`, 53 at most".to_owned()),
            ..InputError::default()
        }),
    }
}
