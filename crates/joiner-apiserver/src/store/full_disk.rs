//! Tests on a disk that is full for a while.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use redb::backends::FileBackend;
use redb::{Database, DatabaseError, StorageBackend};
use serde_json::{Value, json};

use super::{Disk, ResourceName, Store};
use crate::service::{ApiServer, Settings};

/// A switch, and how often somebody tried to write while it was on.
#[derive(Clone, Debug, Default)]
struct Fullness {
    full: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

impl Fullness {
    fn set(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }
}

impl Disk for Fullness {
    fn open(&self, path: &Path) -> Result<Database, DatabaseError> {
        let file = File::options().read(true).write(true).open(path).map_err(redb::StorageError::Io)?;
        let backend = Backend { file: FileBackend::new(file)?, fullness: self.clone() };
        Database::builder().create_with_backend(backend)
    }
}

#[derive(Debug)]
struct Backend {
    file: FileBackend,
    fullness: Fullness,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fullness.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fullness.check()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("joiner-full-disk-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(folder: &Folder, fullness: &Fullness) -> (ApiServer, Store) {
    let (store, known) = Store::on_disk(&folder.0, 100, Box::new(fullness.clone())).unwrap();
    let clock = Arc::new(jiff::Timestamp::now);
    (ApiServer::with_store(clock, &Settings::default(), store.clone(), known), store)
}

async fn ask(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = server.answer(request.body(Full::new(Bytes::from(body))).unwrap()).await;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, text: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"text": text}})
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_and_writes_come_back_by_themselves() {
    let (folder, fullness) = (Folder::new("server"), Fullness::default());
    let (server, store) = open(&folder, &fullness);
    assert_eq!(ask(&server, Method::POST, MAPS, map("before", "old")).await.0, 201);
    let (_, list) = ask(&server, Method::GET, MAPS, Value::Null).await;
    let version: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let mut watch = store.open().watch(&store, &ResourceName::new("", "configmaps"), version).unwrap();

    fullness.set(true);
    let changed = format!("{MAPS}/before");
    // The first of these finds out; the others are refused before anything is done.
    for (method, path, body) in [
        (Method::PUT, changed.as_str(), map("before", "new")),
        (Method::POST, MAPS, map("never", "x")),
        (Method::DELETE, &changed, Value::Null),
        (Method::DELETE, MAPS, Value::Null),
    ] {
        let (code, status) = ask(&server, method.clone(), path, body).await;
        assert_eq!((code, &status["reason"]), (500, &json!("InternalError")), "{method}: {status}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("cannot write to") && message.contains("make room"), "{method}: {message}");
    }
    let direct = server.direct("me");
    let maps = direct.resource("", "configmaps").unwrap();
    assert_eq!(direct.create(&maps, "default", map("never", "x")).unwrap_err().code, 500);

    // What is read is what is on disk.
    let (code, found) = ask(&server, Method::GET, &changed, Value::Null).await;
    assert_eq!((code, &found["data"]["text"]), (200, &json!("old")));
    let (code, list) = ask(&server, Method::GET, MAPS, Value::Null).await;
    assert_eq!((code, names(&list)), (200, vec!["before"]));
    assert_eq!(list["metadata"]["resourceVersion"], version.to_string());
    assert_eq!(direct.get(&maps, "default", "before").unwrap()["data"]["text"], "old");
    assert!(watch.take().unwrap().changes.is_empty());
    assert_eq!(ask(&server, Method::GET, "/readyz", Value::Null).await, (200, json!("ok")));

    // Attempts are paced.
    let before = fullness.refused.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let attempts = fullness.refused.load(Ordering::SeqCst) - before;
    assert!(attempts < 40, "{attempts} attempts in half a second");

    fullness.set(false);
    let patience = Instant::now() + Duration::from_secs(30);
    while ask(&server, Method::POST, MAPS, map("after", "x")).await.0 != 201 {
        assert!(Instant::now() < patience, "the disk has room again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The write that found out was not refused but late.
    let (_, found) = ask(&server, Method::GET, &changed, Value::Null).await;
    assert_eq!(found["data"]["text"], "new");
    let told: Vec<u64> = watch.take().unwrap().changes.iter().map(|change| change.revision).collect();
    assert_eq!(told, [version + 1, version + 2]);

    let (_, all) = ask(&server, Method::GET, MAPS, Value::Null).await;
    server.close();
    drop((server, store, direct, watch));
    let (server, _) = open(&folder, &fullness);
    assert_eq!(ask(&server, Method::GET, MAPS, Value::Null).await.1, all);
}

#[tokio::test]
async fn a_server_that_ends_on_a_full_disk_has_what_it_answered() {
    let (folder, fullness) = (Folder::new("end"), Fullness::default());
    let (server, store) = open(&folder, &fullness);
    assert_eq!(ask(&server, Method::POST, MAPS, map("kept", "x")).await.0, 201);
    fullness.set(true);
    assert_eq!(ask(&server, Method::POST, MAPS, map("lost", "x")).await.0, 500);
    server.close();
    let (code, list) = ask(&server, Method::GET, MAPS, Value::Null).await;
    assert_eq!((code, names(&list)), (200, vec!["kept"]));
    assert_eq!(ask(&server, Method::POST, MAPS, map("late", "x")).await.0, 500);
    drop((server, store));
    fullness.set(false);
    let (server, _) = open(&folder, &fullness);
    assert_eq!(names(&ask(&server, Method::GET, MAPS, Value::Null).await.1), ["kept"]);
}
