//! The way outside: every call of one process goes through here, to the API server and to the cloud. It can be cut after a call, lose an answer, or have
//! weather.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use joiner_apiserver::service::{ApiServer, ResponseBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::{BoxError, Service};

use crate::simulate::happening::Call;
use crate::simulate::referee::Referee;
use crate::simulate::weather::Weather;

/// What befalls the calls of a process.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// Nothing.
    Nothing,
    /// The process ends after this call, the first being 1: it is carried out, and nobody hears the answer.
    CrashAfter(usize),
    /// This call is carried out, and its answer is lost.
    LoseReply(usize),
    /// Faults as they come.
    Weather(Arc<Mutex<Weather>>),
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Fine,
    /// It is not carried out; this status instead.
    Instead(u16),
    /// It is carried out; this status instead of the answer.
    After(u16),
    /// It is carried out, and the connection breaks.
    Lost,
    /// It is not carried out, and the connection breaks.
    NotSent,
    /// It is carried out, and there is never an answer.
    Silence,
    /// It is not carried out, and there is never an answer.
    Void,
}

/// The way of one process. Clones are the same way.
#[derive(Clone)]
pub struct Way {
    server: ApiServer,
    referee: Referee,
    process: u32,
    state: Arc<Mutex<State>>,
    /// Told when the process has to end.
    crashed: Arc<Notify>,
}

struct State {
    trouble: Trouble,
    /// Calls that change something, so far.
    calls: usize,
    /// Nothing gets through any more.
    is_cut: bool,
    /// What the call was that met the trouble.
    met: Option<String>,
}

impl Way {
    /// The way of a process.
    pub fn new(server: ApiServer, referee: Referee, process: u32, trouble: Trouble) -> Self {
        let state = State { trouble, calls: 0, is_cut: false, met: None };
        Self { server, referee, process, state: Arc::new(Mutex::new(state)), crashed: Arc::default() }
    }

    /// Who watches.
    pub fn referee(&self) -> &Referee {
        &self.referee
    }

    /// How many calls changed something.
    pub fn calls(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).calls
    }

    /// Which call met the trouble.
    pub fn met(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).met.clone()
    }

    /// From now on nothing gets through.
    pub fn cut(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_cut = true;
    }

    /// Waits until the process has to end.
    pub async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// What becomes of the next call. Calls that only read are not counted, nor those that only tell.
    pub fn fate(&self, what: &str, is_read: bool, is_told: bool) -> Fate {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_cut {
            return Fate::Void;
        }
        if let Trouble::Weather(weather) = &state.trouble {
            let mut weather = weather.lock().unwrap_or_else(PoisonError::into_inner);
            return weather.fate(what, is_read);
        }
        if is_read || is_told {
            return Fate::Fine;
        }
        state.calls += 1;
        let fate = match state.trouble {
            Trouble::CrashAfter(last) if state.calls == last => {
                state.is_cut = true;
                self.crashed.notify_one();
                Fate::Silence
            }
            Trouble::LoseReply(lost) if state.calls == lost => Fate::Lost,
            _ => return Fate::Fine,
        };
        state.met = Some(what.to_owned());
        fate
    }
}

impl Service<Request<Body>> for Way {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let way = self.clone();
        Box::pin(async move {
            let query = request.uri().query().unwrap_or_default();
            let is_read = request.method() == Method::GET;
            let is_watch = is_read && query.contains("watch=");
            let mut call = Call {
                process: way.process,
                method: request.method().to_string(),
                path: request.uri().path().to_owned(),
                body: Value::Null,
            };
            let is_told = call.is_told();
            // A watch lives for long; what befalls it is its own affair.
            let fate = match is_watch {
                true if way.state.lock().unwrap_or_else(PoisonError::into_inner).is_cut => Fate::Void,
                true => Fate::Fine,
                false => way.fate(&format!("{} {}", call.method, call.path), is_read, is_told),
            };
            match fate {
                Fate::Instead(code) => return Ok(status(code)),
                Fate::NotSent => return Err("connection refused".into()),
                Fate::Void => return std::future::pending().await,
                Fate::Fine | Fate::After(_) | Fate::Lost | Fate::Silence => {}
            }
            let answer = if is_read {
                way.server.answer(request).await
            } else {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                call.body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let mut told = format!("{} {} {}", call.method, call.path, call.body);
                told.truncate(told.char_indices().nth(600).map_or(told.len(), |(at, _)| at));
                way.referee.called(call);
                let answer = way.server.answer(Request::from_parts(parts, Body::from(bytes))).await;
                // What is only told may go on for ever, and what is refused changes nothing.
                if !is_told && answer.status().is_success() {
                    way.referee.done(&told);
                }
                answer
            };
            match fate {
                Fate::After(code) => Ok(status(code)),
                Fate::Lost => Err("connection reset by peer".into()),
                Fate::Silence => std::future::pending().await,
                _ => Ok(answer),
            }
        })
    }
}

fn status(code: u16) -> Response<ResponseBody> {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("simulated: {reason}")});
    let body = ResponseBody::new(http_body_util::Full::from(body.to_string().into_bytes()));
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}
