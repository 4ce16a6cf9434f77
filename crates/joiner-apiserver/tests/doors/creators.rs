//! Who owns the fields of a new object: its creator has what it sent and the defaults, and nobody what the cluster adds on the way in.
//!
//! What is expected was seen on a real server.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings};
use serde_json::{Value, json};

#[test]
fn what_the_cluster_adds_is_nobodys() {
    let server = ApiServer::new(Arc::new(|| Timestamp::UNIX_EPOCH), &Settings::default());
    let door = server.direct("x");
    let owned = |group: &str, plural: &str, namespace: &str, object: Value| {
        let created = door.create(&door.resource(group, plural).unwrap(), namespace, object).unwrap();
        let managers = created["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!((managers.len(), &managers[0]["manager"]), (1, &json!("x")));
        managers[0]["fieldsV1"].clone()
    };
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "b"}}, "spec": {"containers": [
        {"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "100m"}}}]}});
    assert_eq!(
        owned("", "pods", "default", pod),
        json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {},
            "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}}},
            "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}}, "f:dnsPolicy": {}, "f:enableServiceLinks": {},
            "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}}})
    );
    let namespace = json!({"metadata": {"name": "n"}});
    assert_eq!(
        owned("", "namespaces", "", namespace),
        json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}})
    );
    let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.1.0.0/24"}});
    assert_eq!(
        owned("", "nodes", "", node),
        json!({"f:spec": {"f:podCIDR": {}, "f:podCIDRs": {".": {}, "v:\"10.1.0.0/24\"": {}}}})
    );
    let class = json!({"metadata": {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "x"});
    owned("storage.k8s.io", "storageclasses", "", class);
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests":
        {"storage": "1Gi"}}, "dataSource": {"kind": "PersistentVolumeClaim", "name": "o"}}});
    assert_eq!(
        owned("", "persistentvolumeclaims", "default", claim),
        json!({"f:spec": {"f:accessModes": {}, "f:dataSource": {}, "f:resources": {"f:requests": {".": {}, "f:storage": {}}},
            "f:volumeMode": {}}})
    );
    let volume = json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/x"}}});
    assert_eq!(
        owned("", "persistentvolumes", "", volume),
        json!({"f:spec": {"f:accessModes": {}, "f:capacity": {".": {}, "f:storage": {}}, "f:hostPath": {".": {}, "f:path": {},
            "f:type": {}}, "f:persistentVolumeReclaimPolicy": {}, "f:volumeMode": {}}})
    );
}
