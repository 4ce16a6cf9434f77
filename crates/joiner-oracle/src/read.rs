//! Kubernetes manifests and a list of instance types, read into a [`World`].
//!
//! The reader is written from the API documentation, not from the planner: it has its own quantities, selectors, request arithmetic
//! and volume rules, so that a mistake in the planner's reading shows up as a disagreement. Kinds it does not know are ignored.

mod buffers;
mod catalogue;
mod claims;
mod cluster;
mod default_spread;
mod expressions;
mod field;
mod overlays;
mod pod;
pub mod quantity;
mod refusal;
mod requests;
mod workloads;

use std::collections::BTreeMap;

use serde_json::Value;

use self::claims::Storage;
use self::default_spread::Defaults;
use self::field::{at, labels, list, required, text, whole32};
use self::pod::Surroundings;
pub use self::requests::pod_requests;
use crate::world::{Labels, World};

impl World {
    /// Reads Kubernetes objects (workloads are expanded into pods) and instance types in the KWOK provider's file format.
    ///
    /// The error names the object and the field at fault.
    pub fn from_manifests(manifests: &[Value], types: &[Value]) -> Result<World, String> {
        World::from_manifests_with(manifests, types, None)
    }

    /// The same, with a scheduler configuration (`podTopologySpread.defaultConstraints`).
    pub fn from_manifests_with(
        manifests: &[Value],
        types: &[Value],
        scheduler_config: Option<&Value>,
    ) -> Result<World, String> {
        let mut objects = Vec::new();
        for manifest in manifests {
            flatten(manifest, None, &mut objects)?;
        }
        let of_kind = |wanted: &str| -> Vec<&Value> {
            objects.iter().filter(|(kind, _)| kind == wanted).map(|(_, object)| object).collect()
        };

        let mut world = World::default();
        for entry in types {
            world.types.push(catalogue::instance_type(entry)?);
        }
        world.well_known = well_known(&world);

        let mut startup = BTreeMap::new();
        for object in of_kind("NodePool") {
            let name = required(object, &["metadata", "name"]).map_err(|why| format!("a NodePool: {why}"))?;
            let explain = |why| format!("NodePool `{name}`: {why}");
            startup.insert(name.to_owned(), cluster::startup_taints(object).map_err(explain)?);
            world.pools.push(cluster::pool(object).map_err(explain)?);
        }
        let overlays = of_kind("NodeOverlay");
        if !overlays.is_empty() {
            overlays::apply(&overlays, &mut world)?;
        }
        // Overlays are settled for all pools; after that only those count that may open machines.
        for object in of_kind("NodePool") {
            if cluster::is_closed(object)? {
                world.pools.retain(|pool| pool.name != name_of(object));
            }
        }
        let csi: BTreeMap<String, &Value> = of_kind("CSINode")
            .into_iter()
            .filter_map(|object| Some((text(object, &["metadata", "name"])?.to_owned(), object)))
            .collect();
        for object in of_kind("Node") {
            let node = cluster::node(object, &startup, &csi, &world.types);
            world.nodes.push(node.map_err(|why| format!("node `{}`: {why}", name_of(object)))?);
        }

        let mut around = Surroundings {
            storage: Storage {
                claims: by_name(&of_kind("PersistentVolumeClaim"), true),
                volumes: by_name(&of_kind("PersistentVolume"), false),
                classes: by_name(&of_kind("StorageClass"), false),
            },
            priorities: BTreeMap::new(),
            default_priority: 0,
            well_known: world.well_known.clone(),
        };
        for object in of_kind("PriorityClass") {
            let value = whole32(object, &["value"])
                .map_err(|why| format!("PriorityClass `{}`: {why}", name_of(object)))?
                .unwrap_or(0);
            around.priorities.insert(name_of(object).to_owned(), value);
            if at(object, &["globalDefault"]).and_then(Value::as_bool) == Some(true) {
                around.default_priority = value;
            }
        }

        let mut pods: Vec<Value> = of_kind("Pod").into_iter().cloned().collect();
        for (kind, object) in &objects {
            let expanded =
                workloads::expand(object).map_err(|why| format!("{kind} `{}`: {why}", name_of(object)))?;
            pods.extend(expanded.pods);
            for (name, claim) in expanded.claims {
                // A claim that already exists keeps its volume.
                around.storage.claims.entry(name).or_insert(claim);
            }
        }
        let defaults = scheduler_config.map(|config| Defaults::new(config, &objects)).transpose()?;
        let (buffers, virtual_pods) = buffers::read(&objects, &around)?;
        world.buffers = buffers;
        for object in pods.iter().filter(|object| pod::waits_or_runs(object)) {
            let mut pod = pod::pod(object, &around)?;
            if let Some(defaults) = &defaults {
                defaults.apply(&mut pod, object)?;
            }
            world.pods.push(pod);
        }
        world.pods.extend(virtual_pods);
        for object in of_kind("DaemonSet") {
            let namespace = text(object, &["metadata", "namespace"]).unwrap_or("default");
            let template = at(object, &["spec", "template"]).ok_or("the pod template is missing".to_owned());
            let made =
                template.and_then(|template| workloads::from_template(template, namespace, name_of(object)));
            let made = made.map_err(|why| format!("DaemonSet `{}`: {why}", name_of(object)))?;
            let mut daemon = pod::pod(&made, &around)?;
            daemon.is_daemon = true;
            world.daemons.push(daemon);
        }

        for object in of_kind("Namespace") {
            let own = labels(object, &["metadata", "labels"])
                .map_err(|why| format!("Namespace `{}`: {why}", name_of(object)))?;
            world.namespaces.insert(name_of(object).to_owned(), own);
        }
        for pod in &world.pods {
            world.namespaces.entry(pod.namespace.clone()).or_insert_with(Labels::new);
        }
        for (name, labels) in &mut world.namespaces {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name.clone());
        }
        Ok(world)
    }
}

