//! The same kubectl commands on both servers give the same output.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use joiner_testbed::plane::{Parts, scratch};
use regex::Regex;

use crate::embedded::Embedded;

/// Commands, one a line; `< name` hands over the document of that name, `& command` runs while the line before it watches. After
/// `!protobuf` come commands that need a server that reads it.
const SCRIPT: &str = include_str!("kubectl.script");
/// Documents, each after a line `--- name`.
const DOCUMENTS: &str = include_str!("kubectl.documents");
/// Commands whose outputs differ, with the reason.
const PENDING: &[(&str, &str)] =
    &[("get quota", "the real server runs without controllers here, so nobody counts there what is used")];

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_says_the_same_on_both_servers() {
    let test = "kubectl_says_the_same_on_both_servers";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(bed) = joiner_testbed::plane_for(test, Parts::BARE).await.unwrap() else { return };
    let embedded = Embedded::start().await;
    let kubectl = programs.path("kubectl");
    let definitions = Command::new(env!("CARGO_BIN_EXE_joiner")).arg("crds").output().unwrap().stdout;
    let definitions = String::from_utf8(definitions).unwrap();
    let real = Terminal::new(&kubectl, &bed.kubeconfig);
    // The embedded server has them from the start.
    let (_, installed) = real.run("apply --server-side -f -", Some(&definitions));
    assert!(installed.contains("serverside-applied"), "{installed}");
    for definition in joiner_api::crd::of_others() {
        let definition = serde_json::to_string(&definition).unwrap();
        let (_, installed) = real.run("apply --server-side -f -", Some(&definition));
        assert!(installed.contains("serverside-applied"), "{installed}");
    }
    let ours = Terminal::new(&kubectl, &embedded.kubeconfig);

    let documents = documents();
    let pending: BTreeMap<&str, &str> = PENDING.iter().copied().collect();
    let (mut equal, mut problems) = (0, Vec::new());
    let mut lines = SCRIPT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let mut meanwhile = Vec::new();
        while let Some(next) = lines.peek().and_then(|next| next.strip_prefix("& ")) {
            meanwhile.push(next);
            lines.next();
        }
        let (there, here) =
            (real.perform(line, &meanwhile, &documents), ours.perform(line, &meanwhile, &documents));
        match (there == here, pending.contains_key(line)) {
            (true, false) => equal += 1,
            (true, true) => problems.push(format!("{line}: equal, take it off the list")),
            (false, true) => {}
            (false, false) => problems.push(difference(line, &there, &here)),
        }
    }
    assert!(
        problems.is_empty(),
        "{equal} commands equal, {} differ:\n{}",
        problems.len(),
        problems.join("\n")
    );
    assert!(equal > 100, "{equal} commands");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_examples_are_applied_at_once() {
    let Some(programs) = joiner_testbed::programs_for("all_examples_are_applied_at_once").unwrap() else {
        return;
    };
    let embedded = Embedded::start().await;
    let kubectl = Terminal::new(&programs.path("kubectl"), &embedded.kubeconfig);
    kubectl.run("config set-context --current --namespace=default", None);
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
    // A second time changes what is there.
    for _ in 0..2 {
        let (code, said) = kubectl.run(&format!("apply -f {examples}"), None);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("ec2nodeclass.karpenter.k8s.aws/default "), "{said}");
    }
}

fn documents() -> BTreeMap<&'static str, String> {
    let mut documents: BTreeMap<&str, String> = BTreeMap::new();
    let mut current = "";
    for line in DOCUMENTS.lines() {
        match line.strip_prefix("--- ") {
            Some(name) => current = name,
            None => writeln!(documents.entry(current).or_default(), "{line}").unwrap(),
        }
    }
    documents
}

/// Lines that only one side printed.
fn difference(line: &str, there: &str, here: &str) -> String {
    let only = |one: &str, other: &str, sign: char| -> String {
        let other: Vec<&str> = other.lines().collect();
        one.lines()
            .filter(|line| !other.contains(line))
            .take(25)
            .map(|line| format!("    {sign} {line}\n"))
            .collect()
    };
    format!("$ kubectl {line}\n{}{}", only(there, here, '-'), only(here, there, '+'))
}

/// kubectl for one server, with a home of its own.
pub(crate) struct Terminal {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Terminal {
    pub(crate) fn new(kubectl: &Path, kubeconfig: &Path) -> Self {
        let home = scratch("kubectl").unwrap();
        let terminal = Self { kubectl: kubectl.to_owned(), kubeconfig: kubeconfig.to_owned(), home };
        terminal.run("config set-context --current --namespace=demo", None);
        terminal
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.args(line.split_whitespace().map(|word| word.replace("%20", " ")));
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The exit code and both outputs.
    pub(crate) fn run(&self, line: &str, input: Option<&str>) -> (Option<i32>, String) {
        let mut child = self.command(line).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes()).unwrap();
        // A command that waits for something that never comes is a difference too.
        let killer = child.id().to_string();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            if wait.recv_timeout(Duration::from_secs(20)).is_err() {
                Command::new("kill").args(["-9", &killer]).status().unwrap();
            }
        });
        let output = child.wait_with_output().unwrap();
        let _ = done.send(());
        guard.join().unwrap();
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.code(), text)
    }

    fn perform(&self, line: &str, meanwhile: &[&str], documents: &BTreeMap<&str, String>) -> String {
        let one = |line: &str| {
            let (line, input) = match line.split_once(" < ") {
                Some((line, name)) => (line, Some(documents[name.trim()].as_str())),
                None => (line, None),
            };
            self.run(line, input)
        };
        if meanwhile.is_empty() {
            let (code, text) = one(line);
            return format!("exit code {}\n{}", code.unwrap_or(-1), normal(line, &text));
        }
        let mut watching = self.command(line).spawn().unwrap();
        drop(watching.stdin.take());
        std::thread::sleep(Duration::from_millis(1500));
        for line in meanwhile {
            one(line);
        }
        std::thread::sleep(Duration::from_millis(1000));
        watching.kill().unwrap();
        let output = watching.wait_with_output().unwrap();
        normal(line, &String::from_utf8_lossy(&output.stdout))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// The text without what differs from run to run.
fn normal(line: &str, text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, plain) in [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}|Z)?", "TIME"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r#"("?resourceVersion"?): "\d+""#, "$1: RV"),
        (r"Resource Version: +\d+", "Resource Version: RV"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        (r"(LIVE|MERGED)-\d+", "$1"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-X"),
        (r"\b(\d+[dhms])+\b", "AGE"),
        (r"<invalid>", "AGE"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, plain).into_owned();
    }
    // The embedded server has no prose about fields: names and types only.
    let explains = line.starts_with("explain ");
    let lines = text.lines().filter(|line| !explains || line.contains("\t<"));
    // On a real cluster this group comes from an add-on.
    let lines = lines.filter(|line| *line != "metrics.k8s.io/v1beta1");
    let mut lines: Vec<String> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect();
    // Several complaints about one object come in no particular order.
    lines.sort_by_key(|line| line.starts_with("* ").then(|| line.clone()));
    lines.concat()
}
