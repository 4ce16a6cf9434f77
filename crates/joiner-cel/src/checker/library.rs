//! The functions that rules can call, and the types they take.
//!
//! A signature lists the types of arguments and the type of the result; one with a dot in front has a receiver, its first type. Letters stand
//! for any type, the same one wherever they stand. Names of variables count up with every signature that is tried, and
//! they show in some messages; so the order is that of Kubernetes: CEL itself, then the libraries as it loads them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::{Object, Type, Variable};

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Signature {
    pub receiver: bool,
    /// The types of arguments, the receiver's first.
    pub takes: Vec<Type<'static>>,
    pub gives: Type<'static>,
    /// The letters in it.
    pub letters: Vec<char>,
}

/// The ways to call a function, if there is one of that name.
pub(crate) fn signatures(name: &str) -> Option<&'static [Signature]> {
    static ALL: LazyLock<HashMap<&str, Vec<Signature>>> = LazyLock::new(|| {
        let mut all: HashMap<&str, Vec<Signature>> = HashMap::new();
        for (names, signatures) in FUNCTIONS {
            for name in names.split(' ') {
                let read = signatures.iter().filter_map(|text| signature(text));
                all.entry(name).or_default().extend(read);
            }
        }
        all
    });
    ALL.get(name).map(Vec::as_slice)
}

/// The names of all functions.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().flat_map(|(names, _)| names.split_whitespace())
}

fn signature(text: &'static str) -> Option<Signature> {
    let (takes, gives) = text.split_once("-> ")?;
    let (receiver, takes) = match takes.strip_prefix('.') {
        Some(takes) => (true, takes),
        None => (false, takes),
    };
    let takes: Vec<Type<'static>> = parts(takes).into_iter().map(type_of).collect();
    let mut letters = Vec::new();
    let is_letter =
        |part: &&str| part.len() == 1 && part.starts_with(|letter: char| letter.is_ascii_uppercase());
    for word in text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(is_letter) {
        letters.extend(word.chars().filter(|letter| !letters.contains(letter)).collect::<Vec<char>>());
    }
    Some(Signature { receiver, takes, gives: type_of(gives), letters })
}

