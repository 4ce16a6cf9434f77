//! Entries for `kubectl get events`: what is said again is counted, and what is old is forgotten.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::clock::format_time;
use serde_json::json;

use crate::connection::event_object;
use crate::object::{Key, Kind};
use crate::write::{Note, PatchKind, Write};

/// How long an entry is kept, as on a real server.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// What makes two entries the same one.
type Identity = (String, &'static str, &'static str, String);

/// The entries that are still kept.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    known: BTreeMap<Identity, Known>,
    /// By age; an entry that was said again since is younger than its place.
    ages: VecDeque<(Timestamp, Identity)>,
    counter: u64,
}

#[derive(Debug)]
struct Known {
    key: Key,
    count: u64,
    last: Timestamp,
}

impl Recorder {
    /// The write that keeps a note.
    pub fn record(&mut self, note: &Note, now: Timestamp) -> Write {
        let identity = (note.uid.clone(), note.component, note.reason, note.message.clone());
        if let Some(known) = self.known.get_mut(&identity) {
            known.count += 1;
            known.last = now;
            let patch = json!({"count": known.count, "lastTimestamp": format_time(now)});
            return Write::Patch { key: known.key.clone(), subresource: None, how: PatchKind::Merge, patch };
        }
        self.counter += 1;
        let name = format!("{}.{:016x}", note.about.name, self.counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let namespace = Write::namespace_of_note(note).to_owned();
        let key = Key::new(Kind::Event, &namespace, &name);
        self.known.insert(identity.clone(), Known { key, count: 1, last: now });
        self.ages.push_back((now, identity));
        Write::Create { kind: Kind::Event, namespace, object: event_object(note, &name, &format_time(now)) }
    }

    /// When the oldest entry is to be looked at.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.ages.front().map(|(time, _)| time.saturating_add(KEPT).unwrap_or(Timestamp::MAX))
    }

    /// Removes entries that nobody repeated for an hour.
    pub fn forget(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        while let Some((time, _)) = self.ages.front()
            && now.duration_since(*time) >= KEPT
        {
            let Some((_, identity)) = self.ages.pop_front() else { break };
            match self.known.get(&identity) {
                Some(known) if now.duration_since(known.last) < KEPT => {
                    // Its new place is among entries of about that age; a little late does no harm.
                    let last = known.last;
                    let place = self.ages.partition_point(|(time, _)| *time <= last);
                    self.ages.insert(place, (last, identity));
                }
                Some(_) => {
                    if let Some(known) = self.known.remove(&identity) {
                        writes.push(Write::Delete {
                            key: known.key,
                            uid: None,
                            grace: None,
                            propagation: None,
                        });
                    }
                }
                None => {}
            }
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> Note {
        Note {
            about: Key::new(Kind::Pod, "a", "p"),
            uid: "1".to_owned(),
            warning: false,
            reason: "Said",
            message: message.to_owned(),
            component: "test",
        }
    }

    #[test]
    fn repeated_entries_are_counted_and_old_ones_go() {
        let mut recorder = Recorder::default();
        let start = Timestamp::UNIX_EPOCH;
        assert!(matches!(recorder.record(&note("x"), start), Write::Create { .. }));
        let later = start + SignedDuration::from_mins(30);
        let Write::Patch { patch, .. } = recorder.record(&note("x"), later) else { panic!("not counted") };
        assert_eq!(patch["count"], 2);
        recorder.record(&note("y"), start + SignedDuration::from_mins(10));
        assert!(recorder.forget(start + SignedDuration::from_mins(60)).is_empty());
        assert_eq!(recorder.forget(start + SignedDuration::from_mins(75)).len(), 1);
        assert_eq!(recorder.wakes_at(), Some(later + KEPT));
        assert_eq!(recorder.forget(later + KEPT).len(), 1);
        assert_eq!(recorder.wakes_at(), None);
    }
}
