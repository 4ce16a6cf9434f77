//! The life of the process: connect, observe, wait for the lease, lead, end.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;
use joiner_api::names;
use joiner_apiserver::credentials::Credentials;
use joiner_apiserver::serve::Endpoint;
use joiner_controllers::metrics::StateOptions;
use joiner_controllers::{Controllers, Fence, Leadership, LeaseSettings, RuntimeClock, Settings, lease};
use joiner_core::decide;
use joiner_provider::{Clock, Provider};
use joiner_provider_kwok::Catalogue;
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tower::Layer;

use super::alone;
use super::endpoints::{Endpoints, Shown};
use super::options::Options;
use super::{ProviderName, RunArgs, types_file};
use crate::autoscaler::Guarded;
use crate::cli::{MinValuesPolicy, PreferencePolicy};
use crate::commands::instance_types;
use crate::commands::up::api_only::{end_at_once, told_to_end};
use crate::commands::up::cluster::{Cluster, Wish};
use crate::commands::up::decision_log::DecisionLog;
use crate::commands::up::kubeconfig::{Kubeconfig, USUAL};
use crate::commands::up::{Speed, StartupTaints};
use crate::connection;
use crate::kubelets::refuse_if_played;
use crate::{FINE, Streams};

/// Where a pod finds its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The namespace of the lease when nobody names one.
pub(super) const USUAL_NAMESPACE: &str = "kube-system";
/// In a dry run nothing changes what has been decided, so it is looked at seldom.
const DRY_RUN_RETRY: std::time::Duration = std::time::Duration::from_secs(60);

/// Runs until told to end.
pub fn run(arguments: &RunArgs, options: Options, streams: &mut Streams) -> anyhow::Result<u8> {
    if !options.ignored.is_empty() {
        tracing::warn!(options = options.ignored.join(", "), "accepted, has no effect");
    }
    for note in &options.gates.notes {
        tracing::warn!("{note}");
    }
    let catalogue = match &options.instance_types_file_path {
        Some(path) => instance_types::load(Path::new(path))?,
        None => Catalogue::hypothetical(),
    };
    let log = arguments.decisions.as_deref().map(DecisionLog::open).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Spawned first, so that whoever asks the process to end is heard from now on.
    let signal = runtime.spawn(async {
        told_to_end().await;
        // Whoever says it again is not kept waiting.
        tokio::spawn(end_at_once());
    });
    let outcome = match arguments.embedded {
        true => {
            let home = Home::start(arguments, &runtime, streams)?;
            let server = home.cluster.server.clone();
            let server = Server::Embedded(server);
            let outcome = runtime.block_on(lead(arguments, options, catalogue, log, server, signal));
            runtime.spawn(end_at_once());
            home.cluster.end().and(outcome)
        }
        false => runtime.block_on(async {
            let mut config =
                connection::config(arguments.kubeconfig.as_deref(), arguments.context.as_deref()).await?;
            // Whoever sends something decides whether and when it is sent again: not the client, minutes later and behind the lanes.
            config.default_retry = false;
            lead(arguments, options, catalogue, log, Server::Real(Box::new(config)), signal).await
        }),
    };
    runtime.shutdown_background();
    outcome?;
    Ok(FINE)
}

/// The API server to work with.
enum Server {
    Real(Box<Config>),
    Embedded(joiner_apiserver::service::ApiServer),
}

impl Server {
    /// A client behind a fence.
    fn guarded(&self, fence: Fence, clock: Arc<dyn Clock>) -> anyhow::Result<Guarded> {
        let mut failed = None;
        let guarded = Guarded::new(fence, clock, |layer| match self {
            Self::Embedded(server) => Client::new(layer.layer(server.clone()), "default"),
            Self::Real(config) => match ClientBuilder::try_from((**config).clone()) {
                Ok(builder) => builder.with_layer(layer).build(),
                Err(error) => {
                    failed = Some(error);
                    Client::new(layer.layer(tower::service_fn(nowhere)), "default")
                }
            },
        });
        match failed {
            Some(error) => {
                Err(error).with_context(|| format!("cannot set up a connection to {}", self.place()))
            }
            None => Ok(guarded),
        }
    }

    /// A client for the lease and for questions: past the fence, and past the bounds of all other calls.
    fn client(&self) -> anyhow::Result<Client> {
        match self {
            Self::Embedded(server) => Ok(Client::new(server.clone(), "default")),
            Self::Real(config) => Client::try_from((**config).clone())
                .with_context(|| format!("cannot set up a connection to {}", self.place())),
        }
    }

    fn place(&self) -> String {
        match self {
            Self::Embedded(_) => "the simulated cluster".to_owned(),
            Self::Real(config) => config.cluster_url.to_string(),
        }
    }
}

/// A connection that could not be set up.
async fn nowhere(
    _: http::Request<kube::client::Body>,
) -> Result<http::Response<kube::client::Body>, std::io::Error> {
    Err(std::io::ErrorKind::NotConnected.into())
}

