//! Node settings of the AWS provider: once inside the Provisioner, in an AWSNodeTemplate or an EC2NodeClass of v1beta1, now an EC2NodeClass of v1.
//!
//! What comes out passes the definition of v1: tags that the provider sets by itself now are left out, an image family becomes an alias, and
//! defaults that were other ones are written out.

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

/// An EC2NodeClass of v1beta1: few fields differ, and the status stays.
pub(super) fn node_class(mut source: Source, options: &Options) -> Result<Converted, Error> {
    let mut old = std::mem::take(&mut source.spec);
    let mut spec = Map::new();
    images(&mut source, "spec", &mut old, &mut spec, options)?;
    let fields = [
        "subnetSelectorTerms",
        "securityGroupSelectorTerms",
        "associatePublicIPAddress",
        "instanceStorePolicy",
        "kubelet",
    ];
    for field in fields {
        source.carry(&mut old, field, &mut spec);
    }
    identity(&mut source, "spec", &mut old, &mut spec, options)?;
    common(&mut source, "spec", &mut old, &mut spec)?;
    let metadata_options = source.take_map(&mut old, "spec", "metadataOptions")?.unwrap_or_default();
    hop_limit(&mut source, "spec", metadata_options, &mut spec);
    source.note_leftovers("spec", old);
    source.drop_severity();
    Ok(source.finish(names::AWS_API_VERSION, kinds::EC2_NODE_CLASS, spec, Vec::new()))
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
    identity(source, path, &mut old, &mut spec, options)?;
    common(source, path, &mut old, &mut spec)?;
    match source.take_map(&mut old, path, "metadataOptions")? {
        // Written out in part, the rest was up to EC2, as it is now.
        Some(given) => drop(spec.insert("metadataOptions".to_owned(), given.into())),
        None => hop_limit(source, path, Map::new(), &mut spec),
    }
    if let Some(kubelet) = kubelet {
        spec.insert("kubelet".to_owned(), kubelet.into());
    }
    source.note_leftovers(path, old);
    Ok(spec)
}

/// Role or instance profile. Where neither is said, the settings of the controller had the profile.
fn identity(
    source: &mut Source,
    path: &str,
    old: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
    options: &Options,
) -> Result<(), Error> {
    let profile = source.take_text(old, path, "instanceProfile")?;
    let role = source.take_text(old, path, "role")?;
    match (profile, role) {
        (Some(profile), _) => drop(spec.insert("instanceProfile".to_owned(), profile.into())),
        (None, Some(role)) => drop(spec.insert("role".to_owned(), role.into())),
        (None, None) => {
            let role = format!("KarpenterNodeRole-{}", cluster(options));
            let message = format!(
                "absent: it came from the settings of the controller; fill in `role`, set to `{role}`"
            );
            source.note(join(path, "instanceProfile"), message);
            spec.insert("role".to_owned(), role.into());
        }
    }
    Ok(())
}

/// Fields that are what they were.
fn common(
    source: &mut Source,
    path: &str,
    old: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
) -> Result<(), Error> {
    if let Some(mut tags) = source.take_map(old, path, "tags")? {
        let mut dropped: Vec<String> = tags.keys().filter(|key| is_own_tag(key)).cloned().collect();
        dropped.sort();
        for key in dropped {
            tags.remove(&key);
            source.note(join(path, "tags"), format!("tag `{key}` dropped: the provider sets it by itself"));
        }
        spec.insert("tags".to_owned(), tags.into());
    }
    // What an image of another family had is there already.
    for field in ["blockDeviceMappings", "userData", "detailedMonitoring", "context"] {
        source.carry(old, field, spec);
    }
    Ok(())
}

/// Tags that v1 does not let classes set.
fn is_own_tag(key: &str) -> bool {
    const OWN: [&str; 4] = [
        "eks:eks-cluster-name",
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
    ];
    key.is_empty() || key.starts_with("kubernetes.io/cluster") || OWN.contains(&key)
}

/// How far tokens of the metadata service travel: two hops by default once, one today.
fn hop_limit(
    source: &mut Source,
    path: &str,
    mut metadata_options: Map<String, Value>,
    spec: &mut Map<String, Value>,
) {
    const FIELD: &str = "httpPutResponseHopLimit";
    if metadata_options.get(FIELD).is_none_or(Value::is_null) {
        metadata_options.insert(FIELD.to_owned(), 2.into());
        let message =
            "absent meant 2, written out: v1 takes 1, and then pods do not reach the metadata service";
        source.note(join(path, &format!("metadataOptions.{FIELD}")), message);
    }
    spec.insert("metadataOptions".to_owned(), metadata_options.into());
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
    let terms = match source.take_list(old, path, "amiSelectorTerms")?.filter(|terms| !terms.is_empty()) {
        Some(terms) => Some(terms),
        None => match source.take_map(old, path, "amiSelector")? {
            Some(selector) => Some(image_terms(source, &join(path, "amiSelector"), selector)?),
            None => None,
        },
    };
    match terms {
        Some(terms) => {
            let family = if family == "Ubuntu" { without_ubuntu(source, path, old, spec) } else { family };
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
                    "select images by id, name or tags first",
                ));
            }
        },
    }
    Ok(())
}

/// Ubuntu was a family of its own: the bootstrap script of AL2, another root volume.
fn without_ubuntu(
    source: &mut Source,
    path: &str,
    old: &Map<String, Value>,
    spec: &mut Map<String, Value>,
) -> String {
    let message = "Ubuntu is no longer a family of its own; set to AL2, whose bootstrap script it shares";
    source.note(join(path, "amiFamily"), message);
    if old.get("blockDeviceMappings").is_none_or(Value::is_null) {
        let volume = json!({ "encrypted": true, "volumeSize": "20Gi", "volumeType": "gp3" });
        let mapping = json!([{ "deviceName": "/dev/sda1", "rootVolume": true, "ebs": volume }]);
        spec.insert("blockDeviceMappings".to_owned(), mapping);
        source.note(join(path, "blockDeviceMappings"), "absent meant `/dev/sda1` with 20Gi, written out");
    }
    "AL2".to_owned()
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
    if ids.is_none() && tags.is_empty() && !others.iter().any(|(field, _)| *field == "name") {
        let message = "an owner alone selects nothing today";
        return Err(source.inconvertible(path, message, "add `aws::name` or a tag of the image"));
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
