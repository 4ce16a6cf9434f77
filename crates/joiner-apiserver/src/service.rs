//! The server as a tower service: HTTP request in, HTTP response out.

use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::Service;

use crate::clock::{Chance, Clock};
use crate::direct::Direct;
use crate::resources::Resources;
use crate::rest::{self, Answer, Core, Failure, Incoming, Payload, Query};
use crate::store::{DataError, Store, Stored};

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Longer bodies are refused.
const LONGEST_BODY: usize = 3 * 1024 * 1024;

/// So much more is read of a body that is refused for its length.
const LONGEST_DRAINED: usize = 64 * 1024 * 1024;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The same seed gives the same uids and names.
    pub seed: u64,
    /// How many changes of each resource are remembered for watches.
    pub history: usize,
    /// Whether dependents of deleted objects, and contents of deleted namespaces, are deleted.
    pub collect_garbage: bool,
    /// Whether usage of pods and nodes is served as `metrics.k8s.io`, which a real server has from an add-on.
    pub usage: bool,
    /// Whether nodes have leases that nobody wrote, as if kubelets had: where there are kubelets.
    pub leases: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 0, history: 100_000, collect_garbage: true, usage: false, leases: false }
    }
}

/// A Kubernetes API server. Clones are doors to the same cluster.
#[derive(Clone)]
pub struct ApiServer {
    core: Arc<Core>,
}

impl ApiServer {
    /// A server with what every new cluster has: its first namespaces, their service accounts, and the two system priorities.
    pub fn new(clock: Arc<dyn Clock>, settings: &Settings) -> Self {
        Self::with_store(clock, settings, Store::new(settings.history), false)
    }

    /// A server whose objects are kept in a folder: those of an earlier one, or those of a new cluster. An answer to a write means
    /// that the write is on disk.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn in_folder(clock: Arc<dyn Clock>, settings: &Settings, folder: &Path) -> Result<Self, DataError> {
        let (store, known) = Store::in_folder(folder, settings.history)?;
        Ok(Self::with_store(clock, settings, store, known))
    }

    pub(crate) fn with_store(clock: Arc<dyn Clock>, settings: &Settings, store: Store, known: bool) -> Self {
        if settings.collect_garbage {
            store.keep_unsettled();
        }
        // Uids must not come again when a server goes on where an earlier one ended.
        let past = if known { store.open().revision() } else { 0 };
        let core = Core {
            store: store.clone(),
            clock,
            chance: Chance::new(settings.seed ^ past.rotate_left(32)),
            custom: Mutex::new(Arc::new(Resources::default())),
            collect_garbage: settings.collect_garbage,
            usage: settings.usage,
            leases: settings.leases,
            tokens: crate::tokens::Tokens::default(),
        };
        if known {
            rest::learn_definitions(&core);
        } else {
            rest::bootstrap(&core);
            store.forget_history();
        }
        Self { core: Arc::new(core) }
    }

    /// Waits until everything written so far is on disk, if the server keeps its objects there. Only what did not come as a request
    /// needs this.
    ///
    /// # Errors
    /// It cannot be written; the text says why.
    pub async fn saved(&self) -> Result<(), Arc<str>> {
        self.core.store.saved().await
    }

    /// The token that a door opens to, for those who ask the server about it.
    pub(crate) fn admit(&self, token: &str) {
        self.core.tokens.admit(token);
    }

    /// Whether a token is that of a service account.
    pub(crate) fn knows_token(&self, token: &str) -> bool {
        self.core.tokens.holder(&self.core, token).is_some()
    }

    /// Forgets all changes so far, as a compaction does: watches and lists of older versions are told that theirs has expired.
    pub fn forget_history(&self) {
        self.core.store.forget_history();
    }

    /// Closes the data file, if there is one. Writes are refused from then on.
    pub fn close(&self) {
        self.core.store.close();
    }

    /// Creates an object of a built-in kind in its first version, as a client would.
    ///
    /// # Errors
    /// The server refuses it, or there is no such resource.
    pub fn create(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Stored, Failure> {
        rest::create_directly(&self.core, group, plural, namespace, object)
    }

    /// As [`ApiServer::create`]; an object that is there already gets this content.
    ///
    /// # Errors
    /// The server refuses it, or there is no such resource.
    pub fn ensure(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Stored, Failure> {
        rest::ensure_directly(&self.core, group, plural, namespace, object)
    }

    /// A client that hands over parsed objects and needs no request; its fields are those of `manager`.
    pub fn direct(&self, manager: &str) -> Direct {
        Direct::new(self.core.clone(), manager)
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let answer = match read(request).await {
            Ok(incoming) => self.answered(&incoming).await,
            Err(failure) => Err(failure),
        };
        match answer {
            Ok(answer) => write(answer),
            Err(failure) => refuse(&failure),
        }
    }

    /// The answer to a request that was read. Whatever it tells must not be lost any more, refusals included.
    async fn answered(&self, incoming: &Incoming) -> Result<Answer, Failure> {
        let store = &self.core.store;
        loop {
            let stalled = store.stalled();
            let answer = rest::handle(&self.core, incoming).await;
            if stalled.is_some() && stalled == store.stalled() {
                return answer;
            }
            match store.saved().await {
                Ok(()) => return answer,
                // It may tell of a change that the disk did not take: it is read again without.
                Err(_) if incoming.method == Method::GET => {}
                Err(reason) => return Err(Failure::not_saved(&reason)),
            }
        }
    }
}

impl<B> Service<Request<B>> for ApiServer
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

async fn read<B>(request: Request<B>) -> Result<Incoming, Failure>
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let header = |name: HeaderName| text(&parts.headers, &name);
    let body = collect(body).await?;
    Ok(Incoming {
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        accept: header(ACCEPT),
        content_type: header(CONTENT_TYPE)
            .map(|kind| kind.split(';').next().unwrap_or_default().trim().to_owned()),
        user_agent: header(USER_AGENT).unwrap_or_default(),
        authorization: header(AUTHORIZATION),
        pretence: pretence(&parts.headers),
        body,
        method: parts.method,
    })
}

