//! `joiner run` in a cluster where another autoscaler is at work.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Method;
use joiner_testbed::client::Client;
use joiner_testbed::plane::scratch;
use joiner_testbed::process::Kept;
use serde_json::json;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";

/// A process of joiner's with a folder of its own.
struct Process {
    kept: Kept,
    folder: PathBuf,
}

impl Process {
    fn start(purpose: &str, arguments: &[&str]) -> Self {
        let folder = scratch(purpose).unwrap();
        let arguments: Vec<String> =
            arguments.iter().map(|of| of.replace("FOLDER", folder.to_str().unwrap())).collect();
        let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
        let kept = Kept::start("joiner", program, &arguments, &folder.join("log")).unwrap();
        Self { kept, folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    async fn until<T>(&mut self, what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = found().await {
                return found;
            }
            self.kept.check().unwrap();
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joiner_waits_for_the_end_of_another_autoscaler() {
    let mut server =
        Process::start("beside-server", &["up", "--api-only", "--kubeconfig", "FOLDER/kubeconfig"]);
    let kubeconfig = server.folder.join("kubeconfig");
    let file = kubeconfig.clone();
    let client = server
        .until("the server answers", async || {
            let client = Client::from_kubeconfig(&std::fs::read_to_string(&file).ok()?).ok()?;
            client.get("/readyz").await.ok().filter(|(status, _)| *status == 200).map(|_| client)
        })
        .await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "karpenter-0", "namespace": "kube-system", "labels": {"app.kubernetes.io/name": "karpenter"}},
        "spec": {"schedulerName": "none", "containers": [{"name": "controller", "image": "public.ecr.aws/karpenter/controller:1.9.0"}]}});
    let pods = "/api/v1/namespaces/kube-system/pods";
    assert_eq!(client.call(Method::POST, pods, Some(&pod)).await.unwrap().0, 201);
    let kubeconfig = kubeconfig.to_str().unwrap();
    let run =
        ["run", "--provider=kwok", "--metrics-port=0", "--health-probe-port=0", "--kubeconfig", kubeconfig];
    let log_file = |process: &Process| process.folder.join("log");
    let says = |log: &Path, words: &str| {
        std::fs::read_to_string(log).unwrap_or_default().contains(words).then_some(())
    };

    let mut careful = Process::start("beside-careful", &run);
    let log = log_file(&careful);
    careful.until("it names the other", async || says(&log, "Karpenter (pod kube-system/karpenter-0)")).await;
    assert_eq!(client.get(LEASE).await.unwrap().0, 404, "it does not ask for the lease");

    // Told to, another one acts at once; that it leads keeps the careful one waiting, by the lease as ever.
    let mut bold = Process::start("beside-bold", &[&run[..], &["--take-over"]].concat());
    let log = log_file(&bold);
    bold.until("it leads", async || says(&log, "\"message\":\"leads\"")).await;
    drop(bold);
    assert!(!careful.log().contains("\"message\":\"leads\""), "{}", careful.log());

    let (status, _) =
        client.call(Method::DELETE, &format!("{pods}/karpenter-0?gracePeriodSeconds=0"), None).await.unwrap();
    assert_eq!(status, 200);
    let log = log_file(&careful);
    careful.until("it leads when the other has gone", async || says(&log, "\"message\":\"leads\"")).await;
}
