//! `docs/guide/run.md`, followed to the letter: its commands are taken from the page and run in a shell, in their order.
//!
//! What this test knows is what a reader expects of each command. A command on the page that it does not know fails the test, and so does one that it
//! knows and the page has no longer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use joiner_testbed::plane::Parts;
use joiner_testbed::process::{Kept, Signal};

use crate::replica::{CLAIMS, Cluster, LEASE, NODES, text, until};

const PAGE: &str = include_str!("../../../../docs/guide/run.md");

/// The commands of the page: those of a console after its prompt, all of a script, line by line, but for continued lines.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut block: Option<(usize, bool)> = None;
    let mut open = String::new();
    for line in page.lines() {
        let indent = line.len() - line.trim_start().len();
        match (block, line.trim_start()) {
            (None, "```sh") => block = Some((indent, false)),
            (None, "```console") => block = Some((indent, true)),
            (None, _) => {}
            (Some(_), "```") => block = None,
            (Some((indent, prompts)), _) => {
                let line = line.get(indent..).unwrap_or_default();
                let begins = line.strip_prefix("$ ");
                let part = match begins {
                    Some(command) => command,
                    // Without a prompt a console shows output, unless a command goes on.
                    None if prompts && open.is_empty() => continue,
                    None => line,
                };
                open.push_str(part);
                match open.strip_suffix('\\') {
                    Some(text) => open = text.to_owned(),
                    None => commands.push(std::mem::take(&mut open)),
                }
            }
        }
    }
    commands
}

#[test]
fn commands_are_found_on_a_page() {
    let page =
        "```sh\na --b \\\n  c\n```\n\n  ```console\n  $ d | e\n  output\n  $ f\n  ```\n```json\n$ no\n```\n";
    assert_eq!(commands(page), ["a --b   c", "d | e", "f"]);
}

/// A reader at a shell, with the programs of the guide on the path and a kubeconfig where kubectl looks for it.
struct Reader {
    /// What still runs in another terminal; ends before the cluster does.
    terminals: Vec<(String, Kept, PathBuf)>,
    /// How many commands were typed: each has a log of its own.
    typed: usize,
    cluster: Cluster,
    home: PathBuf,
    path: String,
}

impl Reader {
    fn new(cluster: Cluster) -> Self {
        let home = cluster.folder.join("home");
        std::fs::create_dir_all(home.join(".kube")).unwrap();
        std::fs::copy(&cluster.bed.kubeconfig, home.join(".kube/config")).unwrap();
        let stages = cluster.programs.path(joiner_testbed::cache::STAGES);
        std::fs::copy(stages, home.join("stages.yaml")).unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        std::os::unix::fs::symlink(std::fs::canonicalize(examples).unwrap(), home.join("examples")).unwrap();
        let ours = Path::new(env!("CARGO_BIN_EXE_joiner")).parent().unwrap().display().to_string();
        let usual = std::env::var("PATH").unwrap();
        let path = format!("{ours}:{}:{usual}", cluster.programs.folder().display());
        Self { terminals: Vec::new(), typed: 0, cluster, home, path }
    }

    /// Types a command into a terminal of its own.
    fn begin(&mut self, command: &str) -> PathBuf {
        self.typed += 1;
        let log = self.home.join(format!("terminal-{}.log", self.typed));
        let script = format!("cd \"$HOME\" && exec {command}");
        let variables = [
            ("HOME", self.home.display().to_string()),
            ("PATH", self.path.clone()),
            // Other tests have the usual ports.
            ("METRICS_PORT", "0".to_owned()),
            ("HEALTH_PROBE_PORT", "0".to_owned()),
        ];
        let process =
            Kept::start_with("bash", Path::new("/bin/bash"), &["-c".to_owned(), script], &variables, &log);
        self.terminals.push((command.to_owned(), process.unwrap(), log.clone()));
        log
    }

    /// Types a command and waits for its end; what it prints.
    fn run(&mut self, command: &str) -> String {
        let quoted = format!("bash -o pipefail -c {}", quoted(command));
        let log = self.begin(&quoted);
        let (_, mut process, _) = self.terminals.pop().unwrap();
        let status = process.await_end(Duration::from_secs(120)).unwrap();
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(status.success(), "`{command}` ended with {status}:\n{said}");
        said
    }

