//! The query of a request.

use serde_json::{Value, json};

use super::status::{Cause, Failure};

/// The pairs of a query, in order.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads the part of an address after the question mark.
    pub fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self { pairs: pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect() }
    }

    /// The first value of a key that is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(name, value)| name == key && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs
            .iter()
            .filter(move |(name, value)| name == key && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Whether a key is present and not `false` or `0`.
    pub fn is_set(&self, key: &str) -> bool {
        self.pairs.iter().any(|(name, value)| name == key && value != "false" && value != "0")
    }

    /// A whole number.
    ///
    /// # Errors
    /// The value is something else.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let number = text.parse::<i64>();
        number
            .map(Some)
            .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
    }
}

/// What to do about fields nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and say so.
    Warn,
    /// Refuse the request.
    Strict,
}

/// Options of a request that writes.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Do everything but the write.
    pub dry_run: bool,
    /// Who owns the fields written.
    pub manager: String,
    /// What to do about fields nobody knows.
    pub validation: FieldValidation,
    /// An apply takes fields from others.
    pub force: bool,
}

impl WriteOptions {
    /// Reads the options; `kind` is the name Kubernetes gives to this set of options. `applies`: the request is a server-side apply.
    ///
    /// # Errors
    /// An option has a value that Kubernetes does not know.
    pub fn read(query: &Query, kind: &str, user_agent: &str, applies: bool) -> Result<Self, Failure> {
        let mut causes = Vec::new();
        if kind == "PatchOptions" {
            if applies && query.get("fieldManager").is_none() {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
            if !applies && query.get("force").is_some() {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        check_manager(query.get("fieldManager").unwrap_or_default(), &mut causes);
        let directives: Vec<&str> = query.all("dryRun").collect();
        if directives.iter().any(|directive| *directive != "All") {
            causes.push(Cause::unsupported("dryRun", &json!(directives), &["All"]));
        }
        let validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let known = ["", "Ignore", "Strict", "Warn"];
                causes.push(Cause::unsupported("fieldValidation", &json!(other), &known));
                FieldValidation::Strict
            }
        };
        if !causes.is_empty() {
            return Err(Failure::invalid_options(kind, &causes));
        }
        let dry_run = !directives.is_empty();
        let manager = query.get("fieldManager").unwrap_or_else(|| manager_of(user_agent)).to_owned();
        Ok(Self { dry_run, manager, validation, force: query.is_set("force") })
    }
}

/// The longest name of a manager, in bytes.
const LONGEST_MANAGER: usize = 128;

/// Names of managers are short and can be printed.
fn check_manager(manager: &str, causes: &mut Vec<Cause>) {
    if manager.len() > LONGEST_MANAGER {
        causes.push(Cause::too_long("fieldManager", LONGEST_MANAGER));
    }
    for (position, letter) in manager.char_indices() {
        if letter.is_control() || (letter.is_whitespace() && letter != ' ') {
            let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(letter));
            causes.push(Cause::invalid("fieldManager", &json!(manager), &detail));
        }
    }
}

/// Without a name of its own a manager is known by the program, the user agent up to the slash.
fn manager_of(user_agent: &str) -> &str {
    let name = user_agent.split('/').next().unwrap_or_default();
    if name.is_empty() { "unknown" } else { name }
}

/// Whether a list of dry-run directives asks for a dry run.
///
/// # Errors
/// There is a directive other than `All`.
pub fn dry_run(directives: Vec<String>, kind: &str) -> Result<bool, Failure> {
    if directives.iter().all(|directive| directive == "All") {
        return Ok(!directives.is_empty());
    }
    Err(Failure::invalid_option(kind, Cause::unsupported("dryRun", &Value::from(directives), &["All"])))
}
