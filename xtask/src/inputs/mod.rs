//! The recorded inputs of the comparison: which there are, and how one is written to disk.
//!
//! An input is a directory with `manifests.json` (one v1 List), `types.json` (instance types in the KWOK provider's
//! format) and a `README` of one line. Everything is drawn from a ChaCha stream, so a seed gives the same bytes on every
//! machine; inputs of one family and size share a stream, so that only the catalogue differs between them.

mod catalogue;
mod draw;
pub mod families;
mod mix;
mod objects;
mod one_more;
mod openb;
mod services;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub use catalogue::{Catalogue, Sources};
pub use draw::Draw;

/// Receives the objects of an input one by one: the largest have hundreds of thousands.
type Sink<'a> = dyn FnMut(Value) -> Result<()> + 'a;

/// Arguments of `cargo xtask bench-inputs`.
#[derive(clap::Args)]
pub struct Args {
    /// Where the directories go [default: bench/inputs in the repository]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only inputs whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Seed of all draws
    #[arg(long, default_value_t = DEFAULT_SEED)]
    seed: u64,
}

/// The seed of the published figures.
pub const DEFAULT_SEED: u64 = 42;

/// One input and the way it is made.
pub struct Recipe {
    /// Name of the directory.
    pub name: &'static str,
    /// What is in it, in one line.
    pub about: &'static str,
    /// Small enough for the comparison in continuous integration.
    pub quick: bool,
    /// Whether the original is run on it too.
    pub peer: bool,
    /// Instance types.
    pub catalogue: Catalogue,
    /// Pods, pools and nodes.
    pub contents: Contents,
}

/// The families of inputs.
#[derive(Clone, Copy, Debug)]
pub enum Contents {
    /// The original's benchmark mix of this many pods.
    Mix(u32),
    /// This many pods of service-like deployments on three pools.
    Services(u32),
    /// This many equal pods full of preferences.
    Preferences(u32),
    /// The tasks of a GPU cluster's trace.
    Openb,
    /// One pod more on a full cluster of this many nodes.
    OneMore(u32),
}

/// Every input, smallest family members first.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "mix-1k-fake",
        about: "1,000 pods of the original's benchmark mix, its 400 generated types (labels size, special, integer left out)",
        quick: true,
        peer: true,
        catalogue: Catalogue::Fake,
        contents: Contents::Mix(1_000),
    },
    Recipe {
        name: "mix-5k-fake",
        about: "5,000 pods of the original's benchmark mix, its 400 generated types (labels size, special, integer left out)",
        quick: false,
        peer: true,
        catalogue: Catalogue::Fake,
        contents: Contents::Mix(5_000),
    },
    Recipe {
        name: "mix-20k-fake",
        about: "20,000 pods of the original's benchmark mix, its 400 generated types (labels size, special, integer left out)",
        quick: false,
        peer: true,
        catalogue: Catalogue::Fake,
        contents: Contents::Mix(20_000),
    },
    Recipe {
        name: "mix-1k-aws",
        about: "1,000 pods of the original's benchmark mix, 544 general-purpose AWS types",
        quick: true,
        peer: true,
        catalogue: Catalogue::AwsGeneral,
        contents: Contents::Mix(1_000),
    },
    Recipe {
        name: "mix-5k-aws",
        about: "5,000 pods of the original's benchmark mix, 544 general-purpose AWS types",
        quick: false,
        peer: true,
        catalogue: Catalogue::AwsGeneral,
        contents: Contents::Mix(5_000),
    },
    Recipe {
        name: "mix-20k-aws",
        about: "20,000 pods of the original's benchmark mix, 544 general-purpose AWS types",
        quick: false,
        peer: true,
        catalogue: Catalogue::AwsGeneral,
        contents: Contents::Mix(20_000),
    },
    Recipe {
        name: "services-10k",
        about: "10,000 pods of 150 services with mixed constraints, three pools, two daemon sets, 544 AWS types",
        quick: false,
        peer: true,
        catalogue: Catalogue::AwsGeneral,
        contents: Contents::Services(10_000),
    },
    Recipe {
        name: "prefs-4k",
        about: "4,000 equal pods with preferences that cannot all hold (the original's preference benchmark), 400 generated types",
        quick: false,
        peer: true,
        catalogue: Catalogue::Fake,
        contents: Contents::Preferences(4_000),
    },
    Recipe {
        name: "openb",
        about: "8,152 tasks of the openb-2023 GPU cluster trace (shared GPUs rounded up to one), general and GPU AWS types, on-demand",
        quick: false,
        peer: true,
        catalogue: Catalogue::AwsGpu,
        contents: Contents::Openb,
    },
    Recipe {
        name: "onemore-1k",
        about: "one more pod on 1,000 nearly full nodes with 30 pods each, 544 AWS types",
        quick: true,
        peer: true,
        catalogue: Catalogue::AwsGeneral,
        contents: Contents::OneMore(1_000),
    },
    Recipe {
        name: "onemore-5k",
        about: "one more pod on 5,000 nearly full nodes with 30 pods each, 544 AWS types",
        quick: false,
        peer: true,
        catalogue: Catalogue::AwsGeneral,
        contents: Contents::OneMore(5_000),
    },
    Recipe {
        name: "onemore-10k",
        about: "one more pod on 10,000 nearly full nodes with 30 pods each, 544 AWS types",
        quick: false,
        peer: true,
        catalogue: Catalogue::AwsGeneral,
        contents: Contents::OneMore(10_000),
    },
    Recipe {
        name: "scale-1k-aws848",
        about: "1,000 pods of the original's benchmark mix, all 848 AWS types",
        quick: true,
        peer: true,
        catalogue: Catalogue::AwsAll,
        contents: Contents::Mix(1_000),
    },
    Recipe {
        name: "scale-100k-aws848",
        about: "100,000 pods of the original's benchmark mix, all 848 AWS types (joiner only)",
        quick: false,
        peer: false,
        catalogue: Catalogue::AwsAll,
        contents: Contents::Mix(100_000),
    },
];

