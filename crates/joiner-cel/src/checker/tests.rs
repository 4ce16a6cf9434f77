use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn object() -> Value {
    json!({"type": "object", "properties": {
        "i": {"type": "integer"}, "d": {"type": "number"}, "s": {"type": "string"}, "b": {"type": "boolean"},
        "x": {"x-kubernetes-int-or-string": true}, "t": {"type": "string", "format": "date-time"},
        "du": {"type": "string", "format": "duration"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"a-b": {"type": "integer"}, "for": {"type": "string"}}}}})
}

/// What a rule gives, or the first line of what is wrong with it.
fn verdict(rule: &str) -> String {
    let schema = object();
    let own = type_of("self", &schema, false).unwrap();
    match check(rule, &own, &Type::optional(own.clone())) {
        Ok(checked) => checked.gives.map_or("?".to_owned(), |gives| gives.to_string()),
        Err(faults) => faults.lines().next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn what_rules_give() {
    for (rule, gives) in [
        ("self.i + 1 > 2", "bool"),
        ("self.l.map(x, x.size())", "list(int)"),
        ("self.l.map(x, [x])", "list(list(string))"),
        ("self.m.transformMap(k, v, [k])", "map(string, list(string))"),
        ("self.m['a']", "int"),
        ("self.?o.?a__dash__b", "optional_type(int)"),
        ("self.?l[0]", "optional_type(string)"),
        ("self.?s.optMap(x, x.size()).orValue(1)", "int"),
        ("oldSelf.value().o.__for__ + self.o.for", "string"),
        ("[] + [1]", "list(int)"),
        ("[[], [1.0]]", "list(list(double))"),
        ("{}", "map(dyn, dyn)"),
        ("self.x", "dyn"),
        ("self.x + 1", "int"),
        ("self.x + self.x", "dyn"),
        ("self.b ? self.x : 1", "dyn"),
        ("type(self.l)", "type(list(string))"),
        ("quantity(self.s).add(1)", "kubernetes.Quantity"),
        ("cidr(self.s).ip()", "net.IP"),
        ("format.named('a').value().validate(self.s)", "optional_type(list(string))"),
        ("self.l.sortBy(x, x.size())", "list(string)"),
        ("!!!self.b || -1 < --1 && -self.i > -0x1F", "bool"),
        ("r'a\\d' + \"\"\"b\nc\"\"\"", "string"),
        ("google.protobuf.Int64Value{value: 1} == 1", "?"),
    ] {
        assert_eq!(verdict(rule), gives, "{rule}");
    }
}

#[test]
fn faults_name_their_places() {
    for (rule, fault) in [
        ("self.s > 1", "1:8: found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.s.contains(1)", "1:16: found no matching overload for 'contains' applied to 'string.(int)'"),
        (
            "self.b ?\n 1 : 'a'",
            "1:8: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
        ("self.b &&\n  self.i", "2:7: expected type 'bool' but found 'int'"),
        ("foo", "1:1: undeclared reference to 'foo' (in container '')"),
        ("foo.bar(1)", "1:1: undeclared reference to 'foo' (in container '')"),
        (
            "self.i.all(x, x)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("has(self.nope)", "1:4: undefined field 'nope'"),
        ("has(self)", "1:5: invalid argument to has() macro"),
        ("[1, 'a'].size()", "1:5: expected type 'int' but found 'string'"),
        ("quantity('1').x", "1:14: unexpected failed resolution of 'kubernetes.Quantity'"),
        ("self.?nope", "1:5: undefined field 'nope'"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("self.i < 9223372036854775808", "1:10: invalid int literal"),
        ("for > 1", "1:1: reserved identifier: for"),
        ("self.i >", "1:9: Syntax error: mismatched input '<EOF>'"),
    ] {
        let found = verdict(rule);
        assert!(found.starts_with(&format!("ERROR: <input>:{fault}")), "{rule}: {found}");
    }
}

#[test]
fn some_rules_can_never_run() {
    let schema = object();
    let own = type_of("self", &schema, false).unwrap();
    for (rule, why) in [
        ("int('x') == 1", Some("type conversion error from 'string' to 'int'")),
        (
            "timestamp(string(-5)) < self.t",
            Some("type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ),
        ("string(null) == ''", Some("no such overload: string(null_type)")),
        ("type(self.du) == duration", Some("reference to undefined type: duration")),
        ("self.l.all(duration, duration != '')", None),
        ("int(string(5)) == 5 && bool('true')", None),
    ] {
        let checked = check(rule, &own, &own).unwrap();
        assert_eq!(checked.impossible.as_deref(), why, "{rule}");
    }
}

#[test]
fn depth_is_no_danger() {
    let nested = |depth: usize| format!("{}self.b{}", "(".repeat(depth), ")".repeat(depth));
    let sum = |terms: usize| format!("self.i{} > 0", " + 1".repeat(terms));
    let all = |terms: usize| vec!["self.b"; terms].join(" && ");
    let (text, tree) = (
        "ERROR: <input>:-1:0: expression recursion limit exceeded: 250",
        "ERROR: <input>:-1:0: max recursion depth exceeded",
    );
    let (ways, long) =
        ((0..40).map(|_| format!("({})", sum(230))).collect::<Vec<_>>().join(" == "), "1".repeat(100_001));
    for (rule, gives) in [
        (nested(80), "bool"),
        (nested(249), "bool"),
        (nested(250), text),
        (nested(2000), text),
        ("!(".repeat(500), text),
        (format!("{} > 0", "[".repeat(500)), text),
        (sum(248), "bool"),
        (sum(251), tree),
        (sum(20_000), tree),
        (format!("{}0", "self.".repeat(3000)), tree),
        (all(3_000), "bool"),
        (all(9_000), "?"),
        (format!("{}true", "true&&".repeat(16_000)), "?"),
        (ways, tree),
        (long, "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"),
    ] {
        let found = crate::stack::with_room(|| verdict(&rule));
        assert_eq!(found, gives, "{}", rule.chars().take(60).collect::<String>());
    }
    // What nobody can read is read to its end.
    let unread = format!("{}@", "1+".repeat(49_000));
    let found = crate::stack::with_room(|| verdict(&unread));
    assert!(found.starts_with("ERROR: <input>:1:98001: Syntax error"), "{found}");
    for (rule, room) in [
        (sum(20), Some(Room::Usual)),
        (sum(248), Some(Room::Deep)),
        (all(1_000), Some(Room::Usual)),
        (all(9_000), None),
        (sum(20_000), None),
        (nested(200), Some(Room::Usual)),
    ] {
        let found = crate::stack::with_room(|| read(&rule).and_then(|root| room_to_run(&root)));
        assert_eq!(found, room, "{}", rule.chars().take(60).collect::<String>());
    }
}

#[test]
fn trees_do_not_outgrow_their_texts() {
    // Each macro writes its receiver twice.
    let rule = format!("self.?s{}.hasValue()", ".optMap(x, x)".repeat(60));
    assert_eq!(verdict(&rule), "?");
}

proptest! {
    /// Any text, and any words that rules are made of.
    #[test]
    fn no_rule_makes_the_checker_panic(text in ".{0,40}", words in proptest::collection::vec(0..WORDS.len(), 0..24)) {
        let rule: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
        for rule in [text, rule.join(" "), rule.concat()] {
            let _ = crate::stack::with_room(|| verdict(&rule));
        }
    }

    /// Rules that can be read, of every form.
    #[test]
    fn no_expression_makes_the_checker_panic(rule in expression()) {
        prop_assert!(!matches!(parser::parse(&rule), Err(Unread::Unknown)), "{}", rule);
        let _ = verdict(&rule);
    }
}

const WORDS: [&str; 40] = [
    "self",
    "oldSelf",
    ".s",
    ".l",
    ".m",
    ".i",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".?",
    "[?",
    "1",
    "'a'",
    "1.5",
    "2u",
    "b'x'",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "==",
    "<",
    "in",
    ".all(x,",
    ".map(i, x,",
    "has(",
    "size(",
    ".optMap(x,",
    "null",
    "true",
    "%",
    "'ä",
    "\n",
];

pub(crate) fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("self".to_owned()),
        Just("oldSelf".to_owned()),
        Just("x".to_owned()),
        Just("'%s'".to_owned()),
        Just("1".to_owned()),
        Just("1.5".to_owned()),
        Just("null".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("int".to_owned()),
        Just("self.l".to_owned()),
        Just("self.m".to_owned()),
        Just("self.x".to_owned()),
    ];
    leaf.prop_recursive(4, 32, 3, |inner| {
        let binary = prop::sample::select(vec!["+", "-", "*", "<", "==", "in", "&&", "||", "%"]);
        let function =
            prop::sample::select(vec!["size", "type", "int", "dyn", "optional.of", "duration", "quantity"]);
        let member = prop::sample::select(vec![
            "size", "contains", "format", "orValue", "sum", "nope", "flatten", "matches",
        ]);
        let loops = prop::sample::select(vec![
            "all",
            "exists_one",
            "map",
            "filter",
            "sortBy",
            "optMap",
            "optFlatMap",
        ]);
        let two = prop::sample::select(vec![
            "all",
            "existsOne",
            "transformList",
            "transformMap",
            "transformMapEntry",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (function, inner.clone()).prop_map(|(name, a)| format!("{name}({a})")),
            (inner.clone(), member, inner.clone()).prop_map(|(a, name, b)| format!("({a}).{name}({b})")),
            (inner.clone(), loops, inner.clone()).prop_map(|(a, name, b)| format!("({a}).{name}(x, {b})")),
            (inner.clone(), two, inner.clone()).prop_map(|(a, name, b)| format!("({a}).{name}(x, y, {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[?{b}].?f")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, ?{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a}: {b}, ?'k': {a}}}")),
            inner.clone().prop_map(|a| format!("has(({a}).f)")),
            inner.prop_map(|a| format!("!({a})")),
        ]
    })
}
