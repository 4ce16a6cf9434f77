//! The door without requests: what it writes is what a request would have written.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use joiner_apiserver::direct::{Deleted, Direct};
use joiner_apiserver::rest::{DeleteOptions, PatchLanguage};
use joiner_apiserver::selector::LabelSelector;
use joiner_apiserver::service::{ApiServer, Settings};
use joiner_apiserver::store::ChangeKind;
use serde_json::{Value, json};

fn server() -> ApiServer {
    // The same clock and the same seed give the same uids and times.
    ApiServer::new(Arc::new(|| Timestamp::UNIX_EPOCH), &Settings::default())
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}}, "spec": {"containers": [
        {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}]}})
}

async fn request(
    server: &ApiServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("user-agent", "tester/1")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let answer = server.answer(request).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

const JSON: &str = "application/json";

#[tokio::test]
async fn both_doors_write_the_same() {
    let (one, other) = (server(), server());
    let door = one.direct("tester");
    let pods = door.resource("", "pods").unwrap();
    let path = "/api/v1/namespaces/default/pods";

    let created = door.create(&pods, "default", pod("p")).unwrap();
    let (code, answered) = request(&other, "POST", path, JSON, &pod("p")).await;
    assert_eq!((code, created.value()), (201, &answered));

    door.bind("default", "p", "node-1").unwrap();
    let binding = json!({"target": {"kind": "Node", "name": "node-1"}});
    request(&other, "POST", &format!("{path}/p/binding"), JSON, &binding).await;

    let mut status = door.get(&pods, "default", "p").unwrap().into_value();
    status["status"] =
        json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
    let running = door.update_status(&pods, status.clone()).unwrap();
    let (code, answered) = request(&other, "PUT", &format!("{path}/p/status"), JSON, &status).await;
    assert_eq!((code, running.value()), (200, &answered));
    assert_eq!(running["status"]["podIPs"][0]["ip"], "10.0.0.1");

    let mut changed = running.into_value();
    changed["metadata"]["labels"]["b"] = "c".into();
    let updated = door.update(&pods, changed.clone()).unwrap();
    let (code, answered) = request(&other, "PUT", &format!("{path}/p"), JSON, &changed).await;
    assert_eq!((code, updated.value()), (200, &answered));

    for (language, content_type, patch) in [
        (
            PatchLanguage::Merge,
            "application/merge-patch+json",
            json!({"metadata": {"annotations": {"x": "y"}}}),
        ),
        (
            PatchLanguage::Json,
            "application/json-patch+json",
            json!([{"op": "remove", "path": "/metadata/labels/b"}]),
        ),
        (
            PatchLanguage::Strategic,
            "application/strategic-merge-patch+json",
            json!({"spec": {"containers": [{"name": "c", "image": "i:2"}]}}),
        ),
        (
            PatchLanguage::Apply,
            "application/apply-patch+yaml",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"applied": "yes"}}}),
        ),
    ] {
        let patched = door.patch(&pods, ("default", "p"), "", language, patch.clone()).unwrap();
        let path = format!("{path}/p?fieldManager=tester");
        let (code, answered) = request(&other, "PATCH", &path, content_type, &patch).await;
        assert_eq!((code, patched.value()), (200, &answered), "{content_type}");
    }

    let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
    let Deleted::Gone(last) = door.delete(&pods, "default", "p", &options).unwrap() else {
        panic!("it is held")
    };
    let (code, answered) =
        request(&other, "DELETE", &format!("{path}/p?gracePeriodSeconds=0"), JSON, &json!({})).await;
    assert_eq!((code, last.value()), (200, &answered));
    assert_eq!(door.get(&pods, "default", "p").unwrap_err().code, 404);
}

