//! Many writers and many watches at once: revisions rise, no update is lost, every watch sees each change of its selection once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, ResponseBody, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What a writer does to one of a few objects.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Adds one to its number, if nobody else has written since it was read; else tries again.
    Count(u8),
    /// Moves it from one selection to the other.
    Turn(u8),
    /// Deletes it.
    Delete(u8),
}

fn deeds() -> impl Strategy<Value = Vec<Vec<Deed>>> {
    let deed = prop_oneof![
        5 => (0..4_u8).prop_map(Deed::Count),
        2 => (0..4_u8).prop_map(Deed::Turn),
        1 => (0..4_u8).prop_map(Deed::Delete),
    ];
    proptest::collection::vec(proptest::collection::vec(deed, 10..40), 2..5)
}

async fn send(server: &ApiServer, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(format!("http://localhost{path}"))
        .header("content-type", kind)
        .body(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()))
        .unwrap();
    let answer = server.answer(request).await;
    let code = answer.status().as_u16();
    (code, serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap())
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn number(object: &Value) -> u64 {
    object["data"]["number"].as_str().unwrap().parse().unwrap()
}

/// The versions that a writer was told for its own writes, and how many counts succeeded since creation of the object with a uid.
#[derive(Default)]
struct Told {
    versions: Vec<u64>,
    counts: BTreeMap<String, u64>,
}

async fn write(server: ApiServer, deeds: Vec<Deed>) -> Told {
    let mut told = Told::default();
    for deed in deeds {
        let (Deed::Count(object) | Deed::Turn(object) | Deed::Delete(object)) = deed;
        let path = format!("{MAPS}/m{object}");
        loop {
            let (code, found) = send(&server, Method::GET, &path, None).await;
            let (code, answer) = match (deed, code) {
                (Deed::Delete(_), _) => {
                    send(&server, Method::DELETE, &path, None).await;
                    break;
                }
                (_, 404) => {
                    let new = json!({"metadata": {"name": format!("m{object}"), "labels": {"side": "left"}}, "data": {"number": "0"}});
                    let (code, answer) = send(&server, Method::POST, MAPS, Some(&new)).await;
                    if code == 201 {
                        told.versions.push(version(&answer));
                    }
                    continue;
                }
                (Deed::Count(_), _) => {
                    let mut new = found.clone();
                    new["data"]["number"] = (number(&found) + 1).to_string().into();
                    send(&server, Method::PUT, &path, Some(&new)).await
                }
                (Deed::Turn(_), _) => {
                    let side = if found["metadata"]["labels"]["side"] == "left" { "right" } else { "left" };
                    let patch = json!({"metadata": {"labels": {"side": side}, "resourceVersion": found["metadata"]["resourceVersion"]}});
                    send(&server, Method::PATCH, &path, Some(&patch)).await
                }
            };
            match code {
                200 => {
                    if let Deed::Count(_) = deed {
                        let uid = answer["metadata"]["uid"].as_str().unwrap().to_owned();
                        *told.counts.entry(uid).or_default() += 1;
                    }
                    told.versions.push(version(&answer));
                    break;
                }
                // Somebody else was faster.
                404 | 409 => tokio::task::yield_now().await,
                other => panic!("{other}: {answer}"),
            }
        }
    }
    told
}

/// Reads a watch up to a version.
async fn follow(
    server: ApiServer,
    query: &'static str,
    from: u64,
    mut until: tokio::sync::watch::Receiver<u64>,
) -> Vec<Value> {
    let uri = format!("http://localhost{MAPS}?watch=true&resourceVersion={from}{query}");
    let answer = server.answer(Request::get(uri).body(Full::<Bytes>::default()).unwrap()).await;
    let mut body: ResponseBody = answer.into_body();
    let mut events: Vec<Value> = Vec::new();
    let mut rest = Vec::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame.unwrap().unwrap().into_data().unwrap(),
            // All is written: what is still on its way comes at once.
            () = async { until.wait_for(|last| *last > 0).await.unwrap(); tokio::time::sleep(Duration::from_millis(60)).await } => break,
        };
        rest.extend(frame);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            events.push(serde_json::from_slice(&line).unwrap());
        }
    }
    events
}