/// Objects with their kind, lists opened up.
fn flatten(manifest: &Value, kind: Option<&str>, into: &mut Vec<(String, Value)>) -> Result<(), String> {
    if manifest.is_null() {
        return Ok(());
    }
    let kind = text(manifest, &["kind"]).or(kind).ok_or("an object has no `kind`")?;
    match kind.strip_suffix("List") {
        Some(inner) if manifest.get("items").is_some() => {
            let inner = Some(inner).filter(|inner| !inner.is_empty());
            for item in list(manifest, &["items"])? {
                flatten(item, inner, into)?;
            }
        }
        _ => {
            let mut object = manifest.clone();
            if let Some(map) = object.as_object_mut() {
                map.insert("kind".to_owned(), kind.into());
            }
            into.push((kind.to_owned(), object));
        }
    }
    Ok(())
}

fn name_of(object: &Value) -> &str {
    text(object, &["metadata", "name"]).unwrap_or_default()
}

fn by_name(objects: &[&Value], namespaced: bool) -> BTreeMap<String, Value> {
    objects
        .iter()
        .map(|object| {
            let namespace = text(object, &["metadata", "namespace"]).unwrap_or("default");
            let name = name_of(object);
            let name = if namespaced { format!("{namespace}/{name}") } else { name.to_owned() };
            (name, (*object).clone())
        })
        .collect()
}

fn well_known(world: &World) -> std::collections::BTreeSet<String> {
    let offered = world
        .types
        .iter()
        .flat_map(|instance_type| &instance_type.offerings)
        .flat_map(|offering| &offering.requirements)
        .map(|expr| expr.key.clone());
    let fixed = catalogue::CORE_KEYS.iter().chain(&catalogue::PROVIDER_KEYS).map(|key| (*key).to_owned());
    fixed.chain(offered).collect()
}