/// Types between commas, brackets kept together.
fn parts(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn type_of(text: &'static str) -> Type<'static> {
    if let Some((outer, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut inner = parts(inner).into_iter().map(type_of);
        let mut next = || inner.next().unwrap_or(Type::Dyn);
        return match outer {
            "list" => Type::list(next()),
            "map" => Type::map(next(), next()),
            "optional" => Type::optional(next()),
            _ => Type::Kind(Some(Arc::new(next()))),
        };
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "dyn" => Type::Dyn,
        _ if text.starts_with("net.") => Type::Opaque(text),
        _ if text.len() == 1 => Type::Variable(Variable::Letter(text.chars().next().unwrap_or('A'))),
        name => Type::Object(Arc::new(Object { name: format!("kubernetes.{name}"), schema: None })),
    }
}

const COMPARISONS: &[&str] = &[
    "bool, bool -> bool",
    "int, int -> bool",
    "int, double -> bool",
    "int, uint -> bool",
    "uint, uint -> bool",
    "uint, double -> bool",
    "uint, int -> bool",
    "double, double -> bool",
    "double, int -> bool",
    "double, uint -> bool",
    "string, string -> bool",
    "bytes, bytes -> bool",
    "timestamp, timestamp -> bool",
    "duration, duration -> bool",
];

/// Names, several of them between blanks, and their signatures.
const FUNCTIONS: &[(&str, &[&str])] = &[
    // CEL itself.
    ("_?_:_", &["bool, A, A -> A"]),
    ("_&&_ _||_", &["bool, bool -> bool"]),
    ("!_ @not_strictly_false", &["bool -> bool"]),
    ("_==_ _!=_", &["A, A -> bool"]),
    (
        "_+_",
        &[
            "bytes, bytes -> bytes",
            "double, double -> double",
            "duration, duration -> duration",
            "duration, timestamp -> timestamp",
            "timestamp, duration -> timestamp",
            "int, int -> int",
            "list(A), list(A) -> list(A)",
            "string, string -> string",
            "uint, uint -> uint",
        ],
    ),
    ("_/_ _*_", &["double, double -> double", "int, int -> int", "uint, uint -> uint"]),
    ("_%_", &["int, int -> int", "uint, uint -> uint"]),
    ("-_", &["double -> double", "int -> int"]),
    (
        "_-_",
        &[
            "double, double -> double",
            "duration, duration -> duration",
            "int, int -> int",
            "timestamp, duration -> timestamp",
            "timestamp, timestamp -> duration",
            "uint, uint -> uint",
        ],
    ),
    ("_<_ _<=_ _>_ _>=_", COMPARISONS),
    ("_[_]", &["list(A), int -> A", "map(A, B), A -> B"]),
    ("@in", &["A, list(A) -> bool", "A, map(A, B) -> bool"]),
    (
        "size",
        &[
            "bytes -> int",
            ".bytes -> int",
            "list(A) -> int",
            ".list(A) -> int",
            "map(A, B) -> int",
            ".map(A, B) -> int",
            "string -> int",
            ".string -> int",
        ],
    ),
    ("type", &["A -> type(A)"]),
    ("bool", &["bool -> bool", "string -> bool"]),
    ("bytes", &["bytes -> bytes", "string -> bytes"]),
    ("double", &["double -> double", "int -> double", "string -> double", "uint -> double"]),
    ("duration", &["duration -> duration", "int -> duration", "string -> duration"]),
    ("dyn", &["A -> dyn"]),
    (
        "int",
        &[
            "int -> int",
            "double -> int",
            "duration -> int",
            "string -> int",
            "timestamp -> int",
            "uint -> int",
        ],
    ),
    (
        "string",
        &[
            "string -> string",
            "bool -> string",
            "bytes -> string",
            "double -> string",
            "duration -> string",
            "int -> string",
            "timestamp -> string",
            "uint -> string",
            "net.IP -> string",
            "net.CIDR -> string",
        ],
    ),
    ("timestamp", &["timestamp -> timestamp", "int -> timestamp", "string -> timestamp"]),
    ("uint", &["uint -> uint", "double -> uint", "int -> uint", "string -> uint"]),
    ("contains endsWith startsWith", &[".string, string -> bool"]),
    ("matches", &["string, string -> bool", ".string, string -> bool"]),
    (
        "getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek",
        &[".timestamp -> int", ".timestamp, string -> int"],
    ),
    (
        "getHours getMinutes getSeconds getMilliseconds",
        &[".timestamp -> int", ".timestamp, string -> int", ".duration -> int"],
    ),
    // Addresses of the web.
    ("url", &["string -> URL"]),
    ("getScheme getHost getHostname getPort getEscapedPath", &[".URL -> string"]),
    ("getQuery", &[".URL -> map(string, list(string))"]),
    ("isURL", &["string -> bool"]),
    // Patterns.
    ("find", &[".string, string -> string"]),
    ("findAll", &[".string, string -> list(string)", ".string, string, int -> list(string)"]),
    // Lists.
    (
        "isSorted",
        &[
            ".list(int) -> bool",
            ".list(uint) -> bool",
            ".list(double) -> bool",
            ".list(bool) -> bool",
            ".list(duration) -> bool",
            ".list(timestamp) -> bool",
            ".list(string) -> bool",
            ".list(bytes) -> bool",
        ],
    ),
    (
        "sum",
        &[
            ".list(int) -> int",
            ".list(uint) -> uint",
            ".list(double) -> double",
            ".list(duration) -> duration",
        ],
    ),
    (
        "min max",
        &[
            ".list(int) -> int",
            ".list(uint) -> uint",
            ".list(double) -> double",
            ".list(bool) -> bool",
            ".list(duration) -> duration",
            ".list(timestamp) -> timestamp",
            ".list(string) -> string",
            ".list(bytes) -> bytes",
        ],
    ),
    ("indexOf lastIndexOf", &[".list(A), A -> int"]),
    // Permissions; there is no variable to ask with, but the names are known.
    ("path", &[".authorization.Authorizer, string -> authorization.PathCheck"]),
    ("group", &[".authorization.Authorizer, string -> authorization.GroupCheck"]),
    ("serviceAccount", &[".authorization.Authorizer, string, string -> authorization.Authorizer"]),
    ("resource", &[".authorization.GroupCheck, string -> authorization.ResourceCheck"]),
    ("subresource namespace name", &[".authorization.ResourceCheck, string -> authorization.ResourceCheck"]),
    (
        "check",
        &[
            ".authorization.PathCheck, string -> authorization.Decision",
            ".authorization.ResourceCheck, string -> authorization.Decision",
        ],
    ),
    ("errored allowed", &[".authorization.Decision -> bool"]),
    ("error reason", &[".authorization.Decision -> string"]),
    // Values that may be missing.
    ("optional.of optional.ofNonZeroValue", &["V -> optional(V)"]),
    ("optional.none", &["-> optional(V)"]),
    ("value", &[".optional(V) -> V"]),
    ("hasValue", &[".optional(V) -> bool"]),
    ("or", &[".optional(V), optional(V) -> optional(V)"]),
    ("orValue", &[".optional(V), V -> V"]),
    (
        "_[?_]",
        &[
            "list(V), int -> optional(V)",
            "optional(list(V)), int -> optional(V)",
            "map(K, V), K -> optional(V)",
            "optional(map(K, V)), K -> optional(V)",
        ],
    ),
    ("_[_]", &["optional(list(V)), int -> optional(V)", "optional(map(K, V)), K -> optional(V)"]),
    ("last first", &[".list(V) -> optional(V)"]),
    ("optional.unwrap", &["list(optional(V)) -> list(V)"]),
    ("unwrapOpt", &[".list(optional(V)) -> list(V)"]),
    // Quantities.
    ("quantity", &["string -> Quantity"]),
    ("isQuantity", &["string -> bool"]),
    ("sign", &["Quantity -> int"]),
    ("isGreaterThan isLessThan", &[".Quantity, Quantity -> bool"]),
    ("compareTo", &[".Quantity, Quantity -> int"]),
    ("asApproximateFloat", &[".Quantity -> double"]),
    ("asInteger", &[".Quantity -> int"]),
    ("isInteger", &[".Quantity -> bool"]),
    ("add sub", &[".Quantity, Quantity -> Quantity", ".Quantity, int -> Quantity"]),
    // Texts.
    ("charAt", &[".string, int -> string"]),
    ("indexOf lastIndexOf", &[".string, string -> int", ".string, string, int -> int"]),
    ("lowerAscii upperAscii trim", &[".string -> string"]),
    ("replace", &[".string, string, string -> string", ".string, string, string, int -> string"]),
    ("split", &[".string, string -> list(string)", ".string, string, int -> list(string)"]),
    ("substring", &[".string, int -> string", ".string, int, int -> string"]),
    ("format", &[".string, list(dyn) -> string"]),
    ("strings.quote", &["string -> string"]),
    ("join", &[".list(string) -> string", ".list(string), string -> string"]),
    // Sets.
    ("sets.contains sets.equivalent sets.intersects", &["list(T), list(T) -> bool"]),
    // Addresses of networks.
    ("ip", &["string -> net.IP"]),
    ("family", &[".net.IP -> int"]),
    ("ip.isCanonical isIP isCIDR", &["string -> bool"]),
    (
        "isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast",
        &[".net.IP -> bool"],
    ),
    ("cidr", &["string -> net.CIDR"]),
    ("containsIP", &[".net.CIDR, string -> bool", ".net.CIDR, net.IP -> bool"]),
    ("containsCIDR", &[".net.CIDR, string -> bool", ".net.CIDR, net.CIDR -> bool"]),
    ("ip", &[".net.CIDR -> net.IP"]),
    ("prefixLength", &[".net.CIDR -> int"]),
    ("masked", &[".net.CIDR -> net.CIDR"]),
    // Formats.
    ("validate", &[".NamedFormat, string -> optional(list(string))"]),
    ("format.named", &["string -> optional(NamedFormat)"]),
    (
        "format.dns1123Label format.dns1123Subdomain format.dns1035Label format.qualifiedName format.dns1123LabelPrefix \
         format.dns1123SubdomainPrefix format.dns1035LabelPrefix format.labelValue format.uri format.uuid format.byte \
         format.date format.datetime",
        &["-> NamedFormat"],
    ),
    ("fieldSelector labelSelector", &[".authorization.ResourceCheck, string -> authorization.ResourceCheck"]),
    // Loops over two variables.
    ("cel.@mapInsert", &["map(K, V), K, V -> map(K, V)", "map(K, V), map(K, V) -> map(K, V)"]),
    // Versions.
    ("semver", &["string -> Semver", "string, bool -> Semver"]),
    ("isSemver", &["string -> bool", "string, bool -> bool"]),
    ("isGreaterThan isLessThan", &[".Semver, Semver -> bool"]),
    ("compareTo", &[".Semver, Semver -> int"]),
    ("major minor patch", &[".Semver -> int"]),
    // Lists once more.
    ("slice", &[".list(T), int, int -> list(T)"]),
    ("flatten", &[".list(list(T)) -> list(T)", ".list(dyn), int -> list(dyn)"]),
    (
        "sort",
        &[
            ".list(int) -> list(int)",
            ".list(uint) -> list(uint)",
            ".list(double) -> list(double)",
            ".list(bool) -> list(bool)",
            ".list(duration) -> list(duration)",
            ".list(timestamp) -> list(timestamp)",
            ".list(string) -> list(string)",
            ".list(bytes) -> list(bytes)",
        ],
    ),
    (
        "@sortByAssociatedKeys",
        &[
            ".list(T), list(int) -> list(T)",
            ".list(T), list(uint) -> list(T)",
            ".list(T), list(double) -> list(T)",
            ".list(T), list(bool) -> list(T)",
            ".list(T), list(duration) -> list(T)",
            ".list(T), list(timestamp) -> list(T)",
            ".list(T), list(string) -> list(T)",
            ".list(T), list(bytes) -> list(T)",
        ],
    ),
    ("lists.range", &["int -> list(int)"]),
    ("reverse distinct", &[".list(T) -> list(T)"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_reads_as_it_is_written() {
        for (names, texts) in FUNCTIONS {
            for text in *texts {
                let read = signature(text).unwrap_or_else(|| panic!("{names}: {text}"));
                let takes: Vec<String> = read.takes.iter().map(ToString::to_string).collect();
                let (dot, blank) =
                    (if read.receiver { "." } else { "" }, if takes.is_empty() { "" } else { " " });
                let written = format!("{dot}{}{blank}-> {}", takes.join(", "), read.gives);
                let written = written.replace("kubernetes.", "").replace("optional_type", "optional");
                assert_eq!(&written, text, "{names}");
            }
        }
        let index: Vec<usize> = signatures("_[_]").unwrap().iter().map(|one| one.letters.len()).collect();
        assert_eq!(index, [1, 2, 1, 2]);
        assert!(signatures("nope").is_none());
    }
}
