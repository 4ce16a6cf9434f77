//! `joiner up --api-only` as a process: what it says, what it keeps, and when it does not start.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder of its own for a test, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("joiner-up-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server, ended with the test.
struct Server {
    process: Child,
    said: String,
}

impl Server {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut process =
            command(folder, arguments).stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = process.stdout.take().expect("it has an output");
        let mut said = String::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
            if line.starts_with("Ctrl-C") {
                break;
            }
        }
        Self { process, said }
    }

    fn port(&self) -> String {
        let rest = self.said.split("https://").nth(1).expect("it says where it listens");
        rest.split(". ").next().and_then(|address| address.rsplit(':').next()).expect("an address").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_joiner"));
    command.args(["up", "--api-only", "--kubeconfig", &folder.file("kubeconfig")]).args(arguments);
    command
}

/// What a start that fails says.
fn refused(folder: &Folder, arguments: &[&str]) -> String {
    let output = command(folder, arguments).output().expect("the program starts");
    assert!(!output.status.success());
    String::from_utf8(output.stderr).expect("errors are text")
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).expect("the file is there")
}

#[test]
fn a_port_in_use_is_named() {
    let folder = Folder::new("port");
    let server = Server::start(&folder, &[]);
    let port = server.port();
    assert_eq!(
        refused(&folder, &["--port", &port]),
        format!("error: port {port} of 127.0.0.1 is in use: choose another, or 0 for a free one\n")
    );
}

#[test]
fn a_folder_goes_on_after_a_kill() {
    let folder = Folder::new("data");
    let data = folder.file("data");
    let first = Server::start(&folder, &["--data-dir", &data]);
    assert!(
        first.said.ends_with(&format!("Ctrl-C ends it; everything is kept in `{data}`.\n")),
        "{}",
        first.said
    );
    let (port, kubeconfig) = (first.port(), read(folder.file("kubeconfig")));
    let in_use = format!(
        "error: `{data}/objects.redb` is in use by another running server: end that one, or choose another folder\n"
    );
    assert_eq!(refused(&folder, &["--data-dir", &data]), in_use);
    drop(first);

    let second = Server::start(&folder, &["--data-dir", &data, "--port", &port]);
    assert_eq!(read(folder.file("kubeconfig")), kubeconfig, "clients need nothing new");
    drop(second);

    std::fs::write(folder.0.join("data/objects.redb"), "something else").expect("the file can be written");
    let said = refused(&folder, &["--data-dir", &data]);
    assert!(
        said.starts_with(&format!("error: `{data}/objects.redb` is damaged and was left as it is")),
        "{said}"
    );
    assert_eq!(read(folder.0.join("data/objects.redb")), "something else");
}

#[test]
fn others_are_let_in_only_when_told() {
    let folder = Folder::new("listen");
    let alone = Server::start(&folder, &[]);
    assert!(alone.said.contains("listens on https://127.0.0.1:"), "{}", alone.said);
    assert!(!alone.said.contains("Other machines"), "{}", alone.said);
    drop(alone);
    let open = Server::start(&folder, &["--listen", "0.0.0.0"]);
    assert!(open.said.contains("listens on https://0.0.0.0:"), "{}", open.said);
    assert!(open.said.contains("Other machines can reach it"), "{}", open.said);
    assert!(read(folder.file("kubeconfig")).contains(&format!("https://127.0.0.1:{}", open.port())));
    assert!(
        refused(&folder, &["--listen", "nowhere"]).contains("invalid value 'nowhere' for '--listen <ADDR>'")
    );
}

#[cfg(unix)]
#[test]
fn the_kubeconfig_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("private");
    std::fs::write(folder.file("kubeconfig"), "readable by all").expect("the file can be written");
    let _server = Server::start(&folder, &[]);
    let mode = std::fs::metadata(folder.file("kubeconfig")).expect("the file is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Tells a server to end, and waits until it has.
#[cfg(unix)]
fn end(mut server: Server) {
    let id = server.process.id().to_string();
    Command::new("kill").args(["-TERM", &id]).status().expect("a signal can be sent");
    server.process.wait().expect("it ends");
}

#[cfg(unix)]
#[test]
fn the_kubeconfig_goes_with_the_server() {
    let folder = Folder::new("gone");
    let kubeconfig = folder.0.join("kubeconfig");
    let server = Server::start(&folder, &[]);
    assert!(kubeconfig.exists());
    end(server);
    assert!(!kubeconfig.exists());

    let server = Server::start(&folder, &[]);
    std::fs::write(&kubeconfig, "of somebody else").expect("the file can be written");
    end(server);
    assert_eq!(read(&kubeconfig), "of somebody else");

    let server = Server::start(&folder, &["--data-dir", &folder.file("data")]);
    end(server);
    assert!(read(&kubeconfig).contains("https://127.0.0.1:"), "the next start has the same token");
}

#[test]
fn the_usual_kubeconfig_is_not_taken_from_a_cluster_that_runs() {
    let folder = Folder::new("two");
    let first = Server::start(&folder, &[]);
    let usual = folder.0.join("joiner.kubeconfig");
    std::fs::copy(folder.0.join("kubeconfig"), &usual).expect("a copy");
    let before = read(&usual);
    let mut second = Command::new(env!("CARGO_BIN_EXE_joiner"));
    let output = second.args(["up", "--api-only"]).current_dir(&folder.0).output().expect("it starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "error: `joiner.kubeconfig` belongs to a cluster that runs (https://127.0.0.1:{}): end that one, or name another file with --kubeconfig\n",
            first.port()
        )
    );
    assert_eq!(read(&usual), before);
}
