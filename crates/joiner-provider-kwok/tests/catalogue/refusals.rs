//! Files that are refused, and what is said about them.

use joiner_provider_kwok::Catalogue;

/// The message of a refused file, the leading file name taken off each line.
fn refusal(file_name: &str, text: &str) -> String {
    let error = Catalogue::from_text(file_name, text).expect_err("the file must be refused");
    let start = format!("`{file_name}`: ");
    let lines: Vec<String> = error
        .to_string()
        .lines()
        .map(|line| {
            line.strip_prefix(&start).unwrap_or_else(|| panic!("no file name in `{line}`")).to_owned()
        })
        .collect();
    lines.join("\n")
}

#[test]
fn recorded_bad_files() {
    assert_eq!(
        refusal("types-badqty.json", include_str!("../data/types-badqty.json")),
        "entry [0] (`bad`): `resources.cpu` is `eight`: not a quantity; write a form like `4`, `500m` or `16Gi`\n\
         entry [0] (`bad`): `offerings`: empty: the type could never be chosen; give at least one offering"
    );
    assert_eq!(
        refusal("types-nooff.json", include_str!("../data/types-nooff.json")),
        "entry [0] (`nooff`): `unknownKey`: unknown key; known here are `name`, `architecture`, `operatingSystems`, \
         `resources`, `offerings`, `volumeLimits`\n\
         entry [0] (`nooff`): `offerings`: empty: the type could never be chosen; give at least one offering"
    );
    let node = refusal("node.json", include_str!("../data/node-without-kubelet.json"));
    assert!(node.starts_with("entry [0]: `apiVersion`: unknown key"), "{node}");
}

