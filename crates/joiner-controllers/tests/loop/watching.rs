//! Kinds that are forbidden, missing or failing: what needs them stops and says so, the rest goes on, and what comes back is picked up.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::Full;
use joiner_apiserver::service::{ApiServer, ResponseBody};
use joiner_controllers::record_map;
use joiner_record::{Decision, Disabled, Outcome, Trouble, Verdict, words};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tower::Service;

use crate::stage::{Running, Stage};

/// What a gate says to requests for a kind.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Forbidden,
    NotFound,
    Unavailable,
}

/// A way to the server that refuses kinds.
#[derive(Clone)]
struct Gate {
    server: ApiServer,
    shut: Arc<Mutex<Vec<(&'static str, Answer)>>>,
}

impl Gate {
    fn new(stage: &Stage) -> Self {
        Self { server: stage.server.clone(), shut: Arc::default() }
    }

    fn shut(&self, plural: &'static str, answer: Answer) {
        self.shut.lock().unwrap().push((plural, answer));
    }

    fn open(&self, plural: &str) {
        self.shut.lock().unwrap().retain(|(shut, _)| *shut != plural);
    }

    fn start(&self, stage: &Stage) -> Running {
        let client = Client::new(self.clone(), "default");
        stage.start_over(client.clone(), stage.kwok(client))
    }
}

impl Service<Request<Body>> for Gate {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let shut = self.shut.lock().unwrap().iter().find(|(plural, _)| path.ends_with(plural)).copied();
        let server = self.server.clone();
        Box::pin(async move {
            let (code, reason) = match shut {
                None => return Ok(server.answer(request).await),
                Some((_, Answer::Forbidden)) => (403, "Forbidden"),
                Some((_, Answer::NotFound)) => (404, "NotFound"),
                Some((_, Answer::Unavailable)) => (503, "ServiceUnavailable"),
            };
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": reason, "message": "no way"});
            let body = ResponseBody::new(Full::from(status.to_string()));
            Ok(Response::builder()
                .status(code)
                .header("content-type", "application/json")
                .body(body)
                .unwrap())
        })
    }
}

fn sentences(running: &Running) -> Vec<String> {
    running.summary.borrow().watch_troubles.iter().map(words::watch_trouble).collect()
}