#[tokio::test]
async fn refusals_are_those_of_requests() {
    let (one, other) = (server(), server());
    let door = one.direct("tester");
    let pods = door.resource("", "pods").unwrap();
    let path = "/api/v1/namespaces/default/pods";
    let bad = [
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "P"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": 3}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nope": 1, "containers": [{"name": "c", "image": "i"}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "other"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        json!({"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "p"}}),
    ];
    for object in bad {
        let refused = door.create(&pods, "default", object.clone()).unwrap_err();
        let (code, answered) =
            request(&other, "POST", &format!("{path}?fieldValidation=Strict"), JSON, &object).await;
        assert_eq!((refused.code, refused.to_value()), (code, answered), "{object}");
    }
    assert_eq!(door.create(&pods, "default", json!("text")).unwrap_err().code, 400);
    assert_eq!(door.resource("", "nopes").unwrap_err().code, 404);
    let created = door.create(&pods, "default", pod("p")).unwrap().into_value();
    assert_eq!(door.create(&pods, "default", pod("p")).unwrap_err().code, 409);
    assert_eq!(door.bind_exactly("default", "p", "another", "n").unwrap_err().code, 409);
    door.bind_exactly("default", "p", created["metadata"]["uid"].as_str().unwrap(), "n").unwrap();
    assert_eq!(door.bind("default", "p", "n").unwrap_err().code, 409);
    assert_eq!(door.update(&pods, created).unwrap_err().code, 409, "the version is an older one");
    let maps = door.resource("", "configmaps").unwrap();
    for subresource in ["status", "nope"] {
        let refused =
            door.patch(&maps, ("default", "m"), subresource, PatchLanguage::Merge, json!({})).unwrap_err();
        assert_eq!(refused.code, 404);
    }
    assert_eq!(door.update_status(&maps, json!({"metadata": {"name": "m"}})).unwrap_err().code, 404);
}

fn labelled(door: &Direct, selector: &str) -> Vec<String> {
    let maps = door.resource("", "configmaps").unwrap();
    let (found, _) = door.list(&maps, Some("default"), &LabelSelector::parse(selector).unwrap());
    found.iter().map(|map| map["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn lists_and_watches_go_together() {
    let server = server();
    let door = server.direct("tester");
    let maps = door.resource("", "configmaps").unwrap();
    for (name, app) in [("b", "x"), ("a", "x"), ("c", "y")] {
        door.create(&maps, "default", json!({"metadata": {"name": name, "labels": {"app": app}}})).unwrap();
    }
    assert_eq!(labelled(&door, ""), ["a", "b", "c"]);
    let (present, revision) = door.present(&maps);
    let keys: Vec<&str> = present.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["default/a", "default/b", "default/c"]);
    assert_eq!(present[2].1.object().revision(), revision);
    assert_eq!(labelled(&door, "app=x"), ["a", "b"]);
    let (_, from) = door.list(&maps, None, &LabelSelector::default());
    let mut watch = door.watch(&maps, from).unwrap();
    assert!(watch.take().unwrap().is_empty());
    assert!(!watch.has_moved());

    let odd = json!({"metadata": {"name": "d"}, "data": {"n": "1"}, "nope": 1});
    assert_eq!(door.create(&maps, "default", odd.clone()).unwrap_err().code, 400);
    let made = door.clone().forgiving().create(&maps, "default", odd).unwrap();
    assert!(made.get("nope").is_none() && watch.has_moved());
    let mut map = door.get(&maps, "default", "d").unwrap().into_value();
    map["data"]["n"] = "2".into();
    door.update(&maps, map).unwrap();
    door.delete(&maps, "default", "d", &DeleteOptions::default()).unwrap();
    let events: Vec<_> = watch.into_stream().take(3).map(Result::unwrap).collect().await;
    let kinds: Vec<ChangeKind> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted]);
    assert_eq!((&events[0].object["data"]["n"], &events[1].object["data"]["n"]), (&json!("1"), &json!("2")));
    assert_eq!(events[2].object["metadata"]["resourceVersion"], events[2].revision.to_string());

    server.forget_history();
    assert_eq!(door.watch(&maps, from).unwrap_err().code, 410);
}

#[tokio::test]
async fn restored_objects_keep_who_they_are() {
    let server = server();
    let door = server.direct("tester");
    let (sets, pods) =
        (door.resource("apps", "replicasets").unwrap(), door.resource_of_kind("v1", "Pod").unwrap());
    let uid = "00000000-0000-4000-8000-000000000001";
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod("p")["spec"]});
    let set = json!({
        "metadata": {"name": "s", "namespace": "default", "uid": uid, "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "resourceVersion": "99"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template},
        "status": {"replicas": 1, "observedGeneration": 7},
    });
    let owned = |name: &str, owner: &str| {
        let mut pod = pod(name);
        pod["metadata"]["namespace"] = "default".into();
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "uid": owner}]);
        pod["spec"]["nodeName"] = "n".into();
        pod["spec"]["fieldOfTomorrow"] = true.into();
        pod["status"] = json!({"phase": "Running", "startTime": "2020-01-01T00:00:00Z"});
        pod
    };
    let ready = vec![
        door.prepare_restored(&sets, set).unwrap(),
        door.prepare_restored(&pods, owned("p", uid)).unwrap(),
        door.prepare_restored(&pods, owned("lost", "00000000-0000-4000-8000-000000000002")).unwrap(),
    ];
    door.put_restored(ready).unwrap();

    let set = door.get(&sets, "default", "s").unwrap();
    let metadata = &set["metadata"];
    assert_eq!((&metadata["uid"], &metadata["generation"]), (&json!(uid), &json!(7)));
    assert_eq!(metadata["creationTimestamp"], "2020-01-01T00:00:00Z");
    assert!(metadata.get("managedFields").is_none());
    assert_eq!(set["status"], json!({"replicas": 1, "observedGeneration": 7}));
    let restored = door.get(&pods, "default", "p").unwrap();
    assert_eq!(
        (&restored["status"]["phase"], &restored["spec"]["nodeName"]),
        (&json!("Running"), &json!("n"))
    );
    assert!(restored["spec"].get("fieldOfTomorrow").is_none());
    assert_eq!(restored["spec"]["restartPolicy"], "Always", "what was not written is filled in");
    let lost = door.get(&pods, "default", "lost").unwrap();
    assert!(lost["metadata"].get("deletionTimestamp").is_some(), "whose owner is not there goes");

    let again = door.prepare_restored(&pods, owned("p", uid)).unwrap();
    let (told, failure) = door.put_restored(vec![again]).unwrap_err();
    assert_eq!((told.as_str(), failure.code), ("Pod `p`", 409));
    let wrong = json!({"metadata": {"name": "wrong", "namespace": "default"}, "spec": {"containers": []}});
    assert_eq!(door.prepare_restored(&pods, wrong).unwrap_err().code, 422);
}

#[tokio::test]
async fn a_restored_event_of_one_group_is_one_of_the_other() {
    let server = super::server();
    let door = server.direct("me");
    let [regarding, involved] = ["events.k8s.io", ""].map(|group| door.resource(group, "events").unwrap());
    // A new event of this form may not be counted; one that has lived may have been.
    let event = json!({
        "metadata": {"name": "e", "namespace": "default"}, "note": "it was there", "reason": "Seen", "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "deprecatedCount": 3,
    });
    let ready = door.prepare_restored(&regarding, event).unwrap();
    door.put_restored(vec![ready]).map_err(|(_, failure)| failure.message).unwrap();
    let found = door.get(&involved, "default", "e").unwrap();
    assert_eq!((&found["message"], &found["count"]), (&json!("it was there"), &json!(3)));
    let found = door.get(&regarding, "default", "e").unwrap();
    assert_eq!((&found["note"], &found["regarding"]["name"]), (&json!("it was there"), &json!("p")));
}
