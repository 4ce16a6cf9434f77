//! Label and field selectors of list, watch and delete-collection requests, and the selectors written in objects.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::store::{Object, Stored};
use crate::validation::{label_key_breaks, label_value_breaks};

/// What selectors look at.
pub trait Selectable {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;

    /// The text of a field for comparison: an absent one is empty, and booleans that are absent read `false`.
    fn field(&self, path: &str) -> Cow<'_, str>;
}

impl Selectable for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get("metadata")?.get("labels")?.get(key)?.as_str()
    }

    fn field(&self, path: &str) -> Cow<'_, str> {
        match path.split('.').try_fold(self, |place, part| place.get(part)) {
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(Value::Null) | None => match path {
                "spec.unschedulable" | "spec.hostNetwork" => Cow::Borrowed("false"),
                _ => Cow::Borrowed(""),
            },
            Some(other) => Cow::Owned(other.to_string()),
        }
    }
}

impl<T: Selectable + ?Sized> Selectable for &T {
    fn label(&self, key: &str) -> Option<&str> {
        T::label(self, key)
    }

    fn field(&self, path: &str) -> Cow<'_, str> {
        T::field(self, path)
    }
}

impl<T: Selectable + ?Sized> Selectable for Arc<T> {
    fn label(&self, key: &str) -> Option<&str> {
        T::label(self, key)
    }

    fn field(&self, path: &str) -> Cow<'_, str> {
        T::field(self, path)
    }
}

impl Selectable for Stored {
    fn label(&self, key: &str) -> Option<&str> {
        Object::label(self.object(), key)
    }

    fn field(&self, path: &str) -> Cow<'_, str> {
        match self.object().kept_field(path) {
            Some(text) => Cow::Borrowed(text),
            None => self.value().field(path),
        }
    }
}

/// What a label must be for one requirement to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

/// A label selector: all its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<(String, Condition)>,
}

impl LabelSelector {
    /// Reads the form of a query: `a=b,c!=d,e in (f,g),!h`.
    ///
    /// # Errors
    /// The text is not a selector; the message is the one Kubernetes gives.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let requirements = parser.requirements()?;
        Ok(Self { requirements })
    }

    /// Reads a selector of an object: `matchLabels` and `matchExpressions`. Nothing for something that is not a selector.
    pub fn from_object(selector: &Value) -> Option<Self> {
        let selector = selector.as_object()?;
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push((key.clone(), Condition::In(vec![value.as_str()?.to_owned()])));
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let key = expression.get("key")?.as_str()?.to_owned();
            let values = || -> Vec<String> {
                let list = expression.get("values").and_then(Value::as_array);
                list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let condition = match expression.get("operator")?.as_str()? {
                "In" => Condition::In(values()),
                "NotIn" => Condition::NotIn(values()),
                "Exists" => Condition::Exists,
                "DoesNotExist" => Condition::Absent,
                _ => return None,
            };
            requirements.push((key, condition));
        }
        Some(Self { requirements })
    }

    /// Whether anything is asked for.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object's labels satisfy the selector.
    pub fn matches(&self, object: &impl Selectable) -> bool {
        self.requirements.iter().all(|(key, condition)| {
            let value = object.label(key);
            match condition {
                Condition::In(values) => {
                    value.is_some_and(|value| values.iter().any(|wanted| wanted == value))
                }
                Condition::NotIn(values) => {
                    value.is_none_or(|value| values.iter().all(|unwanted| unwanted != value))
                }
                Condition::Exists => value.is_some(),
                Condition::Absent => value.is_none(),
                Condition::Above(bound) => {
                    value.and_then(|value| value.parse().ok()).is_some_and(|number: i64| number > *bound)
                }
                Condition::Below(bound) => {
                    value.and_then(|value| value.parse().ok()).is_some_and(|number: i64| number < *bound)
                }
            }
        })
    }
}