/// A good entry in which one piece of text is replaced by another, and the complaint that follows.
#[test]
fn one_slip_at_a_time() {
    const GOOD: &str = "- {name: a.large, architecture: amd64, operatingSystems: [linux], \
        resources: {cpu: 2, memory: 4Gi}, offerings: [{Price: 0.5, Available: true, ReservationCapacity: 0, \
        Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}, \
        {key: example.com/n, operator: Gt, values: ['3']}, \
        {key: topology.kubernetes.io/zone, operator: In, values: [z]}]}]}";
    Catalogue::from_text("good.yaml", GOOD).expect("the text the slips are made in is good");
    let number = "expected text; put it in quotes";
    let syntax =
        "cannot be a label value: use at most 63 letters, digits, `-`, `_`, `.`, alphanumeric at both ends";
    let offering_keys = "unknown key; known here are `Price`, `Available`, `Requirements`, `ReservationCapacity`, \
                         `capacityType`, `zone`, `capacityOverride`";
    for (from, to, expected) in [
        ("name: a.large", "name: 12", format!("`name` is `12`: {number}")),
        ("name: a.large", "name: ''", "`name` is ``: must not be empty".to_owned()),
        ("name: a.large", "name: a b", format!("`name` is `a b`: {syntax}")),
        ("name: a.large, ", "", "`name`: missing; every instance type needs it".to_owned()),
        ("name: a.large, ", "name: null, ", "`name`: missing; every instance type needs it".to_owned()),
        ("architecture: amd64, ", "", "`architecture`: missing; every instance type needs it".to_owned()),
        ("architecture", "arch", String::new()),
        ("[linux]", "[]", "`operatingSystems`: must not be empty; name at least one value".to_owned()),
        ("[linux]", "linux", "`operatingSystems` is `linux`: expected a list".to_owned()),
        ("[linux]", "[linux, linux]", "`operatingSystems[1]` is `linux`: the value stands in the list before".to_owned()),
        (
            "resources: {cpu: 2, memory: 4Gi}",
            "resources: {}",
            "`resources.cpu`: missing: no pod would ever fit; give the machine's amount".to_owned(),
        ),
        ("resources: {cpu: 2, memory: 4Gi}, ", "", "`resources`: missing; every instance type needs it".to_owned()),
        (
            "cpu: 2,",
            "cpu: 0,",
            "`resources.cpu`: zero: no pod would ever fit; give the machine's amount".to_owned(),
        ),
        ("cpu: 2,", "cpu: -2,", "`resources.cpu` is `-2`: a machine cannot have a negative amount".to_owned()),
        (
            "4Gi",
            "4GB",
            "`resources.memory` is `4GB`: not a quantity; write a form like `4`, `500m` or `16Gi`".to_owned(),
        ),
        (
            "4Gi",
            "[4Gi]",
            "`resources.memory` is `[… 1 items]`: expected a quantity such as `4`, `500m` or `16Gi`".to_owned(),
        ),
        (
            "cpu: 2,",
            "cpu: 2, 'a b': 1,",
            "`resources.a b` is `1`: not a resource name; use a form like `cpu` or `example.com/gpu`".to_owned(),
        ),
        ("Price: 0.5, ", "", "`offerings[0].Price`: missing; give the price per hour".to_owned()),
        (
            "Price: 0.5",
            "price: -0.5",
            "`offerings[0].price` is `-0.5`: negative; give a price per hour of 0 or more".to_owned(),
        ),
        ("Price: 0.5", "Price: .nan", "`offerings[0].Price` is `NaN`: not a number; give the price per hour".to_owned()),
        ("Price: 0.5", "Price: .inf", "`offerings[0].Price` is `inf`: not finite; give the price per hour".to_owned()),
        (
            "Price: 0.5",
            "Price: '0.5'",
            "`offerings[0].Price` is `0.5`: expected a number; write the price without quotes".to_owned(),
        ),
        (
            "Price: 0.5",
            "Price: 0.5, price: 0.6",
            "`offerings[0].price` is `0.6`: the same key was given before as `Price`; keep one".to_owned(),
        ),
        ("Price: 0.5", "Price: 0.5, cost: 1", format!("`offerings[0].cost`: {offering_keys}")),
        ("Available: true", "Available: 1", "`offerings[0].Available` is `1`: expected `true` or `false`".to_owned()),
        (
            "ReservationCapacity: 0",
            "ReservationCapacity: -1",
            "`offerings[0].ReservationCapacity` is `-1`: expected a whole number from 0 to 4294967295".to_owned(),
        ),
        (
            "Available: true",
            "zone: z",
            "`offerings[0].zone` is `z`: `Requirements` names `topology.kubernetes.io/zone` as well; keep one of the two"
                .to_owned(),
        ),
        (
            "[spot]",
            "[cheap]",
            "`offerings[0].Requirements[0]`: unknown capacity type `cheap`; use one of `on-demand`, `reserved`, `spot`"
                .to_owned(),
        ),
        ("[spot]", "[]", "`offerings[0].Requirements[0]`: operator `In` needs at least one value".to_owned()),
        (
            "operator: In, values: [z]",
            "operator: NotIn, values: [z]",
            "`offerings[0].Requirements[2]`: an offering must name its `topology.kubernetes.io/zone` with operator `In`"
                .to_owned(),
        ),
        (
            "operator: Gt",
            "operator: Above",
            "`offerings[0].Requirements[1].operator` is `Above`: unknown operator; use one of `In`, `NotIn`, `Exists`, \
             `DoesNotExist`, `Gt`, `Lt`, `Gte`, `Lte`"
                .to_owned(),
        ),
        (
            "operator: Gt",
            "operator: Exists",
            "`offerings[0].Requirements[1]`: operator `Exists` takes no values".to_owned(),
        ),
        (
            "['3']",
            "['3', '4']",
            "`offerings[0].Requirements[1]`: operator `Gt` needs exactly one value, a whole number from 0".to_owned(),
        ),
        ("['3']", "[3]", format!("`offerings[0].Requirements[1].values[0]` is `3`: {number}")),
        ("operator: Gt, ", "", "`offerings[0].Requirements[1].operator`: missing; every requirement needs it".to_owned()),
        ("example.com/n", "Example.com/n", "`offerings[0].Requirements[1].key` is `Example.com/n`: not a label key".to_owned()),
        (
            "example.com/n, operator: Gt, values: ['3']",
            "failure-domain.beta.kubernetes.io/zone, operator: In, values: [y]",
            "`offerings[0].Requirements[2]`: `topology.kubernetes.io/zone` is required twice in one offering; keep one"
                .to_owned(),
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let message = refusal("bad.yaml", &GOOD.replacen(from, to, 1));
        let first = message.lines().next().unwrap_or_default();
        if expected.is_empty() {
            assert!(message.contains("`arch`: unknown key") && message.contains("`architecture`: missing"));
        } else {
            let (_, said) = first.split_once(": ").expect("an entry stands before the complaint");
            assert_eq!(said, expected, "{from} -> {to}");
        }
        assert!(first.starts_with("entry [0]"), "{first}");
    }
}

const TWO: &str = "
- &a {name: a, architecture: amd64, operatingSystems: [linux], resources: {cpu: 1, memory: 1Gi}, offerings: [{price: 1}]}
- *a
";

#[test]
fn volume_limits_are_whole_numbers_under_drivers() {
    for (limits, expected) in [
        (
            "3",
            "`volumeLimits` is `3`: expected a table of CSI drivers and numbers, such as `{ebs.csi.aws.com: 25}`",
        ),
        ("{d.io: -1}", "`volumeLimits[d.io]` is `-1`: expected a whole number from 0 to 4294967295"),
        (
            "{d.io: 5000000000}",
            "`volumeLimits[d.io]` is `5000000000`: expected a whole number from 0 to 4294967295",
        ),
        ("{d.io: '3'}", "`volumeLimits[d.io]` is `3`: expected a whole number; write it without quotes"),
        (
            "{d.io: 1.5}",
            "`volumeLimits[d.io]` is `1.5`: expected a whole number, how many volumes the driver attaches to one machine",
        ),
        (
            "{'': 1}",
            "`volumeLimits[]` is `1`: not the name of a CSI driver; use a form like `ebs.csi.aws.com`",
        ),
    ] {
        let text = format!(
            "- {{name: a, architecture: amd64, operatingSystems: [linux], resources: {{cpu: 2, memory: 4Gi}}, \
             volumeLimits: {limits}, offerings: [{{zone: z, capacityType: spot, price: 1}}]}}"
        );
        assert_eq!(refusal("limits.yaml", &text), format!("entry [0] (`a`): {expected}"));
    }
}

#[test]
fn names_must_differ() {
    assert_eq!(
        refusal("two.yaml", TWO),
        "entry [1] (`a`): `name` is `a`: entry [0] has the same name; give every type its own"
    );
}

#[test]
fn documents_that_are_no_list() {
    for (file_name, text, expected) in [
        ("a.json", "", "there is nothing in it"),
        ("a.json", "[", "not JSON: EOF while parsing a list at line 1 column 1"),
        ("a.json", "[]", "no instance types: write a list with at least one entry"),
        ("a.json", "[] []", "not JSON: trailing characters at line 1 column 4"),
        ("a.json", "null", "no instance types: write a list with at least one entry"),
        ("a.yaml", "", "there is nothing in it"),
        ("a.yaml", "items: []", "no instance types: write a list with at least one entry"),
        ("a.json", "3", "`document` is `3`: expected a list of instance types"),
        ("a.json", "\"text\"", "`document` is `text`: expected a list of instance types"),
        ("a.json", r#"{"items": 3}"#, "`items` is `3`: expected a list of instance types"),
        (
            "a.json",
            r#"{"items": [], "itmes": 1}"#,
            "`itmes` is `1`: unknown key beside `items`; put it into an entry or drop it",
        ),
        (
            "a.json",
            "[4]",
            "entry [0]: expected a table with the keys `name`, `architecture`, `operatingSystems`, `resources`, `offerings`, \
             `volumeLimits`",
        ),
    ] {
        assert_eq!(refusal(file_name, text), expected, "{text}");
    }
    assert!(refusal("a.yaml", "[1, 2").starts_with("not YAML: "));
    assert!(refusal("a", "{\"name\": ").starts_with("not JSON: "));
    assert!(refusal("a", "x: [").starts_with("not YAML: "));
    assert_eq!(refusal("a.yaml", "a: 1\nb: [").lines().count(), 1, "one line even for a parser's long story");
}

#[test]
fn all_problems_are_reported_and_long_lists_are_cut() {
    let entries: Vec<String> = (0..30).map(|number| format!("{{name: t{number}}}")).collect();
    let text = format!("[{}]", entries.join(", "));
    let error = Catalogue::from_text("many.yaml", &text).expect_err("four keys are missing in each");
    assert_eq!(error.problems.len(), 120);
    let message = error.to_string();
    assert_eq!(message.lines().count(), 21);
    assert_eq!(message.lines().last(), Some("`many.yaml`: and 100 more problems"));
}

#[test]
fn long_values_are_shortened() {
    let name = "x".repeat(500);
    let message = refusal("long.json", &format!("[{{\"name\": \"{name}\"}}]"));
    assert!(message.lines().all(|line| line.chars().count() < 330), "{message}");
    let digits = "9".repeat(90);
    let message =
        refusal("digits.json", &format!("[{{\"name\": \"a\", \"resources\": {{\"cpu\": \"{digits}\"}}}}]"));
    assert!(message.contains("`resources.cpu`: too large to be written as a label"), "{message}");
    assert!(refusal("line.json", r#"[{"a\nb": 1}]"#).contains("`a\\nb`: unknown key"));
}
