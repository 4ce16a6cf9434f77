//! Kubernetes kinds that joiner reads and serves, and everything that can be said about them without a cluster.
//!
//! The kinds are those of Karpenter (`NodePool`, `NodeClaim`, `NodeOverlay`, `KWOKNodeClass`) and of the
//! cluster-autoscaler's `CapacityBuffer`. Their names, fields, defaults and rules are a contract with manifests that
//! exist already; this crate is where the contract is written down, once, in types, constants and tables.
//!
//! | module | answers |
//! |---|---|
//! | [`names`] | how is it called; may this label be asked for |
//! | [`nodepool`], [`nodeclaim`], [`nodeoverlay`], [`capacitybuffer`], [`kwoknodeclass`] | which fields are there, what do they default to |
//! | [`requirement`] | what does a requirement on a label say |
//! | [`quantity`], [`duration`], [`schedule`], [`budget`] | what does this text in a field mean |
//! | [`condition`], [`nodepool_hash`] | what is written back to the cluster |
//! | [`instance_type`] | what can a provider offer |
//! | [`crd`] | which definitions does a cluster need |
//! | [`validation`] | what is wrong with this object, and what to do |
//! | [`convert`] | what does this older object mean today |
//!
//! Reading a manifest goes through four of them: convert, load, default, validate.
//!
//! ```
//! use joiner_api::{NodePool, convert, validation};
//!
//! let manifest = serde_json::json!({
//!     "apiVersion": "karpenter.sh/v1",
//!     "kind": "NodePool",
//!     "metadata": { "name": "default" },
//!     "spec": {
//!         "template": { "spec": {
//!             "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
//!             "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
//!         } },
//!         "disruption": { "consolidationPolicy": "WhenUnderutilized" },
//!     },
//! });
//! let converted = convert::to_v1(manifest, &convert::Options::default())?;
//! assert_eq!(converted.notes.len(), 1, "the policy has another name today");
//!
//! let mut pool: NodePool = serde_json::from_value(converted.objects[0].clone())?;
//! pool.set_defaults();
//! assert_eq!(pool.spec.template.spec.expire_after.as_deref(), Some("720h"));
//! assert_eq!(validation::validate_nodepool(&pool), []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Choices that shape the code:
//!
//! * **Structs mirror the wire.** A field is optional in Rust where it is optional in YAML, enumerations and durations stay
//!   text, and nothing is flattened or denied. An object a newer version wrote still loads, a strict reader can list the
//!   fields we do not know, and a stored object comes back with the same meaning. Typed views
//!   ([`Operator`], [`nodepool::ConsolidationPolicy`], [`duration::NillableDuration`]) sit beside the text. Rejected:
//!   enums in the structs, because one unknown word would then lose a whole list of objects.
//! * **Schemas are derived, rules are ours.** Deriving keeps fields and schema together; patterns, limits and CEL rules
//!   come from shared fragments. Rejected: keeping CRD files by hand beside the types, which drift apart.
//! * **Validation is written twice**, as schema rules for the API server and as Rust for cluster-less use, each rule with
//!   a test that accepts and one that refuses. Rejected: a CEL interpreter in this crate; see [`validation`].
//! * **No I/O, no clock, no environment.** Values and strings come in, values and strings go out.

pub mod budget;
pub mod capacitybuffer;
pub mod condition;
pub mod convert;
pub mod costmodel;
pub mod crd;
pub mod duration;
pub mod instance_type;
pub mod kwoknodeclass;
pub mod names;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod nodepool_hash;
pub mod owners;
pub mod quantity;
pub mod requirement;
pub mod schedule;
pub mod validation;

pub use capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use costmodel::{CostModel, CostModelSpec};
pub use kwoknodeclass::{
    KwokCapacity, KwokChaos, KwokConfigMapKey, KwokInstanceTypes, KwokNodeClass, KwokNodeClassSpec,
    KwokNodeClassStatus,
};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use requirement::{NodeRequirement, Operator};
