//! `joiner up --api-only` as a process that ends with the test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use joiner_testbed::client::Client;
use joiner_testbed::plane::scratch;
use joiner_testbed::process::Kept;

/// A running server.
pub(crate) struct Embedded {
    pub(crate) kubeconfig: PathBuf,
    folder: PathBuf,
    process: Option<Kept>,
}

impl Embedded {
    pub(crate) async fn start() -> Self {
        let folder = scratch("embedded").unwrap();
        let kubeconfig = folder.join("admin.kubeconfig");
        let arguments = ["up", "--api-only", "--kubeconfig", kubeconfig.to_str().unwrap()].map(str::to_owned);
        let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
        let mut process = Kept::start("joiner", program, &arguments, &folder.join("log")).unwrap();
        for _ in 0..300 {
            process.check().unwrap();
            if let Ok(text) = std::fs::read_to_string(&kubeconfig)
                && let Ok(client) = Client::from_kubeconfig(&text)
                && client.get("/readyz").await.is_ok_and(|(status, _)| status == 200)
            {
                return Self { kubeconfig, folder, process: Some(process) };
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("joiner does not answer:\n{}", process.last_words());
    }

    pub(crate) fn client(&self) -> Client {
        Client::from_kubeconfig(&std::fs::read_to_string(&self.kubeconfig).unwrap()).unwrap()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.process = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
