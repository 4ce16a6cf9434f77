//! Objects kept in a folder.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings};
use joiner_apiserver::store::DataError;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::Folder;

fn open(folder: &Folder) -> Result<ApiServer, DataError> {
    open_with(folder, Settings::default().history)
}

fn open_with(folder: &Folder, history: usize) -> Result<ApiServer, DataError> {
    let settings = Settings { history, ..Settings::default() };
    ApiServer::in_folder(Arc::new(Timestamp::now), &settings, &folder.0)
}

fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(super::client(server))
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"name": name}})).unwrap()
}

/// Everything in the store, as text.
async fn everything(server: &ApiServer) -> String {
    let api = maps(server);
    let maps = api.list(&ListParams::default()).await.unwrap();
    let spaces: Api<Namespace> = Api::all(api.into_client());
    let spaces = spaces.list(&ListParams::default()).await.unwrap();
    format!("{}\n{}", serde_json::to_string(&maps).unwrap(), serde_json::to_string(&spaces).unwrap())
}

#[tokio::test]
async fn objects_versions_and_uids_go_on() {
    let folder = Folder::new();
    let server = open(&folder).unwrap();
    let first = maps(&server).create(&PostParams::default(), &config_map("first")).await.unwrap();
    maps(&server).create(&PostParams::default(), &config_map("second")).await.unwrap();
    maps(&server).delete("second", &DeleteParams::default()).await.unwrap();
    let before = everything(&server).await;
    server.close();
    drop(server);

    let server = open(&folder).unwrap();
    assert_eq!(everything(&server).await, before);
    let third = maps(&server).create(&PostParams::default(), &config_map("third")).await.unwrap();
    let version = |map: &ConfigMap| map.resource_version().unwrap().parse::<u64>().unwrap();
    assert_eq!(version(&third), version(&first) + 3);
    assert_ne!(third.uid(), first.uid());
}

#[tokio::test]
async fn a_short_history_keeps_all_objects() {
    let folder = Folder::new();
    let mut before = String::new();
    for (round, history) in [3, 10, 2].into_iter().enumerate() {
        let server = open_with(&folder, history).unwrap();
        if round > 0 {
            assert_eq!(everything(&server).await, before, "history of {history}");
        }
        let api = maps(&server);
        for turn in 0..20 {
            let name = format!("m{round}-{turn}");
            api.create(&PostParams::default(), &config_map(&name)).await.unwrap();
            if turn % 3 == 0 {
                api.delete(&name, &DeleteParams::default()).await.unwrap();
            }
        }
        before = everything(&server).await;
        server.close();
    }
    assert_eq!(everything(&open(&folder).unwrap()).await, before);
}

