//! Building the programs with Go, once per set of sources.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cache::{self, HELM, HELM_SUM, KUBERNETES, KWOK, KWOK_SUM, NAMES, Programs};

/// Builds what is not built yet, telling about each step.
///
/// # Errors
/// Go is missing, sources cannot be fetched, or a build fails.
pub fn build(tell: &mut dyn FnMut(&str)) -> Result<Programs> {
    if let Ok(programs) = Programs::built() {
        tell(&format!("all built in {}", programs.folder().display()));
        return Ok(programs);
    }
    let go = go_version()?;
    let bin = cache::bin()?;
    std::fs::create_dir_all(&bin).with_context(|| format!("cannot make `{}`", bin.display()))?;
    tell(&format!("building with {go} into {}", bin.display()));
    for (number, name) in NAMES.into_iter().enumerate() {
        let place = bin.join(name);
        let turn = format!("{name} ({} of {})", number + 1, NAMES.len());
        if place.is_file() && (name != "kwok" || bin.join(cache::STAGES).is_file()) {
            tell(&format!("{turn}: there already"));
            continue;
        }
        tell(&format!("{turn}: building"));
        let start = Instant::now();
        // Under another name until it is whole: an interrupted build leaves nothing that looks built.
        let draft = bin.join(format!(".{name}.{}", std::process::id()));
        let outcome = compile(name, &draft);
        if outcome.is_err() {
            let _ = std::fs::remove_file(&draft);
        }
        outcome.with_context(|| format!("cannot build `{name}`"))?;
        if name == "kwok" {
            std::fs::write(bin.join(cache::STAGES), stages()?)?;
        }
        std::fs::rename(&draft, &place)?;
        tell(&format!("{turn}: {} s", start.elapsed().as_secs()));
    }
    Programs::built()
}

/// Builds Karpenter with its KWOK provider, if it is not built yet, and says where it is. Only the comparison needs it.
///
/// # Errors
/// Go is missing, sources cannot be fetched, or the build fails.
pub fn karpenter(tell: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let place = cache::karpenter()?;
    if place.is_file() {
        return Ok(place);
    }
    let folder = place.parent().unwrap_or(&place);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    tell(&format!("karpenter: building with {}", go_version()?));
    let start = Instant::now();
    let draft = folder.join(format!(".karpenter.{}", std::process::id()));
    let outcome = go_build(&cache::karpenter_sources(), "sigs.k8s.io/karpenter/kwok", &draft);
    if outcome.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    outcome.context("cannot build `karpenter`")?;
    std::fs::rename(&draft, &place)?;
    tell(&format!("karpenter: {} s", start.elapsed().as_secs()));
    Ok(place)
}

/// What `go version` says.
///
/// # Errors
/// Go is not installed.
pub fn go_version() -> Result<String> {
    let output = Command::new("go").arg("version").output();
    let output = output.ok().filter(|output| output.status.success());
    let output =
        output.context("`go` is not on the path; the control plane is built with Go 1.26 or newer")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("go version ").to_owned())
}

fn compile(name: &str, draft: &Path) -> Result<()> {
    let (folder, package) = match name {
        "etcd" => (cache::sources(), "go.etcd.io/etcd/server/v3".to_owned()),
        "informer" => (cache::informer(), ".".to_owned()),
        "kwok" => (kwok_sources()?, "./cmd/kwok".to_owned()),
        _ => (cache::sources(), format!("k8s.io/kubernetes/cmd/{name}")),
    };
    go_build(&folder, &package, draft)
        .with_context(|| format!("`{name}` is of Kubernetes {KUBERNETES} or kwok {KWOK}"))
}

fn go_build(folder: &Path, package: &str, draft: &Path) -> Result<()> {
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-mod=readonly", "-buildvcs=false"]);
    command.arg("-ldflags").arg(cache::linker_flags());
    command.arg("-o").arg(draft).arg(package).current_dir(folder);
    // A workspace around the checkout must not change what is built, and cgo not where it runs.
    command.env("GOWORK", "off").env("CGO_ENABLED", "0");
    let status = command.status().context("cannot start `go`")?;
    if !status.success() {
        bail!("`go build {package}` ended with {status}");
    }
    Ok(())
}

/// The stages that kwok's own set-up calls fast, with leases for heartbeats: one file of those in its sources.
fn stages() -> Result<String> {
    let folder = kwok_sources()?.join("kustomize/stage");
    let mut documents = Vec::new();
    for part in ["node/fast", "node/heartbeat-with-lease", "pod/fast"] {
        let mut files = std::fs::read_dir(folder.join(part))?
            .map(|file| Ok(file?.path()))
            .collect::<std::io::Result<Vec<PathBuf>>>()?;
        files.retain(|file| file.file_name().is_some_and(|name| name != "kustomization.yaml"));
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "yaml")) {
            documents.push(std::fs::read_to_string(file)?);
        }
    }
    Ok(documents.join("\n---\n"))
}

/// The unpacked sources of kwok, a module of its own with its own sums.
fn kwok_sources() -> Result<PathBuf> {
    module_sources("sigs.k8s.io/kwok", KWOK, KWOK_SUM)
}

/// Builds helm, if it is not built yet, and says where it is.
///
/// # Errors
/// Go is missing, the sources cannot be fetched, or the build fails.
pub fn helm(tell: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let place = cache::helm()?;
    if place.is_file() {
        return Ok(place);
    }
    let folder = place.parent().context("a program lies in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    tell(&format!("building helm {HELM} with {}", go_version()?));
    let draft = folder.join(format!(".helm.{}", std::process::id()));
    let mut parts = KUBERNETES.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let package = "helm.sh/helm/v3";
    // Charts that are rendered without a cluster are rendered for this version of Kubernetes.
    let version = format!(
        "-s -w -X {package}/internal/version.version={HELM} -X {package}/pkg/chartutil.k8sVersionMajor={major} \
         -X {package}/pkg/chartutil.k8sVersionMinor={minor} -X {package}/pkg/lint/rules.k8sVersionMajor={major} \
         -X {package}/pkg/lint/rules.k8sVersionMinor={minor}"
    );
    let outcome = Command::new("go")
        .args(["build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", &version, "-o"])
        .arg(&draft)
        .arg("./cmd/helm")
        .current_dir(module_sources("helm.sh/helm/v3", HELM, HELM_SUM)?)
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .status()
        .context("cannot start `go`")?;
    if !outcome.success() {
        let _ = std::fs::remove_file(&draft);
        bail!("`go build` of helm {HELM} ended with {outcome}");
    }
    std::fs::rename(&draft, &place)?;
    Ok(place)
}

/// The unpacked sources of a module that is built with sums of its own.
fn module_sources(module: &str, version: &str, wanted: &str) -> Result<PathBuf> {
    let root = cache::root()?;
    std::fs::create_dir_all(&root).with_context(|| format!("cannot make `{}`", root.display()))?;
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .current_dir(root)
        .env("GOWORK", "off")
        .output()
        .context("cannot start `go`")?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let (Some(folder), Some(sum)) = (answer["Dir"].as_str(), answer["Sum"].as_str()) else {
        bail!("cannot fetch the sources of {module}: {}", answer["Error"].as_str().unwrap_or("no answer"));
    };
    if sum != wanted {
        bail!("the sources of {module} {version} add up to `{sum}` and not `{wanted}`");
    }
    Ok(folder.into())
}