async fn lead(
    arguments: &RunArgs,
    options: Options,
    catalogue: Catalogue,
    log: Option<DecisionLog>,
    server: Server,
    signal: tokio::task::JoinHandle<()>,
) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::new(Timestamp::now));
    let plain = server.client()?;
    let known = serves_kwok(&plain).await?;
    let providers = match arguments.provider.as_slice() {
        [] if known => vec![ProviderName::Kwok],
        [] => anyhow::bail!(
            "{} serves none of the node classes that joiner knows (KWOKNodeClass of {}): install the definitions with `joiner crds | kubectl apply \
             --server-side -f -`, or name a provider with --provider and they are waited for",
            server.place(),
            names::KWOK_GROUP
        ),
        named => named.to_vec(),
    };
    if arguments.simulate_kubelets {
        refuse_if_played(&plain, &*clock).await?;
    }
    let namespace = own_namespace(&options);
    let settings = settings(arguments, &options, &namespace);
    let guarded = server.guarded(Fence::closed(clock.clone()), clock.clone())?;
    let types_file = options.instance_types_file_path.as_ref().map(PathBuf::from);
    let mut follows = Vec::new();
    let providers = providers.iter().map(|name| -> Arc<dyn Provider> {
        match name {
            ProviderName::Kwok => {
                let mut kwok = guarded.kwok(catalogue.clone());
                if let StartupTaints::After(after) = arguments.startup_taints {
                    kwok = kwok.lifting_startup_taints(after);
                }
                if let Some(path) = &types_file {
                    kwok = kwok.reading_types(types_file::reader(path));
                }
                let kwok = Arc::new(kwok);
                follows.extend(types_file.clone().map(|path| types_file::follow(path, kwok.clone())));
                kwok
            }
        }
    });
    let providers: Vec<Arc<dyn Provider>> = providers.take(1).collect();
    let mut controllers = guarded.controllers(providers, settings)?;
    let writer = log.map(|log| log.follow(&mut controllers)).transpose()?;
    let elects = !arguments.dry_run && !options.disable_leader_election;
    let (tell, leadership) = watch::channel(Leadership::default());
    let endpoints = Endpoints::open(options.metrics_port, options.health_probe_port).await?;
    let (metrics_port, health_port) = endpoints.ports();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = server.place(),
        metrics_port,
        health_port,
        dry_run = arguments.dry_run,
        "runs"
    );
    let mut tasks = JoinSet::new();
    endpoints.serve(shown(arguments, &options, &controllers, leadership, elects), &mut tasks);
    for follow in follows {
        tasks.spawn(follow);
    }
    if arguments.simulate_kubelets {
        tasks.spawn(guarded.kubelets(arguments.seed).run());
    }

    let (end_of_lease, ends) = oneshot::channel();
    // In a cluster that was made a moment ago, and in a dry run, nobody can be in the way.
    let looks_around = !(arguments.take_over || arguments.dry_run || arguments.embedded);
    let alone = looks_around.then(|| alone::wait(plain.clone(), clock.clone()));
    let keeper = if elects {
        let settings = LeaseSettings::new(&namespace, &options.leader_election_name, &identity()?);
        let (fence, clock) = (guarded.fence.clone(), clock.clone());
        let lead = move |ends| lease::run(plain, settings, fence, clock, tell, ends);
        Some(tokio::spawn(keep(alone, ends, lead)))
    } else if !arguments.dry_run {
        let fence = guarded.fence.clone();
        let lead = move |ends: oneshot::Receiver<()>| async move {
            fence.advance(1);
            tell.send_replace(Leadership { leads: true, holder: None });
            let _ = ends.await;
        };
        Some(tokio::spawn(keep(alone, ends, lead)))
    } else {
        None
    };
    let told = async {
        // A handler that cannot be set leaves nobody who could ask: the process ends.
        let _ = signal.await;
        tracing::info!("ends: what is under way is finished first");
    };
    let mut keeper = keeper;
    let (stop, stops) = oneshot::channel::<()>();
    let mut work = tokio::spawn(controllers.run(async {
        let _ = stops.await;
    }));
    let outcome = tokio::select! {
        biased;
        () = told => Ok(()),
        ended = &mut work => Err(match ended {
            Ok(()) => anyhow::anyhow!("the controllers have ended by themselves"),
            Err(error) => anyhow::anyhow!("the controllers have failed: {error}"),
        }),
        ended = wait_for(&mut keeper) => Err(anyhow::anyhow!("nobody keeps the lease any more: {ended}")),
    };
    let _ = stop.send(());
    if !work.is_finished() {
        let _ = work.await;
    }
    // The lease is given back when nothing is under way any more: the next may begin at once.
    let _ = end_of_lease.send(());
    if let Some(keeper) = keeper.filter(|_| outcome.is_ok()) {
        let _ = keeper.await;
    }
    tasks.abort_all();
    if let Some(writer) = writer {
        writer.join().unwrap_or_else(|_| Err(anyhow::anyhow!("--decisions: the writer has failed")))?;
    }
    outcome
}

