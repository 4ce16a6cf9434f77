//! Which kinds cannot be observed, since when, and what is disabled by it. Pure: failures and moments in, what to tell out.

use std::collections::BTreeMap;
use std::time::Duration;

use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{GroupKind, Monotonic};
use joiner_record::{Disabled, Resource, Trouble, WatchTrouble, WatchVerb};

use crate::cache::{Kind, Watched};
use crate::clock::Present;

/// An error that may pass is told when it has lasted so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A watch, or the list before it, has failed.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchFailure {
    /// What it follows.
    pub watched: Watched,
    /// Its name for the server.
    pub resource: Resource,
    /// What did not work.
    pub verb: WatchVerb,
    /// Why.
    pub why: Why,
}

/// Why a watch has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The server does not let us.
    Forbidden,
    /// The server has no such kind.
    NotServed,
    /// Anything that may pass.
    Other(String),
}

/// The kinds that cannot be observed now.
#[derive(Debug, Default)]
pub struct WatchHealth {
    rows: BTreeMap<Watched, Row>,
}

#[derive(Debug)]
struct Row {
    trouble: WatchTrouble,
    began: Monotonic,
    told: bool,
}

impl WatchHealth {
    /// A watch has failed. What is returned is new and to be told.
    pub fn failed(&mut self, failure: WatchFailure, now: Present) -> Option<&WatchTrouble> {
        let WatchFailure { watched, resource, verb, why } = failure;
        let before = self.rows.remove(&watched);
        let since = before.as_ref().map_or(now.wall, |row| row.trouble.since);
        let began = before.as_ref().map_or(now.monotonic, |row| row.began);
        let failures = before.as_ref().map_or(0, |row| match &row.trouble.trouble {
            Trouble::Failing { failures, .. } => *failures,
            Trouble::Forbidden | Trouble::NotServed => 0,
        });
        let trouble = match why {
            Why::Forbidden => Trouble::Forbidden,
            Why::NotServed => Trouble::NotServed,
            Why::Other(message) => Trouble::Failing { failures: failures + 1, message },
        };
        let same =
            |row: &Row| std::mem::discriminant(&row.trouble.trouble) == std::mem::discriminant(&trouble);
        let told = before.as_ref().is_some_and(|row| row.told && same(row));
        let passing = matches!(trouble, Trouble::Failing { .. });
        let tell = !told && (!passing || now.monotonic.since(began) >= PATIENCE);
        let trouble = WatchTrouble { resource, verb, since, trouble, disables: disabled(&watched) };
        let row = self.rows.entry(watched).or_insert(Row { trouble, began, told: told || tell });
        tell.then_some(&row.trouble)
    }

    /// A watch works again, after so long. What is returned was told, and its end is to be told too.
    pub fn recovered(&mut self, watched: &Watched, now: Monotonic) -> Option<(Resource, Duration)> {
        let row = self.rows.remove(watched).filter(|row| row.told)?;
        Some((row.trouble.resource, now.since(row.began)))
    }

    /// Whether nothing may be decided now.
    pub fn blocks(&self) -> bool {
        self.rows.values().any(|row| row.trouble.blocks())
    }

    /// Everything that was told and lasts.
    pub fn troubles(&self) -> impl Iterator<Item = &WatchTrouble> {
        self.rows.values().filter(|row| row.told).map(|row| &row.trouble)
    }

    /// Why classes of the kind that a pool refers to cannot be observed.
    pub fn of_class(&self, class: &NodeClassReference) -> Option<&WatchTrouble> {
        let row = self.rows.get(&Watched::Classes(GroupKind::from(class)))?;
        let passing = matches!(row.trouble.trouble, Trouble::Failing { .. });
        (row.told && !passing).then_some(&row.trouble)
    }
}

