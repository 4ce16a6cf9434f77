//! A control plane on loopback: its files, its programs, and the order in which they start.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::audit::{self, Request};
use crate::cache::{Programs, STAGES};
use crate::certificates;
use crate::client::Client;
use crate::process::Kept;

/// What runs beside etcd and the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The controller manager.
    pub controllers: bool,
    /// The scheduler.
    pub scheduler: bool,
    /// kwok, for nodes annotated `kwok.x-k8s.io/node: fake`.
    pub kwok: bool,
    /// A line for each request, for [`crate::audit`]; the API server spends more for it.
    pub audit: bool,
}

impl Parts {
    /// The API server alone.
    pub const BARE: Self = Self { controllers: false, scheduler: false, kwok: false, audit: false };
    /// Everything that runs.
    pub const ALL: Self = Self { controllers: true, scheduler: true, kwok: true, audit: false };
    /// Everything, and a record of who asked for what.
    pub const AUDITED: Self = Self { audit: true, ..Self::ALL };
}

/// How long a program may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// Users with all rights for programs under test, so that the audit log tells them apart.
pub const REPLICAS: [&str; 2] = ["replica-1", "replica-2"];
/// Users of the token file: name and group. The names of the programs are those that the built-in rules know.
const USERS: [(&str, &str); 5] = [
    ("kubernetes-admin", "system:masters"),
    (REPLICAS[0], "system:masters"),
    (REPLICAS[1], "system:masters"),
    ("system:kube-controller-manager", "system:authenticated"),
    ("system:kube-scheduler", "system:authenticated"),
];

/// Where everything of one control plane is: folder and ports.
#[derive(Clone, Debug)]
pub struct Site {
    folder: PathBuf,
    etcd: u16,
    etcd_peer: u16,
    api: u16,
    audit: bool,
}

/// One program with its arguments.
pub(crate) struct Launch {
    /// Its name, also that of its log.
    pub(crate) name: &'static str,
    /// What it is told.
    pub(crate) arguments: Vec<String>,
}

impl Site {
    /// Takes free ports and writes certificates, tokens and kubeconfigs into a folder.
    ///
    /// # Errors
    /// The folder cannot be written or there is no free port.
    pub fn lay_out(folder: &Path, parts: Parts) -> Result<Self> {
        let [etcd, etcd_peer, api] = free_ports()?;
        let site = Self { folder: folder.to_owned(), etcd, etcd_peer, api, audit: parts.audit };
        let authority = certificates::write(folder)?;
        let mut tokens = String::new();
        for (number, (user, group)) in USERS.into_iter().enumerate() {
            // A test server on loopback: the token need only be unlike that of other servers.
            let token = format!("joiner-{number}-{}-{api}", std::process::id());
            tokens.push_str(&format!("{token},{user},,\"{group}\"\n"));
            let short = user.trim_start_matches("system:").trim_start_matches("kubernetes-");
            let config = kubeconfig(api, &authority, short, &token);
            std::fs::write(folder.join(format!("{short}.kubeconfig")), config)?;
        }
        std::fs::write(folder.join("tokens.csv"), tokens)?;
        if site.audit {
            std::fs::write(folder.join("audit-policy.yaml"), audit::POLICY)?;
        }
        Ok(site)
    }