    /// Ctrl-C where this runs: it ends by itself.
    fn interrupt(&mut self, command: &str) {
        let at = self.terminals.iter().position(|(running, ..)| running == command).unwrap();
        let (_, mut process, log) = self.terminals.remove(at);
        process.check().unwrap();
        process.signal(Signal::Interrupt).unwrap();
        let status = process.await_end(Duration::from_secs(40));
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let status = status.unwrap_or_else(|error| panic!("`{command}`: {error}\n{said}"));
        assert!(status.success(), "`{command}` ended with {status}:\n{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (command, _, log) in &self.terminals {
                eprintln!("== {command}\n{}", std::fs::read_to_string(log).unwrap_or_default());
            }
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn read(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_works_as_it_is_written() {
    let test = "the_guide_works_as_it_is_written";
    // The guide installs the definitions, and starts kwok itself.
    let parts = Parts { kwok: false, ..Parts::ALL };
    let Some(cluster) = Cluster::bare(test, parts).await else { return };
    let mut reader = Reader::new(cluster);
    let mut dry_run = PathBuf::new();
    let mut known = BTreeSet::new();
    for command in commands(PAGE) {
        println!("$ {command}");
        known.insert(command.clone());
        match command.as_str() {
            "joiner crds | kubectl apply --server-side -f -" => drop(reader.run(&command)),
            "joiner run --dry-run" => {
                dry_run = reader.begin(&command);
                until("the dry run has begun", 60, async || read(&dry_run).contains("\"message\":\"runs\""))
                    .await;
            }
            "joiner run --provider kwok" => {
                let log = reader.begin(&command);
                until("it leads", 60, async || read(&log).contains("\"message\":\"leads\"")).await;
            }
            "kubectl apply -f examples/inflate.yaml" => {
                reader.run(&command);
                let cluster = &reader.cluster;
                until("ten pods run", 120, async || cluster.running_pods().await == 10).await;
                assert_eq!(cluster.names(CLAIMS).await.len(), 2);
                assert_eq!(cluster.names(CLAIMS).await, cluster.names(NODES).await);
                until("the dry run says what it would do", 60, async || read(&dry_run).contains("would"))
                    .await;
                reader.interrupt("joiner run --dry-run");
            }
            "kubectl get nodeclaims,nodes" => {
                let table = reader.run(&command);
                for name in reader.cluster.names(CLAIMS).await {
                    assert!(table.contains(&format!("nodeclaim.karpenter.sh/{name}")), "{table}");
                    assert!(table.contains(&format!("node/{name}")), "{table}");
                }
            }
            "kubectl get pods -w" => {
                let log = reader.begin(&command);
                until("ten pods are shown running", 60, async || read(&log).matches("Running").count() >= 10)
                    .await;
            }
            command if command.starts_with("kubectl -n kube-system get configmap joiner-decisions") => {
                let begun = std::time::Instant::now();
                while !reader.run(command).contains("provisioned") {
                    assert!(begun.elapsed() < Duration::from_secs(60), "no decisions are written");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
            command if command.starts_with("kubectl delete node ") => {
                let before = reader.cluster.names(NODES).await;
                reader.run(command);
                let cluster = &reader.cluster;
                until("a node is gone, and its pods run elsewhere", 120, async || {
                    !before.is_subset(&cluster.names(NODES).await) && cluster.running_pods().await == 10
                })
                .await;
            }
            "kubectl delete deployment inflate" => drop(reader.run(&command)),
            "kubectl get nodes -w" => {
                reader.begin(&command);
                let cluster = &reader.cluster;
                until("all nodes are gone", 180, async || {
                    cluster.names(NODES).await.is_empty() && cluster.names(CLAIMS).await.is_empty()
                })
                .await;
                reader.interrupt("joiner run --provider kwok");
                let (_, lease) = reader.cluster.bed.client.get(LEASE).await.unwrap();
                assert_eq!(text(&lease, "/spec/holderIdentity"), "", "the lease is given back");
            }
            "joiner run --provider kwok --simulate-kubelets" => {
                // Who takes this way has no KWOK.
                reader.terminals.retain(|(running, ..)| !running.starts_with("kwok "));
                let log = reader.begin(&command);
                until("it leads", 60, async || read(&log).contains("\"message\":\"leads\"")).await;
                reader.interrupt(&command);
            }
            "joiner run --provider kwok --leader-election-name joiner-kwok" => {
                let log = reader.begin(&command);
                until("it leads", 60, async || read(&log).contains("\"message\":\"leads\"")).await;
                let lease = LEASE.replace("karpenter-leader-election", "joiner-kwok");
                assert_eq!(reader.cluster.bed.client.get(&lease).await.unwrap().0, 200);
                reader.interrupt(&command);
            }
            command if command.starts_with("kwok --kubeconfig ~/.kube/config --config stages.yaml") => {
                reader.begin(command);
            }
            unknown => panic!("the page says `{unknown}`; say in this test what a reader expects of it"),
        }
    }
    assert!(known.len() >= 12, "commands are missing on the page: {known:#?}");
}