/// What does not work without the objects of a watch.
pub fn disabled(watched: &Watched) -> Disabled {
    let kind = match watched {
        Watched::Objects(kind) => kind,
        Watched::Classes(_) => return Disabled::PoolsOfClass,
    };
    match kind {
        Kind::Pod | Kind::Node | Kind::Claim | Kind::Pool => Disabled::Decisions,
        Kind::Overlay => Disabled::Overlays,
        Kind::DaemonSet => Disabled::DaemonOverhead,
        Kind::Budget => Disabled::HeldPods,
        Kind::Namespace => Disabled::NamespaceSelectors,
        Kind::Volume | Kind::VolumeClaim => Disabled::Volumes,
        Kind::StorageClass => Disabled::StorageClasses,
        Kind::PriorityClass => Disabled::Priorities,
        Kind::CsiNode => Disabled::VolumeLimits,
        Kind::Attachment => Disabled::Detachment,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// The wall clock is an hour ahead from the tenth second on.
    fn at(second: u32) -> Present {
        let wall = i64::from(second) + if second >= 10 { 3600 } else { 0 };
        let monotonic = Monotonic::new(Duration::from_secs(second.into()));
        Present { wall: Timestamp::from_second(wall).unwrap(), monotonic }
    }

    fn failure(kind: Kind, why: Why) -> WatchFailure {
        let resource = Resource { group: "karpenter.sh".to_owned(), plural: "nodepools".to_owned() };
        WatchFailure { watched: Watched::Objects(kind), resource, verb: WatchVerb::List, why }
    }

    #[test]
    fn what_is_forbidden_is_told_once() {
        let mut health = WatchHealth::default();
        assert!(health.failed(failure(Kind::Budget, Why::Forbidden), at(0)).is_some());
        assert!(health.failed(failure(Kind::Budget, Why::Forbidden), at(9)).is_none());
        assert!(!health.blocks(), "budgets are not needed");
        let other = health.failed(failure(Kind::Budget, Why::NotServed), at(10)).unwrap();
        assert_eq!(other.since, at(0).wall);
        assert!(health.failed(failure(Kind::Pool, Why::NotServed), at(11)).is_some());
        assert!(health.blocks());
        assert_eq!(health.troubles().count(), 2);
        assert!(health.recovered(&Watched::Objects(Kind::Pool), at(95).monotonic).is_some());
        assert!(health.recovered(&Watched::Objects(Kind::Pool), at(95).monotonic).is_none());
        assert!(!health.blocks());
    }

    #[test]
    fn what_may_pass_is_told_when_it_lasts() {
        let mut health = WatchHealth::default();
        let down = || failure(Kind::Pod, Why::Other("down".to_owned()));
        for second in [0, 20, 59] {
            assert!(health.failed(down(), at(second)).is_none());
        }
        assert_eq!(health.troubles().count(), 0);
        let told = health.failed(down(), at(60)).unwrap();
        assert!(matches!(told.trouble, Trouble::Failing { failures: 4, .. }));
        assert!(health.failed(down(), at(90)).is_none());
        assert!(!health.blocks(), "what was listed before still holds");
        assert!(health.recovered(&Watched::Objects(Kind::Pod), at(95).monotonic).is_some());
        assert!(health.failed(down(), at(91)).is_none());
        assert!(
            health.recovered(&Watched::Objects(Kind::Pod), at(95).monotonic).is_none(),
            "it was never told"
        );
    }

    #[test]
    fn each_kind_of_class_fails_for_itself() {
        let mut health = WatchHealth::default();
        let watched = Watched::Classes(GroupKind::new("karpenter.k8s.aws", "EC2NodeClass"));
        let denied = |why| WatchFailure { watched: watched.clone(), ..failure(Kind::Pod, why) };
        let of = |group: &str, kind: &str| NodeClassReference {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: "default".to_owned(),
        };
        let (aws, kwok) = (of("karpenter.k8s.aws", "EC2NodeClass"), of("karpenter.kwok.sh", "KWOKNodeClass"));
        assert!(health.failed(denied(Why::Forbidden), at(0)).is_some());
        assert!(!health.blocks(), "pools of other classes go on");
        assert_eq!(health.of_class(&aws).map(|of| of.disables), Some(Disabled::PoolsOfClass));
        assert_eq!(health.of_class(&kwok), None);
        health.failed(denied(Why::Other("down".to_owned())), at(1));
        assert_eq!(health.of_class(&aws), None, "what was listed before still holds");
    }
}
