//! From the start of the program to the first answer over TLS.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use joiner_testbed::client::Client;

const ROUNDS: usize = 15;

/// Prints how long it takes.
pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (arguments, wanted) in [(["up", "--api-only"].as_slice(), 200), (["up"].as_slice(), 300)] {
        let mut times: Vec<Duration> = (0..ROUNDS).map(|_| runtime.block_on(once(arguments))).collect();
        times.sort_unstable();
        println!(
            "joiner {}: first answer after {:.0?} ({:.0?} to {:.0?} in {ROUNDS} starts; wanted: {wanted} ms)",
            arguments.join(" "),
            times[ROUNDS / 2],
            times[0],
            times[ROUNDS - 1]
        );
    }
}

/// Ends the program with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn once(arguments: &[&str]) -> Duration {
    let folder = joiner_testbed::plane::scratch("start").unwrap();
    let kubeconfig = folder.join("kubeconfig");
    let begun = Instant::now();
    let program = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .spawn();
    let running = Running(program.unwrap());
    let client = loop {
        // It may be seen before it is whole.
        let text = std::fs::read_to_string(&kubeconfig).unwrap_or_default();
        match Client::from_kubeconfig(&text) {
            Ok(client) => break client,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let (code, _) = client.get("/api/v1/namespaces/default").await.unwrap();
    let took = begun.elapsed();
    assert_eq!(code, 200);
    drop(running);
    std::fs::remove_dir_all(folder).unwrap();
    took
}
