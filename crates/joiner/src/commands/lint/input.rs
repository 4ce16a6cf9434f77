//! The manifests with the place of every object, so that a finding can name its line.
//!
//! What `plan` refuses to read is refused here with the same words. The one exception are the rules of the API on
//! Karpenter's own kinds: an object that breaks them is well read, so what it breaks is a finding, all of it at once.

use joiner_api::convert::{self, Note};
use joiner_api::validation::{self, Problem};
use joiner_manifest::Object;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::Value;

use crate::cli::{MAX_PODS, Validate};
use crate::commands::catalogues::Survey;
use crate::commands::plan::Intake;
use crate::load::objects::{line_of, read_value};
use crate::load::{Document, Documents, Reading, Source, read_object};
use crate::report::InputError;

/// One object.
#[derive(Debug)]
pub struct Loaded {
    /// Its document, by number.
    document: usize,
    /// Where it stands in the document, if that is a list: `items[3]`.
    within: String,
    /// Kind and name.
    pub name: String,
    /// The name is its own, not one to be completed.
    pub is_named: bool,
    /// `apiVersion` as written.
    pub api_version: String,
    /// `kind` as written.
    pub kind: String,
    /// What it is.
    pub object: Object,
    /// A PodDisruptionBudget, which placing does not ask about.
    pub pod_budget: Option<Box<PodDisruptionBudget>>,
    /// What the API would refuse.
    pub problems: Vec<Problem>,
    /// Names in it that are out of use.
    pub old_names: Vec<Note>,
}

/// All manifests.
#[derive(Debug, Default)]
pub struct Input {
    /// Names of the sources.
    pub files: Vec<String>,
    documents: Vec<Document>,
    /// The objects, in order.
    pub objects: Vec<Loaded>,
    /// What the user should know about the reading.
    pub notes: Vec<String>,
    /// What it tells about the machines its pools want.
    pub survey: Survey,
}

impl Input {
    /// Reads all sources.
    pub fn read(sources: &[Source], validate: Validate) -> Result<Self, InputError> {
        let mut input = Self { files: sources.iter().map(Source::name).collect(), ..Self::default() };
        let reading = Reading::new(validate);
        // Takes in what is sound, only to refuse what `plan` would.
        let options = joiner_state::Options { max_pods: MAX_PODS, ..joiner_state::Options::default() };
        let mut intake = Intake::with(options, Validate::Ignore, 1);
        Documents::new(sources).for_each(&mut |document| input.take(document, &reading, &mut intake))?;
        input.survey = intake.survey().clone();
        Ok(input)
    }

    fn take(
        &mut self,
        mut document: Document,
        reading: &Reading,
        intake: &mut Intake,
    ) -> Result<(), InputError> {
        let file = &self.files[document.source];
        let read = read_object(file, &document, reading)?;
        let value = read_value(file, &document)?;
        let mut found = Vec::new();
        let at = self.documents.len();
        each_leaf(&value, String::new(), &mut |within, leaf| {
            // The whole was read, so its parts can be.
            for (name, object) in
                joiner_manifest::read(leaf, false).map(|read| read.objects).unwrap_or_default()
            {
                found.push(loaded(at, within.clone(), name, leaf, object));
            }
        });
        // Remarks on fields that are not known; those on older versions are findings.
        self.notes.extend(read.notes.into_iter().filter(|note| note.contains("there is no such field")));
        if found.iter().all(|loaded| loaded.problems.is_empty()) {
            intake.read_documents(&self.files, std::slice::from_ref(&document))?;
        } else {
            let objects = found.iter().map(|loaded| (loaded.name.as_str(), &loaded.object));
            intake.look_at(file, &document, objects);
        }
        self.objects.extend(found);
        document.value = None;
        self.documents.push(document);
        Ok(())
    }

    /// File and line of a field.
    pub fn place(&self, object: usize, path: &str) -> (String, Option<usize>) {
        let Some((loaded, document)) =
            self.objects.get(object).and_then(|loaded| Some((loaded, self.documents.get(loaded.document)?)))
        else {
            return (String::new(), None);
        };
        let file = self.files.get(document.source).cloned().unwrap_or_default();
        let dot = if loaded.within.is_empty() || path.is_empty() { "" } else { "." };
        let line = line_of(&file, document, &format!("{}{dot}{path}", loaded.within));
        (file, line)
    }
}

/// Calls `each` with every object of a value: itself, or the items of a list.
fn each_leaf(value: &Value, within: String, each: &mut dyn FnMut(String, &Value)) {
    let listed = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    let (items, prefix) = match value {
        Value::Array(items) => (items, within),
        _ => match value.get("items").filter(|_| listed) {
            Some(Value::Array(items)) if within.is_empty() => (items, "items".to_owned()),
            Some(Value::Array(items)) => (items, format!("{within}.items")),
            _ => return each(within, value),
        },
    };
    for (at, item) in items.iter().enumerate() {
        each_leaf(item, format!("{prefix}[{at}]"), each);
    }
}

fn loaded(document: usize, within: String, name: String, leaf: &Value, object: Object) -> Loaded {
    let text = |field: &str| leaf.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let problems = match &object {
        Object::NodePool(pool) => validation::validate_nodepool(pool),
        Object::NodeOverlay(overlay) => validation::validate_nodeoverlay(overlay),
        Object::CapacityBuffer(buffer) => validation::validate_capacitybuffer(buffer),
        _ => Vec::new(),
    };
    let options = convert::Options { rename_on_workloads: true, ..convert::Options::default() };
    let old_names = if is_deprecated(&api_version) {
        Vec::new()
    } else {
        convert::to_v1(leaf.clone(), &options).map(|converted| converted.notes).unwrap_or_default()
    };
    let is_named = leaf.pointer("/metadata/name").is_some_and(Value::is_string);
    let is_pod_budget = kind == "PodDisruptionBudget" && api_version.starts_with("policy/");
    // Its fields are not checked: what can't be read as one is left alone, as `plan` does.
    let pod_budget = is_pod_budget.then(|| serde_json::from_value(leaf.clone()).ok()).flatten();
    Loaded { document, within, name, is_named, api_version, kind, object, pod_budget, problems, old_names }
}

/// Whether a version is out of use: `joiner convert` knows what it means today.
pub fn is_deprecated(api_version: &str) -> bool {
    matches!(
        api_version,
        "karpenter.sh/v1beta1"
            | "karpenter.sh/v1alpha5"
            | "karpenter.k8s.aws/v1beta1"
            | "karpenter.k8s.aws/v1alpha1"
    )
}