/// Runs `cargo xtask bench-inputs`.
pub fn run(args: &Args, root: &Path) -> Result<()> {
    let out = args.out.clone().unwrap_or_else(|| default_directory(root));
    let sources = Sources::read(root)?;
    let mut written = 0;
    for recipe in RECIPES {
        if args.only.as_deref().is_some_and(|part| !recipe.name.contains(part)) {
            continue;
        }
        let bytes = write_input(recipe, &sources, args.seed, &out)?;
        println!("{:<18} {:>7.1} MB   {}", recipe.name, bytes as f64 / 1e6, recipe.about);
        written += 1;
    }
    if written == 0 {
        bail!("no input's name contains `{}`", args.only.as_deref().unwrap_or_default());
    }
    println!("{written} inputs of seed {} in {}", args.seed, out.display());
    Ok(())
}

/// Where inputs are kept unless told otherwise.
pub fn default_directory(root: &Path) -> PathBuf {
    root.join("bench").join("inputs")
}

/// The entries of a catalogue's `types.json`.
pub fn types_of(catalogue: Catalogue, sources: &Sources) -> Result<Vec<Value>> {
    catalogue::types(catalogue, sources)
}

/// Writes one input's directory; the size of its manifests is returned.
pub fn write_input(recipe: &Recipe, sources: &Sources, seed: u64, out: &Path) -> Result<u64> {
    let dir = out.join(recipe.name);
    fs::create_dir_all(&dir).with_context(|| format!("creating `{}`", dir.display()))?;
    let types = catalogue::types(recipe.catalogue, sources)?;
    let path = dir.join("types.json");
    fs::write(&path, serde_json::to_string(&types)?)
        .with_context(|| format!("writing `{}`", path.display()))?;

    // Written under another name first: an interrupted run leaves no half input that looks whole.
    let path = dir.join("manifests.json");
    let partial = dir.join("manifests.json.partial");
    let file = fs::File::create(&partial).with_context(|| format!("creating `{}`", partial.display()))?;
    let mut writer = BufWriter::new(file);
    write_manifests(recipe, sources, seed, &mut writer)?;
    writer.flush()?;
    drop(writer);
    fs::rename(&partial, &path)?;
    fs::write(dir.join("README"), format!("{} (seed {seed})\n", recipe.about))?;
    Ok(fs::metadata(&path)?.len())
}

/// Writes the v1 List, one object per line.
fn write_manifests(recipe: &Recipe, sources: &Sources, seed: u64, out: &mut dyn Write) -> Result<()> {
    write_list(out, &mut |sink| objects(recipe, sources, seed, sink))
}

/// Writes a v1 List, one object per line.
fn write_list(out: &mut dyn Write, objects: &mut dyn FnMut(&mut Sink) -> Result<()>) -> Result<()> {
    out.write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[")?;
    let mut first = true;
    objects(&mut |object: Value| -> Result<()> {
        out.write_all(if first { b"\n" } else { b",\n" })?;
        first = false;
        serde_json::to_writer(&mut *out, &object)?;
        Ok(())
    })?;
    out.write_all(b"\n]}\n")?;
    Ok(())
}

fn objects(recipe: &Recipe, sources: &Sources, seed: u64, sink: &mut Sink) -> Result<()> {
    match recipe.contents {
        Contents::Mix(pods) => mix::write(pods, &mut Draw::new(seed, 1_000_000 + u64::from(pods)), sink),
        Contents::Preferences(pods) => {
            mix::write_preferences(pods, &mut Draw::new(seed, 2_000_000 + u64::from(pods)), sink)
        }
        Contents::Services(pods) => {
            services::write(pods, &mut Draw::new(seed, 3_000_000 + u64::from(pods)), sink)
        }
        Contents::Openb => openb::write(&sources.openb, &mut Draw::new(seed, 4_000_000), sink),
        Contents::OneMore(nodes) => {
            one_more::write(nodes, &mut Draw::new(seed, 5_000_000 + u64::from(nodes)), sink)
        }
    }
}

#[cfg(test)]
mod tests;
