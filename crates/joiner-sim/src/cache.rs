//! What the cluster looks like: every watched object, in its latest state, with the indexes that controllers ask for.
//!
//! The loop feeds it the events of all kinds in the order of their versions and hands it to the controllers by reference. Everything in it
//! is ordered, so that walking through it gives the same sequence every time.
//!
//! Objects are parsed when somebody looks inside. Of those that have been looked at, the ones longest in the cache are forgotten again beyond a
//! number, so that a large cluster takes the room of its texts and not ten times as much.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::event::{Change, Event};
use crate::object::{Fields, Key, Kind, Object};

/// The watched objects.
#[derive(Debug)]
pub struct Cache {
    objects: BTreeMap<Key, Object>,
    /// Keys by the uid of the managing owner.
    managed: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// Pods by the name of their node.
    pods_on: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// Keys of objects in namespaces that nobody manages, for the kinds that can be adopted.
    orphans: BTreeSet<Key>,
    /// Objects that were touched last, the latest at the end.
    warm: VecDeque<Key>,
    /// How far the hand has come that goes round over all objects.
    swept: Option<Key>,
    /// So many objects may stay parsed.
    room: usize,
    revision: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            managed: BTreeMap::new(),
            pods_on: BTreeMap::new(),
            orphans: BTreeSet::new(),
            warm: VecDeque::new(),
            swept: None,
            room: WARM,
            revision: 0,
        }
    }
}

/// So many objects may stay parsed, unless told otherwise.
const WARM: usize = 20_000;

/// With every object that is touched in a large cluster, so many others are looked at whether they are parsed.
const SWEPT: usize = 4;

/// Kinds whose objects a workload may adopt.
const ADOPTED: [Kind; 3] = [Kind::Pod, Kind::ReplicaSet, Kind::ControllerRevision];

impl Cache {
    /// The server's version of the latest event.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key)
    }

    /// One object by kind, namespace and name.
    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.objects.get(&Key::new(kind, namespace, name))
    }

    /// All objects of a kind, ordered by namespace and name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        self.objects.range(Key::new(kind, "", "")..).take_while(move |(key, _)| key.kind == kind)
    }

    /// The objects of a kind in a namespace, ordered by name.
    pub fn within(&self, kind: Kind, namespace: &str) -> impl Iterator<Item = (&Key, &Object)> {
        self.objects
            .range(Key::new(kind, namespace, "")..)
            .take_while(move |(key, _)| key.kind == kind && &*key.namespace == namespace)
    }

    /// The objects of a kind whose managing owner has this uid, ordered by name.
    pub fn managed_by<'a>(
        &'a self,
        uid: &str,
        kind: Kind,
    ) -> impl Iterator<Item = (&'a Key, &'a Object)> + use<'a> {
        let keys = self.managed.get(uid).into_iter().flatten().filter(move |key| key.kind == kind);
        keys.filter_map(|key| Some((key, self.objects.get(key)?)))
    }

    /// The pods bound to a node, ordered by namespace and name.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a Key, &'a Object)> + use<'a> {
        let keys = self.pods_on.get(node).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.objects.get(key)?)))
    }

    /// Whether there are objects of a kind in a namespace that nobody manages.
    pub fn has_orphans(&self, kind: Kind, namespace: &str) -> bool {
        self.orphans(kind, namespace).next().is_some()
    }

    /// The objects of a kind in a namespace that nobody manages. Kept for pods, ReplicaSets and ControllerRevisions.
    pub fn orphans(&self, kind: Kind, namespace: &str) -> impl Iterator<Item = (&Key, &Object)> {
        self.orphans
            .range(Key::new(kind, namespace, "")..)
            .take_while(move |key| key.kind == kind && &*key.namespace == namespace)
            .filter_map(|key| Some((key, self.objects.get(key)?)))
    }

    /// Takes in one change; nothing if the cache knows it, or a later one, already.
    pub fn take(&mut self, change: Change, key: Key, object: Object, revision: u64) -> Option<Event> {
        self.revision = self.revision.max(revision);
        let previous = match change {
            Change::Deleted => self.objects.remove(&key),
            Change::Added | Change::Modified => self.objects.insert(key.clone(), object.clone()),
        };
        if let Some(previous) = &previous {
            self.forget(&key, previous);
        } else if change == Change::Deleted {
            return None;
        }
        if change != Change::Deleted {
            self.index(&key, &object);
            self.touched(&key);
        }
        let change = match (change, &previous) {
            (Change::Deleted, _) => Change::Deleted,
            (_, None) => Change::Added,
            (_, Some(_)) => Change::Modified,
        };
        Some(Event { change, key, object, previous, revision })
    }

    /// Notes that somebody works on an object. In a large cluster, what was touched long ago makes room.
    pub(crate) fn touched(&mut self, key: &Key) {
        if self.objects.len() <= self.room {
            self.warm.clear();
            return;
        }
        self.warm.push_back(key.clone());
        if self.warm.len() > self.room
            && let Some(key) = self.warm.pop_front()
            && let Some(object) = self.objects.get_mut(&key)
            && object.is_warm()
        {
            *object = object.cold();
        }
        // Whoever works on an object looks at others too.
        for _ in 0..SWEPT {
            let start = self.swept.take().map_or(Bound::Unbounded, Bound::Excluded);
            let Some((key, object)) = self.objects.range_mut((start, Bound::Unbounded)).next() else {
                return;
            };
            if object.is_warm() && key.kind == Kind::Pod {
                *object = object.cold();
            }
            self.swept = Some(key.clone());
        }
    }

    fn index(&mut self, key: &Key, object: &Object) {
        if let Some(manager) = object.manager() {
            self.managed.entry(manager.uid.into()).or_default().insert(key.clone());
        } else if ADOPTED.contains(&key.kind) {
            self.orphans.insert(key.clone());
        }
        if key.kind == Kind::Pod {
            let node = object.text(&["spec", "nodeName"]);
            if !node.is_empty() {
                self.pods_on.entry(node.into()).or_default().insert(key.clone());
            }
        }
    }

    fn forget(&mut self, key: &Key, object: &Object) {
        if let Some(manager) = object.manager() {
            drop_from(&mut self.managed, manager.uid, key);
        } else {
            self.orphans.remove(key);
        }
        if key.kind == Kind::Pod {
            drop_from(&mut self.pods_on, object.text(&["spec", "nodeName"]), key);
        }
    }
}

