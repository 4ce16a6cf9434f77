//! The program, and folders for its files.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder of its own for a test, gone when the test is over.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("joiner-from-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    /// Writes objects as a list.
    pub(crate) fn list(&self, name: &str, items: &[Value]) -> String {
        self.write(name, &serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn joiner(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_joiner")).args(arguments).output().unwrap()
}

/// With text on standard input.
pub(crate) fn joiner_fed(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_joiner"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// `joiner up --once`: what it says, what it complains of, and its exit code.
pub(crate) fn once(folder: &Folder, arguments: &[&str]) -> (String, String, Option<i32>) {
    let kubeconfig = folder.path("once.kubeconfig");
    let output = joiner(&[&["up", "--once", "--kubeconfig", &kubeconfig], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// A cluster that lives until the test is over.
pub(crate) struct Up {
    process: Child,
    pub(crate) kubeconfig: String,
}

impl Up {
    pub(crate) fn start(folder: &Folder, name: &str, arguments: &[&str]) -> Self {
        let kubeconfig = folder.path(&format!("{name}.kubeconfig"));
        let mut process = Command::new(env!("CARGO_BIN_EXE_joiner"))
            .args(["up", "--kubeconfig", &kubeconfig])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut begun = false;
        for line in lines.by_ref().map_while(Result::ok) {
            if line.starts_with("Ctrl-C") {
                begun = true;
                break;
            }
        }
        assert!(begun, "the cluster has not begun");
        // Somebody has to read the rest, or the program waits.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { process, kubeconfig }
    }

    /// A snapshot of it.
    pub(crate) fn snapshot(&self, path: &str) -> Vec<Value> {
        snapshot(Path::new(&self.kubeconfig), path, &[])
    }

    /// Its snapshot once it fulfils a condition.
    pub(crate) fn snapshot_when(&self, path: &str, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let objects = self.snapshot(path);
            if done(&objects) {
                return objects;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it does not become so: {}",
                pods(&objects).join("\n")
            );
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A snapshot of a cluster, as its file has it.
pub(crate) fn snapshot(kubeconfig: &Path, path: &str, arguments: &[&str]) -> Vec<Value> {
    let kubeconfig = kubeconfig.display().to_string();
    let output = joiner(&[&["snapshot", "--kubeconfig", &kubeconfig, "-o", path], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(path).unwrap();
    if path.ends_with(".json") {
        let list: Value = serde_json::from_str(&text).unwrap();
        return list["items"].as_array().unwrap().clone();
    }
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Namespace, name, uid and node of each pod.
pub(crate) fn pods(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    objects
        .iter()
        .filter(|object| object["kind"] == "Pod")
        .map(|pod| {
            let metadata = &pod["metadata"];
            format!(
                "{}/{} {} on {}",
                text(&metadata["namespace"]),
                text(&metadata["name"]),
                text(&metadata["uid"]),
                text(&pod["spec"]["nodeName"])
            )
        })
        .collect()
}
