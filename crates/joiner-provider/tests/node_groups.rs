//! The suite for groups: a cloud that keeps its contract, and clouds that break one rule each with the check that catches them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use joiner_provider::conformance::Fault;
use joiner_provider::conformance::node_groups::{self, Books, GroupCloud};
use joiner_provider::{
    Error, Growth, ListedGroup, Member, MemberState, NodeGroup, NodeGroups, Registry, RegistryError, Resized,
    Terminated,
};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Break {
    Nothing,
    /// A growth adds what it says, wherever the target stands.
    GrowsByDifference,
    /// Nobody looks what the growth was decided from.
    AnyTargetWillDo,
    MostIgnored,
    LeastIgnored,
    /// The target stays, and the cloud makes a new machine.
    TargetStays,
    /// Whoever has been there longest goes.
    FirstMemberGoes,
    /// Each removal lowers the target, whether there was such a member or not.
    LowersAgain,
    MembersMissing,
}

struct State {
    target: u32,
    members: Vec<String>,
    made: usize,
    process: usize,
    fault: Option<Fault>,
}

/// The cloud: one group of one to eight machines.
#[derive(Clone)]
struct MemoryCloud {
    state: Arc<Mutex<State>>,
    how: Break,
}

const GROUP: &str = "web";
const BOUNDS: (u32, u32) = (1, 8);

/// The cloud as one process reaches it.
struct MemoryGroups {
    cloud: MemoryCloud,
    process: usize,
}

impl MemoryCloud {
    fn new(how: Break) -> Self {
        let mut state = State { target: 3, members: Vec::new(), made: 0, process: 0, fault: None };
        state.settle();
        Self { state: Arc::new(Mutex::new(state)), how }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn settle(&mut self) {
        while self.members.len() < self.target as usize {
            self.made += 1;
            self.members.push(format!("memory://{}", self.made));
        }
    }
}

impl MemoryGroups {
    /// One call. Its effect and its answer are two things: the last call before a crash has the one and not the other.
    fn call<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
        let mut state = self.cloud.state();
        let cut_off = || Err(Error::Transient("the connection is cut off".to_owned()));
        if state.process != self.process {
            return cut_off();
        }
        match &mut state.fault {
            Some(Fault::Crash { after_calls: 0 }) => cut_off(),
            Some(Fault::Crash { after_calls }) => {
                *after_calls -= 1;
                let last = *after_calls == 0;
                let answer = work(&mut state);
                if last { cut_off() } else { answer }
            }
            Some(Fault::LostAnswer { after_calls: 0 }) => {
                state.fault = None;
                work(&mut state)?;
                cut_off()
            }
            Some(Fault::LostAnswer { after_calls }) => {
                *after_calls -= 1;
                work(&mut state)
            }
            _ => work(&mut state),
        }
    }

    fn read(&self) -> Result<NodeGroup, Error> {
        let members_missing = self.cloud.how == Break::MembersMissing;
        self.call(|state| {
            let template: Node = serde_json::from_value(json!({
                "metadata": {"name": "template"}, "status": {"allocatable": {"cpu": "4", "pods": "30"}}}))
            .unwrap();
            let ids = state.members.iter().skip(usize::from(members_missing));
            let member = |id: &String| Member { provider_id: id.clone(), state: MemberState::Running };
            Ok(NodeGroup {
                name: GROUP.to_owned(),
                min: BOUNDS.0,
                max: BOUNDS.1,
                target: state.target,
                template: template.into(),
                price: None,
                members: ids.map(member).collect(),
            })
        })
    }

    fn grow_now(&self, growth: &Growth) -> Result<Resized, Error> {
        let how = self.cloud.how;
        let before = self.read()?;
        let by = growth.to.saturating_sub(growth.from);
        if how != Break::GrowsByDifference {
            if before.target >= growth.to {
                return Ok(Resized::Done(before));
            }
            if before.target != growth.from && how != Break::AnyTargetWillDo {
                return Ok(Resized::Changed(before));
            }
        }
        if growth.to > before.max && how != Break::MostIgnored {
            let message = format!("`{GROUP}` has at most {} machines", before.max);
            return Err(Error::Invalid { reason: "SizeTooLarge".to_owned(), message });
        }
        self.call(|state| {
            state.target = before.target + by;
            Ok(())
        })?;
        self.read().map(Resized::Done)
    }