/// Reads a body. One that is too long is read on for a while: most clients listen only when they have sent all.
async fn collect<B>(body: B) -> Result<Bytes, Failure>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(body);
    let (mut pieces, mut length): (Vec<Bytes>, usize) = (Vec::new(), 0);
    while length <= LONGEST_BODY
        && let Some(frame) = body.frame().await
    {
        let frame = frame
            .map_err(|error| Failure::bad_request(format!("error reading the body: {}", error.into())))?;
        let Ok(mut data) = frame.into_data() else { continue };
        length += data.remaining();
        pieces.push(data.copy_to_bytes(data.remaining()));
    }
    if length > LONGEST_BODY {
        drop(pieces);
        drain(body, LONGEST_DRAINED).await;
        let message = format!("Request entity too large: limit is {LONGEST_BODY}");
        return Err(Failure::new(413, "RequestEntityTooLarge", message));
    }
    match pieces.len() {
        // What came in one piece is not copied.
        0 | 1 => Ok(pieces.pop().unwrap_or_default()),
        _ => Ok(pieces.concat().into()),
    }
}

/// Reads so many bytes of a body, and drops them.
pub(crate) async fn drain<B: Body>(mut body: Pin<&mut B>, mut bytes: usize) {
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Buf::remaining);
        match bytes.checked_sub(length) {
            Some(left) => bytes = left,
            None => return,
        }
    }
}

/// Whom the sender pretends to be.
fn pretence(headers: &HeaderMap) -> Vec<(String, String)> {
    let given = headers.iter().filter_map(|(name, value)| {
        Some((name.as_str().strip_prefix("impersonate-")?.to_owned(), value.to_str().ok()?.to_owned()))
    });
    given.collect()
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let first = values.next()?.to_owned();
    Some(values.fold(first, |all, value| format!("{all},{value}")))
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

fn response(code: u16, content_type: &str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).boxed_unsync()
}

fn refuse(failure: &Failure) -> Response<ResponseBody> {
    if failure.plain_text {
        return response(failure.code, TEXT, full(failure.message.clone()));
    }
    let mut response = response(failure.code, JSON, full(failure.to_value().to_string()));
    if let Some(seconds) = failure.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn write(answer: Answer) -> Response<ResponseBody> {
    let Answer { code, payload, content_type, warnings, yaml } = answer;
    let mut response = match payload {
        Payload::Document(document) if yaml => yaml_response(code, &document),
        Payload::Written(json) if yaml => {
            yaml_response(code, &serde_json::from_slice(&json).unwrap_or_default())
        }
        Payload::List(list) if yaml => {
            yaml_response(code, &serde_json::from_slice(&list.into_bytes()).unwrap_or_default())
        }
        Payload::List(list) => response(code, JSON, list.boxed_unsync()),
        Payload::Document(document) => {
            response(code, content_type.unwrap_or(JSON), full(document.to_string()))
        }
        Payload::Written(content) => response(code, content_type.unwrap_or(JSON), full(content)),
        Payload::Text(text) => response(code, TEXT, full(text)),
        Payload::Nothing => {
            let mut empty = response(code, TEXT, full(Bytes::new()));
            empty.headers_mut().remove(CONTENT_TYPE);
            empty
        }
        Payload::Stream(lines) => {
            use futures::StreamExt as _;
            let frames = lines.map(|line| line.map(Frame::data));
            response(code, JSON, StreamBody::new(frames).boxed_unsync())
        }
    };
    for warning in warnings {
        let quoted = Value::from(warning).to_string();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {quoted}")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

fn yaml_response(code: u16, document: &Value) -> Response<ResponseBody> {
    match serde_saphyr::to_string(document) {
        Ok(text) => response(code, "application/yaml", full(text)),
        Err(error) => {
            let failure = Failure::internal(format!("the answer cannot be written as YAML: {error}"));
            response(500, JSON, full(json!(failure.to_value()).to_string()))
        }
    }
}
