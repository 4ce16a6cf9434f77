//! What a class wants on one rung, prepared for asking, and what topology says to it now.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::{Attempt, HostVerdict, Kind, Own, Query, Want, WantKey};
use crate::algebra::MachineValue;
use crate::filter;
use crate::model::ids::*;
use crate::model::{GroupSpec, PodClass, Rung};
use crate::offer_set;
use crate::pack::finder::FinderKey;
use crate::pack::groups::{Host, World};
use crate::pack::scratch::Scratch;
use crate::pack::template::Naming;

impl Scratch<'_> {
    pub(super) fn prepare(&mut self, class_idx: ClassIdx, rung_at: usize) -> Want {
        let snapshot = self.snapshot;
        let class: &PodClass = &snapshot.classes[class_idx.at()];
        let rung: &Rung = &class.rungs[rung_at];
        let selected = self.groups.selected(snapshot, &self.algebra, class.identity);
        let mut own = Vec::new();
        let mut keys: Vec<(KeyId, bool)> = selected.pin_keys.iter().map(|key| (*key, false)).collect();
        let mut world = World {
            snapshot,
            algebra: &mut self.algebra,
            offers: &mut self.offers,
            templates: self.templates,
        };
        for group in &rung.groups {
            let spec = snapshot.group(*group);
            let (key, by_host) = (spec.key(), Some(spec.key()) == snapshot.hostname);
            let kind = match spec {
                GroupSpec::Spread { max_skew, min_domains, .. } => Kind::Spread {
                    max_skew: i64::from(*max_skew),
                    min_domains: i64::from(min_domains.unwrap_or(1)),
                    domains: if by_host {
                        std::rc::Rc::from([])
                    } else {
                        self.groups.spread_domains(
                            &mut world,
                            *group,
                            rung.strict,
                            class.tolerations,
                            rung.spare_preferred,
                        )
                    },
                },
                GroupSpec::Affinity { .. } => Kind::Affinity,
                GroupSpec::AntiAffinity { .. } => Kind::AntiAffinity {
                    targets: if by_host || !class.anti_affinity.contains(group) {
                        std::rc::Rc::from([])
                    } else {
                        self.groups.targets(&mut world, *group)
                    },
                },
            };
            if !by_host {
                let must_exist = !matches!(kind, Kind::AntiAffinity { .. });
                match keys.iter_mut().find(|(have, _)| *have == key) {
                    Some((_, exists)) => *exists |= must_exist,
                    None => keys.push((key, must_exist)),
                }
            }
            let counts_itself = selected.counted.contains(group);
            // Required terms count together, preferred ones each for itself. On the last rung only required ones are left.
            let required = class.rungs.last().map_or(&[][..], |rung| &rung.groups);
            let siblings = match spec {
                GroupSpec::Affinity { .. } if required.contains(group) => required
                    .iter()
                    .filter(|other| matches!(snapshot.group(**other), GroupSpec::Affinity { .. }))
                    .copied()
                    .collect(),
                GroupSpec::Affinity { .. } => SmallVec::from_slice(&[*group]),
                _ => SmallVec::new(),
            };
            own.push(Own { group: *group, key, by_host, counts_itself, siblings, kind });
        }
        let names = world.algebra.names();
        keys.sort_by(|(a, _), (b, _)| names.key_text(*a).cmp(names.key_text(*b)));
        let keys: Vec<WantKey> = keys
            .into_iter()
            .map(|(key, must_exist)| WantKey {
                key,
                must_exist,
                values: self.groups.future_values(
                    &mut world,
                    key,
                    rung.strict,
                    class.tolerations,
                    rung.spare_preferred,
                ),
                always_named: (0..snapshot.catalogues.len()).all(|at| {
                    let catalogue = CatalogueIdx::new(at);
                    matches!(world.offers.naming(snapshot, world.algebra, catalogue, key), Naming::Every)
                }),
            })
            .collect();
        let suitors = self.groups.suitors(&mut world, &selected);
        let steady = keys.is_empty()
            || (keys.iter().all(|key| key.always_named)
                && self.templates.iter().all(|template| template.min_values.is_empty()));
        let mut host_groups: Vec<(GroupIdx, bool)> = own
            .iter()
            .filter(|own| own.by_host && !matches!(own.kind, Kind::Affinity))
            .map(|own| (own.group, own.counts_itself))
            .collect();
        host_groups.sort_unstable();
        let inverse_hosts =
            selected.inverse.iter().filter(|g| self.groups.by_host(snapshot, **g)).copied().collect();
        let finder = self.finders.adopt(FinderKey {
            ask: rung.ask,
            requests: class.requests.clone(),
            tolerations: class.tolerations,
            spare_preferred: rung.spare_preferred,
            ports: class.ports.clone(),
            alternatives: class.volume_alternatives.clone(),
            host_groups,
            inverse_hosts,
            keys: keys.iter().map(|k| k.key).collect(),
        });
        Want { class: class_idx, rung: rung_at, finder, own, selected, keys, suitors, steady }
    }

    pub(super) fn query(&self, want: &Want) -> Query {
        let minima = want
            .own
            .iter()
            .map(|own| match &own.kind {
                Kind::Spread { min_domains, domains, .. } if !own.by_host => {
                    let least = domains.iter().map(|v| i64::from(self.groups.count(own.group, *v))).min();
                    filter::spread_floor(least, domains.len(), *min_domains)
                }
                _ => 0,
            })
            .collect();
        Query { minima }
    }

    /// Whether a value of a key is valid for the pod now.
    pub(super) fn value_ok(&self, want: &Want, query: &Query, key: KeyId, value: ValueId) -> bool {
        for (own, minimum) in want.own.iter().zip(&query.minima) {
            if own.by_host || own.key != key {
                continue;
            }
            let count = i64::from(self.groups.count(own.group, value));
            let ok = match &own.kind {
                Kind::Spread { max_skew, .. } => {
                    filter::spread_ok(count, own.counts_itself, *minimum, *max_skew)
                }
                Kind::Affinity => filter::affinity_ok(count, || self.may_be_first(own)),
                Kind::AntiAffinity { .. } => filter::anti_affinity_ok(count),
            };
            if !ok {
                return false;
            }
        }
        want.selected.inverse.iter().all(|group| {
            self.snapshot.group(*group).key() != key
                || filter::anti_affinity_ok(i64::from(self.groups.owner_count(*group, value)))
        })
    }

    /// A pod that matches its own affinity may go anywhere while no pod matches.
    pub(super) fn may_be_first(&self, own: &Own) -> bool {
        own.counts_itself && own.siblings.iter().all(|group| self.groups.state(*group).total == 0)
    }

    pub(super) fn host_verdict(&self, want: &Want, host: Host) -> HostVerdict {
        let mut verdict = HostVerdict::Ok;
        for own in want.own.iter().filter(|own| own.by_host) {
            let count = i64::from(self.groups.host_count(own.group, host));
            match &own.kind {
                Kind::Spread { max_skew, .. } => {
                    if !filter::spread_ok(count, own.counts_itself, 0, *max_skew) {
                        return HostVerdict::Never;
                    }
                }
                Kind::AntiAffinity { .. } => {
                    if !filter::anti_affinity_ok(count) {
                        return HostVerdict::Never;
                    }
                }
                Kind::Affinity => {
                    if !filter::affinity_ok(count, || self.may_be_first(own)) {
                        verdict = HostVerdict::NotNow;
                    }
                }
            }
        }
        for group in &want.selected.inverse {
            if !filter::anti_affinity_ok(i64::from(self.groups.owner_host_count(*group, host))) {
                return HostVerdict::Never;
            }
        }
        verdict
    }

    /// Values of a key to try on a future machine with these offerings left, best first: those it lists, else the given ones.
    pub(super) fn choices(
        &mut self,
        attempt: &Attempt,
        at: usize,
        met: ReqId,
        set: &[u64],
        values: &[ValueId],
    ) -> Vec<ValueId> {
        let want = attempt.want;
        let key = want.keys[at].key;
        let names = self.algebra.names();
        let mut out: Vec<ValueId> = match self.algebra.machine_value(met, key) {
            MachineValue::Defined(requirement) if !requirement.complement => {
                let mut listed = requirement.values.to_vec();
                listed.sort_unstable_by(|a, b| names.value_text(key, *a).cmp(names.value_text(key, *b)));
                listed
            }
            MachineValue::Defined(requirement) => {
                values.iter().copied().filter(|v| requirement.allows(names, key, *v)).collect()
            }
            MachineValue::Open | MachineValue::Missing => values.to_vec(),
        };
        out.retain(|v| self.value_ok(want, attempt.query, key, *v));
        if out.len() > 1 {
            let mut ranked: Vec<(Rank, ValueId)> = Vec::with_capacity(out.len());
            for value in out {
                let price = self.price_at(attempt, met, set, key, value);
                ranked.push((self.rank(want, key, value, price), value));
            }
            // Stable: names decide last.
            ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
            out = ranked.into_iter().map(|(_, value)| value).collect();
        }
        out
    }

    /// What speaks for a value, the smallest first.
    fn rank(&self, want: &Want, key: KeyId, value: ValueId, price: i64) -> Rank {
        let own = want.own.iter().filter(|own| own.key == key && matches!(own.kind, Kind::Spread { .. }));
        let spread = own.map(|own| self.groups.count(own.group, value)).collect();
        let suitors = || want.suitors.iter().filter(|suitor| suitor.key == key);
        let unserved = suitors().map(|suitor| self.groups.unserved(suitor, value)).sum();
        let displaced = suitors().map(|suitor| self.groups.displaced(suitor, value)).sum();
        let barred = want.own.iter().filter(|own| own.key == key).map(|own| match &own.kind {
            Kind::AntiAffinity { targets } => {
                targets.iter().map(|target| self.groups.barred(own.group, target, value)).sum()
            }
            Kind::Spread { .. } | Kind::Affinity => 0,
        });
        let barred: u32 = barred.sum();
        let occupied =
            want.selected.peers.iter().any(|group| {
                self.snapshot.group(*group).key() == key && self.groups.count(*group, value) > 0
            });
        (spread, Reverse(unserved), displaced, barred, !occupied, price, self.pinned_machines(key, value))
    }

    /// The lowest price that a machine with a value of a key can have, nano-dollars per hour. What is drawn from something finite counts only
    /// where it can be held.
    fn price_at(&mut self, attempt: &Attempt, met: ReqId, set: &[u64], key: KeyId, value: ValueId) -> i64 {
        let catalogue_idx = self.snapshot.pools[attempt.pool.at()].catalogue;
        let pinned = self.algebra.pin(met, key, value);
        let allowed = self.offers.of(self.snapshot, &self.algebra, catalogue_idx, pinned);
        let catalogue = &self.snapshot.catalogues[catalogue_idx.at()];
        let held: &[ReservationIdx] = attempt.machine.map_or(&[], |m| &self.machines[m.at()].reservations);
        let can_be_had = |at: &usize| {
            catalogue.offerings[*at].reservation.is_none_or(|reservation| {
                !self.snapshot.reservations[reservation.at()].commitment
                    && (self.reservations[reservation.at()] > 0 || held.contains(&reservation))
            })
        };
        offer_set::iter_both(set, &allowed)
            .find(can_be_had)
            .map_or(i64::MAX, |at| catalogue.offerings[at].price_nano_usd)
    }
}

/// Pods in the pod's own spreads; pods that could be served there; pods that would have no value left because of those the pod stands for, and because of
/// the pod; whether nobody is there; the price; machines pinned there.
type Rank = (SmallVec<[u32; 2]>, Reverse<u32>, u32, u32, bool, i64, i32);
