//! The definition of EC2NodeClass, the node class of the AWS provider: every field and every rule of `karpenter.k8s.aws/v1`.
//!
//! Written by hand, for no type stands behind it yet: what reads classes takes the fields it knows. Rules that need several fields are CEL; their
//! lists have limits, because a server refuses rules that could cost too much. Which objects pass is held to recorded verdicts on the
//! original's definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

use super::fragments::{self, rules};
use crate::names::{AWS_GROUP, kinds};
use crate::requirement::Operator;

/// Families that an alias can name, as they stand in it.
const ALIAS_FAMILIES: &str = "['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']";
/// Sizes of a volume: 1 to 59000 Gi, 64000 G, 58 Ti or 64 T.
const VOLUME_SIZE: &str = concat!(
    r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi",
    r"|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G",
    r"|(?:[1-9]|[1-4][0-9]|5[0-8])Ti|(?:[1-9]|[1-5][0-9]|6[0-4])T)$"
);

/// The definition as clusters with the AWS provider have it.
pub fn ec2_node_class() -> CustomResourceDefinition {
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    let crd = json!({
        "metadata": { "name": format!("ec2nodeclasses.{AWS_GROUP}") },
        "spec": {
            "group": AWS_GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kinds::EC2_NODE_CLASS,
                "listKind": format!("{}List", kinds::EC2_NODE_CLASS),
                "plural": "ec2nodeclasses",
                "singular": "ec2nodeclass",
                "shortNames": ["ec2nc", "ec2ncs"],
                "categories": ["karpenter"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    { "name": "Ready", "type": "string", "jsonPath": ready },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                    { "name": "Role", "type": "string", "jsonPath": ".spec.role", "priority": 1 },
                ],
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "description": "An EC2NodeClass says how machines of AWS are launched: images, network, volumes and settings of the kubelet.",
                    "properties": {
                        "apiVersion": text("Group and version of the schema of this object."),
                        "kind": text("Kind of this object."),
                        "metadata": { "type": "object" },
                        "spec": spec(),
                        "status": status(),
                    },
                } },
            }],
        },
    });
    serde_json::from_value(crd).expect("every field is written here")
}

fn spec() -> Value {
    let mut properties = Map::new();
    for part in [selectors(), images(), machine(), storage(), network()] {
        if let Value::Object(part) = part {
            properties.extend(part);
        }
    }
    json!({
        "type": "object",
        "description": "How machines are launched.",
        "required": ["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"],
        "properties": properties,
        "x-kubernetes-validations": rules(&[
            ("has(self.role) != has(self.instanceProfile)", "exactly one of role and instanceProfile must be set"),
            (
                // Without any term the list itself is at fault.
                "has(self.amiFamily) || self.amiSelectorTerms.size() == 0 || self.amiSelectorTerms.exists(x, has(x.alias))",
                "amiFamily must be set where amiSelectorTerms hold no alias",
            ),
            (
                "!has(self.amiFamily) || self.amiFamily == 'Custom' || \
                 self.amiSelectorTerms.all(x, !has(x.alias) || x.alias.startsWith(self.amiFamily.lowerAscii() + '@'))",
                "amiFamily must be the family of the alias, or Custom",
            ),
        ]),
    })
}

