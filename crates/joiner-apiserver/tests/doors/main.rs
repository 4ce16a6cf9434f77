//! The two doors of the server, used with kube-rs: the service itself, and HTTPS. And the folder in which it keeps its objects.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod any_input;
mod bad_requests;
mod concurrent;
mod creators;
mod data_folder;
mod direct;
mod in_process;
mod killed;
mod listener;
mod protobuf;
#[path = "../tls_client/mod.rs"]
mod tls_client;
mod usage;
mod users;
mod watching;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings};
use kube::Client;

fn server() -> ApiServer {
    ApiServer::new(Arc::new(Timestamp::now), &Settings::default())
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.clone(), "default")
}

/// A folder of its own for a test, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("joiner-doors-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
