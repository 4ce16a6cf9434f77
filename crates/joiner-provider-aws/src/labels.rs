//! What names and capacities of AWS types tell about their machines, as labels.
//!
//! Facts that a name does not tell (hypervisor, local disks, network bandwidth, …) are left out: a NodePool that
//! insists on them is told that nothing is known.

use joiner_api::instance_type::{ResourceList, TypeRequirement};
use joiner_api::names::{
    AWS_INSTANCE_CATEGORY_LABEL, AWS_INSTANCE_CPU_LABEL, AWS_INSTANCE_FAMILY_LABEL,
    AWS_INSTANCE_GENERATION_LABEL, AWS_INSTANCE_MEMORY_LABEL, AWS_INSTANCE_SIZE_LABEL,
};
use joiner_api::quantity::Quantity;

/// AWS: whether the family is a flexible one.
pub const AWS_FLEX_LABEL: &str = "karpenter.k8s.aws/instance-capability-flex";
/// AWS: maker of the CPUs, lower case.
pub const AWS_CPU_MANUFACTURER_LABEL: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
/// AWS: number of GPUs.
pub const AWS_GPU_COUNT_LABEL: &str = "karpenter.k8s.aws/instance-gpu-count";
/// AWS: model of the GPUs, lower case.
pub const AWS_GPU_NAME_LABEL: &str = "karpenter.k8s.aws/instance-gpu-name";
/// AWS: maker of the GPUs, lower case.
pub const AWS_GPU_MANUFACTURER_LABEL: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";

/// The AWS labels that every type of a list with AWS-shaped names has or is known to lack, in the order in which
/// [`requirements`] states them.
pub const AWS_LABELS: [&str; 11] = [
    AWS_INSTANCE_CATEGORY_LABEL,
    AWS_INSTANCE_FAMILY_LABEL,
    AWS_INSTANCE_GENERATION_LABEL,
    AWS_INSTANCE_SIZE_LABEL,
    AWS_FLEX_LABEL,
    AWS_INSTANCE_CPU_LABEL,
    AWS_INSTANCE_MEMORY_LABEL,
    AWS_GPU_COUNT_LABEL,
    AWS_GPU_NAME_LABEL,
    AWS_GPU_MANUFACTURER_LABEL,
    AWS_CPU_MANUFACTURER_LABEL,
];

/// Families whose names do not tell the maker of their CPUs by the usual letter.
const AWS_CPU_MAKERS: [(&str, &str); 11] = [
    ("a1", "aws"),
    ("f2", "amd"),
    ("g5", "amd"),
    ("g6", "amd"),
    ("g6e", "amd"),
    ("g6f", "amd"),
    ("gr6", "amd"),
    ("gr6f", "amd"),
    ("inf2", "amd"),
    ("p5", "amd"),
    ("p5e", "amd"),
];

/// Categories that had Intel's CPUs without a letter for it, up to this generation.
const AWS_PLAIN_INTEL: [(&str, u32); 17] = [
    ("c", 5),
    ("d", 3),
    ("dl", 1),
    ("f", 1),
    ("g", 4),
    ("h", 1),
    ("i", 3),
    ("inf", 1),
    ("m", 5),
    ("p", 4),
    ("r", 5),
    ("t", 3),
    ("trn", 1),
    ("u", 1),
    ("vt", 1),
    ("x", 1),
    ("z", 1),
];

/// GPU resources and the makers they stand for.
const GPU_RESOURCES: [(&str, &str); 2] = [("nvidia.com/gpu", "nvidia"), ("amd.com/gpu", "amd")];

/// GPU models by AWS family. Models only: the number of GPUs is the capacity's business.
const AWS_GPU_MODELS: [(&str, &str); 21] = [
    ("g3", "m60"),
    ("g3s", "m60"),
    ("g4ad", "radeon-pro-v520"),
    ("g4dn", "t4"),
    ("g5", "a10g"),
    ("g5g", "t4g"),
    ("g6", "l4"),
    ("g6e", "l40s"),
    ("g6f", "l4"),
    ("gr6", "l4"),
    ("gr6f", "l4"),
    ("p2", "k80"),
    ("p3", "v100"),
    ("p3dn", "v100"),
    ("p4d", "a100"),
    ("p4de", "a100"),
    ("p5", "h100"),
    ("p5e", "h200"),
    ("p5en", "h200"),
    ("p6-b200", "b200"),
    ("p6e-gb200", "gb200"),
];

const MIB: i64 = 1 << 20;

