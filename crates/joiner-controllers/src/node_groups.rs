//! Node groups as their providers have told, with what the loop asks of them: which machines have joined, how many are still to come, which may be
//! empty. A change costs the work for one machine; a list that tells nothing new costs a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_provider::{ListedGroup, MemberState, NodeGroup, NodeGroupKey};

/// All node groups.
#[derive(Debug, Default)]
pub struct NodeGroupTable {
    groups: BTreeMap<NodeGroupKey, Kept>,
    /// Groups of machines, by provider id.
    group_of: BTreeMap<String, NodeGroupKey>,
    /// Providers whose groups are not known, or known to be out of date.
    unread: BTreeSet<String>,
    /// Machines of which it is to be looked at again whether they are empty.
    touched: BTreeSet<String>,
    /// Machines that were empty when they were looked at last.
    empty: BTreeSet<String>,
}

#[derive(Debug)]
struct Kept {
    group: Arc<NodeGroup>,
    /// Members whose Nodes have been up, those that are going left out.
    joined: BTreeSet<String>,
    /// Members that will never have one.
    failed: u32,
}

impl Kept {
    fn new(group: Arc<NodeGroup>, has_joined: impl Fn(&str) -> bool) -> Self {
        let stays = |state: &MemberState| matches!(state, MemberState::Creating | MemberState::Running);
        let staying = group.members.iter().filter(|member| stays(&member.state));
        let joined = staying.filter(|member| has_joined(&member.provider_id));
        let joined = joined.map(|member| member.provider_id.clone()).collect();
        let failed = group.members.iter().filter(|of| matches!(of.state, MemberState::Failed(_))).count();
        Self { group, joined, failed: u32::try_from(failed).unwrap_or(u32::MAX) }
    }

    fn upcoming(&self) -> u32 {
        let known = u32::try_from(self.joined.len()).unwrap_or(u32::MAX).saturating_add(self.failed);
        self.group.target.saturating_sub(known)
    }
}

impl NodeGroupTable {
    /// The groups of a provider are to be read before anything is decided from them.
    pub fn outdated(&mut self, provider: &str) {
        self.unread.insert(provider.to_owned());
    }

    /// What is known has to do.
    pub fn read(&mut self, provider: &str) {
        self.unread.remove(provider);
    }

    /// Whether decisions may be made from what is known.
    pub fn is_current(&self) -> bool {
        self.unread.is_empty()
    }

    /// Takes a list in; whether it changes anything.
    pub fn take_list(
        &mut self,
        provider: &str,
        listed: Vec<ListedGroup>,
        has_joined: impl Fn(&str) -> bool,
    ) -> bool {
        self.read(provider);
        let mut gone: BTreeSet<NodeGroupKey> =
            self.groups.keys().filter(|key| key.provider == provider).cloned().collect();
        let mut changed = false;
        for item in listed {
            let name = match &item {
                ListedGroup::Group(group) => &group.name,
                ListedGroup::Unreadable { name, .. } => name,
            };
            let key = NodeGroupKey { provider: provider.to_owned(), name: name.clone() };
            gone.remove(&key);
            if let ListedGroup::Group(group) = item {
                changed |= self.take(key, group, &has_joined);
            }
        }
        for key in &gone {
            self.forget_members(key);
            self.groups.remove(key);
        }
        changed || !gone.is_empty()
    }

    /// Takes one group in as it is now; whether that changes anything.
    pub fn take(&mut self, key: NodeGroupKey, group: NodeGroup, has_joined: impl Fn(&str) -> bool) -> bool {
        if self.groups.get(&key).is_some_and(|have| *have.group == group) {
            return false;
        }
        self.forget_members(&key);
        for member in &group.members {
            self.group_of.insert(member.provider_id.clone(), key.clone());
            self.touched.insert(member.provider_id.clone());
        }
        self.groups.insert(key, Kept::new(Arc::new(group), has_joined));
        true
    }

    fn forget_members(&mut self, key: &NodeGroupKey) {
        let Some(kept) = self.groups.get(key) else { return };
        for member in &kept.group.members {
            self.group_of.remove(&member.provider_id);
            self.empty.remove(&member.provider_id);
        }
    }

    /// A Node with this provider id has come, changed or gone. Who has been up once counts as there until its Node goes.
    pub fn node_changed(&mut self, provider_id: &str, is_there: bool, has_joined: bool) {
        let Some(key) = self.group_of.get(provider_id) else { return };
        self.touched.insert(provider_id.to_owned());
        let Some(kept) = self.groups.get_mut(key) else { return };
        let stays = kept
            .group
            .member(provider_id)
            .is_some_and(|member| matches!(member.state, MemberState::Creating | MemberState::Running));
        if !is_there || !stays {
            kept.joined.remove(provider_id);
        } else if has_joined {
            kept.joined.insert(provider_id.to_owned());
        }
    }

    /// Pods came to a machine or left it; whether it is one of a group.
    pub fn touch(&mut self, provider_id: &str) -> bool {
        let is_member = self.group_of.contains_key(provider_id);
        if is_member {
            self.touched.insert(provider_id.to_owned());
        }
        is_member
    }

    /// Machines that are empty, after looking again at those where something has changed.
    pub fn empty(&mut self, is_empty: impl Fn(&str) -> bool) -> &BTreeSet<String> {
        for id in std::mem::take(&mut self.touched) {
            match self.group_of.contains_key(&id) && is_empty(&id) {
                true => self.empty.insert(id),
                false => self.empty.remove(&id),
            };
        }
        &self.empty
    }

