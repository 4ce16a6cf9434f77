use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::crd::rule_checker::tests::expression;
use crate::crd::schema::Node;

fn run(text: &str, schema: &Value, value: &Value) -> Result<Cel, ExecutionError> {
    let node = Node::parse(schema, "", &mut Vec::new());
    let expression = Expression::read(text, false).unwrap_or_else(|| panic!("{text} cannot run"));
    Sight::new(&node, value, None).with_scope(false, |scope| expression.run(scope))
}

fn on(text: &str, schema: &Value, value: &Value) {
    assert_eq!(run(text, schema, value).map_err(|error| error.to_string()), Ok(Cel::Bool(true)), "{text}");
}

fn holds(text: &str) {
    on(text, &json!({"type": "integer"}), &json!(1));
}

#[test]
fn values_have_the_types_of_their_schemas() {
    let schema = json!({"type": "object", "properties": {
        "snake_case": {"type": "integer"},
        "a__b": {"type": "integer"},
        "with-dash.and/slash": {"type": "integer"},
        "namespace": {"type": "string"},
        "ratio": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": true},
        "day": {"type": "string", "format": "date"},
        "time": {"type": "string", "format": "date-time"},
        "long": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte"},
        "labels": {"type": "object", "additionalProperties": {"type": "number"}},
    }});
    let value = json!({
        "snake_case": 1, "a__b": 2, "with-dash.and/slash": 3, "namespace": "n", "ratio": 7, "port": 80, "day": "2024-02-29",
        "time": "2024-01-02T03:04:05Z", "long": "2 days", "data": "w7w=", "labels": {"a-b": 1},
    });
    for rule in [
        "self.snake_case == 1 && has(self.snake_case)",
        "self.a__underscores__b == 2",
        "self.with__dash__dash__dot__and__slash__slash == 3",
        "self.__namespace__ == 'n' && self.namespace == 'n'",
        "self.ratio / 2.0 == 3.5 && type(self.ratio) == double",
        "type(self.port) == int && dyn(self.port) == 80",
        "self.day.getDate() == 29 && type(self.day) == google.protobuf.Timestamp",
        "self.time - self.day < duration('0s') && self.time == timestamp('2024-01-02T04:04:05+01:00')",
        "self.long == duration('48h')",
        "self.data == b'ü' && self.data.size() == 2",
        "self.labels['a-b'] + 0.5 == 1.5",
    ] {
        on(rule, &schema, &value);
    }
}

#[test]
fn letters_are_counted_and_signs_undo_each_other() {
    holds(
        "'ü☃b'.size() == 3 && size('ü☃b') == 3 && size(b'ü') == 2 && [1].size() == 1 && {'a': 1}.size() == 1",
    );
    holds("!!true && !!!false && --self == 1 && 3 - -self == 4");
}

#[test]
fn types_convert() {
    holds("bool('T') && !bool('false') && bool(true)");
    holds("dyn(1) == dyn(1.0) && dyn('a') != dyn(1)");
    holds("int('12') == 12 && int(-1.9) == -1 && int(timestamp('1970-01-01T00:01:00Z')) == 60");
    holds("uint('5') == 5u && uint(2.7) == 2u && bytes('a') == b'a'");
    holds("timestamp(60) == timestamp('1970-01-01T00:01:00Z') && duration('1.5s') == duration('1500ms')");
    holds("type(1) == int && type(1u) != int && type('') == string && type([]) == list");
    for wrong in [
        "bool('yes')",
        "int('1.5')",
        "int(1e300)",
        "int(9223372036854775807.0)",
        "uint(-1)",
        "duration('1d')",
    ] {
        let given = run(wrong, &json!({"type": "integer"}), &json!(1));
        assert!(matches!(given, Err(ExecutionError::FunctionError { .. })), "{wrong}: {given:?}");
    }
}

#[test]
fn loops_are_settled_by_any_element() {
    holds("[0, 1].exists(x, 1 / x == 1) && !['a', '1'].all(x, int(x) > 1)");
    holds("[1, 2].all(x, [3, 4].exists(y, y > x)) && ![].exists(x, x) && [].all(x, x)");
}

