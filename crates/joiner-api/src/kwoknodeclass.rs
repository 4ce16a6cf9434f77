//! KWOKNodeClass: settings of the provider whose machines exist as Node objects only.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::crd::fragments;
use crate::{duration, names};

/// How simulated machines behave.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    root = "KwokNodeClass",
    singular = "kwoknodeclass",
    plural = "kwoknodeclasses",
    shortname = "kwoknc",
    shortname = "kwokncs",
    category = "karpenter",
    status = "KwokNodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A KWOKNodeClass holds the settings of nodes that are simulated: a Node object without a machine."
)]
#[serde(rename_all = "camelCase")]
pub struct KwokNodeClassSpec {
    /// How long after launch the Node appears, e.g. 30s. Absent means at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = duration::GRACE_PERIOD_PATTERN))]
    pub node_registration_delay: Option<String>,
    /// How much longer a Node may take at most, e.g. 5s; drawn for each machine. Absent means that all take the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = duration::GRACE_PERIOD_PATTERN))]
    pub node_registration_delay_jitter: Option<String>,
    /// Values of the label kwok-partition, one of which each Node gets, so that several KWOK controllers can share the nodes. Absent means
    /// that all get the value a.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    pub partitions: Vec<String>,
    /// Where the instance types of this class come from. Absent means those that joiner was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_types_from: Option<KwokInstanceTypes>,
    /// What goes wrong on purpose. Absent means that nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chaos: Option<KwokChaos>,
}

/// Instance types of a class: exactly one source, in the form of an instance type file. A source that changes is read again; while what it says cannot be
/// used, the last list that could be is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = fragments::rules(&[(
    "(has(self.inline) ? 1 : 0) + (has(self.configMap) ? 1 : 0) + (has(self.file) ? 1 : 0) == 1",
    "name exactly one of inline, configMap and file",
)])))]
pub struct KwokInstanceTypes {
    /// The types themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "inline_types")]
    pub inline: Option<Vec<Value>>,
    /// A key of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<KwokConfigMapKey>,
    /// The name of a file in the folder of --instance-types-file-path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), extend("pattern" = "^[^/]+$"))]
    pub file: Option<String>,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KwokConfigMapKey {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key. Absent means the only one there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// Entries of a file of instance types: their reader says what is wrong with them.
fn inline_types(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 2000,
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// What goes wrong on purpose, to see how workloads and pools take it. What is drawn depends on the seed and on each claim, so the same
/// cluster has the same accidents again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KwokChaos {
    /// Where chance comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Share of launch calls that fail and are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub launch_failure_percent: Option<i64>,
    /// Share of offerings that a launch finds without capacity; the next one of the plan is taken then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub no_capacity_percent: Option<i64>,
    /// Share of machines whose Node never appears.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub never_register_percent: Option<i64>,
    /// Share of machines that vanish in each hour of their lives without a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub vanish_percent_per_hour: Option<i64>,
    /// Share of spot machines that are taken back in each hour of their lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub spot_reclaim_percent_per_hour: Option<i64>,
    /// How long before its end a spot machine that is taken back is told of, e.g. 30s. Absent means two minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = duration::GRACE_PERIOD_PATTERN))]
    pub spot_reclaim_notice: Option<String>,
    /// How many machines there are to be had; what no entry names is endless.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub capacity: Vec<KwokCapacity>,
}

/// A stock of machines. What an entry does not name it does not look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KwokCapacity {
    /// Name of the instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Name of the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// spot, on-demand or reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// How many such machines can stand at a time.
    #[schemars(range(min = 0))]
    pub machines: i64,
}

// Written out so that a class without `spec` loads: the derived root type has no way to make the field optional, but
// a missing field is offered to its type as "none" first.
impl<'de> Deserialize<'de> for KwokNodeClassSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields {
            #[serde(default)]
            node_registration_delay: Option<String>,
            #[serde(default)]
            node_registration_delay_jitter: Option<String>,
            #[serde(default)]
            partitions: Option<Vec<String>>,
            #[serde(default)]
            instance_types_from: Option<KwokInstanceTypes>,
            #[serde(default)]
            chaos: Option<KwokChaos>,
        }
        let fields = Option::<Fields>::deserialize(deserializer)?.unwrap_or_default();
        Ok(Self {
            node_registration_delay: fields.node_registration_delay,
            node_registration_delay_jitter: fields.node_registration_delay_jitter,
            partitions: fields.partitions.unwrap_or_default(),
            instance_types_from: fields.instance_types_from,
            chaos: fields.chaos,
        })
    }
}

/// Whether the class can be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KwokNodeClassStatus {
    /// State of the class. Ready from birth: there is nothing to find out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::crd::fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// When the condition that the schema gives every class claims to have changed.
pub(crate) const READY_SINCE: &str = "2024-01-01T01:01:01Z";
const READY_SINCE_SECONDS: i64 = 1_704_070_861;

impl KwokNodeClass {
    /// Fills in what the API server would from the schema's defaults: a class without status is ready.
    pub fn set_defaults(&mut self) {
        if self.status.is_none() {
            let ready = Condition {
                last_transition_time: Time(Timestamp::constant(READY_SINCE_SECONDS, 0)),
                message: String::new(),
                observed_generation: None,
                reason: names::conditions::READY.to_owned(),
                status: "True".to_owned(),
                type_: names::conditions::READY.to_owned(),
            };
            self.status = Some(KwokNodeClassStatus { conditions: vec![ready] });
        }
    }
}
