//! The requirement algebra against recorded answers of the original, and against Kubernetes' rules where the original errs.
//!
//! For every line the test also works out, value by value and without the algebra, what Kubernetes would say: a label has one of
//! the values that matter (or is missing), and every expression is asked in turn. The algebra must agree with that on all lines, and
//! with the recording on all lines without a `defect`.

use std::collections::{BTreeMap, BTreeSet};

use joiner_core::model::{KeyId, Operator, Requirement, Vocabulary};
use serde_json::{Value, json};

const DATA: &str = include_str!("data/requirements.jsonl");
const PROBES: [&str; 15] = ["", "0", "1", "4", "5", "6", "9", "10", "11", "a", "b", "z", "-1", "05", "+5"];
const WELL_KNOWN: [&str; 8] = [
    "karpenter.sh/nodepool",
    "karpenter.sh/capacity-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/windows-build",
];

/// One expression as written in the recording.
#[derive(Debug, Clone)]
struct Expression {
    key: String,
    operator: Operator,
    values: Vec<String>,
    min_values: Option<u32>,
}

fn expressions(list: &Value) -> Vec<Expression> {
    let aliases = BTreeMap::from([
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ]);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    list.as_array()
        .into_iter()
        .flatten()
        .map(|e| {
            let key = text(&e["key"]);
            Expression {
                key: aliases.get(key.as_str()).map_or(key.clone(), |stable| (*stable).to_owned()),
                operator: Operator::parse(&text(&e["operator"])).expect("a known operator"),
                values: e["values"].as_array().into_iter().flatten().map(text).collect(),
                min_values: e["minValues"].as_u64().map(|min| min as u32),
            }
        })
        .collect()
}

/// Per key the intersection of all expressions, in order.
fn algebra(vocabulary: &mut Vocabulary, list: &[Expression]) -> BTreeMap<String, Requirement> {
    let mut out: BTreeMap<String, Requirement> = BTreeMap::new();
    for e in list {
        let key = vocabulary.names.key(&e.key);
        let values: Vec<&str> = e.values.iter().map(String::as_str).collect();
        let mut made = Requirement::from_expression(&mut vocabulary.names, key, e.operator, &values);
        made.min_values = e.min_values;
        let sum = match out.get(&e.key) {
            Some(have) => have.intersect(&made, &vocabulary.names, key),
            None => made,
        };
        out.insert(e.key.clone(), sum);
    }
    out
}

/// Whether a label (or its absence) satisfies an expression, as Kubernetes says.
fn satisfies(e: &Expression, label: Option<&str>) -> bool {
    let integer = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse::<i128>().ok())?
            .filter(|n| i64::try_from(*n).is_ok())
    };
    let bound = || e.values.first().and_then(|v| integer(v));
    let compared = |ok: fn(i128, i128) -> bool| match (label.and_then(integer), bound()) {
        (Some(n), Some(bound)) => ok(n, bound),
        _ => false,
    };
    match e.operator {
        Operator::In => label.is_some_and(|label| e.values.iter().any(|v| v == label)),
        Operator::NotIn => !label.is_some_and(|label| e.values.iter().any(|v| v == label)),
        Operator::Exists => label.is_some(),
        Operator::DoesNotExist => label.is_none(),
        Operator::Gt => compared(|n, bound| n > bound),
        Operator::Lt => compared(|n, bound| n < bound),
        Operator::Gte => compared(|n, bound| n >= bound),
        Operator::Lte => compared(|n, bound| n <= bound),
    }
}

/// Label values among which every difference between the expressions shows, and absence.
fn candidates(all: &[Expression]) -> Vec<Option<String>> {
    let mut out: BTreeSet<Option<String>> = PROBES.iter().map(|p| Some((*p).to_owned())).collect();
    out.insert(None);
    out.insert(Some("some-other-value".to_owned()));
    for value in all.iter().flat_map(|e| &e.values) {
        out.insert(Some(value.clone()));
        if let Ok(n) = value.parse::<i128>() {
            for near in [n - 1, n, n + 1] {
                if let Ok(near) = i64::try_from(near) {
                    let (sign, digits) =
                        if near < 0 { ("-", near.unsigned_abs()) } else { ("", near as u64) };
                    // The same number written in ways nobody excludes.
                    for zeros in ["", "0", "0000"] {
                        out.insert(Some(format!("{sign}{zeros}{digits}")));
                    }
                }
            }
        }
    }
    out.into_iter().collect()
}

fn of_key<'l>(list: &'l [Expression], key: &str) -> Vec<&'l Expression> {
    list.iter().filter(|e| e.key == key).collect()
}

/// What an undefined key may be on the node side.
#[derive(Clone, Copy, PartialEq)]
enum Undefined {
    Skipped,
    Missing,
    OpenIfWellKnown,
}

fn naive_verdict(a: &[Expression], b: &[Expression], undefined: Undefined) -> bool {
    let all: Vec<Expression> = a.iter().chain(b).cloned().collect();
    let values = candidates(&all);
    let keys: BTreeSet<&str> = b.iter().map(|e| e.key.as_str()).collect();
    keys.into_iter().all(|key| {
        let (node, asked) = (of_key(a, key), of_key(b, key));
        let open = match (node.is_empty(), undefined) {
            (true, Undefined::Skipped) => return true,
            (true, Undefined::Missing) => false,
            (true, Undefined::OpenIfWellKnown) => WELL_KNOWN.contains(&key),
            (false, _) => true,
        };
        values
            .iter()
            .filter(|value| open || value.is_none())
            .any(|value| node.iter().chain(&asked).all(|e| satisfies(e, value.as_deref())))
    })
}

