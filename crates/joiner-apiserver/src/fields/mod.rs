//! Does a body have the fields of its kind? And what does it look like after Kubernetes has read and written it?
//!
//! [`check`] reports fields nobody knows, fields given twice and values of the wrong type, in the words of Kubernetes. Whether the
//! first two refuse the request or only warn is the caller's business (`fieldValidation`); a wrong type always refuses. [`normalize`]
//! does what a round trip through Kubernetes' own types does: unknown fields and nulls go, zero values go or appear, quantities
//! take their canonical form.

mod document;
mod normalize;
mod quantity;
mod scalars;
mod yaml_keys;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

pub use document::{Document, parse_value};
use document::{Leaf, Tree};
pub(crate) use document::{MOST_NESTED, nesting};
pub use normalize::normalize;
pub(crate) use normalize::zero as zero_value;
pub use quantity::canonical_quantity;
pub(crate) use quantity::{quantity_from_nanos, quantity_nanos};
pub(crate) use yaml_keys::{forgiving, repeated_keys};

use crate::schema::{Shape, TypeRef};

/// Kubernetes stops counting here.
const MAX_STRICT_PROBLEMS: usize = 100;

/// One thing wrong with a body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldProblem {
    /// No such field; the path.
    Unknown(String),
    /// The field stands there twice; the path. The last one counts.
    Duplicate(String),
    /// Keys of a YAML document stand there twice; the message. The last ones count.
    Repeated(String),
    /// The value cannot be read; the message.
    Type(String),
}

impl FieldProblem {
    /// Whether strict field validation is what refuses it; a wrong type is refused always.
    pub fn is_strict(&self) -> bool {
        !matches!(self, FieldProblem::Type(_))
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldProblem::Unknown(path) => write!(f, "unknown field \"{path}\""),
            FieldProblem::Duplicate(path) => write!(f, "duplicate field \"{path}\""),
            FieldProblem::Repeated(message) | FieldProblem::Type(message) => f.write_str(message),
        }
    }
}

/// What to check: text as it came (duplicates can be seen), or a value.
#[derive(Debug, Clone)]
pub enum Body<'a> {
    /// JSON text.
    Text(&'a str),
    /// A parsed document with its duplicates.
    Document(&'a Document),
    /// A value.
    Value(&'a Value),
}

impl<'a> From<&'a str> for Body<'a> {
    fn from(text: &'a str) -> Self {
        Body::Text(text)
    }
}

impl<'a> From<&'a Document> for Body<'a> {
    fn from(document: &'a Document) -> Self {
        Body::Document(document)
    }
}

impl<'a> From<&'a Value> for Body<'a> {
    fn from(value: &'a Value) -> Self {
        Body::Value(value)
    }
}

/// Problems of a body, in the order in which a reader meets them. Text that is no JSON has no fields and so no problems here.
pub fn check<'b>(ty: TypeRef<'_>, body: impl Into<Body<'b>>) -> Vec<FieldProblem> {
    match body.into() {
        Body::Document(document) => check_tree(ty, document),
        Body::Text(text) => {
            Document::parse(text).map(|document| check_tree(ty, &document)).unwrap_or_default()
        }
        Body::Value(value) => check_tree(ty, value),
    }
}

fn check_tree<T: Tree>(ty: TypeRef<'_>, tree: &T) -> Vec<FieldProblem> {
    let mut checker = Checker::default();
    checker.visit(ty, tree, &Place { parent: None, step: Step::Root, owner: None });
    checker.problems
}

/// The message for a body that strict validation refuses; none if there is nothing strict to refuse.
pub fn strict_error(problems: &[FieldProblem]) -> Option<String> {
    let strict: Vec<String> =
        problems.iter().filter(|problem| problem.is_strict()).map(ToString::to_string).collect();
    (!strict.is_empty()).then(|| format!("strict decoding error: {}", strict.join(", ")))
}

/// Where the checker is. Most bodies are good, so its name is made only when it is needed.
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
    /// The innermost struct.
    owner: Option<TypeRef<'p>>,
}

enum Step<'p> {
    Root,
    /// A field of a struct.
    Field(&'p str),
    /// A key of a map.
    Key(&'p str),
    Index(usize),
}

impl Place<'_> {
    /// `spec.containers[0].image`
    fn strict(&self) -> String {
        let mut path = self.parent.map(Place::strict).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name) | Step::Key(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
        path
    }

    /// `spec.containers.image`: fields of structs only.
    fn names(&self) -> String {
        let mut path = self.parent.map(Place::names).unwrap_or_default();
        if let Step::Field(name) = self.step {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
        }
        path
    }

    /// How Go says that a value does not fit.
    fn mismatch(&self, found: &str, wanted: &str) -> String {
        let names = self.names();
        if names.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        let owner = self.owner.map(TypeRef::go_name).unwrap_or_default();
        let owner = owner.rsplit('.').next().unwrap_or_default();
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{names} of type {wanted}")
    }
}

#[derive(Default)]
struct Checker {
    problems: Vec<FieldProblem>,
    seen: BTreeSet<FieldProblem>,
}

impl Checker {
    fn strict(&mut self, problem: FieldProblem) {
        if self.seen.len() < MAX_STRICT_PROBLEMS && self.seen.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }

    fn visit<T: Tree>(&mut self, ty: TypeRef<'_>, tree: &T, place: &Place<'_>) {
        match (ty.shape(), tree.leaf()) {
            (_, Leaf::Null) | (Shape::Opaque, _) => {}
            (Shape::Struct, Leaf::Object) => {
                self.visit_entries(tree, place, Some(ty), |name| ty.field(name));
            }
            (Shape::Map(element), Leaf::Object) => {
                self.visit_entries(tree, place, None, |_| Some(element));
            }
            (Shape::Any, Leaf::Object) => {
                self.visit_entries(tree, place, None, |name| ty.field(name));
            }
            (Shape::List(element), Leaf::Array) => self.visit_items(element, tree, place),
            (Shape::Any, Leaf::Array) => self.visit_items(ty, tree, place),
            (Shape::Any, _) => {}
            (_, leaf) => {
                if let Err(message) = scalars::check(ty, leaf, |found, wanted| place.mismatch(found, wanted))
                {
                    self.problems.push(FieldProblem::Type(message));
                }
            }
        }
    }

    fn visit_items<T: Tree>(&mut self, element: TypeRef<'_>, tree: &T, place: &Place<'_>) {
        for (index, item) in tree.items().iter().enumerate() {
            let place = Place { parent: Some(place), step: Step::Index(index), owner: place.owner };
            self.visit(element, item, &place);
        }
    }

    /// Visits the members of an object; `of` is the struct whose fields they are, if they are fields.
    fn visit_entries<'t, T: Tree>(
        &mut self,
        tree: &T,
        parent: &Place<'_>,
        of: Option<TypeRef<'_>>,
        field: impl Fn(&str) -> Option<TypeRef<'t>>,
    ) {
        let mut met = BTreeSet::new();
        for (name, value) in tree.entries() {
            let step = if of.is_some() { Step::Field(name) } else { Step::Key(name) };
            let place = Place { parent: Some(parent), step, owner: of.or(parent.owner) };
            let Some(ty) = field(name) else {
                self.strict(FieldProblem::Unknown(place.strict()));
                continue;
            };
            if T::MAY_REPEAT && !met.insert(name) {
                self.strict(FieldProblem::Duplicate(place.strict()));
            }
            self.visit(ty, value, &place);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schemas;

    fn problems<'b>(group: &str, kind: &str, body: impl Into<Body<'b>>) -> Vec<String> {
        let ty = Schemas::builtin().kind(group, "v1", kind).unwrap();
        check(ty, body).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unknown_and_duplicate_fields_in_order() {
        let body = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nope":1,
            "containers":[{"name":"c","image":"x","image":"y","bogus":true}]}}"#;
        let ty = Schemas::builtin().kind("", "v1", "Pod").unwrap();
        assert_eq!(
            strict_error(&check(ty, body)).unwrap(),
            "strict decoding error: unknown field \"spec.nope\", duplicate field \"spec.containers[0].image\", \
             unknown field \"spec.containers[0].bogus\""
        );
        assert_eq!(Document::parse(body).unwrap().to_value()["spec"]["containers"][0]["image"], "y");
        assert_eq!(
            problems("", "ConfigMap", &json!({"metadata": {"bogus": 1}})),
            ["unknown field \"metadata.bogus\""]
        );
        assert_eq!(
            problems("", "ConfigMap", r#"{"data":{"a":"1","a":"2"}}"#),
            ["duplicate field \"data.a\""]
        );
        assert_eq!(problems("", "ConfigMap", &json!({"Data": {}})), ["unknown field \"Data\""]);
    }

    #[test]
    fn wrong_types_in_the_words_of_go() {
        assert_eq!(
            problems("", "ConfigMap", &json!({"data": {"a": 1}})),
            ["json: cannot unmarshal number into Go struct field ConfigMap.data of type string"]
        );
        assert_eq!(
            problems("apps", "Deployment", &json!({"spec": {"replicas": "3"}})),
            ["json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"]
        );
        assert_eq!(
            problems("apps", "Deployment", &json!({"spec": {"replicas": 1.5}})),
            [
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"
            ]
        );
        let body = json!({"spec": {"template": {"spec": {"containers": [{"name": 7}]}}}});
        assert_eq!(
            problems("apps", "Deployment", &body),
            [
                "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string"
            ]
        );
        assert_eq!(
            problems("", "Pod", &json!({"spec": {"containers": {}}})),
            [
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"
            ]
        );
        let body = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "two"}}}]}});
        assert_eq!(
            problems("", "Pod", &body),
            ["quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"]
        );
    }

    #[test]
    fn good_bodies_have_no_problems() {
        let body = json!({"metadata": {"labels": {"a": "b"}, "creationTimestamp": null}, "spec": {"containers": [
            {"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "livenessProbe": {"httpGet": {"port": "http"}}}]}});
        assert_eq!(problems("", "Pod", &body), Vec::<String>::new());
        let body = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
        assert_eq!(problems("coordination.k8s.io", "Lease", &body), Vec::<String>::new());
    }

    #[test]
    fn times_have_one_form() {
        let body = json!({"spec": {"renewTime": "2026-01-01T00:00:00Z"}});
        assert_eq!(problems("coordination.k8s.io", "Lease", &body).len(), 1);
        let body = json!({"metadata": {"creationTimestamp": "yesterday"}});
        assert_eq!(
            problems("", "ConfigMap", &body),
            [
                "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\""
            ]
        );
    }
}