/// The parts of an AWS type name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwsName<'a> {
    /// Leading letters, e.g. `c`, `im`, `u`.
    pub category: &'a str,
    /// All before the dot, e.g. `c7i-flex`.
    pub family: &'a str,
    /// The first number that is not a memory size, e.g. `7`; `1` for `u-6tb1`.
    pub generation: &'a str,
    /// All after the dot, e.g. `metal-24xl`.
    pub size: &'a str,
}

impl<'a> AwsName<'a> {
    /// Takes a name apart, if it has the shape of an AWS type name.
    ///
    /// The size must be one AWS uses: a custom `node1.gold` is somebody's own name and gets no AWS labels.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (family, size) = name.split_once('.')?;
        let is_family =
            family.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !is_family || !(is_plain_size(size) || is_metal_size(size)) {
            return None;
        }
        let (category, rest) = split_at_end_of(family, |byte| byte.is_ascii_lowercase());
        let (generation, _) = split_at_end_of(without_memory_size(rest), |byte| byte.is_ascii_digit());
        (!category.is_empty() && !generation.is_empty()).then_some(AwsName {
            category,
            family,
            generation,
            size,
        })
    }

    /// The maker of the CPUs, where it is certain: `g` after the generation is AWS' own, `a` AMD, `i` Intel.
    pub fn cpu_maker(&self) -> Option<&'static str> {
        if let Some((_, maker)) = AWS_CPU_MAKERS.iter().find(|(family, _)| *family == self.family) {
            return Some(maker);
        }
        let (_, after) = self.family.split_once(self.generation)?;
        let (letters, _) = split_at_end_of(after, |byte| byte.is_ascii_lowercase());
        let of_letter = letters.chars().find_map(|letter| match letter {
            'g' => Some("aws"),
            'a' => Some("amd"),
            'i' => Some("intel"),
            _ => None,
        });
        let generation: u32 = self.generation.parse().ok()?;
        let is_plain =
            AWS_PLAIN_INTEL.iter().any(|(category, last)| *category == self.category && generation <= *last);
        of_letter.or(is_plain.then_some("intel"))
    }

    /// Whether the family is one of those with a flexible CPU share.
    pub fn is_flex(&self) -> bool {
        self.family.ends_with("-flex")
    }
}

/// `metal-24xl` and the like.
fn is_metal_size(size: &str) -> bool {
    size.strip_prefix("metal-")
        .and_then(|rest| rest.strip_suffix("xl"))
        .is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Drops the `-6tb` of `u-6tb1`, where the generation follows the memory size.
fn without_memory_size(rest: &str) -> &str {
    rest.strip_prefix('-')
        .map(|size| split_at_end_of(size, |byte| byte.is_ascii_digit()))
        .filter(|(digits, _)| !digits.is_empty())
        .and_then(|(_, after)| after.strip_prefix("tb"))
        .unwrap_or(rest)
}

/// Splits ASCII text after the longest prefix whose bytes all pass.
fn split_at_end_of(text: &str, passes: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !passes(byte)).unwrap_or(text.len()))
}

/// The AWS labels of a type: values where its name and capacity tell them, else the statement that it lacks them.
pub fn requirements(name: &str, resources: &ResourceList) -> Vec<TypeRequirement> {
    let Some(parts) = AwsName::parse(name) else {
        return AWS_LABELS.into_iter().map(TypeRequirement::absent).collect();
    };
    let whole = |resource: &str| resources.get(resource).map(Quantity::value_saturating);
    let gpu = only_gpu(resources);
    let model = AWS_GPU_MODELS.iter().find(|(family, _)| *family == parts.family).map(|(_, model)| *model);
    let values = [
        Some(parts.category.to_owned()),
        Some(parts.family.to_owned()),
        Some(parts.generation.to_owned()),
        Some(parts.size.to_owned()),
        Some(parts.is_flex().to_string()),
        whole("cpu").map(|cpus| cpus.to_string()),
        whole("memory").map(|bytes| (bytes / MIB).to_string()),
        gpu.map(|(_, count)| count.to_string()),
        gpu.and(model).map(str::to_owned),
        gpu.map(|(maker, _)| maker.to_owned()),
        parts.cpu_maker().map(str::to_owned),
    ];
    let requirement = |(key, value): (&str, Option<String>)| match value {
        Some(value) => TypeRequirement::one_of(key, [value]),
        None => TypeRequirement::absent(key),
    };
    AWS_LABELS.into_iter().zip(values).map(requirement).collect()
}