    /// The kubeconfig of the user with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("admin")
    }

    /// The kubeconfig of a user, of [`REPLICAS`] for example.
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.folder.join(format!("{user}.kubeconfig"))
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(crate) fn etcd(&self) -> Launch {
        let client = format!("http://127.0.0.1:{}", self.etcd);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer);
        let arguments = [
            format!("--data-dir={}", self.path("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // What a test wrote need not survive a power cut.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        Launch { name: "etcd", arguments: arguments.into() }
    }

    pub(crate) fn api_server(&self) -> Launch {
        let arguments = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.api),
            format!("--tls-cert-file={}", self.path("server.crt")),
            format!("--tls-private-key-file={}", self.path("server.key")),
            format!("--token-auth-file={}", self.path("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", self.path("accounts.pub")),
            format!("--service-account-signing-key-file={}", self.path("accounts.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            // Many tests from one client.
            "--max-requests-inflight=2000".to_owned(),
            "--max-mutating-requests-inflight=1000".to_owned(),
        ];
        let mut arguments = Vec::from(arguments);
        if self.audit {
            arguments.push(format!("--audit-policy-file={}", self.path("audit-policy.yaml")));
            arguments.push(format!("--audit-log-path={}", self.path("audit.log")));
        }
        Launch { name: "kube-apiserver", arguments }
    }

    pub(crate) fn controller_manager(&self) -> Launch {
        let arguments = [
            format!("--kubeconfig={}", self.path("kube-controller-manager.kubeconfig")),
            format!("--service-account-private-key-file={}", self.path("accounts.key")),
            format!("--root-ca-file={}", self.path("ca.crt")),
            // Each controller with the rights that the built-in rules give it.
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--concurrent-deployment-syncs=20".to_owned(),
            "--concurrent-replicaset-syncs=20".to_owned(),
        ];
        Launch { name: "kube-controller-manager", arguments: arguments.into() }
    }

    pub(crate) fn scheduler(&self) -> Launch {
        let arguments = [
            format!("--kubeconfig={}", self.path("kube-scheduler.kubeconfig")),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ];
        Launch { name: "kube-scheduler", arguments: arguments.into() }
    }

    pub(crate) fn kwok(&self, programs: &Programs) -> Launch {
        let arguments = [
            format!("--kubeconfig={}", self.path("admin.kubeconfig")),
            format!("--config={}", programs.path(STAGES).display()),
            "--manage-all-nodes=false".to_owned(),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
        ];
        Launch { name: "kwok", arguments: arguments.into() }
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// A client with all rights.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub fn client(&self) -> Result<Client> {
        Client::from_kubeconfig(&std::fs::read_to_string(self.kubeconfig())?)
    }

    /// Waits until the API server answers that it is ready; `check` tells whether waiting still makes sense.
    pub(crate) async fn await_ready(&self, mut check: impl FnMut() -> Result<()>) -> Result<()> {
        let client = self.client()?;
        let start = Instant::now();
        loop {
            check()?;
            // Ready means that what every cluster has is there: namespaces, roles, priority classes.
            if let Ok((200, _)) = client.get("/readyz").await
                && let Ok((200, _)) = client.get("/api/v1/namespaces/default").await
            {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "`kube-apiserver` is not ready after {} s; its log is {}",
                    PATIENCE.as_secs(),
                    self.log("kube-apiserver").display()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A running control plane; dropping it ends the programs and removes its files.
pub struct ControlPlane {
    site: Site,
    programs: Programs,
    // Ended in this order.
    rest: Vec<Kept>,
    api_server: Option<Kept>,
    etcd: Kept,
}

impl ControlPlane {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// A program cannot be started or does not become ready.
    pub async fn start(programs: &Programs, parts: Parts) -> Result<Self> {
        let folder = scratch("control-plane")?;
        let site = Site::lay_out(&folder, parts)?;
        let etcd = launch(programs, &site, site.etcd())?;
        let mut plane = Self { site, programs: programs.clone(), rest: Vec::new(), api_server: None, etcd };
        plane.start_api_server().await?;
        if parts.controllers {
            plane.start_controllers()?;
        }
        if parts.scheduler {
            plane.rest.push(launch(&plane.programs, &plane.site, plane.site.scheduler())?);
        }
        if parts.kwok {
            plane.rest.push(launch(&plane.programs, &plane.site, plane.site.kwok(&plane.programs))?);
        }
        Ok(plane)
    }

    /// Starts the API server and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started or does not become ready.
    pub async fn start_api_server(&mut self) -> Result<()> {
        let mut server = launch(&self.programs, &self.site, self.site.api_server())?;
        self.site.await_ready(|| server.check()).await?;
        self.api_server = Some(server);
        Ok(())
    }

    /// Kills the API server; what it kept is in etcd.
    pub fn stop_api_server(&mut self) {
        self.api_server = None;
    }

    /// Starts the controller manager.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_controllers(&mut self) -> Result<()> {
        self.rest.push(launch(&self.programs, &self.site, self.site.controller_manager())?);
        Ok(())
    }

    /// The kubeconfig of the user with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.site.kubeconfig()
    }

    /// The kubeconfig of a user, of [`REPLICAS`] for example.
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.site.kubeconfig_of(user)
    }

    /// The requests answered so far, in the order of their answers; none without [`Parts::audit`].
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn requests(&self) -> Result<Vec<Request>> {
        if !self.site.audit {
            return Ok(Vec::new());
        }
        audit::read(Path::new(&self.site.path("audit.log")))
    }

    /// The process id of the API server.
    ///
    /// # Errors
    /// It does not run.
    pub fn api_server_id(&self) -> Result<u32> {
        self.api_server.as_ref().context("the API server does not run")?.program_id()
    }

    /// A client with all rights.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub fn client(&self) -> Result<Client> {
        self.site.client()
    }

    /// A kubeconfig for a token, beside that of the user with all rights.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig_for(&self, name: &str, token: &str) -> Result<PathBuf> {
        let authority = std::fs::read_to_string(self.site.path("ca.crt"))?;
        let place = self.site.folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&place, kubeconfig(self.site.api, &authority, name, token))?;
        Ok(place)
    }

    /// Process ids of the shells that keep its programs; the programs are their children.
    pub fn ids(&self) -> Vec<u32> {
        let rest = self.rest.iter().chain(&self.api_server);
        rest.chain([&self.etcd]).map(Kept::id).collect()
    }

    /// The programs it runs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.rest.clear();
        self.api_server = None;
        // etcd goes last and may still write: whatever remains of the folder is scratch.
        let _ = std::fs::remove_dir_all(&self.site.folder);
    }
}

fn launch(programs: &Programs, site: &Site, launch: Launch) -> Result<Kept> {
    Kept::start(launch.name, &programs.path(launch.name), &launch.arguments, &site.log(launch.name))
}

/// A new folder for scratch files.
///
/// # Errors
/// It cannot be made.
pub fn scratch(purpose: &str) -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("joiner-{purpose}-{}-{number}", std::process::id()));
    // Left by a killed process that had the same number.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    Ok(folder)
}

/// Ports that were free a moment ago, all different.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn kubeconfig(port: u16, authority: &str, user: &str, token: &str) -> String {
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    let server = format!("https://127.0.0.1:{port}");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    });
    // JSON is YAML.
    format!("{config:#}\n")
}
