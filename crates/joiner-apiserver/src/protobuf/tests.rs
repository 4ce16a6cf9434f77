use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Writes what the reader reads, by the same facts.
fn written(name: &str, object: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for FieldFact(number, field, kind) in &FACTS.messages[name] {
        if field.is_empty() {
            put(&mut bytes, *number, &written(kind, object));
            continue;
        }
        let Some(value) = object.get(field) else { continue };
        if let Some(kind) = kind.strip_prefix("[]") {
            for element in value.as_array().unwrap() {
                one(&mut bytes, *number, kind, element);
            }
        } else if let Some(kind) = kind.strip_prefix("{}") {
            for (key, element) in value.as_object().unwrap() {
                let mut entry = Vec::new();
                put(&mut entry, 1, key.as_bytes());
                one(&mut entry, 2, kind, element);
                put(&mut bytes, *number, &entry);
            }
        } else {
            one(&mut bytes, *number, kind, value);
        }
    }
    bytes
}

fn one(bytes: &mut Vec<u8>, number: u32, kind: &str, value: &Value) {
    match (kind, value) {
        ("string", Value::String(text)) => put(bytes, number, text.as_bytes()),
        ("bool", Value::Bool(value)) => varint(bytes, number, u64::from(*value)),
        (_, Value::Number(value)) if kind.starts_with("int") => {
            varint(bytes, number, value.as_i64().unwrap().cast_unsigned());
        }
        ("k8s.io.apimachinery.pkg.api.resource.Quantity", Value::String(text)) => {
            let mut inner = Vec::new();
            put(&mut inner, 1, text.as_bytes());
            put(bytes, number, &inner);
        }
        ("k8s.io.apimachinery.pkg.util.intstr.IntOrString", value) => {
            let mut inner = Vec::new();
            match value {
                Value::String(text) => {
                    varint(&mut inner, 1, 1);
                    put(&mut inner, 3, text.as_bytes());
                }
                value => varint(&mut inner, 2, value.as_i64().unwrap().cast_unsigned()),
            }
            put(bytes, number, &inner);
        }
        (kind, value) => put(bytes, number, &written(kind, value)),
    }
}

fn put(bytes: &mut Vec<u8>, number: u32, content: &[u8]) {
    raw(bytes, u64::from(number) << 3 | 2);
    raw(bytes, content.len() as u64);
    bytes.extend(content);
}

fn varint(bytes: &mut Vec<u8>, number: u32, value: u64) {
    raw(bytes, u64::from(number) << 3);
    raw(bytes, value);
}

fn raw(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn enveloped(object: &Value) -> Vec<u8> {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let mut meta = Vec::new();
    put(&mut meta, 1, api_version.as_bytes());
    put(&mut meta, 2, kind.as_bytes());
    let mut body = MAGIC.to_vec();
    put(&mut body, 1, &meta);
    put(&mut body, 2, &written(&FACTS.kinds[&format!("{api_version}/{kind}")], object));
    body
}

#[test]
fn a_body_comes_out_as_it_went_in() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"a": "b", "empty": ""}},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": -1}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [{
                    "name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}},
                    "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                }],
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
                "hostNetwork": true, "terminationGracePeriodSeconds": 0,
            }},
        },
    });
    assert_eq!(decode(&enveloped(&deployment)).unwrap(), deployment);
}

#[test]
fn other_messages_are_refused() {
    assert!(decode(b"{}").unwrap_err().contains("expected prefix [107 56 115 0]"));
    assert!(decode(b"").is_err());
    let unknown = b"k8s\0\x0a\x08\x0a\x02v1\x12\x02No";
    assert_eq!(decode(unknown).unwrap_err(), "no kind \"No\" is registered for version \"v1\"");
    assert_eq!(decode(b"k8s\0\x0a\xff").unwrap_err(), "unexpected EOF");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_an_answer(kind in 0..1000_usize, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let name = FACTS.messages.keys().nth(kind % FACTS.messages.len()).unwrap();
        let _ = message(name, &bytes, 0);
        let mut body = MAGIC.to_vec();
        body.extend(&bytes);
        let _ = decode(&body);
    }

    /// A good body with a few bytes changed.
    #[test]
    fn damaged_bodies_are_an_answer(at in 0..200_usize, byte in any::<u8>()) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}});
        let mut body = enveloped(&pod);
        let length = body.len();
        body[at % length] = byte;
        let _ = decode(&body);
    }
}