/// Maker and number of the GPUs, if the machine has GPUs of exactly one maker.
fn only_gpu(resources: &ResourceList) -> Option<(&'static str, i64)> {
    let mut found = GPU_RESOURCES
        .into_iter()
        .filter_map(|(resource, maker)| Some((maker, resources.get(resource)?.value_saturating())))
        .filter(|(_, count)| *count > 0);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// `nano` … `large`, `xlarge` with or without a number before it, `metal`.
pub fn is_plain_size(size: &str) -> bool {
    match size {
        "nano" | "micro" | "small" | "medium" | "large" | "metal" => true,
        _ => size.strip_suffix("xlarge").is_some_and(|count| count.bytes().all(|byte| byte.is_ascii_digit())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aws_names_come_apart() {
        for (name, expected) in [
            ("c5.large", Some(("c", "c5", "5", "large"))),
            ("c7i-flex.8xlarge", Some(("c", "c7i-flex", "7", "8xlarge"))),
            ("r7iz.metal-32xl", Some(("r", "r7iz", "7", "metal-32xl"))),
            ("u-6tb1.56xlarge", Some(("u", "u-6tb1", "1", "56xlarge"))),
            ("u7i-12tb.224xlarge", Some(("u", "u7i-12tb", "7", "224xlarge"))),
            ("im4gn.large", Some(("im", "im4gn", "4", "large"))),
            ("p6-b200.48xlarge", Some(("p", "p6-b200", "6", "48xlarge"))),
            ("trn1n.32xlarge", Some(("trn", "trn1n", "1", "32xlarge"))),
            ("x.large", None),
            ("c-1x-amd64-linux", None),
            ("node1.gold", None),
            ("5c.large", None),
            ("C5.large", None),
            ("u-6tb.large", None),
            ("c5", None),
            ("c5.metal-xl", None),
            ("", None),
        ] {
            let found =
                AwsName::parse(name).map(|name| (name.category, name.family, name.generation, name.size));
            assert_eq!(found, expected, "{name}");
        }
    }

    fn aws_values(name: &str, resources: &[(&str, &str)]) -> Vec<Option<String>> {
        let resources =
            resources.iter().map(|(key, text)| ((*key).to_owned(), Quantity::parse(text).unwrap())).collect();
        requirements(name, &resources)
            .iter()
            .map(|requirement| requirement.single_value().map(str::to_owned))
            .collect()
    }

    #[test]
    fn aws_labels_hold_what_name_and_capacity_tell() {
        let some = |values: [&str; 7]| values.map(|value| Some(value.to_owned())).to_vec();
        let machine = [("cpu", "48"), ("memory", "192Gi")];
        let mut expected = some(["g", "g5", "5", "12xlarge", "false", "48", "196608"]);
        let maker = Some("amd".to_owned());
        expected.extend([None, None, None, maker.clone()]);
        assert_eq!(
            aws_values("g5.12xlarge", &machine),
            expected,
            "no GPU in the capacity, none in the labels"
        );

        let with_gpu = [machine[0], machine[1], ("nvidia.com/gpu", "4")];
        expected.truncate(7);
        expected.extend(["4", "a10g", "nvidia"].map(|value| Some(value.to_owned())));
        expected.push(maker);
        assert_eq!(aws_values("g5.12xlarge", &with_gpu), expected);

        let two_makers = [with_gpu[0], with_gpu[1], with_gpu[2], ("amd.com/gpu", "1")];
        assert_eq!(aws_values("g5.12xlarge", &two_makers)[7..10], [None, None, None]);
        assert_eq!(aws_values("m7i-flex.large", &machine)[4].as_deref(), Some("true"));
        assert_eq!(aws_values("own-name", &machine), vec![None; AWS_LABELS.len()]);
    }

    #[test]
    fn makers_of_cpus_follow_from_the_family() {
        for (name, maker) in [
            ("t4g.micro", Some("aws")),
            ("a1.large", Some("aws")),
            ("is4gen.large", Some("aws")),
            ("g5g.xlarge", Some("aws")),
            ("c5a.large", Some("amd")),
            ("g4ad.xlarge", Some("amd")),
            ("g5.xlarge", Some("amd")),
            ("m8azn.large", Some("amd")),
            ("m5.large", Some("intel")),
            ("g4dn.xlarge", Some("intel")),
            ("c7i-flex.large", Some("intel")),
            ("x2iedn.xlarge", Some("intel")),
            ("u-18tb1.112xlarge", Some("intel")),
            ("u7in-16tb.224xlarge", Some("intel")),
            ("mac2.metal", None),
            ("p6e-gb200.36xlarge", None),
            ("m9.large", None),
        ] {
            assert_eq!(AwsName::parse(name).and_then(|name| name.cpu_maker()), maker, "{name}");
        }
    }
}
