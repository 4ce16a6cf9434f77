//! Events for people, on our own clock: one per object, reason and text in a while, counted up when it comes again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
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
/// Events of a kind of objects and a reason of which only some are written: so many at once, and after that so many in a second. Pods come by the thousand, and a
/// line about each would cost the API server more than what it tells: the record of decisions has all of them. A nomination is told at Karpenter's rate. A refusal
/// that is left out comes again with the next decision, and is told then.
const LIMITED: [(&str, &[&str], Rate); 3] = [
    ("Pod", &["Nominated"], Rate { at_once: 10, per_second: 5 }),
    ("Pod", &["FailedScheduling"], Rate { at_once: 100, per_second: 10 }),
    // The steps of each machine's way; its conditions and the metrics have them too.
    ("NodeClaim", &["Launched", "Registered", "Initialized", "Ready"], Rate { at_once: 100, per_second: 10 }),
];
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

/// So many at once, and so many in each second.
#[derive(Debug, Clone, Copy)]
struct Rate {
    at_once: i32,
    per_second: i32,
}

impl Rate {
    /// Whether one more may go; `full` is when the rate is used up by nothing any more.
    fn admits(self, full: &mut Timestamp, now: Timestamp) -> bool {
        let interval = SignedDuration::from_secs(1) / self.per_second;
        let most = interval * self.at_once;
        let used = full.duration_since(now);
        // In the past nothing is used; a clock that was set back begins anew.
        let used = if used.is_negative() || used > most { SignedDuration::ZERO } else { used };
        if used + interval > most {
            return false;
        }
        *full = now.checked_add(used + interval).unwrap_or(now);
        true
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
    /// When each of the limited kinds may be written freely again.
    full: [Timestamp; LIMITED.len()],
}

impl Recorder {
    /// The command that writes a note, unless it was written a short while ago, or too many like it were. The text is the name of the event.
    pub fn record(&mut self, note: &Note, now: Timestamp) -> Option<(String, Command)> {
        let name = note.about.name.clone().unwrap_or_default();
        let uid = note.about.uid.clone().unwrap_or_default();
        let kind = note.about.kind.clone().unwrap_or_default();
        let text = if note.whatever_the_text { "" } else { note.message.as_str() };
        let namespace = note.about.namespace.as_deref().unwrap_or_default();
        let identity = format!("{kind}/{namespace}/{name}/{uid}/{}/{text}", note.reason);
        if let Some(known) = self.known.get_mut(&identity) {
            let quiet = SignedDuration::try_from(note.quiet).unwrap_or(SignedDuration::MAX);
            let since = now.duration_since(known.last);
            // Time that ran backwards was set, and nobody knows how long ago it was.
            if !since.is_negative() && since < quiet {
                return None;
            }
            if !admits(&mut self.full, &kind, &note.reason, now) {
                return None;
            }
            known.last = now;
            known.count += 1;
            let message = cut(&note.message, LONGEST);
            let patch = json!({"count": known.count, "lastTimestamp": Time(now), "message": message});
            let (namespace, name) = (known.namespace.clone(), known.name.clone());
            return Some((name.clone(), Command::PatchEvent { namespace, name, patch }));
        }
        if !admits(&mut self.full, &kind, &note.reason, now) {
            return None;
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

/// Whether an event of this kind and reason may be written now.
fn admits(full: &mut [Timestamp; LIMITED.len()], kind: &str, reason: &str, now: Timestamp) -> bool {
    let found = LIMITED.iter().zip(full).find(|((of, why, _), _)| *of == kind && why.contains(&reason));
    found.is_none_or(|((.., rate), full)| rate.admits(full, now))
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
    fn a_thousand_pods_are_not_a_thousand_events() {
        let mut recorder = Recorder::default();
        let about = |number: usize, reason: &'static str| {
            let mut pod = Pod::default();
            pod.metadata.name = Some(format!("pod-{number}"));
            Note::new(&pod, Level::Normal, reason, "a sentence")
        };
        let mut written = |pods: std::ops::Range<usize>, reason, time| {
            pods.filter(|number| recorder.record(&about(*number, reason), time).is_some()).count()
        };
        assert_eq!(written(0..1000, "Nominated", at(100)), 10);
        assert_eq!(written(0..1000, "Nominated", at(101)), 5);
        assert_eq!(written(0..1000, "FailedScheduling", at(101)), 100, "each reason has its own rate");
        assert_eq!(written(100..1000, "FailedScheduling", at(104)), 30, "and goes on with those left out");
        assert_eq!(written(0..1000, "Evicted", at(101)), 1000, "that happened, and is told");
        assert_eq!(written(0..1000, "Nominated", at(9)), 10, "the clock was set back");
    }

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("abc", 99), "abc");
    }
}
