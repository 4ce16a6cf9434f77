//! Node settings of the AWS provider: once inside the Provisioner or in an AWSNodeTemplate, now an EC2NodeClass.

use serde_json::{Map, Value, json};

use super::{Converted, Error, NodeClassKind, Options, Source, join};
use crate::names::{self, kinds};

/// The most terms a selector of an EC2NodeClass may have.
const MAX_TERMS: usize = 30;

pub(super) fn class_kind() -> NodeClassKind {
    NodeClassKind { group: names::AWS_GROUP.to_owned(), kind: kinds::EC2_NODE_CLASS.to_owned() }
}

/// An AWSNodeTemplate becomes a class of the same name.
pub(super) fn node_template(mut source: Source, options: &Options) -> Result<Converted, Error> {
    let old = std::mem::take(&mut source.spec);
    let mut metadata = std::mem::take(&mut source.metadata);
    for field in ["name", "labels", "annotations"] {
        let mut kept = std::mem::take(&mut source.metadata);
        source.carry(&mut metadata, field, &mut kept);
        source.metadata = kept;
    }
    source.status = Map::new();
    let spec = class_spec(&mut source, "spec", old, None, options)?;
    Ok(source.finish(names::AWS_API_VERSION, kinds::EC2_NODE_CLASS, spec, Vec::new()))
}

/// The class for the settings that stood inside a Provisioner.
pub(super) fn inline_class(
    source: &mut Source,
    name: &str,
    provider: Map<String, Value>,
    kubelet: Option<Map<String, Value>>,
    options: &Options,
) -> Result<Value, Error> {
    let spec = class_spec(source, "spec.provider", provider, kubelet, options)?;
    Ok(json!({
        "apiVersion": names::AWS_API_VERSION,
        "kind": kinds::EC2_NODE_CLASS,
        "metadata": { "name": name },
        "spec": spec,
    }))
}

fn class_spec(
    source: &mut Source,
    path: &str,
    mut old: Map<String, Value>,
    kubelet: Option<Map<String, Value>>,
    options: &Options,
) -> Result<Map<String, Value>, Error> {
    for field in ["launchTemplate", "launchTemplateName"] {
        if old.get(field).is_some_and(|value| !value.is_null()) {
            return Err(source.inconvertible(
                &join(path, field),
                "launch templates of your own are no longer supported",
                "remove it and write its image, user data, volumes and security groups as fields",
            ));
        }
    }
    // The header that inline settings used to carry.
    for field in ["apiVersion", "kind"] {
        old.remove(field);
    }
    let mut spec = Map::new();
    images(source, path, &mut old, &mut spec, options)?;
    selector(source, path, &mut old, &mut spec, ("subnetSelector", "subnetSelectorTerms"), options)?;
    let security_groups = ("securityGroupSelector", "securityGroupSelectorTerms");
    selector(source, path, &mut old, &mut spec, security_groups, options)?;
    match source.take_text(&mut old, path, "instanceProfile")? {
        Some(profile) => {
            spec.insert("instanceProfile".to_owned(), profile.into());
        }
        None => {
            let role = format!("KarpenterNodeRole-{}", cluster(options));
            let message = format!(
                "absent: it came from the settings of the controller; fill in `role`, set to `{role}`"
            );
            source.note(join(path, "instanceProfile"), message);
            spec.insert("role".to_owned(), role.into());
        }
    }
    let fields =
        ["tags", "metadataOptions", "blockDeviceMappings", "userData", "detailedMonitoring", "context"];
    for field in fields {
        source.carry(&mut old, field, &mut spec);
    }
    if let Some(kubelet) = kubelet {
        spec.insert("kubelet".to_owned(), kubelet.into());
    }
    source.note_leftovers(path, old);
    Ok(spec)
}

fn cluster(options: &Options) -> &str {
    options.cluster_name.as_deref().unwrap_or("${CLUSTER_NAME}")
}