    fn remove_now(&self, id: &str) -> Result<Terminated, Error> {
        let how = self.cloud.how;
        let group = self.read()?;
        if group.member(id).is_none() {
            if how == Break::LowersAgain {
                self.call(|state| {
                    state.target = state.target.saturating_sub(1);
                    state.members.pop();
                    Ok(())
                })?;
            }
            return Ok(Terminated::Gone);
        }
        if group.spare() == 0 && how != Break::LeastIgnored {
            let message = format!("`{GROUP}` has at least {} machines", group.min);
            return Err(Error::Invalid { reason: "SizeTooSmall".to_owned(), message });
        }
        self.call(|state| {
            let at = state.members.iter().position(|member| member == id).unwrap_or(0);
            state.members.remove(if how == Break::FirstMemberGoes { 0 } else { at });
            state.target -= u32::from(how != Break::TargetStays);
            Ok(Terminated::Gone)
        })
    }
}

impl NodeGroups for MemoryGroups {
    fn name(&self) -> &str {
        "memory"
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<ListedGroup>, Error>> {
        ready(self.read().map(|group| vec![ListedGroup::Group(group)])).boxed()
    }

    fn get<'a>(&'a self, group: &'a str) -> BoxFuture<'a, Result<Option<NodeGroup>, Error>> {
        ready(self.read().map(|found| Some(found).filter(|found| found.name == group))).boxed()
    }

    fn grow(&self, growth: Growth) -> BoxFuture<'_, Result<Resized, Error>> {
        ready(self.grow_now(&growth)).boxed()
    }

    fn remove<'a>(&'a self, _: &'a str, provider_id: &'a str) -> BoxFuture<'a, Result<Terminated, Error>> {
        ready(self.remove_now(provider_id)).boxed()
    }
}

impl GroupCloud for MemoryCloud {
    fn provider(&self) -> Arc<dyn NodeGroups> {
        let mut state = self.state();
        state.process += 1;
        state.fault = None;
        Arc::new(MemoryGroups { cloud: self.clone(), process: state.process })
    }

    fn group(&self) -> String {
        GROUP.to_owned()
    }

    fn books(&self) -> BoxFuture<'_, Books> {
        let state = self.state();
        let members: BTreeSet<String> = state.members.iter().cloned().collect();
        ready(Books { target: state.target, members }).boxed()
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.state().settle();
        ready(()).boxed()
    }

    fn inject(&self, fault: Fault) -> bool {
        self.state().fault = Some(fault);
        true
    }
}

#[tokio::test]
async fn a_cloud_that_keeps_the_contract_conforms() {
    node_groups::assert_conforms(async || MemoryCloud::new(Break::Nothing)).await;
}

#[tokio::test]
async fn each_broken_rule_is_named() {
    for (how, check) in [
        (Break::GrowsByDifference, "growing repeated is growing once"),
        (Break::AnyTargetWillDo, "a target that is not as it was is left alone"),
        (Break::MostIgnored, "a group has no more machines than its most"),
        (Break::LeastIgnored, "a group has no fewer machines than its least"),
        (Break::TargetStays, "exactly the named member goes, and the target with it"),
        (Break::FirstMemberGoes, "exactly the named member goes, and the target with it"),
        (Break::LowersAgain, "removing repeated is removing once"),
        (Break::MembersMissing, "a group is listed whole"),
    ] {
        let found = node_groups::violations(async || MemoryCloud::new(how)).await;
        let names: Vec<&str> = found.iter().map(|violation| violation.check).collect();
        assert!(names.contains(&check), "{how:?} is told as {found:?}");
    }
}

#[test]
fn names_of_providers_are_their_own() {
    let cloud = MemoryCloud::new(Break::Nothing);
    let registry = Registry::new([]).unwrap().with_node_groups([cloud.provider()]).unwrap();
    assert!(registry.node_groups_of("memory").is_some() && registry.node_groups_of("other").is_none());
    let again = registry.with_node_groups([cloud.provider()]).err();
    assert_eq!(again, Some(RegistryError::NameTaken("memory".to_owned())));
}
