//! What has come since the last snapshot.

use std::collections::BTreeSet;

/// What has to be lowered again.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Pools, types, daemons, priorities or storage: everything.
    pub frame: bool,
    /// Labels of namespaces.
    pub namespaces: bool,
    /// What drivers say of nodes.
    pub drivers: bool,
    /// Some spec has its first pod of a kind, or has lost its last.
    pub specs: bool,
    /// Pods that wait for a decision, or what they ask for.
    pub pending: bool,
    /// Nodes, and claims, by name.
    pub nodes: BTreeSet<String>,
    pub claims_of_machines: BTreeSet<String>,
    /// Nodes whose pods have changed, by the id of their name.
    pub loads: BTreeSet<u32>,
    /// Pods have left nodes.
    pub freed: bool,
    /// Lists of volume claims of which some claim has changed.
    pub claims: BTreeSet<u32>,
}

impl Changes {
    /// Whether nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            frame, namespaces, drivers, specs, pending, nodes, claims_of_machines, loads, claims, ..
        } = self;
        !(*frame || *namespaces || *drivers || *specs || *pending)
            && nodes.is_empty()
            && claims_of_machines.is_empty()
            && loads.is_empty()
            && claims.is_empty()
    }

    /// Whether anything has changed that could help pods that had no place: not if pods have only come.
    pub(crate) fn could_help(&self) -> bool {
        self.frame
            || self.namespaces
            || self.drivers
            || self.freed
            || !self.nodes.is_empty()
            || !self.claims_of_machines.is_empty()
            || !self.claims.is_empty()
    }
}
