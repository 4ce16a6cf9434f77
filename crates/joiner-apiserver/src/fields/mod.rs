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

pub use document::Document;
pub use normalize::normalize;
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
    let parsed;
    let document = match body.into() {
        Body::Document(document) => document,
        Body::Text(text) => match Document::parse(text) {
            Ok(document) => {
                parsed = document;
                &parsed
            }
            Err(_) => return Vec::new(),
        },
        Body::Value(value) => {
            parsed = Document::from(value);
            &parsed
        }
    };
    let mut checker = Checker::default();
    checker.visit(ty, document, &Place { strict: String::new(), names: String::new(), owner: String::new() });
    checker.problems
}

/// The message for a body that strict validation refuses; none if there is nothing strict to refuse.
pub fn strict_error(problems: &[FieldProblem]) -> Option<String> {
    let strict: Vec<String> =
        problems.iter().filter(|problem| problem.is_strict()).map(ToString::to_string).collect();
    (!strict.is_empty()).then(|| format!("strict decoding error: {}", strict.join(", ")))
}

/// Where the checker is, in the two ways messages name it.
struct Place {
    /// `spec.containers[0].image`
    strict: String,
    /// `spec.containers.image`: field names only
    names: String,
    /// The innermost struct: `Container`
    owner: String,
}

impl Place {
    fn field(&self, name: &str, owner: &str, is_struct_field: bool) -> Place {
        let join = |path: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        Place {
            strict: join(&self.strict),
            names: if is_struct_field { join(&self.names) } else { self.names.clone() },
            owner: owner.to_owned(),
        }
    }

    fn index(&self, index: usize) -> Place {
        let strict = format!("{}[{index}]", self.strict);
        Place { strict, names: self.names.clone(), owner: self.owner.clone() }
    }

    /// How Go says that a value does not fit.
    fn mismatch(&self, found: &str, wanted: &str) -> String {
        if self.names.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {wanted}")
        } else {
            format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
                self.owner, self.names
            )
        }
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

    fn visit(&mut self, ty: TypeRef<'_>, document: &Document, place: &Place) {
        match (ty.shape(), document) {
            (_, Document::Null) | (Shape::Opaque, _) => {}
            (Shape::Struct, Document::Object(entries)) => self.visit_struct(ty, entries, place),
            (Shape::Map(element), Document::Object(entries)) => {
                self.visit_entries(entries, place, |_| Some((element, false)));
            }
            (Shape::Any, Document::Object(entries)) => {
                self.visit_entries(entries, place, |name| ty.field(name).map(|field| (field, false)));
            }
            (Shape::List(element), Document::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.visit(element, item, &place.index(index));
                }
            }
            (Shape::Any, Document::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.visit(ty, item, &place.index(index));
                }
            }
            (Shape::Any, _) => {}
            (_, document) => {
                if let Err(message) =
                    scalars::check(ty, document, |found, wanted| place.mismatch(found, wanted))
                {
                    self.problems.push(FieldProblem::Type(message));
                }
            }
        }
    }

    fn visit_struct(&mut self, ty: TypeRef<'_>, entries: &[(String, Document)], place: &Place) {
        let name = ty.go_name();
        let owner = name.rsplit('.').next().unwrap_or_default();
        let inner =
            Place { strict: place.strict.clone(), names: place.names.clone(), owner: owner.to_owned() };
        self.visit_entries(entries, &inner, |name| ty.field(name).map(|field| (field, true)));
    }

    fn visit_entries<'t>(
        &mut self,
        entries: &[(String, Document)],
        place: &Place,
        field: impl Fn(&str) -> Option<(TypeRef<'t>, bool)>,
    ) {
        let mut met = BTreeSet::new();
        for (name, value) in entries {
            let Some((ty, is_struct_field)) = field(name) else {
                let place = place.field(name, &place.owner, true);
                self.strict(FieldProblem::Unknown(place.strict));
                continue;
            };
            let place = place.field(name, &place.owner, is_struct_field);
            if !met.insert(name) {
                self.strict(FieldProblem::Duplicate(place.strict.clone()));
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
