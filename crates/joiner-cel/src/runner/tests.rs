use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::checker::names;
use crate::checker::tests::expression;

fn run(text: &str, schema: &Value, value: &Value) -> Result<Cel, ExecutionError> {
    let expression = Expression::read(text, false).unwrap_or_else(|| panic!("{text} cannot run"));
    Sight::new(schema, value, None).with_scope(false, |scope| expression.run(scope))
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
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let (new, old) = (json!({"a": 2}), json!({"a": 1}));
    let run = |text: &str, old: Option<&Value>| {
        let expression = Expression::read(text, true).unwrap();
        assert!(expression.names_old);
        Sight::new(&schema, &new, old).with_scope(true, |scope| expression.run(scope))
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

/// A function that is unknown here would leave its rule unjudged.
#[test]
fn every_function_of_the_checker_runs() {
    let rules = [
        "timestamp(0).getFullYear() == 1970 && timestamp(0).getMonth() == 0 && timestamp(0).getDayOfYear() == 0 && timestamp(0).getDate() == 1",
        "timestamp(0).getDayOfMonth() == 0 && timestamp(0).getDayOfWeek() == 4 && timestamp(0).getHours() == 0 && timestamp(0).getMinutes() == 0",
        "duration('1m').getSeconds() == 60 && duration('1s').getMilliseconds() == 1000",
        "url('https://a.b:81/c?d=e').getScheme() == 'https' && url('https://a.b:81/c').getHost() == 'a.b:81'",
        "url('https://a.b:81/c').getHostname() == 'a.b' && url('https://a.b:81/c').getPort() == '81'",
        "url('https://a.b:81/c').getEscapedPath() == '/c' && url('https://a.b/?d=e').getQuery() == {'d': ['e']} && isURL('https://a')",
        "'a1b2'.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "'abc'.contains('b') && 'abc'.endsWith('c') && 'abc'.startsWith('a') && 'abc'.matches('^a') && matches('abc', 'c$')",
        "[1, 2].isSorted() && ['a', 'b'].isSorted() && [duration('1s'), duration('2s')].isSorted() && ![b'b', b'a'].isSorted()",
        "[1, 2].sum() == 3 && [1.5].sum() == 1.5 && [duration('1s'), duration('2s')].sum() == duration('3s') && [1u].sum() == 1u",
        "[2, 1].min() == 1 && ['a', 'b'].max() == 'b' && [timestamp(1), timestamp(2)].max() == timestamp(2) && [true, false].min() == false",
        "[b'a', b'b'].max() == b'b' && [duration('1s'), duration('2s')].min() == duration('1s') && [1u, 2u].max() == 2u",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && 'abab'.indexOf('b') == 1 && 'abab'.lastIndexOf('b') == 3",
        "'abab'.indexOf('b', 2) == 3 && 'abab'.lastIndexOf('b', 2) == 1",
        "optional.of(1).value() == 1 && !optional.ofNonZeroValue(0).hasValue() && optional.none().or(optional.of(2)).orValue(3) == 2",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
        "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1), optional.none()].unwrapOpt() == [1]",
        "quantity('1k').isGreaterThan(quantity('1')) && quantity('1').isLessThan(quantity('1k')) && sign(quantity('-1')) == -1",
        "quantity('1').compareTo(quantity('1')) == 0 && quantity('1500m').asApproximateFloat() == 1.5 && quantity('2k').asInteger() == 2000",
        "quantity('2').isInteger() && quantity('1').add(quantity('1')) == quantity('2') && quantity('1').sub(1) == quantity('0') && isQuantity('1')",
        "'abc'.charAt(1) == 'b' && 'AbC'.lowerAscii() == 'abc' && 'AbC'.upperAscii() == 'ABC' && ' a '.trim() == 'a'",
        "'aa'.replace('a', 'b') == 'bb' && 'aa'.replace('a', 'b', 1) == 'ba' && 'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'abc'.substring(1) == 'bc' && 'abc'.substring(1, 2) == 'b' && '%d'.format([1]) == '1' && strings.quote('a') == '\"a\"'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])",
        "ip('::1').family() == 6 && ip.isCanonical('::1') && isIP('1.2.3.4') && isCIDR('10.0.0.0/8') && ip('0.0.0.0').isUnspecified()",
        "ip('::1').isLoopback() && ip('224.0.0.1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast() && ip('1.1.1.1').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
        "cidr('10.1.0.0/8').ip() == ip('10.1.0.0') && cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')",
        "!format.dns1123Label().validate('a').hasValue() && format.dns1123Subdomain().validate('-').hasValue()",
        "format.dns1035Label().validate('1').hasValue() && !format.qualifiedName().validate('a/b').hasValue()",
        "!format.dns1123LabelPrefix().validate('a-').hasValue() && !format.dns1123SubdomainPrefix().validate('a.b-').hasValue()",
        "!format.dns1035LabelPrefix().validate('a-').hasValue() && !format.labelValue().validate('').hasValue()",
        "!format.uri().validate('http://a').hasValue() && format.uuid().validate('a').hasValue() && !format.byte().validate('YQ==').hasValue()",
        "!format.date().validate('2024-02-29').hasValue() && format.datetime().validate('x').hasValue()",
        "format.named('dns1123Label').value().validate('A').hasValue() && !format.named('nope').hasValue()",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3 && isSemver('1.2.3') && semver('v1.2', true).major() == 1",
        "semver('1.2.3').isGreaterThan(semver('1.2.2')) && semver('1.2.3').isLessThan(semver('2.0.0')) && semver('1.0.0').compareTo(semver('1.0.0')) == 0",
        "[1, 2, 3].slice(1, 2) == [2] && [[1], [2]].flatten() == [1, 2] && [[[1]], [[2]]].flatten(2) == [1, 2]",
        "[2, 1].sort() == [1, 2] && ['b', 'a'].sort() == ['a', 'b'] && [b'b', b'a'].sort() == [b'a', b'b'] && [duration('2s'), duration('1s')].sort()[0] == duration('1s')",
        "lists.range(2) == [0, 1] && [1, 2].reverse() == [2, 1] && [1, 1].distinct() == [1]",
        "size('a') == 1 && type(1) == int && bool('true') && bytes('a') == b'a' && double(1) == 1.0 && duration('1s') == duration('1s') && dyn(1) == 1",
        "int('1') == 1 && string(1) == '1' && timestamp(0) == timestamp('1970-01-01T00:00:00Z') && uint(1) == 1u",
    ];
    let mut failed = Vec::new();
    for rule in &rules {
        let given = run(rule, &json!({"type": "integer"}), &json!(1));
        if given != Ok(Cel::Bool(true)) {
            failed.push(format!("{rule}: {:?}", given.map_err(|error| error.to_string())));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let permissions = "path group serviceAccount resource subresource namespace name check errored allowed error reason fieldSelector labelSelector";
    let written = rules.join(" ");
    let missing: Vec<&str> = names()
        .filter(|name| !name.contains(['_', '@']) && !permissions.split(' ').any(|other| other == *name))
        .filter(|name| !written.contains(name))
        .collect();
    assert!(missing.is_empty(), "no rule calls {missing:?}");
}

proptest! {
    /// Also what the checker would refuse: types are not always known before.
    #[test]
    fn no_expression_makes_the_runner_panic(text in expression(), number: i64) {
        let schema = json!({});
        let value = json!({"l": [number, "a", null], "m": {"a": number}, "x": 1.5, "s": "ü"});
        if let Some(expression) = Expression::read(&text, false) {
            let _ = Sight::new(&schema, &value, Some(&value)).with_scope(false, |scope| expression.run(scope));
        }
    }
}