async fn check(plans: Vec<Vec<Deed>>) {
    let server = ApiServer::new(Arc::new(Timestamp::now), &Settings::default());
    let (_, list) = send(&server, Method::GET, MAPS, None).await;
    let from = version(&list);
    let (done, until) = tokio::sync::watch::channel(0);
    let queries = [
        "",
        "&labelSelector=side%3Dleft",
        "&labelSelector=side%3Dright",
        "&fieldSelector=metadata.name%3Dm1",
    ];
    let watches: Vec<_> = queries
        .map(|query| tokio::spawn(follow(server.clone(), query, from, until.clone())))
        .into_iter()
        .collect();
    let writers: Vec<_> = plans.into_iter().map(|plan| tokio::spawn(write(server.clone(), plan))).collect();
    let mut told = Told::default();
    for writer in writers {
        let one = writer.await.unwrap();
        assert!(one.versions.windows(2).all(|pair| pair[0] < pair[1]), "a writer sees its own versions rise");
        told.versions.extend(one.versions);
        for (uid, count) in one.counts {
            *told.counts.entry(uid).or_default() += count;
        }
    }
    let (_, list) = send(&server, Method::GET, MAPS, None).await;
    done.send_replace(version(&list));
    let mut seen = Vec::new();
    for watch in watches {
        seen.push(watch.await.unwrap());
    }

    let versions =
        |events: &[Value]| events.iter().map(|event| version(&event["object"])).collect::<Vec<_>>();
    let all = versions(&seen[0]);
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
    // One counter for everything: nothing else was written, so no number is left out.
    assert_eq!(all, (from + 1..=version(&list)).collect::<Vec<_>>());
    let distinct: BTreeSet<u64> = told.versions.iter().copied().collect();
    assert_eq!(distinct.len(), told.versions.len(), "no version was given twice");
    assert!(distinct.is_subset(&all.iter().copied().collect()));
    // No update is lost: the last number of each object is the count of successful additions.
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for event in &seen[0] {
        last.insert(
            event["object"]["metadata"]["uid"].as_str().unwrap().to_owned(),
            number(&event["object"]),
        );
    }
    for (uid, count) in &told.counts {
        assert_eq!(last[uid], *count);
    }
    // A selection sees what follows from the whole.
    for (events, query) in seen[1..].iter().zip(&queries[1..]) {
        let chosen = |object: &Value| match *query {
            "&labelSelector=side%3Dleft" => object["metadata"]["labels"]["side"] == "left",
            "&labelSelector=side%3Dright" => object["metadata"]["labels"]["side"] == "right",
            _ => object["metadata"]["name"] == "m1",
        };
        let mut present: BTreeMap<String, Value> = BTreeMap::new();
        let mut wanted = Vec::new();
        for event in &seen[0] {
            let (object, name) = (&event["object"], event["object"]["metadata"]["name"].as_str().unwrap());
            let before = present.get(name).is_some_and(chosen);
            let after = event["type"] != "DELETED" && chosen(object);
            let kind = match (before, after) {
                (false, false) => None,
                (false, true) => Some("ADDED"),
                (true, true) => Some("MODIFIED"),
                (true, false) => Some("DELETED"),
            };
            wanted.extend(kind.map(|kind| (kind.to_owned(), version(object))));
            if event["type"] == "DELETED" {
                present.remove(name);
            } else {
                present.insert(name.to_owned(), object.clone());
            }
        }
        let got: Vec<(String, u64)> = events
            .iter()
            .map(|event| (event["type"].as_str().unwrap().to_owned(), version(&event["object"])))
            .collect();
        assert_eq!(got, wanted, "{query}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn writers_and_watches_agree(plans in deeds()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
        runtime.block_on(check(plans));
    }
}

/// A client that opens a watch and never reads it has no queue that grows: when it reads at last, it has to begin anew.
#[tokio::test]
async fn a_watch_that_is_never_read_keeps_nothing() {
    let settings = Settings { history: 50, ..Settings::default() };
    let server = ApiServer::new(Arc::new(Timestamp::now), &settings);
    let (_, list) = send(&server, Method::GET, MAPS, None).await;
    let uri = format!("http://localhost{MAPS}?watch=true&resourceVersion={}", version(&list));
    let mut idle = server.answer(Request::get(uri).body(Full::<Bytes>::default()).unwrap()).await.into_body();
    for turn in 0..500 {
        let map = json!({"metadata": {"name": format!("m{turn}")}});
        assert_eq!(send(&server, Method::POST, MAPS, Some(&map)).await.0, 201);
    }
    let frame = idle.frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert!(idle.frame().await.is_none(), "nothing follows");
}
