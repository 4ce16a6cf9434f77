//! Pools: the templates new machines are made from, and the daemons that come with every machine.

use super::ResVec;
use super::ids::{CatalogueIdx, ReqId, TaintsId, TolerationsId};
use super::pod::Port;

/// A pool.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Its name.
    pub name: Box<str>,
    /// Larger first.
    pub weight: i32,
    /// What it launches from.
    pub catalogue: CatalogueIdx,
    /// Pool requirements, template labels, the pool and class labels.
    pub requirements: ReqId,
    /// The same plus the labels of a finished node, for daemons that select them.
    pub daemon_requirements: ReqId,
    /// Not the startup taints: those go before pods come.
    pub taints: TaintsId,
    /// What the pool may hold at most.
    pub limits: Vec<Limit>,
    /// Why nothing may be launched from it, if so.
    pub not_ready: Option<Box<str>>,
}

/// One limit with what is in use already.
#[derive(Debug, Clone)]
pub struct Limit {
    /// The resource lane; `None` counts nodes.
    pub lane: Option<usize>,
    /// The most the pool may hold.
    pub most: i64,
    /// What its nodes and in-flight machines hold now.
    pub used: i64,
}

/// A DaemonSet's pod.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// `namespace/name`.
    pub name: Box<str>,
    /// What each pod asks for.
    pub requests: ResVec,
    /// One per OR-term of its required affinity, nodeSelector included; empty matches nothing.
    pub asks: Vec<ReqId>,
    /// What it tolerates.
    pub tolerations: TolerationsId,
    /// Host ports it takes.
    pub ports: Vec<Port>,
}