/// Image family and selector.
fn images(
    source: &mut Source,
    path: &str,
    old: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
    options: &Options,
) -> Result<(), Error> {
    let family = match source.take_text(old, path, "amiFamily")?.filter(|family| !family.is_empty()) {
        Some(family) => family,
        // Amazon Linux 2 images end with Kubernetes 1.32.
        None if options.kubernetes_minor.is_some_and(|minor| minor >= 33) => {
            source.note(
                join(path, "amiFamily"),
                "absent meant AL2, which Kubernetes 1.33 and later no longer have; set to AL2023",
            );
            "AL2023".to_owned()
        }
        None => {
            source.note(join(path, "amiFamily"), "absent meant AL2, written out");
            "AL2".to_owned()
        }
    };
    match source.take_map(old, path, "amiSelector")? {
        Some(selector) => {
            let family = if family == "Ubuntu" {
                let message =
                    "Ubuntu is no longer a family of its own; set to AL2, whose bootstrap script it shares";
                source.note(join(path, "amiFamily"), message);
                "AL2".to_owned()
            } else {
                family
            };
            let terms = image_terms(source, &join(path, "amiSelector"), selector)?;
            spec.insert("amiFamily".to_owned(), family.into());
            spec.insert("amiSelectorTerms".to_owned(), terms.into());
        }
        None => match family.as_str() {
            "AL2" | "AL2023" | "Bottlerocket" | "Windows2019" | "Windows2022" => {
                let alias = format!("{}@latest", family.to_lowercase());
                spec.insert("amiSelectorTerms".to_owned(), json!([{ "alias": alias }]));
            }
            _ => {
                return Err(source.inconvertible(
                    &join(path, "amiFamily"),
                    format!("family `{family}` has no default image today"),
                    "select images with `amiSelector` first",
                ));
            }
        },
    }
    Ok(())
}

/// Terms for subnets or security groups.
fn selector(
    source: &mut Source,
    path: &str,
    old: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
    (field, terms_field): (&str, &str),
    options: &Options,
) -> Result<(), Error> {
    let full = join(path, field);
    let terms = match source.take_map(old, path, field)?.filter(|map| !map.is_empty()) {
        Some(map) => {
            let (ids, tags) = split_selector(source, &full, map, &["aws-ids", "aws::ids"])?;
            terms_of(source, &full, ids.into_iter().next().map(|(_, ids)| ids), Vec::new(), tags)?
        }
        None => {
            let tag = format!("kubernetes.io/cluster/{}", cluster(options));
            source.note(full, format!("absent meant everything tagged `{tag}`, written out"));
            vec![json!({ "tags": { tag: "*" } })]
        }
    };
    spec.insert(terms_field.to_owned(), terms.into());
    Ok(())
}

fn image_terms(source: &mut Source, path: &str, selector: Map<String, Value>) -> Result<Vec<Value>, Error> {
    let special = ["aws-ids", "aws::ids", "aws::name", "aws::owners"];
    let (found, tags) = split_selector(source, path, selector, &special)?;
    let mut ids = None;
    let mut others = Vec::new();
    for (key, values) in found {
        match key.as_str() {
            "aws::name" => others.push(("name", values)),
            "aws::owners" => others.push(("owner", values)),
            _ => ids = Some(values),
        }
    }
    terms_of(source, path, ids, others, tags)
}

type Lists = Vec<(String, Vec<String>)>;

/// Splits a selector into special keys and tags, each with its comma list of values.
fn split_selector(
    source: &Source,
    path: &str,
    selector: Map<String, Value>,
    special: &[&str],
) -> Result<(Lists, Lists), Error> {
    let mut sorted: Vec<_> = selector.into_iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (mut found, mut tags) = (Lists::new(), Lists::new());
    for (key, value) in sorted {
        let Value::String(text) = value else {
            return Err(source.malformed(join(path, &key), &value, "text"));
        };
        let values = text.split(',').map(|value| value.trim().to_owned()).collect();
        if special.contains(&key.as_str()) {
            found.push((key, values));
        } else {
            tags.push((key, values));
        }
    }
    Ok((found, tags))
}

/// One term per combination of listed values; a term by id stands alone.
fn terms_of(
    source: &mut Source,
    path: &str,
    ids: Option<Vec<String>>,
    others: Vec<(&str, Vec<String>)>,
    tags: Lists,
) -> Result<Vec<Value>, Error> {
    let terms = if let Some(ids) = ids {
        if !others.is_empty() || !tags.is_empty() {
            let message =
                "selects by id only: a term with an id cannot ask for names, owners or tags any more";
            source.note(path, message);
        }
        ids.into_iter().map(|id| json!({ "id": id })).collect()
    } else {
        let mut terms = vec![json!({})];
        for (field, values) in others {
            terms = product(&terms, &values, |term, value| term[field] = value.into());
        }
        for (tag, values) in tags {
            terms = product(&terms, &values, |term, value| term["tags"][&tag] = value.into());
        }
        terms
    };
    if terms.len() > MAX_TERMS {
        return Err(source.inconvertible(
            path,
            format!("it would need {} terms, more than {MAX_TERMS}", terms.len()),
            "list fewer values",
        ));
    }
    Ok(terms)
}

fn product(terms: &[Value], values: &[String], set: impl Fn(&mut Value, &str)) -> Vec<Value> {
    // Beyond the limit the exact number no longer matters, only that it is too large.
    let combine = |term: &Value| {
        values
            .iter()
            .map(|value| {
                let mut term = term.clone();
                set(&mut term, value);
                term
            })
            .collect::<Vec<_>>()
    };
    terms.iter().flat_map(combine).take(MAX_TERMS * MAX_TERMS).collect()
}
