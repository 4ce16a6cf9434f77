//! Machines as a provider reports them.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use jiff::Timestamp;

use crate::Error;

/// A machine that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub provider_id: String,
    /// Name of the claim it was launched for, where the provider knows.
    pub claim: Option<String>,
    /// Uid of that claim, where the provider knows.
    pub claim_uid: Option<String>,
    /// When it was made, where the provider knows.
    pub created: Option<Timestamp>,
    /// It is being ended.
    pub terminating: bool,
}

/// One item of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Listed {
    Instance(Instance),
    /// There is a machine, and no more can be said of it. It is not lost, and it is not ended for having no claim.
    Unreadable {
        /// `None` takes the proof of absence from the whole list: nothing that is missing counts as lost.
        provider_id: Option<String>,
        error: Error,
    },
}

/// How far the end of a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminated {
    /// On its way; ask again.
    Terminating,
    /// There is no such machine.
    Gone,
}
