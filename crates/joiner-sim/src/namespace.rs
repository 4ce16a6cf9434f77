//! What every namespace has: its default service account, and the certificate that pods trust.
//!
//! That a deleted namespace takes its contents along is the work of the API server's garbage collector.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::connection::Refusal;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::object::{Fields, Key, Kind};
use crate::write::Write;

const CERTIFICATE: &str = "kube-root-ca.crt";

/// The controller.
#[derive(Default)]
pub struct Namespaces {
    /// Where the certificate was put, or was found to be. Nobody watches ConfigMaps, so nobody is told when one goes.
    certified: BTreeSet<Box<str>>,
}

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "service-account-controller"
    }

    fn interested(&mut self, event: &Event, _: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::Namespace if event.change == Change::Deleted => {
                self.certified.remove(&*event.key.name);
            }
            Kind::Namespace => keys.push(event.key.clone()),
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
        let mut writes = Vec::new();
        let mut create = |kind: Kind, object: Value| {
            writes.push(Write::Create { kind, namespace: name.to_owned(), object });
        };
        if cache.find(Kind::ServiceAccount, name, "default").is_none() {
            create(Kind::ServiceAccount, json!({"metadata": {"name": "default", "namespace": name}}));
        }
        // Creating one that is there is refused, which is why it comes last.
        if self.certified.insert(name.into()) {
            let metadata = json!({"name": CERTIFICATE, "namespace": name});
            create(Kind::ConfigMap, json!({"metadata": metadata, "data": {"ca.crt": ""}}));
        }
        Outcome::writes(writes)
    }

    fn refused(&mut self, key: &Key, write: &Write, refusal: &Refusal) {
        if matches!(write, Write::Create { kind: Kind::ConfigMap, .. }) && refusal.code != 409 {
            self.certified.remove(&*key.name);
        }
    }

    fn patience(&self) -> SignedDuration {
        SignedDuration::ZERO
    }
}
