//! Types as they are pushed: whoever holds a feed has the newest set at hand and is woken by the next.
//!
//! Tokio's `watch` channel carries them. It keeps only the newest value, which is all that counts, reads without waiting, and needs no
//! runtime; a callback would run in the provider's task, and a queue would grow where nobody reads.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use joiner_api::instance_type::InstanceType;
use tokio::sync::watch;

use crate::TypeSet;

/// The side of the provider: where sets are published.
#[derive(Debug)]
pub struct TypePublisher(watch::Sender<Arc<TypeSet>>);

impl TypePublisher {
    /// Publishes a first set, of generation 1.
    pub fn new(types: Vec<InstanceType>, well_known: Vec<String>) -> Self {
        Self(watch::Sender::new(Arc::new(TypeSet { generation: 1, types, well_known })))
    }

    /// Publishes another set under the next generation; an equal one is not worth a word.
    pub fn publish(&self, types: Vec<InstanceType>, well_known: Vec<String>) {
        self.0.send_if_modified(|have| {
            if have.types == types && have.well_known == well_known {
                return false;
            }
            *have = Arc::new(TypeSet { generation: have.generation + 1, types, well_known });
            true
        });
    }

    /// A feed of what is published.
    pub fn feed(&self) -> TypeFeed {
        TypeFeed(self.0.subscribe())
    }
}

/// The side of those who decide.
#[derive(Debug, Clone)]
pub struct TypeFeed(watch::Receiver<Arc<TypeSet>>);

impl TypeFeed {
    /// The newest set.
    pub fn current(&self) -> Arc<TypeSet> {
        self.0.borrow().clone()
    }

    /// Waits for a set that [`changed`](Self::changed) has not told of yet. Of a provider that is gone none will come.
    pub fn changed(&mut self) -> BoxFuture<'_, Arc<TypeSet>> {
        async move {
            if self.0.changed().await.is_err() {
                return futures::future::pending().await;
            }
            self.0.borrow_and_update().clone()
        }
        .boxed()
    }
}
