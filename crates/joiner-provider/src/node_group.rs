//! Machines that a cloud keeps in groups: alike, and as many as the group's target says. Nobody asks for one of them by itself: the target is raised, and the
//! machines come; one that is to go is named, and the target falls with it.
//!
//! Such machines have no claim. What is known of one before its Node joins is that it is still to come; what tells it from its siblings afterwards is
//! its provider id.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;

use crate::{Error, Terminated};

/// A cloud that keeps machines in groups.
///
/// The contract, tried by [`conformance::node_groups`](crate::conformance::node_groups):
///
/// * [`NodeGroups::grow`] names the target it was decided from and the one it leads to, so repeating it is safe: who finds the new target reached has
///   nothing left to do, and who finds another target than either changes nothing and says so.
/// * [`NodeGroups::remove`] ends exactly one member and lowers the target by one, together. Repeated it lowers nothing: an id that is no member's is gone.
/// * Sizes are held between the group's bounds by the cloud too, not only by whoever asks.
pub trait NodeGroups: Send + Sync {
    /// Its name, for people, metrics and the health of its groups; no two providers of a process share one.
    fn name(&self) -> &str;

    /// All groups. One that cannot be read is an item of its own and stays as it was known; an error ends the list, which then says nothing about any.
    fn list(&self) -> BoxFuture<'_, Result<Vec<ListedGroup>, Error>>;

    /// One group, past every cache; `None` = the cloud itself says that there is none.
    fn get<'a>(&'a self, group: &'a str) -> BoxFuture<'a, Result<Option<NodeGroup>, Error>>;

    /// Raises a target.
    fn grow(&self, growth: Growth) -> BoxFuture<'_, Result<Resized, Error>>;

    /// Takes the member with this provider id out of its group and ends it. Repeated until it answers [`Terminated::Gone`].
    fn remove<'a>(&'a self, group: &'a str, provider_id: &'a str)
    -> BoxFuture<'a, Result<Terminated, Error>>;
}

/// A group as its cloud describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeGroup {
    /// Unique among the groups of its provider.
    pub name: String,
    pub min: u32,
    pub max: u32,
    /// How many machines the cloud is to keep, those that are still to come included.
    pub target: u32,
    /// A Node as the next machine will join: labels, taints, capacity, allocatable. Its name means nothing.
    pub template: Arc<Node>,
    /// What a machine costs, in dollars per hour, where that is known.
    pub price: Option<f64>,
    /// Machines that have an identity.
    pub members: Vec<Member>,
}

impl NodeGroup {
    /// How many machines it may get on top.
    pub fn room(&self) -> u32 {
        self.max.saturating_sub(self.target)
    }

    /// How many it may lose.
    pub fn spare(&self) -> u32 {
        self.target.saturating_sub(self.min)
    }

    /// The member with a provider id.
    pub fn member(&self, provider_id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.provider_id == provider_id)
    }
}

/// A machine of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Equal to `spec.providerID` of its Node.
    pub provider_id: String,
    pub state: MemberState,
}

/// How far a member is.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a member is small beside the Node it becomes")]
pub enum MemberState {
    Creating,
    Running,
    Terminating,
    /// It will never join.
    Failed(Error),
}

/// One item of a list of groups.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all items are groups")]
pub enum ListedGroup {
    Group(NodeGroup),
    /// There is a group of that name, and no more can be said of it now.
    Unreadable {
        name: String,
        error: Error,
    },
}

/// A group by provider and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeGroupKey {
    pub provider: String,
    pub name: String,
}

impl fmt::Display for NodeGroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

/// A target that is to be raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    pub group: String,
    /// The target it was decided from.
    pub from: u32,
    pub to: u32,
}

/// What came of raising a target.
#[derive(Debug, Clone, PartialEq)]
pub enum Resized {
    /// The target is what was wanted, or more.
    Done(NodeGroup),
    /// The target was not what the growth was decided from: nothing was done.
    Changed(NodeGroup),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_leave_room_and_spare_machines() {
        let group = |min, max, target| NodeGroup {
            name: "web".to_owned(),
            min,
            max,
            target,
            template: Arc::default(),
            price: None,
            members: Vec::new(),
        };
        for (min, max, target, room, spare) in
            [(1, 5, 3, 2, 2), (0, 4, 4, 0, 4), (2, 3, 9, 0, 7), (5, 9, 2, 7, 0)]
        {
            let group = group(min, max, target);
            assert_eq!((group.room(), group.spare()), (room, spare), "{group:?}");
        }
    }
}
