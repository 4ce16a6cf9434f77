//! Log lines: one JSON object each, with the keys that Karpenter's lines have, or plain text for people.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context as Where, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::options::{LogLevel, Options};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Time, level, message, then the rest.
    Console,
}

/// Begins to log. Only the first call in a process counts.
pub fn start(options: &Options, format: Option<LogFormat>) -> anyhow::Result<()> {
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let to_stdout = options.log_output_paths.iter().all(|path| path == "stdout");
    let usual = if terminal && to_stdout { LogFormat::Console } else { LogFormat::Json };
    let outputs: Result<Vec<Output>, _> =
        options.log_output_paths.iter().map(|path| Output::open(path)).collect();
    let lines = Lines { format: format.unwrap_or(usual), outputs: Mutex::new(outputs?) };
    let level = match options.log_level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        // Karpenter has no warnings; what joiner warns of is worth a line there.
        LogLevel::Error => LevelFilter::WARN,
    };
    // What libraries say is of interest when it is wrong.
    let filter = Targets::new().with_target("joiner", level).with_default(LevelFilter::ERROR);
    let started = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    if started.is_err() {
        tracing::debug!("lines are written already");
    }
    Ok(())
}

/// Where lines go.
struct Output(Box<dyn Write + Send>);

impl Output {
    fn open(path: &str) -> anyhow::Result<Self> {
        let failed = || format!("--log-output-paths: cannot write to `{path}`");
        Ok(Self(match path {
            "stdout" => standard(std::io::stdout()).with_context(failed)?,
            "stderr" => standard(std::io::stderr()).with_context(failed)?,
            path => Box::new(OpenOptions::new().create(true).append(true).open(path).with_context(failed)?),
        }))
    }

    fn write(&mut self, line: &str) {
        // Nobody can be told that a line cannot be written.
        let _ = self.0.write_all(line.as_bytes());
    }
}

/// A standard stream by a descriptor of our own: the command holds the lock of the stream itself for as long as it runs, and other threads would wait for it
/// for ever.
#[cfg(unix)]
fn standard(stream: impl std::os::fd::AsFd) -> std::io::Result<Box<dyn Write + Send>> {
    Ok(Box::new(std::fs::File::from(stream.as_fd().try_clone_to_owned()?)))
}

/// A standard stream by a handle of our own, for the same reason.
#[cfg(windows)]
fn standard(stream: impl std::os::windows::io::AsHandle) -> std::io::Result<Box<dyn Write + Send>> {
    Ok(Box::new(std::fs::File::from(stream.as_handle().try_clone_to_owned()?)))
}

struct Lines {
    format: LogFormat,
    outputs: Mutex<Vec<Output>>,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Where<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = line(self.format, Timestamp::now(), event.metadata(), fields);
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.iter_mut().for_each(|output| output.write(&line));
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: BTreeMap<&'static str, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.rest.insert(field.name(), value);
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            _ => self.put(field, value.into()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.put(field, text.into()),
        }
    }
}

fn line(format: LogFormat, now: Timestamp, about: &tracing::Metadata<'_>, fields: Fields) -> String {
    let time = now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    let level = about.level().as_str();
    match format {
        LogFormat::Json => {
            let mut object = Map::new();
            object.insert("level".to_owned(), level.into());
            object.insert("time".to_owned(), time.into());
            object.insert("logger".to_owned(), "controller".into());
            if *about.level() >= Level::DEBUG {
                object.insert("caller".to_owned(), about.target().into());
            }
            object.insert("message".to_owned(), fields.message.into());
            for (key, value) in fields.rest {
                object.entry(key).or_insert(value);
            }
            format!("{}\n", Value::Object(object))
        }
        LogFormat::Console => {
            let mut text = format!("{time} {level:5} {}", fields.message);
            for (key, value) in &fields.rest {
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                // A line is one line, whatever somebody put into an object.
                let shown: String =
                    shown.chars().flat_map(|of| if of.is_control() { vec![' '] } else { vec![of] }).collect();
                let _ = write!(text, "  {key}={shown}");
            }
            text.push('\n');
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone)]
    struct Kept(LogFormat, Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Where<'_, S>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let now = Timestamp::from_millisecond(1_800_000_000_123).unwrap();
            self.1.lock().unwrap().push(line(self.0, now, event.metadata(), fields));
        }
    }

    fn said(format: LogFormat, say: impl FnOnce()) -> String {
        let kept = Kept(format, Arc::default());
        let subscriber = tracing_subscriber::registry().with(kept.clone());
        tracing::subscriber::with_default(subscriber, say);
        kept.1.lock().unwrap().concat()
    }

    #[test]
    fn lines_are_objects_with_known_keys() {
        let text = said(LogFormat::Json, || tracing::info!(kind = "provisioned", machines = 3, "decided"));
        let value: Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "level": "INFO", "time": "2027-01-15T08:00:00.123Z", "logger": "controller", "message": "decided",
            "kind": "provisioned", "machines": 3,
        });
        assert_eq!(value, expected);
        let text = said(LogFormat::Json, || tracing::debug!("looked"));
        assert!(text.contains("\"caller\":\"joiner::"), "{text}");
    }

    #[test]
    fn people_get_text() {
        let text = said(LogFormat::Console, || tracing::warn!(error = "no\nway", "the lease cannot be read"));
        assert_eq!(text, "2027-01-15T08:00:00.123Z WARN  the lease cannot be read  error=no way\n");
    }
}