fn selectors() -> Value {
    json!({
        "subnetSelectorTerms": terms(
            "Subnets that machines are launched in: those that match any term.",
            json!({
                "id": matching("Id of the subnet.", "^subnet-[0-9a-z]+$"),
                "tags": tag_selector("Tags the subnet must have."),
            }),
            &[
                ("self.size() != 0", "at least one term is needed"),
                ("self.all(x, has(x.tags) || has(x.id))", "a term needs tags or an id"),
                ("self.all(x, !(has(x.id) && has(x.tags)))", "a term with an id cannot ask for tags"),
            ],
        ),
        "securityGroupSelectorTerms": terms(
            "Security groups of the machines: those that match any term.",
            json!({
                "id": matching("Id of the security group.", "^sg-[0-9a-z]+$"),
                "name": text("Name of the security group; not its Name tag."),
                "tags": tag_selector("Tags the security group must have."),
            }),
            &[
                ("self.size() != 0", "at least one term is needed"),
                ("self.all(x, has(x.tags) || has(x.id) || has(x.name))", "a term needs tags, an id or a name"),
                (
                    "self.all(x, !(has(x.id) && (has(x.tags) || has(x.name))))",
                    "a term with an id cannot ask for tags or a name",
                ),
                ("self.all(x, !(has(x.name) && has(x.tags)))", "a term with a name cannot ask for tags"),
            ],
        ),
        "capacityReservationSelectorTerms": terms(
            "Capacity reservations that machines may be launched into: those that match any term.",
            json!({
                "id": matching("Id of the reservation.", "^cr-[0-9a-z]+$"),
                "instanceMatchCriteria": one_of("Which machines the reservation takes.", &["open", "targeted"]),
                "ownerID": matching("Account that owns the reservation.", "^[0-9]{12}$"),
                "tags": tag_selector("Tags the reservation must have."),
            }),
            &[
                (
                    "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
                    "a term needs tags, an id or instanceMatchCriteria",
                ),
                (
                    "self.all(x, !(has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria))))",
                    "a term with an id cannot ask for anything else",
                ),
            ],
        ),
        "placementGroupSelector": {
            "type": "object",
            "description": "The placement group that machines are launched into.",
            "properties": {
                "id": matching("Id of the placement group.", "^pg-[0-9a-z]+$"),
                "name": { "type": "string", "minLength": 1, "maxLength": 255, "description": "Name of the placement group." },
            },
            "x-kubernetes-validations": rules(&[(
                "has(self.id) != has(self.name)",
                "exactly one of id and name must be set",
            )]),
        },
    })
}

fn images() -> Value {
    let alias = json!({
        "type": "string",
        "maxLength": 30,
        "description": "Family and version of an image of AWS, such as al2023@latest.",
        "x-kubernetes-validations": rules(&[
            ("self.matches('^[a-zA-Z0-9]+@.+$')", "an alias is written family@version"),
            (
                &format!("self.split('@')[0] in {ALIAS_FAMILIES}"),
                "the family must be one of al2, al2023, bottlerocket, windows2019, windows2022, windows2025",
            ),
            (
                "!self.startsWith('windows') || self.endsWith('@latest')",
                "images of Windows have the version latest only",
            ),
        ]),
    });
    let mut images = terms(
        "Images that machines are launched from: those that match any term.",
        json!({
            "alias": alias,
            "id": matching("Id of the image.", "^ami-[0-9a-z]+$"),
            "name": text("Name of the image; not its Name tag."),
            "owner": text("Account id or alias of the owner of the image, or self."),
            "ssmParameter": text("Name or ARN of the SSM parameter that holds the id of the image."),
            "tags": tag_selector("Tags the image must have."),
        }),
        &[
            (
                "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
                "a term needs tags, an id, a name, an alias or an ssmParameter",
            ),
            (
                "self.all(x, !(has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner))))",
                "a term with an id cannot ask for an alias, tags, a name or an owner",
            ),
            (
                "self.all(x, !(has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner) || has(x.ssmParameter))))",
                "a term with an alias cannot ask for anything else",
            ),
            (
                "!self.exists(x, has(x.alias)) || self.size() == 1",
                "a term with an alias must be the only one",
            ),
        ],
    );
    images["minItems"] = json!(1);
    let families = ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"];
    json!({
        "amiSelectorTerms": images,
        "amiFamily": one_of("Family of the images: how user data are written and which volumes a machine has. An alias tells it.", &families),
        "userData": text("User data of the machines, merged into what the family needs."),
    })
}

