//! `kube::Client::new(server)`: everything a controller does, without a socket.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{
    Api, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt, discovery};
use serde_json::{Value, json};

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}})).unwrap()
}

fn pod(name: &str, labels: &Value) -> Pod {
    let spec = json!({"containers": [{"name": "main", "image": "pause"}]});
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).unwrap()
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let api: Api<ConfigMap> = Api::default_namespaced(super::client(&super::server()));
    let created = api.create(&PostParams::default(), &config_map("one", "a")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    api.create(&PostParams::default(), &config_map("two", "b")).await.unwrap();

    let mut changed = created.clone();
    changed.data.get_or_insert_default().insert("value".to_owned(), "c".to_owned());
    let replaced = api.replace("one", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    let stale = api.replace("one", &PostParams::default(), &changed).await.unwrap_err();
    assert!(matches!(&stale, kube::Error::Api(status) if status.is_conflict()), "{stale}");

    let mut pages = Vec::new();
    let mut parameters = ListParams::default().limit(1);
    loop {
        let page = api.list(&parameters).await.unwrap();
        pages.push(page.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(pages, [["one"], ["two"]]);

    api.delete("two", &DeleteParams::default()).await.unwrap();
    let gone = api.get("two").await.unwrap_err();
    assert!(matches!(&gone, kube::Error::Api(status) if status.is_not_found()), "{gone}");
}

#[tokio::test]
async fn an_apply_owns_its_fields() {
    let api: Api<ConfigMap> = Api::default_namespaced(super::client(&super::server()));
    let configuration = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"value": value}});
    let ours = PatchParams::apply("ours");
    let theirs = PatchParams::apply("theirs");
    api.patch("shared", &ours, &Patch::Apply(configuration("a"))).await.unwrap();
    let refused = api.patch("shared", &theirs, &Patch::Apply(configuration("b"))).await.unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("conflict") && message.contains("\"ours\""), "{message}");
    let forced = theirs.force();
    let taken = api.patch("shared", &forced, &Patch::Apply(configuration("b"))).await.unwrap();
    assert_eq!(taken.data.unwrap()["value"], "b");
    let merged = json!({"data": {"more": "c"}});
    let merged = api.patch("shared", &PatchParams::default(), &Patch::Merge(merged)).await.unwrap();
    assert_eq!(merged.data.unwrap().len(), 2);
}

#[tokio::test]
async fn a_watch_shows_what_happens() {
    let api: Api<ConfigMap> = Api::default_namespaced(super::client(&super::server()));
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    api.create(&PostParams::default(), &config_map("seen", "a")).await.unwrap();
    api.patch("seen", &PatchParams::default(), &Patch::Merge(json!({"data": {"value": "b"}}))).await.unwrap();
    api.delete("seen", &DeleteParams::default()).await.unwrap();
    let events = api.watch(&WatchParams::default(), &start).await.unwrap().take(3);
    let kinds: Vec<&str> = events
        .map_ok(|event| match event {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            _ => "other",
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(kinds, ["added", "modified", "deleted"]);
}

/// Both ways in which a watcher learns the present state.
#[tokio::test]
async fn a_watcher_follows() {
    for config in [watcher::Config::default().page_size(2), watcher::Config::default().streaming_lists()] {
        let api: Api<ConfigMap> = Api::default_namespaced(super::client(&super::server()));
        for name in ["a", "b", "c"] {
            api.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
        }
        let mut stream = watcher(api.clone(), config).boxed();
        let mut known = BTreeMap::new();
        loop {
            match stream.next().await.unwrap().unwrap() {
                watcher::Event::InitApply(map) => drop(known.insert(map.name_any(), map)),
                watcher::Event::InitDone => break,
                watcher::Event::Init => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(known.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        api.delete("b", &DeleteParams::default()).await.unwrap();
        let deleted = stream.next().await.unwrap().unwrap();
        assert!(matches!(&deleted, watcher::Event::Delete(map) if map.name_any() == "b"), "{deleted:?}");
        api.create(&PostParams::default(), &config_map("d", "1")).await.unwrap();
        let mut applied = stream.applied_objects();
        assert_eq!(applied.next().await.unwrap().unwrap().name_any(), "d");
    }
}

#[tokio::test]
async fn an_eviction_respects_the_budget() {
    let client = super::client(&super::server());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let nodes: Api<Node> = Api::all(client);
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budget = serde_json::from_value(budget).unwrap();
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    for (name, labels) in [("guarded", json!({"app": "web"})), ("free", json!({}))] {
        pods.create(&PostParams::default(), &pod(name, &labels)).await.unwrap();
        let running =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(running)).await.unwrap();
    }
    pods.evict("free", &EvictParams::default()).await.unwrap();
    let refused = pods.evict("guarded", &EvictParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 429), "{refused}");
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn custom_resources_are_discovered_and_used() {
    let client = super::client(&super::server());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.x.io"},
        "spec": {"group": "x.io", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"}, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "size": {"type": "integer", "maximum": 3}, "colour": {"type": "string", "default": "red"}}}}}}}]}});
    create_dynamic(&client, "apiextensions.k8s.io", "CustomResourceDefinition", definition).await.unwrap();
    let gadget = |size: i64| json!({"apiVersion": "x.io/v1", "kind": "Gadget", "metadata": {"name": format!("g{size}")}, "spec": {"size": size}});
    let made = create_dynamic(&client, "x.io", "Gadget", gadget(2)).await.unwrap();
    assert_eq!(made.data["spec"]["colour"], "red");
    let refused = create_dynamic(&client, "x.io", "Gadget", gadget(4)).await.unwrap_err().to_string();
    assert!(refused.contains("spec.size") && refused.contains("less than or equal to 3"), "{refused}");
}

async fn create_dynamic(
    client: &Client,
    group: &str,
    kind: &str,
    object: Value,
) -> Result<DynamicObject, kube::Error> {
    let group = discovery::group(client, group).await?;
    let (resource, _) = group.recommended_kind(kind).unwrap();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await
}
