//! An API server in this process, with what tests put into it, and a list of what is asked of it.

use std::sync::{Arc, Mutex};

use http::{HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use joiner::commands::doctor::{Report, examine};
use joiner_apiserver::service::{ApiServer, Settings};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub struct Cluster {
    server: ApiServer,
    /// What the server's clock says, off that of this machine.
    pub skew: SignedDuration,
    /// The version it says it is.
    pub version: Option<&'static str>,
    /// Paths that are forbidden.
    pub forbidden: Vec<&'static str>,
    /// How long after now it is looked at.
    pub later: SignedDuration,
}

impl Cluster {
    /// A server without definitions.
    pub fn bare() -> Self {
        // What is in a namespace that goes stays until somebody takes it away.
        let settings = Settings { collect_garbage: false, ..Settings::default() };
        let server = ApiServer::new(Arc::new(Timestamp::now), &settings);
        Self {
            server,
            skew: SignedDuration::ZERO,
            version: None,
            forbidden: Vec::new(),
            later: SignedDuration::ZERO,
        }
    }

    /// A server with joiner's definitions, a class and a pool.
    pub async fn healthy() -> Self {
        let cluster = Self::bare();
        for definition in joiner_api::crd::all() {
            cluster.define(serde_json::to_value(definition).unwrap());
        }
        cluster.create("", KWOK_CLASS).await;
        cluster.create("", POOL).await;
        cluster
    }

    /// Makes a kind known.
    pub fn define(&self, definition: Value) {
        self.server.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", definition).unwrap();
    }

    fn client(&self) -> Client {
        Client::new(self.server.clone(), "default")
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) {
        let request = http::Request::delete(path).body(Vec::new()).unwrap();
        self.client().request::<Value>(request).await.unwrap();
    }

    /// Creates an object, and writes its status after it if it has one.
    pub async fn create(&self, plural: &str, text: &str) {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let version = object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
        let resource = match plural {
            "" => ApiResource::from_gvk(&kind),
            named => ApiResource::from_gvk_with_plural(&kind, named),
        };
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client(), namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        let made: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let made = api.create(&PostParams::default(), &made).await.unwrap();
        if !object["status"].is_null() {
            let status = json!({"status": object["status"]});
            let name = made.metadata.name.unwrap();
            api.patch_status(&name, &Default::default(), &kube::api::Patch::Merge(status)).await.unwrap();
        }
    }

    /// What the doctor says, and what it has asked for.
    pub async fn examined(&self) -> (Report, Vec<(Method, String)>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (server, seen) = (self.server.clone(), asked.clone());
        let (skew, version, forbidden) = (self.skew, self.version, self.forbidden.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let path = request.uri().path().to_owned();
            seen.lock().unwrap().push((request.method().clone(), path.clone()));
            let server = server.clone();
            let denied = forbidden.iter().any(|of| path.ends_with(of));
            async move {
                let date = (Timestamp::now() + skew).to_zoned(jiff::tz::TimeZone::UTC);
                let date = jiff::fmt::rfc2822::DateTimePrinter::new()
                    .timestamp_to_rfc9110_string(&date.timestamp())
                    .unwrap();
                let plain = |code: u16, body: Value| {
                    let body = axum::body::Body::from(serde_json::to_vec(&body).unwrap());
                    http::Response::builder().status(code).body(body).unwrap()
                };
                let mut response = match (path.as_str(), version) {
                    _ if denied => plain(
                        403,
                        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "reason": "Forbidden", "message": "you may not list them", "code": 403}),
                    ),
                    ("/version", Some(minor)) => plain(
                        200,
                        json!({"major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.0")}),
                    ),
                    _ => {
                        let answer = server.oneshot(request).await?;
                        let (parts, body) = answer.into_parts();
                        http::Response::from_parts(parts, axum::body::Body::new(body))
                    }
                };
                response.headers_mut().insert(http::header::DATE, HeaderValue::from_str(&date).unwrap());
                Ok::<_, tower::BoxError>(response)
            }
        });
        let report =
            examine(&Client::new(service, "default"), Timestamp::now() + self.later, |_| {}).await.unwrap();
        let asked = asked.lock().unwrap().clone();
        (report, asked)
    }
}

pub const KWOK_CLASS: &str = "\
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
";

pub const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
";
