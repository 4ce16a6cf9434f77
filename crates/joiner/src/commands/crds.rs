//! `crds`: the definitions joiner serves, ready to apply.

use joiner_core::explain::nearest;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::cli::CrdsArgs;
use crate::report::InputError;
use crate::{FINE, Streams, show};

/// Prints definitions.
pub fn run(arguments: &CrdsArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let mut all = joiner_api::crd::all();
    if !arguments.names.is_empty() {
        // Printed for who asks: clusters with the AWS provider bring their own.
        all.push(joiner_api::crd::ec2_node_class());
    }
    let objects: Result<Vec<Value>, _> = chosen(&all, &arguments.names)?.into_iter().map(object).collect();
    let text = show::documents(&objects?, arguments.output)?;
    streams.out.write_all(text.as_bytes())?;
    Ok(FINE)
}

/// Those named, in the order they are best applied; all if none is named.
fn chosen<'a>(
    all: &'a [CustomResourceDefinition],
    names: &[String],
) -> Result<Vec<&'a CustomResourceDefinition>, InputError> {
    let answers = |crd: &CustomResourceDefinition, name: &str| {
        names_of(crd).any(|known| known.eq_ignore_ascii_case(name))
    };
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|crd| answers(crd, name))) {
        return Err(no_such(all, unknown));
    }
    let is_wanted =
        |crd: &&CustomResourceDefinition| names.is_empty() || names.iter().any(|name| answers(crd, name));
    Ok(all.iter().filter(is_wanted).collect())
}

/// Everything a definition answers to, as `kubectl get` would.
fn names_of(crd: &CustomResourceDefinition) -> impl Iterator<Item = &str> {
    let names = &crd.spec.names;
    [crd.metadata.name.as_ref(), Some(&names.plural), names.singular.as_ref(), Some(&names.kind)]
        .into_iter()
        .flatten()
        .chain(names.short_names.iter().flatten())
        .map(String::as_str)
}

fn no_such(all: &[CustomResourceDefinition], name: &str) -> InputError {
    let asked = name.to_ascii_lowercase();
    let remedy = match nearest(&asked, all.iter().flat_map(names_of)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "name one of them".to_owned(),
    };
    let known: Vec<&str> = all.iter().map(|crd| crd.spec.names.plural.as_str()).collect();
    InputError {
        message: format!("there is no definition called `{name}` (there are {})", known.join(", ")),
        remedy: Some(remedy),
        ..InputError::default()
    }
}

fn object(crd: &CustomResourceDefinition) -> serde_json::Result<Value> {
    let mut object = serde_json::to_value(crd)?;
    if let Some(fields) = object.as_object_mut() {
        // Only a server has something to say there.
        fields.remove("status");
    }
    Ok(object)
}
