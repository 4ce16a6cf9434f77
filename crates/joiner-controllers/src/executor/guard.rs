//! The fence once more, in the client itself: the last thing before a request goes to the connection.
//!
//! The executor asks the fence before each command. But a command waits in the client's own queue, providers write with clients of their own, and a
//! process can be stopped at any of these places. So a client for controllers is made with this layer: requests that change anything are turned away
//! while the fence is closed, and one that is under way is given up, whatever it waits for (a connection, a pause), as soon as the process no longer leads:
//! a process that stood still finds that out before it goes on with a request.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use tower::{Layer, Service};

use super::Fence;
use crate::metrics::Metrics;

/// Why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead, so it does not write")]
pub struct NotSent;

/// Nobody answered. Commands have time limits of their own; a list or the start of a watch has only this one, and would wait for ever on a connection whose other
/// end is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {} s", ANSWER_WITHIN.as_secs())]
pub struct NoAnswer;

/// Longer than an API server works on any request that is no watch; a watch is answered at once, its events come later.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// Puts a [`Guard`] around services that carry requests to the API server, and counts what they answer.
#[derive(Clone)]
pub struct GuardLayer {
    fence: Fence,
    metrics: Arc<Metrics>,
}

impl GuardLayer {
    /// A layer that asks this fence.
    pub fn new(fence: Fence, metrics: Arc<Metrics>) -> Self {
        Self { fence, metrics }
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, fence: self.fence.clone(), metrics: self.metrics.clone() }
    }
}

/// A service that carries no writes while the fence is closed.
#[derive(Clone)]
pub struct Guard<S> {
    inner: S,
    fence: Fence,
    metrics: Arc<Metrics>,
}

impl<S, B, C> Service<Request<B>> for Guard<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    C: 'static,
{
    type Response = S::Response;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<S::Response, tower::BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.method().clone();
        let reads = matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
        let (fence, epoch) = (self.fence.clone(), self.fence.epoch());
        if !reads && !epoch.may_write() {
            return async { Err(NotSent.into()) }.boxed();
        }
        let (mut call, metrics) = (Box::pin(self.inner.call(request)), self.metrics.clone());
        async move {
            let guarded = std::future::poll_fn(|context| {
                // Asked each time that it goes on. Who ends leads to the end of what is under way.
                if !reads && !fence.is_retired() && !fence.admits(epoch) {
                    return Poll::Ready(Err(NotSent.into()));
                }
                call.as_mut().poll(context).map_err(Into::into)
            });
            let answer = tokio::time::timeout(ANSWER_WITHIN, guarded).await;
            let answer = answer.unwrap_or_else(|_| Err(NoAnswer.into()));
            let code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
            metrics.request(&method, code);
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use jiff::Timestamp;
    use joiner_provider::Clock;
    use tokio::time::Instant;

    use super::*;
    use crate::clock::RuntimeClock;

    /// A connection that comes after a second; how many requests went over it.
    fn slow(
        sent: &Arc<AtomicUsize>,
        fence: &Fence,
    ) -> impl Service<Request<()>, Response = Response<()>, Error = tower::BoxError, Future: Send> + use<>
    {
        let sent = sent.clone();
        let connection = tower::service_fn(move |_: Request<()>| {
            let sent = sent.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                sent.fetch_add(1, Ordering::Relaxed);
                Ok::<_, tower::BoxError>(Response::new(()))
            }
            .boxed()
        });
        GuardLayer::new(fence.clone(), Arc::default()).layer(connection)
    }

    fn request(method: Method) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        request
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_for_its_connection_is_given_up_with_the_lead() {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::new(|| Timestamp::UNIX_EPOCH));
        let (fence, sent) = (Fence::closed(clock.clone()), Arc::new(AtomicUsize::new(0)));
        let mut service = slow(&sent, &fence);
        let half = Duration::from_millis(500);
        fence.advance_until(1, clock.monotonic() + half);
        let refused = service.call(request(Method::POST)).await.unwrap_err();
        assert!(
            refused.is::<NotSent>() && sent.load(Ordering::Relaxed) == 0,
            "the lead was over before it was sent"
        );
        fence.advance_until(2, clock.monotonic() + half);
        service.call(request(Method::GET)).await.unwrap();
        assert_eq!(sent.load(Ordering::Relaxed), 1, "who does not lead may read");
        // The end of the process is not the end of what it has begun.
        fence.advance(3);
        let call = tokio::spawn(service.call(request(Method::PATCH)));
        tokio::time::sleep(half).await;
        fence.retire();
        call.await.unwrap().unwrap();
        assert_eq!(sent.load(Ordering::Relaxed), 2);
        assert!(service.call(request(Method::PATCH)).await.is_err(), "and nothing new is begun");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_nobody_answers_ends() {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::new(|| Timestamp::UNIX_EPOCH));
        let silent = tower::service_fn(|_: Request<()>| {
            std::future::pending::<Result<Response<()>, std::convert::Infallible>>()
        });
        let layer = GuardLayer::new(Fence::open(clock, 1), Arc::default());
        let begun = Instant::now();
        let error = layer.layer(silent).call(Request::new(())).await.unwrap_err();
        assert_eq!(error.downcast_ref::<NoAnswer>(), Some(&NoAnswer));
        assert_eq!(begun.elapsed().as_secs(), ANSWER_WITHIN.as_secs());
    }
}
