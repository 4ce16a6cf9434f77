//! Calls of clouds that keep machines in groups, in the lane of the providers.

use std::sync::Arc;

use joiner_provider::{Error, Growth, ListedGroup, NodeGroupKey, NodeGroups, Resized};

use super::read_back::Found;
use super::{Epoch, Executor, Lane, Problem};
use crate::command::{Done, Failure};

impl Executor {
    /// All groups of a cloud.
    ///
    /// # Errors
    /// The cloud failed or did not answer.
    pub async fn list_groups(&self, groups: &dyn NodeGroups) -> Result<Vec<ListedGroup>, Failure> {
        let limit = self.shared.provider_timeout;
        let listed = match self.pass(Lane::Provider, None, limit, groups.list()).await {
            Ok(Some(listed)) => listed.map_err(Failure::Provider),
            Ok(None) => Err(Failure::Provider(Error::Transient("the provider gave no answer".to_owned()))),
            Err(failure) => Err(failure),
        };
        self.shared.metrics.command("list_groups", listed.as_ref().err().map_or("done", Failure::name));
        listed
    }

    pub(super) async fn grow_group(
        &self,
        epoch: Epoch,
        provider: &str,
        growth: &Growth,
    ) -> Result<Done, Problem> {
        let groups = self.groups_of(provider).map_err(Problem::Refused)?;
        let limit = self.shared.provider_timeout;
        match self.pass(Lane::Provider, Some(epoch), limit, groups.grow(growth.clone())).await {
            Ok(Some(Ok(Resized::Done(group)))) => Ok(Done::Group(key(provider, growth), group.into())),
            Ok(Some(Ok(Resized::Changed(_)))) => Err(Problem::Refused(Failure::Conflict)),
            // Whether the target was raised before it failed, only the cloud knows.
            Ok(Some(Err(Error::Transient(why)))) => Err(Problem::Unanswered(why)),
            Ok(Some(Err(error))) => Err(Problem::Refused(Failure::Provider(error))),
            Ok(None) => Err(self.too_late(limit)),
            Err(failure) => Err(Problem::Refused(failure)),
        }
    }

    /// What the group says about a growth that was not answered.
    pub(super) async fn find_out_growth(&self, provider: &str, growth: &Growth) -> Result<Found, Problem> {
        let groups = self.groups_of(provider).map_err(Problem::Refused)?;
        let limit = self.shared.provider_timeout;
        match self.pass(Lane::Provider, None, limit, groups.get(&growth.group)).await {
            Ok(Some(Ok(Some(group)))) if group.target >= growth.to => {
                Ok(Found::Done(Done::Group(key(provider, growth), group.into())))
            }
            Ok(Some(Ok(Some(group)))) if group.target == growth.from => Ok(Found::NotDone),
            Ok(Some(Ok(Some(_)))) => Ok(Found::Changed),
            Ok(Some(Ok(None))) => Ok(Found::Gone),
            Ok(Some(Err(Error::Transient(why)))) => Err(Problem::Unanswered(why)),
            Ok(Some(Err(error))) => Err(Problem::Refused(Failure::Provider(error))),
            Ok(None) => Err(self.too_late(limit)),
            Err(failure) => Err(Problem::Refused(failure)),
        }
    }

    pub(super) async fn remove_member(
        &self,
        epoch: Epoch,
        group: &NodeGroupKey,
        provider_id: &str,
    ) -> Result<Done, Failure> {
        let groups = self.groups_of(&group.provider)?;
        let call = groups.remove(&group.name, provider_id);
        match self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, call).await? {
            Some(removed) => removed.map(Done::Machine).map_err(Failure::Provider),
            None => Err(Failure::Provider(Error::Transient("the provider gave no answer".to_owned()))),
        }
    }

    fn groups_of(&self, provider: &str) -> Result<&Arc<dyn NodeGroups>, Failure> {
        let groups = self.shared.registry.node_groups_of(provider);
        groups.ok_or_else(|| {
            Failure::Other(format!("node groups of provider `{provider}` are not served here"))
        })
    }
}

fn key(provider: &str, growth: &Growth) -> NodeGroupKey {
    NodeGroupKey { provider: provider.to_owned(), name: growth.group.clone() }
}