    /// All groups, by provider and name.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeGroupKey, &Arc<NodeGroup>)> {
        self.groups.iter().map(|(key, kept)| (key, &kept.group))
    }

    /// A group.
    pub fn get(&self, key: &NodeGroupKey) -> Option<&Arc<NodeGroup>> {
        Some(&self.groups.get(key)?.group)
    }

    /// The group of a machine.
    pub fn of(&self, provider_id: &str) -> Option<(&NodeGroupKey, &Arc<NodeGroup>)> {
        let (key, kept) = self.groups.get_key_value(self.group_of.get(provider_id)?)?;
        Some((key, &kept.group))
    }

    /// How many machines of a group are still to come.
    pub fn upcoming(&self, key: &NodeGroupKey) -> u32 {
        self.groups.get(key).map_or(0, Kept::upcoming)
    }

    /// Whether a place is a machine that is still to come, as [`upcoming_name`] names it.
    pub fn is_upcoming(&self, place: &str) -> bool {
        let Some((group, number)) = place.rsplit_once('#') else { return false };
        let Some((provider, name)) = group.split_once('/') else { return false };
        let key = NodeGroupKey { provider: provider.to_owned(), name: name.to_owned() };
        number.parse().is_ok_and(|number: u32| (1..=self.upcoming(&key)).contains(&number))
    }

    /// Machines that have joined, machines that are still to come, and what all of them cost in dollars per hour.
    pub fn totals(&self) -> (usize, usize, f64) {
        self.groups.values().fold((0, 0, 0.0), |(joined, upcoming, cost), kept| {
            let target = f64::from(kept.group.target);
            let price = kept.group.price.unwrap_or(0.0);
            (joined + kept.joined.len(), upcoming + kept.upcoming() as usize, cost + price * target)
        })
    }
}

/// The name under which a machine that is still to come is planned with. No object of the API has such a name.
pub fn upcoming_name(key: &NodeGroupKey, number: u32) -> String {
    format!("{key}#{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_provider::Member;

    fn group(target: u32, members: &[(&str, MemberState)]) -> NodeGroup {
        let member = |(id, state): &(&str, MemberState)| Member {
            provider_id: (*id).to_owned(),
            state: state.clone(),
        };
        NodeGroup {
            name: "web".to_owned(),
            min: 0,
            max: 9,
            target,
            template: Arc::default(),
            price: Some(0.5),
            members: members.iter().map(member).collect(),
        }
    }

    #[test]
    fn machines_are_to_come_until_their_nodes_have() {
        use MemberState::{Creating, Failed, Running, Terminating};
        let failed = Failed(joiner_provider::Error::Transient("no disk".to_owned()));
        let mut table = NodeGroupTable::default();
        let key = NodeGroupKey { provider: "cloud".to_owned(), name: "web".to_owned() };
        let members = [("i-1", Running), ("i-2", Creating), ("i-3", Terminating), ("i-4", failed)];
        assert!(table.take(key.clone(), group(5, &members), |id| id == "i-1" || id == "i-3"));
        assert_eq!(table.upcoming(&key), 3, "five, less one that has joined and one that never will");
        assert_eq!(table.totals(), (1, 3, 2.5));
        table.node_changed("i-2", true, false);
        assert_eq!(table.upcoming(&key), 3, "it is still starting");
        table.node_changed("i-2", true, true);
        assert_eq!(table.upcoming(&key), 2);
        assert!(table.is_upcoming(&upcoming_name(&key, 2)) && !table.is_upcoming(&upcoming_name(&key, 3)));
        assert!(!table.is_upcoming("node-1") && !table.is_upcoming("web#1"));
        table.node_changed("i-1", true, false);
        assert_eq!(table.upcoming(&key), 2, "it has been up");
        table.node_changed("i-1", false, false);
        assert_eq!(table.upcoming(&key), 3);
        table.node_changed("i-3", true, true);
        assert_eq!(table.upcoming(&key), 3, "one that goes does not count");
        assert!(!table.take(key.clone(), group(5, &members), |_| true), "the same again tells nothing");
    }

    #[test]
    fn a_group_that_cannot_be_read_stays_as_it_was_and_one_that_is_not_listed_goes() {
        let mut table = NodeGroupTable::default();
        table.outdated("cloud");
        assert!(!table.is_current());
        let listed = |item| vec![item];
        let whole = ListedGroup::Group(group(1, &[("i-1", MemberState::Running)]));
        assert!(table.take_list("cloud", listed(whole.clone()), |_| false));
        assert!(table.is_current() && table.of("i-1").is_some());
        let error = joiner_provider::Error::Transient("slow".to_owned());
        let unreadable = ListedGroup::Unreadable { name: "web".to_owned(), error };
        assert!(!table.take_list("cloud", listed(unreadable), |_| false));
        assert!(!table.take_list("another", Vec::new(), |_| false));
        assert!(table.of("i-1").is_some());
        assert!(table.take_list("cloud", Vec::new(), |_| false));
        assert!(table.of("i-1").is_none() && table.iter().next().is_none());
    }

    #[test]
    fn only_machines_where_something_changed_are_looked_at() {
        let mut table = NodeGroupTable::default();
        let listed = vec![ListedGroup::Group(group(
            2,
            &[("i-1", MemberState::Running), ("i-2", MemberState::Running)],
        ))];
        table.take_list("cloud", listed, |_| true);
        assert_eq!(table.empty(|id| id == "i-1").iter().collect::<Vec<_>>(), ["i-1"]);
        assert_eq!(table.empty(|_| panic!("nothing has changed")).len(), 1);
        table.touch("i-2");
        table.touch("nobody");
        assert_eq!(table.empty(|id| id == "i-2").len(), 2);
        table.touch("i-1");
        assert_eq!(table.empty(|_| false).iter().collect::<Vec<_>>(), ["i-2"]);
    }
}