#[test]
fn of_two_errors_the_first_stands() {
    let error = |text: &str| run(text, &json!({"type": "integer"}), &json!(1)).map_err(|error| words(&error));
    for (text, said) in [
        ("[0, 2].exists(x, 1 / x == 1)", "division by zero"),
        ("[4, 5].all(x, [1][x] == 1)", "index out of bounds: 4"),
        ("int('a') == 1 || 1 / 0 == 1", "type conversion error from 'string' to 'int'"),
        ("1 / 0 == 1 && int('a') == 1", "division by zero"),
        ("size({'a': 'b'}['c']) == 1", "no such key: c"),
        ("double({'a': 1}['c']) == 1.0", "no such key: c"),
        ("string({'a': 1}['c']) == ''", "no such key: c"),
    ] {
        assert_eq!(error(text), Err(said.to_owned()), "{text}");
    }
}

#[test]
fn alternatives_are_looked_at_where_they_matter() {
    holds("optional.of(1).orValue(1 / 0) == 1 && optional.of(1).or(optional.of(1 / 0)).value() == 1");
    holds("optional.none().or(optional.of(2)).value() == 2 && optional.none().orValue(3) == 3");
    holds("1 / 0 == 1 || true");
    holds("!(1 / 0 == 1 && false)");
}

#[test]
fn loops_have_two_variables() {
    holds("['a', 'b'].all(i, v, v == ['a', 'b'][i]) && {'a': 1}.exists(k, v, k == 'a' && v == 1)");
    holds("{'a': 1, 'b': 2}.existsOne(k, v, v == 2)");
    holds("['a', 'b'].transformList(i, v, i > 0, v + string(i)) == ['b1']");
    holds("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 10) == {'b': 20}");
    holds("{'c': 3, 'a': 1, 'b': 2}.transformList(k, v, k) == ['a', 'b', 'c']");
    holds("{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}");
    holds("[[1, 2], [3]].all(i, v, v.all(j, w, w > i + j))");
}

#[test]
fn optionals_are_looked_into() {
    let inner = json!({"type": "object", "properties": {"b": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"a": inner, "c": inner}});
    for rule in [
        "self.?a.?b.orValue(0) == 7 && self.?a.b.orValue(0) == 7",
        "!self.?c.hasValue() && self.?c.b.orValue(5) == 5 && !has(self.?c.b) && has(self.?a.b)",
        "optional.of(self.a).b.value() == 7 && optional.none().orValue(3) == 3",
        "self.?a.optMap(x, x.b + 1).orValue(0) == 8 && !self.?c.optMap(x, x.b + 1).hasValue()",
        "[?self.?a.b, ?self.?c.b] == [7] && {?'k': self.?c.b} == {}",
        "[1, 2][?5].orValue(9) == 9 && {'x': 1}[?'x'].value() == 1",
    ] {
        on(rule, &schema, &json!({"a": {"b": 7}}));
    }
}

#[test]
fn lists_are_sorted_by_keys() {
    holds("['bb', 'a', 'ccc'].sortBy(x, size(x)) == ['a', 'bb', 'ccc']");
    holds("[{'n': 2}, {'n': 1}].sortBy(x, x.n)[0].n == 1");
}

#[test]
fn an_old_value_may_be_missing() {
    let node = Node::parse(
        &json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        "",
        &mut Vec::new(),
    );
    let (new, old) = (json!({"a": 2}), json!({"a": 1}));
    let run = |text: &str, old: Option<&Value>| {
        let expression = Expression::read(text, true).unwrap();
        assert!(expression.names_old);
        Sight::new(&node, &new, old).with_scope(true, |scope| expression.run(scope))
    };
    for (text, beside) in [
        ("!oldSelf.hasValue()", None),
        ("oldSelf.value().a < self.a", Some(&old)),
        ("oldSelf.a.orValue(5) == 5", None),
        ("oldSelf.?a.orValue(5) == 1", Some(&old)),
        ("oldSelf.optMap(o, o.a + 1 == self.a).orValue(true)", Some(&old)),
    ] {
        assert_eq!(run(text, beside), Ok(Cel::Bool(true)), "{text}");
    }
}

proptest! {
    /// Also what the checker would refuse: types are not always known before.
    #[test]
    fn no_expression_makes_the_runner_panic(text in expression(), number: i64) {
        let node = Node::default();
        let value = json!({"l": [number, "a", null], "m": {"a": number}, "x": 1.5, "s": "ü"});
        if let Some(expression) = Expression::read(&text, false) {
            let _ = Sight::new(&node, &value, Some(&value)).with_scope(false, |scope| expression.run(scope));
        }
    }
}
