//! What every namespace has: its default service account, and the certificate that pods trust.
//!
//! That a deleted namespace takes its contents along is the work of the API server's garbage collector.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::object::{Fields, Key, Kind};
use crate::write::Write;

const CERTIFICATE: &str = "kube-root-ca.crt";

/// The controller.
pub struct Namespaces;

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "service-account-controller"
    }

    fn interested(&mut self, event: &Event, _: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::Namespace if event.change != Change::Deleted => keys.push(event.key.clone()),
            Kind::ServiceAccount if event.change == Change::Deleted && &*event.key.name == "default" => {
                keys.push(Key::new(Kind::Namespace, "", &event.key.namespace));
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, _: Timestamp) -> Outcome {
        let Some(namespace) = cache.get(key).filter(|namespace| !namespace.is_deleting()) else {
            return Outcome::nothing();
        };
        let name = namespace.name();
        if cache.find(Kind::ServiceAccount, name, "default").is_some() {
            return Outcome::nothing();
        }
        let account = json!({"metadata": {"name": "default", "namespace": name}});
        // Nobody watches ConfigMaps; creating one that is there is refused, which is why it comes last.
        let certificate = json!({
            "metadata": {"name": CERTIFICATE, "namespace": name},
            "data": {"ca.crt": ""},
        });
        Outcome::writes(vec![
            Write::Create { kind: Kind::ServiceAccount, namespace: name.to_owned(), object: account },
            Write::Create { kind: Kind::ConfigMap, namespace: name.to_owned(), object: certificate },
        ])
    }

    fn patience(&self) -> SignedDuration {
        SignedDuration::ZERO
    }
}
