//! Pods that belong to a node, told by their owners: those of DaemonSets, and mirrors of static pods.
//!
//! Any owner counts, whether it is the controller or not: so Karpenter has it, and a pod with such an owner goes with its node whoever
//! controls it. The version counts too: another group may have a kind of the same name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Whether an owner is a DaemonSet.
pub fn is_daemon_set(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("apps/v1", "DaemonSet")
}

/// Whether an owner is a Node.
pub fn is_node(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("v1", "Node")
}

/// Whether a pod with these owners is a DaemonSet's.
pub fn is_daemon(owners: Option<&[OwnerReference]>) -> bool {
    any(owners, is_daemon_set)
}

/// Whether a pod with these owners is the mirror of a static pod.
pub fn is_mirror(owners: Option<&[OwnerReference]>) -> bool {
    any(owners, is_node)
}

fn any(owners: Option<&[OwnerReference]>, is: fn(&str, &str) -> bool) -> bool {
    owners.into_iter().flatten().any(|owner| is(&owner.api_version, &owner.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(api_version: &str, kind: &str, controller: Option<bool>) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            controller,
            ..OwnerReference::default()
        }
    }

    #[test]
    fn any_owner_of_the_right_version_counts() {
        let set = owner("apps/v1", "DaemonSet", None);
        let node = owner("v1", "Node", Some(true));
        let other = owner("apps/v1", "ReplicaSet", Some(true));
        let namesake = owner("apps.example.com/v1", "DaemonSet", Some(true));
        assert!(is_daemon(Some(&[other.clone(), set.clone()])));
        assert!(!is_daemon(Some(&[other, namesake])) && !is_daemon(None));
        assert!(is_mirror(Some(std::slice::from_ref(&node))) && !is_daemon(Some(&[node])));
        assert!(!is_mirror(Some(&[set])));
    }
}
