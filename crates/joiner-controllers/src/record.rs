//! Events for people, on our own clock: one per object, reason and text in a while, counted up when it comes again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_record::{Subject, Verdict, words};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use crate::command::Command;
use crate::decision::Referable;

/// Who the events come from. Dashboards filter by this name.
pub const COMPONENT: &str = "karpenter";
/// How long an event is not repeated, unless it asks for another time.
const USUAL: Duration = Duration::from_secs(120);
/// Events remembered; when there are more, the oldest are forgotten.
const REMEMBERED: usize = 20_000;
/// Longer messages are cut; the server allows 1024 bytes.
const LONGEST: usize = 1000;

/// Normal or Warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Something to tell about an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The object.
    pub about: ObjectReference,
    /// Level.
    pub level: Level,
    /// One word.
    pub reason: Cow<'static, str>,
    /// A sentence.
    pub message: String,
    /// How long it is not repeated.
    pub quiet: Duration,
    /// It is not repeated with another text either.
    pub whatever_the_text: bool,
}

impl Note {
    /// A note about an object.
    pub fn new<K: Referable>(
        object: &K,
        level: Level,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        let (about, reason, message) = (object.reference(), reason.into(), message.into());
        Self { about, level, reason, message, quiet: USUAL, whatever_the_text: false }
    }

    /// A decision as told about one of the objects it is about; `place` is where a pod is expected. Nothing for decisions that have no event.
    pub fn of<K: Referable>(object: &K, verdict: &Verdict, place: Option<&Subject>) -> Option<Self> {
        let words = words::event(verdict, place)?;
        let level = if words.warning { Level::Warning } else { Level::Normal };
        Some(Self::new(object, level, words.reason, words.message))
    }

    /// The same, told once in a while whatever its text: numbers in it change all the time.
    pub fn once_in(self, quiet: Duration) -> Self {
        Self { quiet, whatever_the_text: true, ..self }
    }

    /// The same, repeated at other intervals.
    pub fn quiet_for(self, quiet: Duration) -> Self {
        Self { quiet, ..self }
    }
}

#[derive(Debug)]
struct Known {
    name: String,
    /// Of the object it is about.
    uid: String,
    namespace: String,
    last: Timestamp,
    count: i32,
}

/// Remembers what was told, and says what to write.
#[derive(Debug, Default)]
pub struct Recorder {
    known: BTreeMap<String, Known>,
}

impl Recorder {
    /// The command that writes a note, unless it was written a short while ago. The text is the name of the event.
    pub fn record(&mut self, note: &Note, now: Timestamp) -> Option<(String, Command)> {
        let name = note.about.name.clone().unwrap_or_default();
        let uid = note.about.uid.clone().unwrap_or_default();
        let kind = note.about.kind.clone().unwrap_or_default();
        let text = if note.whatever_the_text { "" } else { note.message.as_str() };
        let namespace = note.about.namespace.as_deref().unwrap_or_default();
        let identity = format!("{kind}/{namespace}/{name}/{uid}/{}/{text}", note.reason);
        if let Some(known) = self.known.get_mut(&identity) {
            let quiet = jiff::SignedDuration::try_from(note.quiet).unwrap_or(jiff::SignedDuration::MAX);
            let since = now.duration_since(known.last);
            // Time that ran backwards was set, and nobody knows how long ago it was.
            if !since.is_negative() && since < quiet {
                return None;
            }
            known.last = now;
            known.count += 1;
            let message = cut(&note.message, LONGEST);
            let patch = json!({"count": known.count, "lastTimestamp": Time(now), "message": message});
            let (namespace, name) = (known.namespace.clone(), known.name.clone());
            return Some((name.clone(), Command::PatchEvent { namespace, name, patch }));
        }
        self.forget();
        let namespace = note.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let hash = xxh3_64(format!("{identity}/{now}").as_bytes());
        let event_name = format!("{}.{hash:016x}", cut(&name, 200));
        let event = Event {
            metadata: ObjectMeta {
                name: Some(event_name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: note.about.clone(),
            reason: Some(note.reason.clone().into_owned()),
            message: Some(cut(&note.message, LONGEST).to_owned()),
            type_: Some(format!("{:?}", note.level)),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            reporting_component: Some(COMPONENT.to_owned()),
            ..Event::default()
        };
        self.known.insert(identity, Known { name: event_name.clone(), uid, namespace, last: now, count: 1 });
        Some((event_name, Command::CreateEvent(Box::new(event))))
    }

    /// An event was not written, or is there no more: the next one is a new one. The uid of the object it was about.
    pub fn lost(&mut self, event: &str) -> Option<String> {
        let (identity, known) = self.known.iter().find(|(_, known)| known.name == event)?;
        let (identity, uid) = (identity.clone(), known.uid.clone());
        self.known.remove(&identity);
        Some(uid)
    }

    fn forget(&mut self) {
        if self.known.len() < REMEMBERED {
            return;
        }
        let mut times: Vec<Timestamp> = self.known.values().map(|known| known.last).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.known.retain(|_, known| known.last > median);
    }
}

/// The longest beginning of a text that has at most so many bytes.
pub fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn note(message: &str) -> Note {
        let mut pod = Pod::default();
        pod.metadata.name = Some("a".to_owned());
        pod.metadata.namespace = Some("shop".to_owned());
        Note::new(&pod, Level::Warning, "FailedScheduling", message)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_note_is_written_once_then_counted() {
        let mut recorder = Recorder::default();
        let (name, first) = recorder.record(&note("no"), at(0)).unwrap();
        let Command::CreateEvent(event) = first else { panic!("{first:?}") };
        assert_eq!(event.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(event.involved_object.kind.as_deref(), Some("Pod"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert!(recorder.record(&note("no"), at(119)).is_none());
        let (again, second) = recorder.record(&note("no"), at(120)).unwrap();
        let Command::PatchEvent { patch, .. } = second else { panic!("{second:?}") };
        assert_eq!((again, &patch["count"]), (name.clone(), &json!(2)));
        assert!(recorder.record(&note("other"), at(121)).is_some());
        recorder.lost(&name);
        let (_, anew) = recorder.record(&note("no"), at(122)).unwrap();
        assert!(matches!(anew, Command::CreateEvent(_)), "what is not there cannot be counted");
        let vague = |message: &str| note(message).once_in(USUAL);
        assert!(recorder.record(&vague("1 node"), at(200)).is_some());
        assert!(recorder.record(&vague("2 nodes"), at(201)).is_none());
    }

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("abc", 99), "abc");
    }
}