/// A selector as `kubectl get` shows it: `app=d,tier in (a,b)`, `<none>` when empty.
pub fn format_selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector.and_then(Value::as_object) else { return "<none>".to_owned() };
    let mut parts = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match expression.get("operator").and_then(Value::as_str) {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.sort();
    parts.join(",")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Sign(sign) => sign,
            Self::End => "",
        }
    }
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest
                .find(|letter: char| letter.is_whitespace() || "=!,()><".contains(letter))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<(String, Condition)>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Sign("!") => {
                    let requirement = self.requirement().and_then(checked);
                    requirements
                        .push(requirement.map_err(|wrong| format!("unable to parse requirement: {wrong}"))?);
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Sign(",") => match self.peek() {
                    Token::Word(_) | Token::Sign("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<(String, Condition), String> {
        let absent = *self.peek() == Token::Sign("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if absent {
            return Ok((key, Condition::Absent));
        }
        let condition = match self.peek().clone() {
            Token::End | Token::Sign(",") => Condition::Exists,
            Token::Sign("=" | "==") => {
                self.next();
                Condition::In(vec![self.value()?])
            }
            Token::Sign("!=") => {
                self.next();
                Condition::NotIn(vec![self.value()?])
            }
            Token::Sign(sign @ (">" | "<")) => {
                self.next();
                let value = self.value()?;
                let bound = value.parse().map_err(|_| {
                    format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
                })?;
                if sign == ">" { Condition::Above(bound) } else { Condition::Below(bound) }
            }
            Token::Word(word) if word == "in" || word == "notin" => {
                self.next();
                let values = self.values()?;
                if word == "in" { Condition::In(values) } else { Condition::NotIn(values) }
            }
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        Ok((key, condition))
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek().clone() {
            Token::End | Token::Sign(",") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            Token::Sign(sign) => Err(format!("found '{sign}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Sign("(") => {}
            other => return Err(format!("found '{}', expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            match self.next() {
                Token::Sign(",") => {}
                Token::Sign(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',', or ')'", other.text())),
            }
        }
    }
}

/// Keys and values of a selector obey the rules of labels.
fn checked((key, condition): (String, Condition)) -> Result<(String, Condition), String> {
    let mut wrong = Vec::new();
    if let Some(rule) = label_key_breaks(&key) {
        wrong.push(format!("key: Invalid value: {key:?}: {rule}"));
    }
    if let Condition::In(values) | Condition::NotIn(values) = &condition {
        for (index, value) in values.iter().enumerate() {
            if let Some(rule) = label_value_breaks(value) {
                wrong.push(format!("values[{index}][{key}]: Invalid value: {value:?}: {rule}"));
            }
        }
    }
    match wrong.len() {
        0 => Ok((key, condition)),
        1 => Err(wrong.remove(0)),
        _ => Err(format!("[{}]", wrong.join(", "))),
    }
}

/// The parts between commas that no backslash precedes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        if letter == ',' && !escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        escaped = letter == '\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

/// Field, whether it must be equal, value: at the first sign.
fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    part.char_indices().find_map(|(at, _)| {
        let signs = [("!=", false), ("==", true), ("=", true)];
        signs
            .into_iter()
            .find_map(|(sign, equal)| part[at..].strip_prefix(sign).map(|value| (&part[..at], equal, value)))
    })
}

/// A value without its backslashes.
fn unescaped(value: &str) -> Result<String, String> {
    let (mut plain, mut letters) = (String::new(), value.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                next => {
                    let sequence: String = [Some('\\'), next].into_iter().flatten().collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                let number = u32::from(letter);
                return Err(format!("invalid field selector: unescaped character in value: {number}"));
            }
            letter => plain.push(letter),
        }
    }
    Ok(plain)
}

/// A field selector: all its terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The name of the field.
    pub field: String,
    /// Whether the field must be equal or must differ.
    pub equal: bool,
    /// The value compared with.
    pub value: String,
}

impl FieldSelector {
    /// Reads the form of a query: `spec.nodeName=a,status.phase!=Running`. A backslash makes a comma, an equals sign or a backslash
    /// part of a value.
    ///
    /// # Errors
    /// The text is not a selector; the message is the one Kubernetes gives.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in parts(text).into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            terms.push(FieldTerm { field: field.to_owned(), equal, value: unescaped(value)? });
        }
        Ok(Self { terms })
    }

    /// The selector of the object with a name.
    pub(crate) fn of_name(name: &str) -> Self {
        Self {
            terms: vec![FieldTerm { field: "metadata.name".to_owned(), equal: true, value: name.to_owned() }],
        }
    }

    /// The terms.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Whether anything is asked for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The name that the selector fixes, if it fixes one.
    pub fn exact_name(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.field == "metadata.name")
            .map(|term| term.value.as_str())
    }

    /// Whether an object satisfies the selector. `path` says where a field's value is kept.
    pub fn matches(&self, object: &impl Selectable, path: impl Fn(&str) -> String) -> bool {
        self.terms.iter().all(|term| {
            let value = object.field(&path(&term.field));
            (value == term.value) == term.equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chosen(selector: &str) -> Vec<&'static str> {
        let selector = LabelSelector::parse(selector).unwrap();
        let objects = [
            ("a", json!({"metadata": {"labels": {"env": "prod", "t": "1"}}})),
            ("b", json!({"metadata": {"labels": {"env": "dev"}}})),
            ("c", json!({"metadata": {"labels": {"t": "20"}}})),
            ("d", json!({"metadata": {}})),
        ];
        objects.iter().filter(|(_, object)| selector.matches(object)).map(|(name, _)| *name).collect()
    }

    #[test]
    fn label_selectors_choose() {
        assert_eq!(chosen("env=prod"), ["a"]);
        assert_eq!(chosen("env==prod,t"), ["a"]);
        assert_eq!(chosen("env!=prod"), ["b", "c", "d"]);
        assert_eq!(chosen("env in (prod, dev)"), ["a", "b"]);
        assert_eq!(chosen("env notin (prod)"), ["b", "c", "d"]);
        assert_eq!(chosen("t,!env"), ["c"]);
        assert_eq!(chosen("t>5"), ["c"]);
        assert_eq!(chosen("t < 5"), ["a"]);
        assert_eq!(chosen(""), ["a", "b", "c", "d"]);
    }

    #[test]
    fn wrong_label_selectors_are_refused() {
        assert_eq!(
            LabelSelector::parse("a==b==c").unwrap_err(),
            "found '==', expected: ',' or 'end of string'"
        );
        for text in ["=a", "a in b", "a in (b", "!", "a,", "a b", "a=(", "a>x"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn selectors_of_objects_choose() {
        let selector = json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["1"]}]});
        let selector = LabelSelector::from_object(&selector).unwrap();
        assert!(selector.matches(&json!({"metadata": {"labels": {"app": "x"}}})));
        assert!(!selector.matches(&json!({"metadata": {"labels": {"app": "x", "t": "1"}}})));
        assert!(LabelSelector::from_object(&json!({})).unwrap().is_empty());
        assert!(LabelSelector::from_object(&Value::Null).is_none());
    }

    #[test]
    fn field_selectors_choose() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}});
        let holds = |text: &str| FieldSelector::parse(text).unwrap().matches(&pod, str::to_owned);
        assert!(holds("metadata.name=p,spec.nodeName!=m"));
        assert!(holds("status.phase="));
        assert!(holds("spec.unschedulable==false"));
        assert!(!holds("spec.nodeName="));
        assert!(FieldSelector::parse("x").is_err());
    }
}