fn our_verdict(
    vocabulary: &mut Vocabulary,
    a: &[Expression],
    b: &[Expression],
    undefined: Undefined,
) -> bool {
    let (node, asked) = (algebra(vocabulary, a), algebra(vocabulary, b));
    asked.iter().all(|(key, wanted)| {
        let id = vocabulary.names.key(key);
        let have = match node.get(key) {
            Some(have) => have.clone(),
            None if undefined == Undefined::Skipped => return true,
            None if undefined == Undefined::OpenIfWellKnown && WELL_KNOWN.contains(&key.as_str()) => {
                Requirement::anything()
            }
            None => Requirement::does_not_exist(),
        };
        !have.intersect(wanted, &vocabulary.names, id).is_empty()
    })
}

fn written(vocabulary: &Vocabulary, key: KeyId, requirement: &Requirement) -> Value {
    let entries = requirement.expressions(&vocabulary.names, key).into_iter().map(|(operator, values)| {
        let mut entry = json!({ "key": vocabulary.names.key_text(key), "operator": operator.text() });
        if !values.is_empty() {
            entry["values"] = json!(values);
        }
        if let Some(min) = requirement.min_values {
            entry["minValues"] = json!(min);
        }
        entry
    });
    entries.collect()
}

/// Lines that ask `NotIn` of no values at all. Kubernetes' API refuses that; taken literally it is true of every label and of none,
/// which is what the algebra says. The original reads it as `Exists`.
const NOT_IN_NOTHING: [usize; 5] = [15, 303, 505, 513, 519];

#[test]
fn recorded_answers() {
    let mut disagreements: Vec<(usize, String)> = Vec::new();
    let (mut lines, mut entries, mut marked) = (0, 0, 0);
    for (at, line) in DATA.lines().enumerate() {
        lines += 1;
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let (a, b) = (expressions(&line["a"]), expressions(&line["b"]));
        let all: Vec<Expression> = a.iter().chain(&b).cloned().collect();
        let mut vocabulary = Vocabulary::default();
        let sum = algebra(&mut vocabulary, &all);
        let recorded = line["sum"].as_array().expect("a list");
        assert_eq!(recorded.len(), sum.len(), "line {}", at + 1);
        let mut line_is_marked = false;
        for entry in recorded {
            entries += 1;
            let name = entry["key"].as_str().expect("a key");
            let requirement = &sum[name];
            let key = vocabulary.names.key(name);
            // Kubernetes' rules hold on every line, marked or not.
            let own = of_key(&all, name);
            let values = candidates(&all);
            for value in &values {
                let ours = match value {
                    Some(value) => requirement.allows_text(&vocabulary.names, key, value),
                    None => requirement.may_be_absent,
                };
                let theirs = own.iter().all(|e| satisfies(e, value.as_deref()));
                assert_eq!(ours, theirs, "line {}, key {name}, value {value:?}", at + 1);
            }
            let nothing = !values.iter().any(|value| own.iter().all(|e| satisfies(e, value.as_deref())));
            assert_eq!(requirement.is_empty(), nothing, "line {}, key {name}", at + 1);
            if entry.get("defect").is_some() {
                marked += 1;
                line_is_marked = true;
                continue;
            }
            let mut check = |what: &str, ours: Value| {
                if ours != entry[what] {
                    disagreements.push((
                        at + 1,
                        format!("line {}: {name}: {what}: we say {ours}, recorded {}", at + 1, entry[what]),
                    ));
                }
            };
            check("operator", json!(requirement.shown_operator().text()));
            check("text", json!(requirement.text(&vocabulary.names, key)));
            check("written", written(&vocabulary, key, requirement));
            if entry.get("allows").is_some() {
                let allowed = PROBES.iter().filter(|p| requirement.allows_text(&vocabulary.names, key, p));
                check("allows", allowed.map(|p| json!(p)).collect());
            }
        }
        for (what, undefined) in [
            ("intersects", Undefined::Skipped),
            ("compatible", Undefined::Missing),
            ("compatibleWellKnown", Undefined::OpenIfWellKnown),
        ] {
            let ours = our_verdict(&mut vocabulary, &a, &b, undefined);
            assert_eq!(
                ours,
                naive_verdict(&a, &b, undefined),
                "line {}: {what} by Kubernetes' rules",
                at + 1
            );
            if !line_is_marked && json!(ours) != line[what] {
                disagreements.push((
                    at + 1,
                    format!("line {}: {what}: we say {ours}, recorded {}", at + 1, line[what]),
                ));
            }
        }
    }
    let odd: BTreeSet<usize> = disagreements.iter().map(|(at, _)| *at).collect();
    let texts: Vec<&str> = disagreements.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(odd, BTreeSet::from(NOT_IN_NOTHING), "{}", texts.join("\n"));
    assert_eq!(lines, 1895);
    assert!(entries > 2000 && marked > 900, "{entries} entries, {marked} marked");
}
