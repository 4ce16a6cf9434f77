//! `convert`: older objects as `karpenter.sh/v1`.
//!
//! Nothing is printed before everything is converted: half a file behind `>` is worse than none. And some of it depends on other objects: kubelet
//! settings of a pool go to its node class, where that is in the input too.

use joiner_api::convert::{self, Converted, NodeClassKind, Options, settle_kubelets, to_v1};
use joiner_api::names::{AWS_GROUP, kinds};
use serde_json::Value;

use crate::cli::ConvertArgs;
use crate::load::objects::{name_of, read_value};
use crate::load::{Document, Documents, Source, locate, sources};
use crate::report::InputError;
use crate::show::documents;
use crate::{FINE, Streams};

/// Converts and prints.
pub fn run(arguments: &ConvertArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let options = Options {
        skip_aws_defaults: arguments.skip_aws_defaults,
        // In those versions AWS was where a reference without group and kind was usual.
        default_node_class: (!arguments.skip_aws_defaults)
            .then(|| NodeClassKind { group: AWS_GROUP.to_owned(), kind: kinds::EC2_NODE_CLASS.to_owned() }),
        rename_on_workloads: true,
        ..Options::default()
    };
    let sources = sources(&arguments.filename)?;
    // Per object of the input: what it is called, where its fields stand, and what became of it.
    let mut origins = Vec::new();
    let mut all: Vec<Converted> = Vec::new();
    Documents::new(&sources).for_each(&mut |document| {
        let file = sources.get(document.source).map(Source::name).unwrap_or_default();
        let value = read_value(&file, &document)?;
        for (prefix, item) in items(value) {
            let place = Place { file: &file, document: &document, prefix: &prefix };
            let object = name_of(&item);
            let version = item.get("apiVersion").cloned();
            let mut converted = to_v1(item, &options).map_err(|error| place.complaint(&object, error))?;
            let is_other = |of: &&mut Value| of.get("apiVersion") != version.as_ref();
            converted.objects.iter_mut().filter(is_other).for_each(forget_server);
            let lines = converted.notes.iter().map(|note| place.shown(&note.path)).collect();
            origins.push((object, lines));
            all.push(converted);
        }
        Ok(())
    })?;
    settle_kubelets(&mut all);
    let mut objects = Vec::new();
    for ((object, lines), converted) in origins.into_iter().zip(all) {
        let lines: Vec<String> = lines;
        for (line, note) in lines.iter().zip(&converted.notes) {
            writeln!(streams.err, "{line}: {object}: {note}")?;
        }
        objects.extend(converted.objects);
    }
    streams.out.write_all(documents(&objects, arguments.output)?.as_bytes())?;
    Ok(FINE)
}

/// Takes out what the server wrote about the old object: applied again, it would be refused or taken for the user's.
fn forget_server(object: &mut Value) {
    const RECORD: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(RECORD);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// The objects of a document, each with the way to it: those of a list, or itself.
fn items(mut value: Value) -> Vec<(String, Value)> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(of) = kind.strip_suffix("List") else { return vec![(String::new(), value)] };
    let Some(Value::Array(list)) = value.get_mut("items").map(Value::take) else {
        return vec![(String::new(), value)];
    };
    let complete = |mut item: Value| {
        // Items of a typed list may leave out what the list says already.
        if let Some(fields) = item.as_object_mut().filter(|_| !of.is_empty()) {
            fields.entry("apiVersion").or_insert_with(|| api_version.as_str().into());
            fields.entry("kind").or_insert_with(|| of.into());
        }
        item
    };
    list.into_iter().enumerate().map(|(at, item)| (format!("items[{at}]."), complete(item))).collect()
}

/// Where an object stands.
struct Place<'a> {
    file: &'a str,
    document: &'a Document,
    prefix: &'a str,
}

impl Place<'_> {
    fn line(&self, path: &str) -> Option<usize> {
        let text = self.document.text.as_deref()?;
        let within = locate::line_of(text, &format!("{}{path}", self.prefix))?;
        Some(self.document.line? + within.saturating_sub(1))
    }

    /// The file, with the number of the item where a line is unknown.
    fn file(&self) -> String {
        match self.document.text {
            Some(_) => self.file.to_owned(),
            None => format!("{} (item {})", self.file, self.document.item + 1),
        }
    }

    fn shown(&self, path: &str) -> String {
        self.line(path).map_or_else(|| self.file(), |line| format!("{}:{line}", self.file))
    }

    fn complaint(&self, object: &str, error: convert::Error) -> InputError {
        let (path, value, message, remedy) = match error {
            convert::Error::NotAnObject(field) => (
                field.to_owned(),
                None,
                "missing or not text, so this is no Kubernetes object".to_owned(),
                "every object names its `apiVersion` and `kind`".to_owned(),
            ),
            convert::Error::Malformed { path, value, expected, .. } => {
                (path, Some(value), format!("expected {expected}"), String::new())
            }
            convert::Error::Inconvertible { path, message, remedy, .. } => {
                (path, None, format!("cannot be converted: {message}"), remedy)
            }
        };
        InputError {
            file: self.file(),
            line: self.line(&path),
            object: Some(object.to_owned()),
            path: Some(path),
            value,
            message,
            remedy: Some(remedy),
        }
    }
}
