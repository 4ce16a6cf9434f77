//! Cases that are answered differently, with the reason.

/// Of `further.jsonl`, by the embedded server.
pub(crate) const EMBEDDED: &[(&str, &str)] = &[
    ("subresources/negative scale", "negative replicas are not refused"),
    ("subresources/scale by apply", "apply on `scale` is not there"),
    ("subresources/scale of a custom resource without replicas", "a Scale of 0 instead of an error"),
    ("subresources/binding by the collection", "the collection of bindings is not there"),
    ("subresources/binding with another uid", "the uid is not checked"),
    ("subresources/ephemeral containers", "`ephemeralcontainers` is not there"),
    ("strict/merge patch", "the message does not repeat the object"),
    ("strict/strategic patch", "the message does not repeat the patch"),
    ("strict/json patch", "the message does not repeat the object"),
    ("strict/duplicates in YAML", "duplicates in YAML are worded by the YAML reader"),
    ("strict/custom resource by a patch", "the message does not repeat the object"),
    ("tables/cron jobs", "the wide columns are missing"),
    ("tables/CSI nodes", "no columns of their own"),
    ("tables/runtime classes", "no columns of their own"),
    ("tables/autoscalers", "no columns of their own"),
    ("definitions/schema without a type", "the cause names the place in the version"),
    ("definitions/default of a wrong type", "defaults of definitions are not checked"),
    ("definitions/rule that does not compile", "rules of definitions are not checked"),
    ("definitions/rule that costs too much", "the cost of rules is not estimated"),
    ("definitions/no storage version", "the message shows the versions as sent"),
    ("definitions/no schema", "the message says more"),
    ("definitions/map list without keys", "the cause names the place in the version"),
    ("definitions/deprecated version warns", "no warning"),
    ("definitions/scope cannot change", "the scope may change"),
    ("definitions/embedded objects", "embedded objects are not checked"),
    ("requests/protobuf alone", "the message is that of a list of types"),
];

/// Of both files, by a real server: recordings that depend on more than the case says.
pub(crate) const REAL: &[(&str, &str)] = &[];