fn machine() -> Value {
    let named = |description: &str, field: &str| {
        let mut named = text(description);
        named["x-kubernetes-validations"] = fragments::not_empty(field);
        named
    };
    let (enabled, on_off) = (json!("enabled"), ["enabled", "disabled"]);
    let with_default = |mut schema: Value, default: &Value| {
        schema["default"] = default.clone();
        schema
    };
    json!({
        "role": named("IAM role of the machines; an instance profile is made for it.", "role"),
        "instanceProfile": named("Instance profile of the machines.", "instanceProfile"),
        "tags": {
            "type": "object",
            "description": "Tags put on machines, volumes, launch templates and network interfaces.",
            "additionalProperties": { "type": "string" },
            "x-kubernetes-validations": rules(&[
                ("self.all(k, k != '')", "a tag needs a key"),
                ("self.all(k, k != 'eks:eks-cluster-name')", "the tag eks:eks-cluster-name is set by the provider"),
                ("self.all(k, !k.startsWith('kubernetes.io/cluster'))", "tags of kubernetes.io/cluster are set by the provider"),
                (
                    "self.all(k, !(k in ['karpenter.sh/nodepool', 'karpenter.sh/nodeclaim', 'karpenter.k8s.aws/ec2nodeclass']))",
                    "tags that name pool, claim and class are set by the provider",
                ),
            ]),
        },
        "kubelet": {
            "type": "object",
            "description": "Settings of the kubelet.",
            "x-kubernetes-preserve-unknown-fields": true,
        },
        "context": text("Reserved by EC2."),
        "detailedMonitoring": flag("Whether the machines are monitored in detail."),
        "cpuOptions": {
            "type": "object",
            "description": "Options of the processor.",
            "properties": { "nestedVirtualization": one_of("Whether machines can run virtual machines.", &on_off) },
        },
        "metadataOptions": {
            "type": "object",
            "description": "How the metadata service of the machines answers.",
            "default": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
            "properties": {
                "httpEndpoint": with_default(one_of("Whether there is a metadata service.", &on_off), &enabled),
                "httpProtocolIPv6": with_default(one_of("Whether it answers over IPv6.", &on_off), &json!("disabled")),
                "httpPutResponseHopLimit": with_default(
                    number("How many hops a token may travel. Pods need 2.", 1, Some(64)),
                    &json!(1),
                ),
                "httpTokens": with_default(
                    one_of("Whether requests need a token.", &["required", "optional"]),
                    &json!("required"),
                ),
            },
        },
    })
}

