//! Labels that follow from a type's name and capacity, and the syntax of labels.
//!
//! The KWOK provider derives four labels (family, size, cpu, memory). Names of AWS shape (`c5.large`) give in
//! addition the labels that `joiner-provider-aws` derives, so that a NodePool written for AWS selects the same machines here.

use joiner_api::instance_type::{ResourceList, TypeRequirement};
use joiner_api::names::{
    KWOK_INSTANCE_CPU_LABEL, KWOK_INSTANCE_FAMILY_LABEL, KWOK_INSTANCE_MEMORY_LABEL, KWOK_INSTANCE_SIZE_LABEL,
};
use joiner_api::quantity::Quantity;
use joiner_provider_aws::labels::is_plain_size;

/// The family part of a name: what precedes the first `.` or `-`, or the first character if neither occurs.
pub fn kwok_family(name: &str) -> &str {
    match name.split_once(['.', '-']) {
        Some((family, _)) => family,
        None => name.chars().next().map_or("", |first| &name[..first.len_utf8()]),
    }
}

/// The size part of a name such as `m5.2xlarge`; other names are sized by their CPU quantity.
pub fn kwok_size<'a>(name: &'a str, cpu: &'a str) -> &'a str {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match name.split_once('.') {
        Some((family, size)) if is_word(family) && is_plain_size(size) => size,
        _ => cpu,
    }
}

/// The four labels of the KWOK provider.
pub fn kwok_requirements(name: &str, resources: &ResourceList) -> [TypeRequirement; 4] {
    let text_of = |resource: &str| resources.get(resource).map(Quantity::to_string);
    let (cpu, memory) = (text_of("cpu").unwrap_or_default(), text_of("memory").unwrap_or_default());
    [
        TypeRequirement::one_of(KWOK_INSTANCE_SIZE_LABEL, [kwok_size(name, &cpu)]),
        TypeRequirement::one_of(KWOK_INSTANCE_FAMILY_LABEL, [kwok_family(name)]),
        TypeRequirement::one_of(KWOK_INSTANCE_CPU_LABEL, [cpu.as_str()]),
        TypeRequirement::one_of(KWOK_INSTANCE_MEMORY_LABEL, [memory.as_str()]),
    ]
}

/// Whether text can stand as a label value: at most 63 letters, digits, `-`, `_`, `.`, alphanumeric at both ends.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_name(text)
}

/// Whether text can stand as a label key: a name as above, optionally behind a DNS domain and a slash.
pub fn is_label_key(text: &str) -> bool {
    let Some((domain, name)) = text.split_once('/') else { return is_label_name(text) };
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    domain.len() <= 253 && domain.split('.').all(is_part) && is_label_name(name)
}

fn is_label_name(text: &str) -> bool {
    let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && ends_well(bytes.first())
        && ends_well(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kwok_labels_follow_the_name() {
        for (name, family, size) in [
            ("c-1x-amd64-linux", "c", "16"),
            ("m5.2xlarge", "m5", "2xlarge"),
            ("m5.xlarge", "m5", "xlarge"),
            ("x.large", "x", "large"),
            ("c5.metal", "c5", "metal"),
            ("c7i.metal-24xl", "c7i", "16"),
            ("c7i-flex.4xlarge", "c7i", "16"),
            ("u-18tb1.112xlarge", "u", "16"),
            ("t3.nano", "t3", "nano"),
            ("a.b.large", "a", "16"),
            ("m5.Large", "m5", "16"),
            ("m5.x2xlarge", "m5", "16"),
            ("under_score.small", "under_score", "small"),
            (".large", "", "16"),
            ("standard", "s", "16"),
            ("ärmel", "ä", "16"),
            ("", "", "16"),
        ] {
            assert_eq!((kwok_family(name), kwok_size(name, "16")), (family, size), "{name}");
        }
    }

    #[test]
    fn label_syntax() {
        let long = "a".repeat(64);
        for (text, value, key) in [
            ("", true, false),
            ("a", true, true),
            ("c5.large", true, true),
            ("-a", false, false),
            ("a b", false, false),
            (&long[..63], true, true),
            (&long, false, false),
            ("example.com/rack", false, true),
            ("Example.com/rack", false, false),
            ("/rack", false, false),
            ("example.com/", false, false),
            ("a/b/c", false, false),
            ("ü", false, false),
        ] {
            assert_eq!((is_label_value(text), is_label_key(text)), (value, key), "{text}");
        }
    }
}
