//! What is answered over HTTP: metrics on one port, health on another.
//!
//! Health is progress: `/healthz` fails when the loop has work and does not get on. `/readyz` fails until everything that decisions need has been listed and is
//! watched. Both are answered by who leads and by who stands by.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use joiner_controllers::metrics::{CONTENT_TYPE, Sheet, StateOptions, rows, state};
use joiner_controllers::{Inspector, Leadership, Metrics, Pulse, Summary};
use joiner_record::words;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::process;

/// A turn of the loop may take so long; the longest measured took a second.
const TURN: Duration = Duration::from_secs(60);
/// So may a decision.
const DECISION: Duration = Duration::from_secs(5 * 60);
/// The loop is asked for what it knows, and not waited for longer.
const ANSWER: Duration = Duration::from_secs(10);

/// What the answers are made of.
#[derive(Clone)]
pub struct Shown {
    pub metrics: Arc<Metrics>,
    pub inspector: Inspector,
    pub pulse: Pulse,
    pub summary: watch::Receiver<Summary>,
    pub leadership: watch::Receiver<Leadership>,
    /// The name of the lease, if there is one.
    pub lease: Option<String>,
    pub options: StateOptions,
    pub profiling: bool,
}

/// Listeners that do not answer yet.
pub struct Endpoints {
    metrics: TcpListener,
    health: TcpListener,
}

impl Endpoints {
    /// Takes the ports.
    pub async fn open(metrics: u16, health: u16) -> anyhow::Result<Self> {
        Ok(Self {
            metrics: listen(metrics, "--metrics-port").await?,
            health: listen(health, "--health-probe-port").await?,
        })
    }

    /// Where metrics and health are.
    pub fn ports(&self) -> (u16, u16) {
        let port = |listener: &TcpListener| listener.local_addr().map_or(0, |address| address.port());
        (port(&self.metrics), port(&self.health))
    }

    /// Answers until the set ends.
    pub fn serve(self, shown: Shown, tasks: &mut JoinSet<()>) {
        let mut metrics = Router::new().route("/metrics", get(all_metrics));
        if shown.profiling {
            metrics = metrics
                .route("/debug/pprof/", get(profiles))
                .route("/debug/pprof/cmdline", get(command_line))
                .route("/debug/pprof/{name}", get(no_profile))
                .route("/debug/threads", get(async || process::threads()))
                .route("/debug/memory", get(async || process::memory()));
        }
        let health = Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz));
        for (listener, router) in [(self.metrics, metrics), (self.health, health)] {
            let router = router.with_state(shown.clone());
            tasks.spawn(async move {
                if let Err(error) = axum::serve(listener, router).await {
                    tracing::error!(%error, "metrics or health are no longer answered");
                }
            });
        }
    }
}

async fn listen(port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    TcpListener::bind(address)
        .await
        .with_context(|| format!("{flag}: cannot listen on port {port}; give another, or 0 for a free one"))
}

async fn all_metrics(State(shown): State<Shown>) -> Response {
    let mut sheet = Sheet::default();
    let version = env!("CARGO_PKG_VERSION");
    sheet.put(&rows::BUILD_INFO, &["", process::architecture(), "", version], 1.0);
    if let Some(lease) = &shown.lease {
        sheet.put(&rows::MASTER, &[lease], f64::from(shown.leadership.borrow().leads));
    }
    let mut text = shown.metrics.text();
    // Who does not get on is still asked for what it has counted.
    let view = tokio::time::timeout(ANSWER, shown.inspector.view()).await.ok().flatten();
    let options = shown.options;
    let state = tokio::task::spawn_blocking(move || {
        let left_out = view.map_or(0, |view| state(&view, options, &mut sheet));
        let (name, help) = ("joiner_metrics_pods_left_out", rows::help("metrics_pods_left_out"));
        format!("{}# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {left_out}\n", sheet.text())
    });
    match state.await {
        Ok(state) => text.push_str(&state),
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
    text.push_str(&process::metrics());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

async fn healthz(State(shown): State<Shown>) -> Response {
    match shown.pulse.check(TURN, DECISION) {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn readyz(State(shown): State<Shown>) -> Response {
    let summary = shown.summary.borrow();
    if summary.ready {
        return "ok\n".into_response();
    }
    let mut why: String =
        summary.watch_troubles.iter().map(|trouble| words::watch_trouble(trouble) + "\n").collect();
    if why.is_empty() {
        why = "the cluster has not been listed yet\n".to_owned();
    }
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}

async fn profiles() -> &'static str {
    "/debug/pprof/cmdline  the command line\n/debug/threads        CPU time of each thread\n/debug/memory         where memory is, as the system tells it\n\n\
     Profiles of Go programs (profile, heap, goroutine, trace, …) are not made here. `perf record -p PID` takes a CPU profile of this process.\n"
}

async fn command_line() -> String {
    let arguments: Vec<String> = std::env::args_os().map(|of| of.to_string_lossy().into_owned()).collect();
    arguments.join("\0")
}

async fn no_profile(axum::extract::Path(name): axum::extract::Path<String>) -> (StatusCode, String) {
    let name: String = name.chars().filter(|letter| letter.is_ascii_alphanumeric()).take(40).collect();
    (StatusCode::NOT_IMPLEMENTED, format!("profile `{name}` is not made here; /debug/pprof/ says what is\n"))
}