fn drop_from(index: &mut BTreeMap<Arc<str>, BTreeSet<Key>>, under: &str, key: &Key) {
    if let Some(keys) = index.get_mut(under) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(under);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, node: &str, owner: &str) -> (Key, Object) {
        let object = json!({
            "metadata": {"name": name, "namespace": "a", "ownerReferences": [{"uid": owner, "controller": true}]},
            "spec": {"nodeName": node},
        });
        (Key::of(Kind::Pod, &object), Object::from(object))
    }

    #[test]
    fn indexes_follow_their_objects() {
        let mut cache = Cache::default();
        let (key, first) = pod("p", "n1", "o1");
        let (_, second) = pod("p", "n2", "o1");
        assert_eq!(cache.take(Change::Added, key.clone(), first, 1).unwrap().change, Change::Added);
        assert_eq!(cache.pods_on("n1").count(), 1);
        let event = cache.take(Change::Modified, key.clone(), second.clone(), 2).unwrap();
        assert!(event.previous.is_some());
        assert_eq!((cache.pods_on("n1").count(), cache.pods_on("n2").count()), (0, 1));
        assert_eq!(cache.managed_by("o1", Kind::Pod).count(), 1);
        assert_eq!(cache.managed_by("o1", Kind::ReplicaSet).count(), 0);
        cache.take(Change::Deleted, key.clone(), second.clone(), 3).unwrap();
        assert!(cache.take(Change::Deleted, key, second, 4).is_none());
        assert_eq!((cache.pods_on("n2").count(), cache.managed_by("o1", Kind::Pod).count()), (0, 0));
        assert!(cache.managed.is_empty() && cache.pods_on.is_empty());
    }

    #[test]
    fn what_was_touched_long_ago_is_not_kept_parsed() {
        let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let server = joiner_apiserver::service::ApiServer::new(clock, &Default::default());
        let client = server.direct("test");
        let maps = client.resource("", "configmaps").unwrap();
        let mut cache = Cache { room: 3, ..Cache::default() };
        let mut keys = Vec::new();
        for number in 0..10 {
            let map =
                json!({"metadata": {"name": format!("m{number}")}, "data": {"number": number.to_string()}});
            let stored = client.create(&maps, "default", map).unwrap();
            let text = stored.object().clone();
            let object = Object::parsed(text, stored.into_slim().unwrap());
            let key = Key::of(Kind::ConfigMap, &object);
            cache.take(Change::Added, key.clone(), object, number);
            keys.push(key);
        }
        let warm = |cache: &Cache| keys.iter().filter(|key| cache.get(key).unwrap().is_warm()).count();
        assert_eq!(warm(&cache), 6, "the first three came to an empty cache, the last three are fresh");
        for (number, key) in keys.iter().enumerate() {
            let object = cache.get(key).unwrap();
            assert_eq!(object.text(&["data", "number"]), number.to_string());
            assert!(object.at(&["metadata", "managedFields"]).is_null());
        }
        assert_eq!(warm(&cache), 10, "looked at again");
        keys.iter().for_each(|key| cache.touched(key));
        assert_eq!(warm(&cache), 0, "nobody has looked since");
    }

    #[test]
    fn namespaces_do_not_run_into_each_other() {
        let mut cache = Cache::default();
        for namespace in ["a", "a-b", "ab"] {
            let object = json!({"metadata": {"name": "x", "namespace": namespace}});
            cache.take(Change::Added, Key::of(Kind::Pod, &object), Object::from(object), 1);
        }
        assert_eq!(cache.within(Kind::Pod, "a").count(), 1);
        assert_eq!(cache.all(Kind::Pod).count(), 3);
        assert_eq!(cache.all(Kind::Node).count(), 0);
    }
}
