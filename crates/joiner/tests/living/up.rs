//! `joiner up` as a process, and kubectl for it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use joiner_testbed::plane::scratch;
use joiner_testbed::process::Kept;
use serde_json::Value;

/// A kubectl command that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running cluster with kubectl; both end with the test.
pub(crate) struct Up {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
    process: Option<Kept>,
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Both outputs of a command that must have ended well.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Both outputs of a command that must have failed.
    #[track_caller]
    pub(crate) fn badly(self) -> String {
        assert!(self.code.is_some_and(|code| code != 0), "{:?}: {}{}", self.code, self.out, self.err);
        format!("{}{}", self.out, self.err)
    }
}

pub(crate) fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Up {
    /// Starts a cluster; `None` where there is no kubectl.
    pub(crate) fn start(test: &str, arguments: &[&str]) -> Option<Self> {
        let kubectl = joiner_testbed::programs_for(test).unwrap()?.path("kubectl");
        let folder = scratch("living").unwrap();
        let kubeconfig = folder.join("kubeconfig");
        let mut all = vec!["up".to_owned(), "--kubeconfig".to_owned(), kubeconfig.display().to_string()];
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
        let process = Kept::start("joiner", program, &all, &folder.join("log")).unwrap();
        let mut up = Self { kubectl, kubeconfig, folder, process: Some(process) };
        let ready = |up: &mut Self| {
            up.process.as_mut().unwrap().check().unwrap();
            up.kubeconfig.exists() && up.run("get --raw /readyz", "").code == Some(0)
        };
        assert!(within(30, || ready(&mut up)), "joiner does not answer:\n{}", up.said());
        Some(up)
    }

    /// What joiner has written so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        // Blanks within a word are written as %20.
        command.args(line.split_whitespace().map(|word| word.replace("%20", " ")));
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.folder).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command with an input.
    pub(crate) fn run(&self, line: &str, input: &str) -> Said {
        let mut child = self.command(line).spawn().unwrap();
        // A command that does not read its input may have ended before it was written.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let id = child.id().to_string();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            if wait.recv_timeout(PATIENCE).is_err() {
                let _ = Command::new("kill").args(["-9", &id]).status();
            }
        });
        let output = child.wait_with_output().unwrap();
        let _ = done.send(());
        guard.join().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must end well.
    #[track_caller]
    pub(crate) fn kubectl(&self, line: &str) -> String {
        self.run(line, "").well()
    }

    /// Applies documents.
    #[track_caller]
    pub(crate) fn apply(&self, text: &str) -> String {
        self.run("apply -f -", text).well()
    }

    /// Objects as `kubectl get` gives them.
    #[track_caller]
    pub(crate) fn get(&self, what: &str) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.kubectl(&format!("get {what} -o json"))).unwrap();
        match list["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![list],
        }
    }

    /// Names of pods that are bound to a node and not on their way out.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<String> {
        let pods = self.get("pods");
        let here = pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == node && pod["metadata"]["deletionTimestamp"].is_null());
        here.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Starts a command that goes on until it is ended.
    pub(crate) fn meanwhile(&self, line: &str) -> Meanwhile {
        Meanwhile(Some(self.command(line).spawn().unwrap()))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.process = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A command under way.
pub(crate) struct Meanwhile(Option<Child>);

impl Meanwhile {
    /// Ends it; what it has written.
    pub(crate) fn end(mut self) -> String {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether something becomes true within so many seconds.
pub(crate) fn within(seconds: u64, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begun.elapsed() > Duration::from_secs(seconds) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