fn told(running: &Running, code: &str) -> usize {
    running.summary.borrow().journal.iter().filter(|decision| decision.verdict.code() == code).count()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_forbidden_stops_only_what_needs_it() {
    let stage = Stage::new().await;
    let gate = Gate::new(&stage);
    gate.shut("/poddisruptionbudgets", Answer::Forbidden);
    gate.shut("/volumeattachments", Answer::NotFound);
    let running = gate.start(&stage);
    stage.create_pods("web", 3, "1").await;
    stage.pass(30).await;
    assert_eq!(stage.nodes().await.len(), 1, "machines are bought all the same");
    assert!(running.summary.borrow().ready);
    assert_eq!(
        sentences(&running),
        [
            "list of poddisruptionbudgets.policy is forbidden: machines may be bought for pods that budgets keep where they are; \
             add to the ClusterRole of joiner: apiGroups: [\"policy\"], resources: [\"poddisruptionbudgets\"], verbs: [\"get\", \"list\", \"watch\"]",
            "volumeattachments.storage.k8s.io is not served: machines end without waiting for their volumes to leave; \
             install the CustomResourceDefinition `volumeattachments.storage.k8s.io`, or enable its API",
        ]
    );
    // Told once, however often it is tried again.
    stage.pass(200).await;
    assert_eq!(told(&running, "watchTrouble"), 2);
    let events = stage.events().await;
    let forbidden: Vec<&String> = events.iter().filter(|event| event.contains("WatchForbidden")).collect();
    assert_eq!(forbidden.len(), 1, "{events:#?}");
    assert!(
        forbidden[0].starts_with("ConfigMap/joiner-decisions WatchForbidden: list of poddisruptionbudgets")
    );

    gate.open("/poddisruptionbudgets");
    stage.pass(40).await;
    assert_eq!(sentences(&running).len(), 1);
    assert_eq!(told(&running, "watchRecovered"), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_without_what_every_decision_needs() {
    for (plural, answer) in [
        ("/pods", Answer::Forbidden),
        ("/nodes", Answer::Forbidden),
        ("/nodeclaims", Answer::NotFound),
        ("/nodepools", Answer::NotFound),
    ] {
        let stage = Stage::new().await;
        let gate = Gate::new(&stage);
        gate.shut(plural, answer);
        let running = gate.start(&stage);
        stage.create_pods("web", 3, "1").await;
        stage.pass(60).await;
        assert_eq!(stage.claims().await.len(), 0, "{plural}");
        let summary = running.summary.borrow().clone();
        assert!(!summary.ready);
        let [trouble] = &summary.watch_troubles[..] else { panic!("{:?}", summary.watch_troubles) };
        assert_eq!(trouble.disables, Disabled::Decisions);
        assert!(words::watch_trouble(trouble).contains("nothing is decided"), "{trouble:?}");

        gate.open(plural);
        stage.pass(60).await;
        assert!(running.summary.borrow().ready);
        assert_eq!(stage.nodes().await.len(), 1, "{plural}: the kind is picked up when it can be had");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_says_that_its_classes_cannot_be_seen() {
    let stage = Stage::new().await;
    let gate = Gate::new(&stage);
    gate.shut("/kwoknodeclasses", Answer::Forbidden);
    let running = gate.start(&stage);
    stage.create_pods("web", 1, "1").await;
    stage.pass(30).await;
    assert_eq!(stage.claims().await.len(), 0);
    let status = stage.pool("default").await.status.unwrap();
    let condition = status.conditions.iter().find(|of| of.type_ == "NodeClassReady").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "NodeClassForbidden"));
    assert!(condition.message.contains("resources: [\"kwoknodeclasses\"]"), "{}", condition.message);
    gate.open("/kwoknodeclasses");
    stage.pass(60).await;
    assert_eq!(stage.nodes().await.len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_lasts_is_shown_with_its_beginning() {
    let stage = Stage::new().await;
    let gate = Gate::new(&stage);
    gate.shut("/daemonsets", Answer::Unavailable);
    let running = gate.start(&stage);
    let begin = stage.now();
    stage.create_pods("web", 1, "1").await;
    stage.pass(20).await;
    assert!(sentences(&running).is_empty(), "it may pass");
    stage.pass(100).await;
    let summary = running.summary.borrow().clone();
    let [trouble] = &summary.watch_troubles[..] else { panic!("{:?}", summary.watch_troubles) };
    assert!(
        matches!(&trouble.trouble, Trouble::Failing { failures, message } if *failures > 4 && message == "no way")
    );
    let since = begin.strftime("%Y-%m-%dT%H:%M:");
    assert!(
        words::watch_trouble(trouble).starts_with(&format!("list of daemonsets.apps failing since {since}"))
    );
    assert_eq!(stage.nodes().await.len(), 1, "it is not waited for for ever");
    gate.open("/daemonsets");
    stage.pass(40).await;
    assert!(sentences(&running).is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn decisions_say_why_and_learn_what_came_of_them() {
    let stage = Stage::new().await;
    stage.apply_pool("default", json!({"spec": {"disruption": {"consolidateAfter": "20s"}}})).await;
    let running = stage.start_recording("default");
    stage.create_pods("web", 3, "1").await;
    stage.create_pods("huge", 2, "4000").await;
    stage.pass(30).await;
    for number in 0..3 {
        stage.delete_pod(&format!("web-{number}")).await;
    }
    stage.pass(150).await;
    let journal = running.summary.borrow().journal.clone();
    let of = |code: &str| {
        let mut found = journal.iter().filter(|decision| decision.verdict.code() == code);
        found.next().unwrap_or_else(|| panic!("no `{code}` in {journal:#?}"))
    };
    let refused = of("refused");
    let Verdict::Refused { reasons, pods: 2 } = &refused.verdict else { panic!("{refused:#?}") };
    assert_eq!(reasons[0].code.code(), "Resources");
    assert_eq!(refused.subjects.len(), 2);
    assert!(refused.subjects[0].uid.is_some());
    assert!(
        words::summary(refused)
            .starts_with("no place for pod default/huge-0 and 1 more: nodepool/default: asks for 4000 cpu")
    );

    let provisioned = of("provisioned");
    let Verdict::Provisioned { machines, pods: 3, usd_per_hour, .. } = &provisioned.verdict else {
        panic!("{provisioned:#?}")
    };
    assert_eq!(machines[0].pods.shown, ["default/web-0", "default/web-1", "default/web-2"]);
    let price = provisioned.price.unwrap();
    assert_eq!(price.before_usd_per_hour, 0.0);
    // A change is told in billionths, as bills are summed.
    assert!((price.after_usd_per_hour - usd_per_hour).abs() < 1e-9, "{price:?}");
    assert!(provisioned.snapshot > 0);
    let emptied = of("emptied");
    assert_eq!(emptied.price.unwrap().after_usd_per_hour, 0.0);
    assert_eq!(emptied.commands.len(), 4);
    for decision in [provisioned, emptied, of("launched"), of("terminated")] {
        assert!(!decision.commands.is_empty());
        for command in &decision.commands {
            assert_eq!(command.completed.as_ref().unwrap().outcome, Outcome::Done, "{decision:#?}");
        }
    }

    let api: Api<ConfigMap> = Api::default_namespaced(stage.client.clone());
    let map = api.get(record_map::NAME).await.unwrap();
    assert_eq!(map.name_any(), "joiner-decisions");
    let lines: Vec<Decision> =
        map.data.unwrap()[record_map::KEY].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.windows(2).all(|pair| pair[0].id > pair[1].id), "newest first");
    assert!(lines.contains(provisioned), "{lines:#?}");
    running.stop().await;
}