/// Begins to lead once nobody else is at work, unless the process is told to end before.
async fn keep<F: Future<Output = ()>>(
    alone: Option<impl Future<Output = ()>>,
    mut ends: oneshot::Receiver<()>,
    lead: impl FnOnce(oneshot::Receiver<()>) -> F,
) {
    if let Some(alone) = alone {
        tokio::select! {
            biased;
            _ = &mut ends => return,
            () = alone => {}
        }
    }
    lead(ends).await;
}

/// Waits for the keeper of the lease to end, which it never should.
async fn wait_for(keeper: &mut Option<tokio::task::JoinHandle<()>>) -> String {
    match keeper {
        Some(keeper) => keeper.await.err().map_or_else(String::new, |error| error.to_string()),
        None => std::future::pending().await,
    }
}

/// Whether the cluster has node classes of KWOK.
async fn serves_kwok(client: &Client) -> anyhow::Result<bool> {
    match client.list_api_group_resources(names::KWOK_API_VERSION).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(connection::told(error)),
    }
}

fn shown(
    arguments: &RunArgs,
    options: &Options,
    controllers: &Controllers,
    leadership: watch::Receiver<Leadership>,
    elects: bool,
) -> Shown {
    Shown {
        metrics: controllers.metrics(),
        inspector: controllers.inspector(),
        pulse: controllers.pulse(),
        summary: controllers.summary(),
        leadership,
        lease: elects.then(|| options.leader_election_name.clone()),
        options: StateOptions {
            objects: !options.disable_cluster_state_observability,
            most_pods: arguments.max_pod_series,
        },
        profiling: options.enable_profiling,
    }
}

pub(super) fn settings(arguments: &RunArgs, options: &Options, namespace: &str) -> Settings {
    let mut settings = Settings {
        batch_idle: options.batch_idle,
        batch_max: options.batch_max,
        respect_preferences: options.preference_policy == PreferencePolicy::Respect,
        seed: arguments.seed,
        record_namespace: Some(namespace.to_owned()),
        dry_run: arguments.dry_run,
        node_overlays: options.gates.node_overlay,
        tell_transitions: !options.disable_cluster_state_observability,
        breakers: options.own.breakers,
        offering_pause: options.own.offering_pause,
        strict_limits: options.own.strict_limits,
        reserved_capacity: options.gates.reserved_capacity,
        static_capacity: options.gates.static_capacity,
        ..Settings::default()
    };
    settings.packing.min_values = match options.min_values_policy {
        MinValuesPolicy::Strict => decide::MinValuesPolicy::Strict,
        MinValuesPolicy::BestEffort => decide::MinValuesPolicy::BestEffort,
    };
    if arguments.dry_run {
        settings.retry_interval = DRY_RUN_RETRY;
    }
    if let Some(qps) = options.kube_client_qps {
        let most = u32::try_from(qps).ok();
        let lanes = &mut settings.lanes;
        for lane in [&mut lanes.objects, &mut lanes.evictions, &mut lanes.events] {
            lane.per_second = most;
        }
    }
    settings
}

/// The namespace of the lease and of the record of decisions.
fn own_namespace(options: &Options) -> String {
    let named = options.leader_election_namespace.clone();
    let variable = || std::env::var("SYSTEM_NAMESPACE").ok().filter(|name| !name.is_empty());
    let own = || std::fs::read_to_string(OWN_NAMESPACE).ok().map(|name| name.trim().to_owned());
    named.or_else(variable).or_else(own).unwrap_or_else(|| USUAL_NAMESPACE.to_owned())
}

/// Who asks for the lease: the host's name, and something that no other process has.
fn identity() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.map_or_else(|| "joiner".to_owned(), |name| name.trim().to_owned());
    Ok(format!("{host}_{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// A simulated cluster in this process, without an autoscaler of its own.
struct Home {
    cluster: Cluster,
    _kubeconfig: Kubeconfig,
}

impl Home {
    fn start(
        arguments: &RunArgs,
        runtime: &tokio::runtime::Runtime,
        streams: &mut Streams,
    ) -> anyhow::Result<Self> {
        let path = arguments.kubeconfig.clone().unwrap_or_else(|| PathBuf::from(USUAL));
        Kubeconfig::check(&path)?;
        let credentials = match &arguments.data_dir {
            Some(folder) => {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
                Credentials::in_folder(folder)?
            }
            None => Credentials::generate()?,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = runtime.block_on(Endpoint::open(address, &credentials))?;
        let kubeconfig = Kubeconfig::write(&path, arguments.data_dir.is_some(), endpoint.kubeconfig())?;
        let cluster = Cluster::start(Wish {
            speed: Speed::Times(1),
            seed: arguments.seed,
            nodes: 0,
            import: None,
            prices: None,
            objects: Vec::new(),
            demo: false,
            catalogue: None,
            folder: arguments.data_dir.clone(),
            decisions: None,
            startup_taints: None,
            once: false,
        })?;
        writeln!(
            streams.err,
            "A simulated cluster listens on https://{}: export KUBECONFIG={}",
            endpoint.address(),
            kubeconfig.path().display()
        )?;
        streams.err.flush()?;
        runtime.spawn(endpoint.serve(cluster.server.clone(), std::future::pending()));
        Ok(Self { cluster, _kubeconfig: kubeconfig })
    }
}
