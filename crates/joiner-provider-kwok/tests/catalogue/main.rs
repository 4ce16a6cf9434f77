//! Tests of the catalogue through its public face.

mod aws;
mod commands;
mod files;
mod formulae;
mod fuzz;
mod refusals;
mod round_trip;

use joiner_api::instance_type::{InstanceType, Operator};

/// Allocatable, label and requirement texts in one line each, for comparisons.
fn resources(list: &joiner_api::instance_type::ResourceList) -> String {
    list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
}

/// The value a type fixes for a label; `-` if the type lacks the label, `a|b` if it leaves a choice.
fn label(of: &InstanceType, key: &str) -> String {
    let requirement = of.requirement(key).unwrap_or_else(|| panic!("`{}` says nothing of `{key}`", of.name));
    match requirement.operator {
        Operator::DoesNotExist => "-".to_owned(),
        Operator::In => requirement.values.join("|"),
        other => panic!("unexpected operator {other}"),
    }
}

fn named<'a>(types: &'a [InstanceType], name: &str) -> &'a InstanceType {
    types.iter().find(|of| of.name == name).unwrap_or_else(|| panic!("no type `{name}`"))
}
