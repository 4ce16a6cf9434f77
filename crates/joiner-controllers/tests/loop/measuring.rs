//! Every metric that is served moves: one busy quarter of an hour, scraped again and again.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use joiner_apiserver::service::{ApiServer, ResponseBody};
use joiner_controllers::metrics::{Sheet, StateOptions, rows, state};
use joiner_controllers::{Controllers, Fence, GuardLayer, Inspector, Metrics, Settings};
use joiner_provider::{Provider, Registry};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tower::{Layer, Service};

use crate::stage::{Stage, pod_node};

/// Method, a part of the path, status and body.
type Answer = (Method, &'static str, u16, Value);

/// The way to a server that gives some answers by itself.
#[derive(Clone)]
struct Wire {
    server: ApiServer,
    /// Method, a part of path and query, status and body; each is given once.
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Service<Request<Body>> for Wire {
    type Response = Response<ResponseBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let wire = self.clone();
        Box::pin(async move {
            let asked = request.uri().to_string();
            let own = {
                let mut answers = wire.answers.lock().unwrap();
                let at = answers.iter().position(|(method, part, ..)| {
                    method == request.method() && asked.contains(part) && !asked.contains("watch=")
                });
                at.map(|at| answers.remove(at))
            };
            Ok(match own {
                Some((_, _, code, body)) => Response::builder()
                    .status(StatusCode::from_u16(code).unwrap())
                    .body(ResponseBody::new(http_body_util::Full::from(body.to_string().into_bytes())))
                    .unwrap(),
                None => wire.server.answer(request).await,
            })
        })
    }
}

fn refused(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Forbidden", "message": "no"})
}

/// Names that a text shows with a value above zero.
fn moved(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        let moves = value.parse::<f64>().ok()? > 0.0;
        let name = name.split('{').next()?;
        // A histogram is known by its count, and other names end like that, too.
        moves.then(|| [name.to_owned(), name.trim_end_matches("_count").to_owned()])
    });
    names.flatten().collect()
}

async fn scraped(metrics: &Metrics, inspector: &Inspector) -> String {
    let view = inspector.view().await.unwrap();
    let mut sheet = Sheet::default();
    let left_out = state(&view, StateOptions { objects: true, most_pods: 100 }, &mut sheet);
    assert_eq!(left_out, 0);
    metrics.text() + &sheet.text()
}

#[tokio::test(start_paused = true)]
async fn every_metric_moves() {
    let stage = Stage::new().await;
    let answers = Arc::new(Mutex::new(Vec::new()));
    let wire = Wire { server: stage.server.clone(), answers: answers.clone() };
    let clock = stage.shared_clock();
    let (fence, metrics) = (Fence::open(clock.clone(), 1), Arc::new(Metrics::default()));
    let client = Client::new(GuardLayer::new(fence.clone(), metrics.clone()).layer(wire), "default");
    let provider: Arc<dyn Provider> =
        Arc::new(KwokProvider::new(client.clone(), Catalogue::hypothetical(), clock.clone()));
    let registry = Registry::new([provider]).unwrap();
    let controllers =
        Controllers::behind(fence, client, registry, clock, Settings::default(), metrics.clone());
    let inspector = controllers.inspector();
    let (mut seen, mut closely) = (BTreeSet::new(), BTreeSet::new());
    let early = controllers.inspector();
    // Claims cannot be listed at first.
    answers.lock().unwrap().push((Method::GET, "/nodeclaims", 500, refused(500)));
    let work = tokio::spawn(controllers.run(std::future::pending()));
    // Asked before anything is known.
    seen.extend(moved(&scraped(&metrics, &early).await));
    let mut look = async |seconds: u64| {
        for _ in 0..seconds * 2 {
            stage.pass_millis(500).await;
            seen.extend(moved(&scraped(&metrics, &inspector).await));
        }
    };
    look(3).await;

    // The first node cannot be written, the first claim neither.
    answers.lock().unwrap().push((Method::POST, "/api/v1/nodes", 403, refused(403)));
    answers.lock().unwrap().push((Method::POST, "/nodeclaims", 403, refused(403)));
    let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    stage.apply_pool("default", json!({"spec": {"limits": {"cpu": "1000"}, "disruption": disruption}})).await;
    stage.create_pods("web", 3, "1").await;
    let zone = json!({"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "test-zone-z"}}});
    stage.create_pod("nowhere", "300", zone).await;
    // A decision takes a millisecond of this time, and begins when no pod has come for a second.
    stage.pass_millis(900).await;
    for _ in 0..200 {
        stage.pass_millis(1).await;
        closely.extend(moved(&scraped(&metrics, &inspector).await));
    }
    look(40).await;
    assert!(stage.pods().await.iter().filter(|pod| pod_node(pod).is_some()).count() == 3);
    // A daemon on a node.
    let node = stage.nodes().await[0].name_any();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": true}]);
    let container = json!({"name": "main", "image": "pause", "resources": {
        "requests": {"cpu": "100m"}, "limits": {"cpu": "200m", "memory": "1Gi"}}});
    let daemon = json!({"metadata": {"ownerReferences": owner}, "spec": {"nodeName": node, "containers": [container]}});
    stage.create_pod("agent", "100m", daemon).await;
    look(3).await;

    // A claim goes while pods are on its node.
    stage.delete_claim(&node).await;
    look(60).await;
    // The pods leave; the question whether the node is empty fails first, then a pod seems to be there.
    for number in 0..3 {
        let name = format!("web-{number}");
        if stage.pods().await.iter().any(|pod| pod.name_any() == name) {
            stage.delete_pod(&name).await;
        }
    }
    let pod = json!({"metadata": {"name": "late", "namespace": "default"}, "spec": {"containers": []}});
    let pods =
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [pod]});
    answers.lock().unwrap().push((
        Method::GET,
        "/api/v1/pods?&fieldSelector=spec.nodeName",
        403,
        refused(403),
    ));
    answers.lock().unwrap().push((Method::GET, "/api/v1/pods?&fieldSelector=spec.nodeName", 200, pods));
    stage.create_pods("short", 1, "1").await;
    look(20).await;
    stage.delete_pod("short-0").await;
    look(90).await;
    assert!(answers.lock().unwrap().is_empty(), "{:?}", answers.lock().unwrap());

    // A claim that expires with a pod on it.
    let template = json!({"spec": {"expireAfter": "60s"}});
    stage.apply_pool("default", json!({"spec": {"template": template}})).await;
    stage.create_pods("old", 1, "1").await;
    look(100).await;
    look(30).await;
    // The node class goes and comes back, and a node loses touch for a while.
    stage.delete_class().await;
    look(5).await;
    stage.apply_class(json!({})).await;
    stage.create_pods("last", 1, "1").await;
    look(20).await;
    let node = stage.nodes().await[0].name_any();
    stage.set_ready(&node, false).await;
    look(2).await;
    stage.set_ready(&node, true).await;
    look(2).await;
    // The pool itself goes, and somebody wants to see to something before.
    stage.apply_pool("default", json!({"metadata": {"finalizers": ["example.com/wait"]}})).await;
    stage.delete_pool("default").await;
    look(5).await;
    stage.apply_pool("default", json!({"metadata": {"finalizers": []}})).await;
    look(5).await;
    seen.extend(closely);

    // Told by whoever serves them; a step that panics and a decision that takes long are looked at elsewhere.
    let elsewhere = [&rows::BUILD_INFO, &rows::MASTER, &rows::RECONCILE_PANICS, &rows::SCHEDULER_UNFINISHED];
    let still: Vec<&str> = rows::ALL
        .iter()
        .filter(|row| !elsewhere.contains(row) && !seen.contains(row.name))
        .map(|row| row.name)
        .collect();
    assert!(still.is_empty(), "never moved: {still:#?}");
    let text = scraped(&metrics, &inspector).await;
    let known: BTreeSet<&str> = rows::ALL.iter().map(|row| row.name).collect();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        let own = name.strip_prefix("joiner_").is_some_and(|name| !rows::help(name).is_empty());
        assert!(own || known.contains(name), "`{name}` stands in no table");
    }
    work.abort();
    let _ = work.await;
    tokio::time::sleep(Duration::ZERO).await;
    assert!(inspector.view().await.is_none(), "who is gone gives no answer, and nobody waits for it");
}

