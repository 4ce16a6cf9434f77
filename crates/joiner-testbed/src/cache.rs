//! Where the built programs are kept: one folder per set of sources and flags, outside the source tree.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xxhash_rust::xxh3::xxh3_64;

/// Version of Kubernetes.
pub const KUBERNETES: &str = "v1.35.4";
/// Version of kwok.
pub const KWOK: &str = "v0.8.0";
/// What the Go client says the sources of kwok add up to.
pub const KWOK_SUM: &str = "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=";
/// Version of helm.
pub const HELM: &str = "v3.22.0";
/// What the Go client says the sources of helm add up to.
pub const HELM_SUM: &str = "h1:n1if5iQgHYsujPAcO5oonH/KiSNUmqmUF0iGVjSF3AU=";
/// Names of the programs, in the order they are built.
pub const NAMES: [&str; 7] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "informer"];

/// What kwok does with nodes and pods: a file beside the programs.
pub const STAGES: &str = "kwok-stages.yaml";

/// The folder of the module that names the sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/control-plane")
}

/// The folder of our informer, a program in Go.
pub fn informer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/informer")
}

/// The folder of the module that names Karpenter.
pub fn karpenter_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/karpenter")
}

/// Where Karpenter is once it is built: apart from the control plane, which does without.
///
/// # Errors
/// The sources cannot be read.
pub fn karpenter() -> Result<PathBuf> {
    let mut text = linker_flags();
    for path in ["go.mod", "go.sum"].map(|file| karpenter_sources().join(file)) {
        let content = std::fs::read_to_string(&path);
        text.push_str(&content.with_context(|| format!("cannot read `{}`", path.display()))?);
    }
    Ok(root()?.join(format!("karpenter-{:016x}", xxh3_64(text.as_bytes()))).join("karpenter"))
}

/// Options of the linker: no symbols, and the version that the programs say they are.
pub fn linker_flags() -> String {
    let mut parts = KUBERNETES.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion={KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
}

/// The cache folder: `JOINER_CONTROL_PLANE_CACHE`, else `joiner/control-plane` in the user's cache folder.
///
/// # Errors
/// There is no home folder to have a cache in.
pub fn root() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(root) = variable("JOINER_CONTROL_PLANE_CACHE") {
        return Ok(std::path::absolute(root)?);
    }
    let user = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let user = user.context(
        "no folder for built programs: neither `JOINER_CONTROL_PLANE_CACHE` nor `XDG_CACHE_HOME` nor `HOME` is set",
    )?;
    Ok(user.join("joiner/control-plane"))
}

/// Where helm is when it is built. It is no part of the control plane, so it has a place of its own.
///
/// # Errors
/// There is no home folder to have a cache in.
pub fn helm() -> Result<PathBuf> {
    Ok(root()?.join(format!("helm-{HELM}")).join("helm"))
}

/// The folder of programs built from these sources with these flags.
///
/// # Errors
/// The sources cannot be read.
pub fn bin() -> Result<PathBuf> {
    let mut text = format!("{KWOK} {KWOK_SUM} {}\n", linker_flags());
    let informer = ["go.mod", "go.sum", "main.go"].map(|file| informer().join(file));
    for path in ["go.mod", "go.sum"].map(|file| sources().join(file)).into_iter().chain(informer) {
        let content =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        text.push_str(&content);
    }
    Ok(root()?.join(format!("{:016x}", xxh3_64(text.as_bytes()))).join("bin"))
}

/// The built programs.
#[derive(Clone, Debug)]
pub struct Programs {
    bin: PathBuf,
}

impl Programs {
    /// The programs, if all of them are there.
    ///
    /// # Errors
    /// Some are not built.
    pub fn built() -> Result<Self> {
        let bin = bin()?;
        let files = NAMES.into_iter().chain([STAGES]);
        let missing: Vec<&str> = files.filter(|name| !bin.join(name).is_file()).collect();
        if missing.is_empty() {
            return Ok(Self { bin });
        }
        bail!("{} not built; `cargo xtask control-plane build` builds the programs", missing.join(", "))
    }

    /// The path of one, or of [`STAGES`].
    pub fn path(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// The folder that holds them all.
    pub fn folder(&self) -> &Path {
        &self.bin
    }
}
