//! KWOKNodeClass: settings of the provider whose machines exist as Node objects only.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

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
        }
        let Fields { node_registration_delay } =
            Option::<Fields>::deserialize(deserializer)?.unwrap_or_default();
        Ok(Self { node_registration_delay })
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
