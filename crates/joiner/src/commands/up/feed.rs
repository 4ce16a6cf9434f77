//! Keeps a board of a running cluster from its watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;

use crate::view::Board;

/// A board that watches fill and a screen reads.
#[derive(Debug, Clone)]
pub struct SharedBoard {
    board: Arc<Mutex<Board>>,
    /// Whether all nodes were listed, and all pods.
    listed: Arc<watch::Sender<(bool, bool)>>,
}

impl Default for SharedBoard {
    fn default() -> Self {
        Self { board: Arc::default(), listed: Arc::new(watch::Sender::new((false, false))) }
    }
}

impl SharedBoard {
    /// The board as it is.
    pub fn open(&self) -> MutexGuard<'_, Board> {
        // A reader that failed has left a board as good as before.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything that was there at the beginning is on the board.
    pub async fn listed(&self) {
        // The sender is here, so nobody can have gone away.
        let _ = self.listed.subscribe().wait_for(|(nodes, pods)| *nodes && *pods).await;
    }

    /// Follows the nodes and pods of a cluster for as long as it is polled.
    pub async fn follow(self, client: Client) {
        let config = watcher::Config::default();
        let nodes = watcher(Api::<Node>::all(client.clone()), config.clone())
            .map_ok(|event| Told::Node(Box::new(event)));
        let pods = watcher(Api::<Pod>::all(client), config).map_ok(|event| Told::Pod(Box::new(event)));
        let mut events = std::pin::pin!(futures::stream::select(nodes, pods));
        while let Some(event) = events.next().await {
            // The watcher starts again by itself, and says so with a list.
            let Ok(event) = event else { continue };
            let mut board = self.open();
            match event {
                Told::Node(event) => match *event {
                    Event::Init => board.nodes_listed_again(),
                    Event::InitApply(node) | Event::Apply(node) => board.node_changed(&node),
                    Event::Delete(node) => board.node_gone(node.metadata.name.as_deref().unwrap_or_default()),
                    Event::InitDone => self.listed.send_modify(|listed| listed.0 = true),
                },
                Told::Pod(event) => match *event {
                    Event::Init => board.pods_listed_again(),
                    Event::InitApply(pod) | Event::Apply(pod) => board.pod_changed(&pod),
                    Event::Delete(pod) => board.pod_gone(&pod),
                    Event::InitDone => self.listed.send_modify(|listed| listed.1 = true),
                },
            }
        }
    }
}

enum Told {
    Node(Box<Event<Node>>),
    Pod(Box<Event<Pod>>),
}