fn storage() -> Value {
    let size = json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "description": "Size of the volume in Gi, G, Ti or T.",
        "pattern": VOLUME_SIZE,
        "x-kubernetes-int-or-string": true,
    });
    json!({
        "blockDeviceMappings": {
            "type": "array",
            "maxItems": 50,
            "description": "Volumes of the machines.",
            "items": {
                "type": "object",
                "description": "One volume.",
                "properties": {
                    "deviceName": text("Name of the device, such as /dev/xvda."),
                    "rootVolume": flag("Whether it holds what containers write, which counts as ephemeral storage."),
                    "ebs": {
                        "type": "object",
                        "description": "The EBS volume.",
                        "properties": {
                            "deleteOnTermination": flag("Whether it goes with the machine."),
                            "encrypted": flag("Whether it is encrypted."),
                            "iops": { "type": "integer", "format": "int64", "description": "Operations per second." },
                            "kmsKeyID": text("Key of the encryption."),
                            "snapshotID": text("Snapshot that it starts as."),
                            "throughput": { "type": "integer", "format": "int64", "description": "Throughput in MiB per second." },
                            "volumeInitializationRate": number("Rate in MiB per second at which it is read from the snapshot.", 100, Some(300)),
                            "volumeSize": size,
                            "volumeType": one_of("Type of the volume.", &["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]),
                        },
                        "x-kubernetes-validations": rules(&[
                            ("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be set"),
                            (
                                "!has(self.volumeInitializationRate) || has(self.snapshotID)",
                                "volumeInitializationRate needs a snapshotID",
                            ),
                        ]),
                    },
                },
            },
            "x-kubernetes-validations": rules(&[(
                "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
                "only one volume can be the root volume",
            )]),
        },
        "instanceStorePolicy": one_of("What becomes of the disks that are part of a machine.", &["RAID0"]),
    })
}

fn network() -> Value {
    let seconds = |description: &str, least: i64, most: i64| number(description, least, Some(most));
    json!({
        "associatePublicIPAddress": flag("Whether machines get public addresses."),
        "ipPrefixCount": number("Prefixes of addresses given to the first network interface.", 0, None),
        "connectionTracking": {
            "type": "object",
            "description": "How long security groups remember idle connections.",
            "properties": {
                "tcpEstablishedTimeout": seconds("Seconds for established TCP connections.", 60, 432_000),
                "udpStreamTimeout": seconds("Seconds for UDP flows with answers.", 60, 180),
                "udpTimeout": seconds("Seconds for UDP flows in one direction.", 30, 60),
            },
            "x-kubernetes-validations": rules(&[(
                "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
                "at least one timeout must be set",
            )]),
        },
        "networkInterfaces": {
            "type": "array",
            "maxItems": 150,
            "description": "Network interfaces of the machines.",
            "items": {
                "type": "object",
                "description": "One network interface.",
                "required": ["deviceIndex", "interfaceType", "networkCardIndex"],
                "properties": {
                    "deviceIndex": number("Index of the device on its card.", 0, None),
                    "interfaceType": one_of("Type of the interface.", &["interface", "efa-only"]),
                    "networkCardIndex": number("Index of the network card.", 0, None),
                },
            },
            "x-kubernetes-validations": rules(&[
                (
                    "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
                    "device 0 of card 0 must be there, of type interface",
                ),
                (
                    "self.all(x, self.exists_one(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex))",
                    "each pair of networkCardIndex and deviceIndex may be there once",
                ),
                (
                    "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only').size() <= 1)",
                    "a card can have one interface of type efa-only",
                ),
            ]),
        },
    })
}

fn status() -> Value {
    let list = |description: &str, required: &[&str], properties: Value| {
        json!({
            "type": "array",
            "description": description,
            "items": { "type": "object", "description": "One of them.", "required": required, "properties": properties },
        })
    };
    let requirement = json!({
        "type": "array",
        "description": "Requirements on the labels of machines that the image suits.",
        "items": {
            "type": "object",
            "description": "A requirement on one node label.",
            "required": ["key", "operator"],
            "properties": {
                "key": text("Label key the requirement is about."),
                "operator": one_of("How the label must relate to the values.", &Operator::ALL.map(Operator::as_str)),
                "values": {
                    "type": "array",
                    "x-kubernetes-list-type": "atomic",
                    "items": { "type": "string" },
                    "description": "Values to compare with.",
                },
            },
        },
    });
    let mut conditions = fragments::condition_list(true).to_value();
    conditions["description"] = json!("Aspects of the state of the class.");
    json!({
        "type": "object",
        "description": "What the provider found.",
        "properties": {
            "amis": list("Images that the terms match.", &["id", "requirements"], json!({
                "deprecated": flag("Whether AWS calls the image deprecated."),
                "id": text("Id of the image."),
                "name": text("Name of the image."),
                "requirements": requirement,
            })),
            "capacityReservations": list(
                "Capacity reservations that the terms match.",
                &["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"],
                json!({
                    "availabilityZone": text("Zone of the reservation."),
                    "endTime": { "type": "string", "format": "date-time", "description": "When it ends." },
                    "id": matching("Id of the reservation.", "^cr-[0-9a-z]+$"),
                    "instanceMatchCriteria": one_of("Which machines it takes.", &["open", "targeted"]),
                    "instanceType": text("Instance type it is for."),
                    "interruptible": flag("Whether it can be taken back."),
                    "ownerID": matching("Account that owns it.", "^[0-9]{12}$"),
                    "reservationType": one_of("Type of the reservation.", &["default", "capacity-block"]),
                    "state": one_of("State of the reservation.", &["active", "expiring"]),
                }),
            ),
            "conditions": conditions,
            "instanceProfile": text("Instance profile in use."),
            "securityGroups": list("Security groups that the terms match.", &["id"], json!({
                "id": text("Id of the security group."),
                "name": text("Name of the security group."),
            })),
            "subnets": list("Subnets that the terms match.", &["id", "zone"], json!({
                "id": text("Id of the subnet."),
                "zone": text("Zone of the subnet."),
                "zoneID": text("Id of the zone, the same in all accounts."),
            })),
        },
    })
}

fn terms(description: &str, properties: Value, pairs: &[(&str, &str)]) -> Value {
    json!({
        "type": "array",
        "maxItems": 30,
        "description": description,
        "items": { "type": "object", "description": "One term: all of its fields must match.", "properties": properties },
        "x-kubernetes-validations": rules(pairs),
    })
}

fn tag_selector(description: &str) -> Value {
    json!({
        "type": "object",
        "maxProperties": 20,
        "description": format!("{description} The value * stands for any."),
        "additionalProperties": { "type": "string" },
        "x-kubernetes-validations": rules(&[(
            "self.all(k, k != '' && self[k] != '')",
            "neither key nor value of a tag may be empty",
        )]),
    })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn matching(description: &str, pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": description })
}

fn one_of(description: &str, words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}

fn number(description: &str, least: i64, most: Option<i64>) -> Value {
    let format = if most.is_some_and(|most| most <= i64::from(i32::MAX)) { "int32" } else { "int64" };
    let mut number =
        json!({ "type": "integer", "format": format, "minimum": least, "description": description });
    if let Some(most) = most {
        number["maximum"] = json!(most);
    }
    number
}