#[tokio::test(start_paused = true)]
async fn pods_beyond_the_bound_are_counted_and_left_out() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pods("web", 5, "1").await;
    stage.pass(15).await;
    let view = running.inspector.view().await.unwrap();
    let mut sheet = Sheet::default();
    assert_eq!(state(&view, StateOptions { objects: true, most_pods: 2 }, &mut sheet), 3);
    let text = sheet.text();
    assert_eq!(text.lines().filter(|line| line.starts_with("karpenter_pods_state{")).count(), 2, "{text}");
    let mut sheet = Sheet::default();
    state(&view, StateOptions { objects: false, most_pods: 2 }, &mut sheet);
    let text = sheet.text();
    assert!(!text.contains("karpenter_pods_state") && !text.contains("node_name="), "{text}");
    assert!(text.contains("karpenter_cluster_utilization_percent{resource_type=\"cpu\"}"), "{text}");
    running.stop().await;
}

/// `docs/reference/metrics.md`, made of the tables.
fn page() -> String {
    use std::fmt::Write as _;
    let mut page = String::from(
        "# Metrics\n\n\
         `joiner run` serves them on `:8080/metrics` (`--metrics-port`) in the text format of Prometheus. This page is made of the program's tables: what is not here is not\n\
         served. Each metric of the first table is seen to move by a test.\n\n\
         Only the process that leads counts what happens, so the sum over replicas is what happened. Metrics of single pods, nodes and conditions are left out with\n\
         `--disable-cluster-state-observability`; of pods no more than `--max-pod-series` are shown.\n\n\
         ## Under the names that users of Karpenter know\n\n\
         A label in angle brackets stands for the node class labels of all providers, with `_` for every other sign, such as `karpenter_kwok_sh_kwoknodeclass`. Metrics of nodes also have the labels that\n\
         providers make well-known, such as `instance_family`. Latencies are measured by the process that sees both ends.\n\n\
         | metric | type | labels | what it says |\n|---|---|---|---|\n",
    );
    let labels = |labels: &[&str]| match labels {
        [] => "–".to_owned(),
        labels => labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", "),
    };
    for row in rows::ALL {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            row.name,
            row.kind.name(),
            labels(row.labels),
            row.help
        );
    }
    page.push_str("\nThe usual `process_*` metrics come from `/proc`, on Linux.\n\n## Joiner's own\n\n| metric | type | labels | what it says |\n|---|---|---|---|\n");
    for own in &rows::OWN {
        let _ = writeln!(
            page,
            "| `joiner_{}` | {} | {} | {} |",
            own.name,
            own.kind.name(),
            labels(own.labels),
            own.help
        );
    }
    page.push_str("\n## Not applicable yet\n\nMetrics of Karpenter that joiner does not serve, and why.\n\n| metric | why |\n|---|---|\n");
    for missing in &rows::MISSING {
        let _ = writeln!(page, "| `{}` | {} |", missing.name, missing.why);
    }
    page
}

#[test]
fn the_page_of_metrics_is_made_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, page(), "UPDATE_DOCS=1 writes docs/reference/metrics.md");
}
