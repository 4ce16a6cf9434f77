//! A control plane that stays up after the command that started it, until another command ends it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cache::{self, Programs};
use crate::plane::{Launch, Parts, Site};
use crate::process::logged;

/// One program of a standing control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Whether that process still is this program.
    pub runs: bool,
}

fn folder() -> Result<PathBuf> {
    Ok(cache::root()?.join("run"))
}

/// Starts one and gives the path of its kubeconfig.
///
/// # Errors
/// One runs already, or it cannot be started.
pub async fn up(programs: &Programs, parts: Parts) -> Result<PathBuf> {
    let folder = folder()?;
    if status()?.iter().any(|member| member.runs) {
        bail!("a control plane runs already; `cargo xtask control-plane down` ends it");
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    std::fs::create_dir_all(&folder)?;
    let site = Site::lay_out(&folder, parts)?;
    let mut members = Vec::new();
    let started = start(programs, parts, &site, &folder, &mut members).await;
    if let Err(error) = started {
        down()?;
        return Err(error);
    }
    Ok(site.kubeconfig())
}

async fn start(
    programs: &Programs,
    parts: Parts,
    site: &Site,
    folder: &Path,
    members: &mut Vec<Value>,
) -> Result<()> {
    let mut launch = |launch: Launch| -> Result<()> {
        let mut command = Command::new(programs.path(launch.name));
        // A group of its own: Ctrl-C in this terminal is not meant for it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = logged(command.args(launch.arguments).stdin(Stdio::null()), &site.log(launch.name))?
            .spawn()
            .with_context(|| format!("cannot start `{}`", launch.name))?;
        members.push(json!({"name": launch.name, "pid": child.id()}));
        std::fs::write(folder.join("members.json"), json!(members).to_string())?;
        Ok(())
    };
    launch(site.etcd())?;
    launch(site.api_server())?;
    let log = site.log("kube-apiserver");
    site.await_ready(|| match status()?.iter().find(|member| !member.runs) {
        Some(member) => bail!("`{}` ended; logs are beside {}", member.name, log.display()),
        None => Ok(()),
    })
    .await?;
    if parts.controllers {
        launch(site.controller_manager())?;
    }
    if parts.scheduler {
        launch(site.scheduler())?;
    }
    if parts.kwok {
        launch(site.kwok(programs))?;
    }
    Ok(())
}

/// The programs that were started last, whether they run or not.
///
/// # Errors
/// The record of them cannot be read.
pub fn status() -> Result<Vec<Member>> {
    let record = folder()?.join("members.json");
    let Ok(text) = std::fs::read_to_string(&record) else { return Ok(Vec::new()) };
    let members: Vec<Value> =
        serde_json::from_str(&text).with_context(|| format!("cannot read `{}`", record.display()))?;
    let mut all = Vec::with_capacity(members.len());
    for member in &members {
        let name = member["name"].as_str().unwrap_or_default().to_owned();
        let pid = member["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default();
        let runs = pid != 0 && is(pid, &name)?;
        all.push(Member { name, pid, runs });
    }
    Ok(all)
}

/// The kubeconfig of the plane that was started last.
///
/// # Errors
/// There is no cache folder.
pub fn kubeconfig() -> Result<PathBuf> {
    Ok(folder()?.join("admin.kubeconfig"))
}

/// Ends the programs, the API server first, and removes their files; how many were ended.
///
/// # Errors
/// A program does not end.
pub fn down() -> Result<usize> {
    let mut ended = 0;
    for member in status()?.iter().rev().filter(|member| member.runs) {
        ended += 1;
        let pid = member.pid.to_string();
        Command::new("kill").arg(&pid).status().context("cannot start `kill`")?;
        let start = Instant::now();
        while is(member.pid, &member.name)? {
            if start.elapsed() > Duration::from_secs(10) {
                // Open watches hold a graceful end up.
                Command::new("kill").args(["-9", &pid]).status().context("cannot start `kill`")?;
            }
            if start.elapsed() > Duration::from_secs(20) {
                bail!("`{}` (process {pid}) does not end", member.name);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let folder = folder()?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    Ok(ended)
}

/// Whether a process is the program that was started, and not another that got its number, nor one that waits to be reaped.
fn is(pid: u32, name: &str) -> Result<bool> {
    let output = Command::new("ps")
        .args(["-o", "stat=,args=", "-p", &pid.to_string()])
        .output()
        .context("cannot start `ps`")?;
    let line = String::from_utf8_lossy(&output.stdout);
    let line = line.trim();
    let program = line.split_whitespace().nth(1).unwrap_or_default();
    Ok(!line.starts_with('Z') && Path::new(program).file_name().is_some_and(|file| file == name))
}