#[tokio::test]
async fn an_old_version_expires_only_with_its_history() {
    let folder = Folder::new();
    let server = open(&folder).unwrap();
    let start: u64 = maps(&server)
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap()
        .parse()
        .unwrap();
    for name in ["a", "b"] {
        maps(&server).create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    server.close();
    drop(server);
    let server = open(&folder).unwrap();
    let at = |version: u64| {
        ListParams::default().at(&version.to_string()).matching(kube::api::VersionMatch::Exact)
    };
    let names =
        |list: kube::core::ObjectList<ConfigMap>| list.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    assert_eq!(names(maps(&server).list(&at(start + 1)).await.unwrap()), ["a"]);
    server.forget_history();
    maps(&server).create(&PostParams::default(), &config_map("c")).await.unwrap();
    server.close();
    drop(server);
    let server = open(&folder).unwrap();
    assert_eq!(names(maps(&server).list(&at(start + 2)).await.unwrap()), ["a", "b"]);
    let expired = maps(&server).list(&at(start + 1)).await.unwrap_err();
    assert!(matches!(&expired, kube::Error::Api(status) if status.code == 410), "{expired}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_share_the_disk() {
    let folder = Folder::new();
    let server = open(&folder).unwrap();
    let writers = (0..16).map(|writer| {
        let api = maps(&server);
        tokio::spawn(async move {
            for turn in 0..25 {
                let map = config_map(&format!("w{writer}-{turn}"));
                api.create(&PostParams::default(), &map).await.unwrap();
            }
        })
    });
    futures::future::try_join_all(writers).await.unwrap();
    let before = everything(&server).await;
    // As if the process were killed: nothing is closed. The file of the first server is still open, so its copy is read.
    let copy = Folder::new();
    std::fs::copy(folder.0.join("objects.redb"), copy.0.join("objects.redb")).unwrap();
    assert_eq!(everything(&open(&copy).unwrap()).await, before);
    assert_eq!(maps(&server).list(&ListParams::default()).await.unwrap().items.len(), 400);
}

#[tokio::test]
async fn two_servers_do_not_share_a_folder() {
    let folder = Folder::new();
    let _server = open(&folder).unwrap();
    let refused = open(&folder).err().unwrap();
    assert!(matches!(refused, DataError::InUse { .. }));
    let file = folder.0.join("objects.redb");
    let text = format!(
        "`{}` is in use by another running server: end that one, or choose another folder",
        file.display()
    );
    assert_eq!(refused.to_string(), text);
}

#[tokio::test]
async fn a_closed_server_refuses_writes() {
    let folder = Folder::new();
    let server = open(&folder).unwrap();
    server.close();
    let refused = maps(&server).create(&PostParams::default(), &config_map("late")).await.unwrap_err();
    assert!(refused.to_string().contains("the data file is closed"), "{refused}");
    drop(server);
    assert!(maps(&open(&folder).unwrap()).get_opt("late").await.unwrap().is_none());
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let folder = Folder::new();
    open(&folder).unwrap().close();
    let file = folder.0.join("objects.redb");
    let database = redb::Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    let numbers: redb::TableDefinition<&str, u64> = redb::TableDefinition::new("numbers");
    transaction.open_table(numbers).unwrap().insert("format", 7).unwrap();
    transaction.commit().unwrap();
    drop(database);
    std::fs::write(folder.0.join("objects.seal"), [0; 16]).unwrap();
    let refused = open(&folder).err().unwrap().to_string();
    let wanted = "has format 7, which a newer version has written; this one knows formats up to 1";
    assert!(refused.contains(wanted) && refused.contains("objects.redb"), "{refused}");
    // It still is what it was.
    assert_eq!(open(&folder).err().unwrap().to_string(), refused);
}

#[tokio::test]
async fn a_file_that_is_something_else_is_refused_and_left() {
    let folder = Folder::new();
    let file = folder.0.join("objects.redb");
    for content in [b"not a database".to_vec(), vec![0; 100_000], vec![0xff; 5000]] {
        std::fs::write(&file, &content).unwrap();
        let refused = open(&folder).err().unwrap();
        assert!(matches!(refused, DataError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("objects.redb` is damaged"), "{refused}");
        assert!(std::fs::read(&file).unwrap() == content, "the file was changed");
    }
}

/// Whatever byte is wrong, the file is refused or all that was acknowledged is there: after an end in good order as after a kill.
#[tokio::test]
async fn damage_is_noticed() {
    let folder = Folder::new();
    let server = open(&folder).unwrap();
    for turn in 0..30 {
        maps(&server).create(&PostParams::default(), &config_map(&format!("m{turn}"))).await.unwrap();
    }
    let before = everything(&server).await;
    let files = ["objects.redb", "objects.seal"].map(|name| folder.0.join(name));
    let read = || files.clone().map(|file| std::fs::read(file).unwrap());
    let killed = read();
    server.close();
    drop(server);
    for [good, seal] in [read(), killed] {
        let (mut refused, mut intact) = (0, 0);
        // Most of the file is empty: the places tried are those where something is.
        let places: Vec<usize> = (0..good.len()).filter(|place| good[*place] != 0).collect();
        for step in 0..60 {
            let mut bad = good.clone();
            let place = places[step * 7919 % places.len()];
            let length = if step % 3 == 0 { 64 } else { 1 };
            for byte in bad.iter_mut().skip(place).take(length) {
                *byte ^= 0x55;
            }
            let copy = Folder::new();
            std::fs::write(copy.0.join("objects.redb"), &bad).unwrap();
            std::fs::write(copy.0.join("objects.seal"), &seal).unwrap();
            match open(&copy) {
                Ok(server) => {
                    assert_eq!(everything(&server).await, before, "byte {place}");
                    intact += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("objects.redb"), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "{refused} refused, {intact} intact");
    }
}

/// Half of a folder is damage too, and is left as it is.
#[tokio::test]
async fn a_lost_file_and_a_wrong_seal_are_refused() {
    let folder = Folder::new();
    let server = open(&folder).unwrap();
    maps(&server).create(&PostParams::default(), &config_map("a")).await.unwrap();
    server.close();
    drop(server);
    let [data, seal] = ["objects.redb", "objects.seal"].map(|name| folder.0.join(name));
    let good = std::fs::read(&seal).unwrap();
    let mut changed = good.clone();
    changed[3] ^= 1;
    for wrong in [b"oops".to_vec(), Vec::new(), changed, vec![0; 24], vec![b'x'; 100]] {
        std::fs::write(&seal, &wrong).unwrap();
        let refused = open(&folder).err().unwrap().to_string();
        assert!(refused.contains("objects.seal` is damaged and was left as it is"), "{wrong:?}: {refused}");
        assert_eq!(std::fs::read(&seal).unwrap(), wrong);
    }
    std::fs::write(&seal, &good).unwrap();
    std::fs::rename(&data, folder.0.join("away")).unwrap();
    let refused = open(&folder).err().unwrap().to_string();
    assert!(refused.contains("objects.redb` is damaged") && refused.contains("it is missing"), "{refused}");
    assert!(!data.exists());
    std::fs::rename(folder.0.join("away"), &data).unwrap();
    assert!(maps(&open(&folder).unwrap()).get_opt("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("file"), "").unwrap();
    let wrong = folder.0.join("file/below");
    let refused = ApiServer::in_folder(Arc::new(Timestamp::now), &Settings::default(), &wrong).err().unwrap();
    assert!(refused.to_string().starts_with(&format!("cannot use `{}`", wrong.display())), "{refused}");
}
