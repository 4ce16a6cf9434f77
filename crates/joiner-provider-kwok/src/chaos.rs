//! How the machines of a KWOKNodeClass behave: how long their Nodes take, which partition they belong to, what goes wrong on purpose.
//!
//! Every answer is a function of the class and of the claim's uid. So a call that is repeated gets the same answer, also after a restart,
//! and one cluster has the same accidents in every run; nothing is remembered but how often a launch was tried.

use std::time::Duration;

use joiner_api::duration;
use joiner_api::{KwokCapacity, KwokChaos, KwokNodeClassSpec};
use joiner_provider::{Error, OfferingKey};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The partition of Nodes whose class names none.
pub const PARTITION: &str = "a";

/// How long before its end a machine that is taken back is told of, unless the class says otherwise.
const NOTICE: &str = "2m";
/// The capacity type of machines that can be taken back.
const SPOT: &str = "spot";
const HOUR: Duration = Duration::from_secs(3600);
/// Beyond so many hours nothing happens to a machine any more.
const HOURS: u32 = 10_000;

/// What a class says of its machines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Behaviour {
    delay: Duration,
    jitter: Duration,
    partitions: Vec<String>,
    chaos: KwokChaos,
    /// How long before its end a machine that is taken back is told of.
    notice: Duration,
}

impl Behaviour {
    /// What a class of KWOK says; classes of other providers are simulated without accidents.
    ///
    /// # Errors
    /// A field that cannot be read, by its path.
    pub fn of_class(class: &Value) -> Result<Self, Error> {
        let spec = class.get("spec").cloned().unwrap_or_default();
        let spec: KwokNodeClassSpec =
            serde_json::from_value(spec).map_err(|error| Error::ClassNotReady(format!("spec: {error}")))?;
        Self::of_spec(spec)
    }

    /// The same for a class that has been read.
    ///
    /// # Errors
    /// A field that cannot be read, by its path.
    pub fn of_spec(spec: KwokNodeClassSpec) -> Result<Self, Error> {
        let notice = spec.chaos.as_ref().and_then(|chaos| chaos.spot_reclaim_notice.as_deref());
        Ok(Self {
            notice: length("chaos.spotReclaimNotice", Some(notice.unwrap_or(NOTICE)))?,
            delay: length("nodeRegistrationDelay", spec.node_registration_delay.as_deref())?,
            jitter: length("nodeRegistrationDelayJitter", spec.node_registration_delay_jitter.as_deref())?,
            partitions: spec.partitions,
            chaos: spec.chaos.unwrap_or_default(),
        })
    }

    /// From the launch of a claim's machine until its Node appears.
    pub fn delay(&self, uid: &str) -> Duration {
        self.delay + self.jitter.mul_f64(self.draw(uid, "delay"))
    }

    /// The partition of a claim's Node.
    pub fn partition(&self, uid: &str) -> &str {
        let at = (self.draw(uid, "partition") * self.partitions.len() as f64) as usize;
        self.partitions.get(at).map_or(PARTITION, String::as_str)
    }

    /// Whether this try of a launch fails.
    pub fn fails(&self, uid: &str, tries_before: u32) -> bool {
        self.hits(self.chaos.launch_failure_percent, uid, &format!("launch/{tries_before}"))
    }

    /// Whether a launch finds an offering without capacity.
    pub fn lacks(&self, uid: &str, offering: &OfferingKey) -> bool {
        let OfferingKey { instance_type, zone, capacity_type, .. } = offering;
        let purpose = format!("capacity/{instance_type}/{zone:?}/{capacity_type:?}");
        self.hits(self.chaos.no_capacity_percent, uid, &purpose)
    }

    /// Whether the Node of a claim's machine ever appears.
    pub fn registers(&self, uid: &str) -> bool {
        !self.hits(self.chaos.never_register_percent, uid, "register")
    }

    /// How old a claim's machine gets before it vanishes without a word, if it does.
    pub fn vanishes_at(&self, uid: &str) -> Option<Duration> {
        self.age_at(self.chaos.vanish_percent_per_hour, uid, "vanish")
    }

    /// How old a claim's machine gets before the cloud takes it back, if it does: when that is told, and when it happens.
    pub fn reclaimed_at(&self, uid: &str, capacity_type: Option<&str>) -> Option<(Duration, Duration)> {
        let percent = self.chaos.spot_reclaim_percent_per_hour.filter(|_| capacity_type == Some(SPOT));
        let told = self.age_at(percent, uid, "reclaim")?;
        Some((told, told + self.notice))
    }

    /// Whether anything ever happens to machines that stand.
    pub fn ends_machines(&self) -> bool {
        [self.chaos.vanish_percent_per_hour, self.chaos.spot_reclaim_percent_per_hour]
            .iter()
            .any(|percent| percent.is_some_and(|percent| percent > 0))
    }

    /// The age at which something happens that hits so many in each hour of their lives.
    fn age_at(&self, percent: Option<i64>, uid: &str, purpose: &str) -> Option<Duration> {
        percent.filter(|percent| *percent > 0)?;
        let hour = (0..HOURS).find(|hour| self.hits(percent, uid, &format!("{purpose}/{hour}")))?;
        let within = self.draw(uid, &format!("{purpose}/{hour}/moment"));
        Some(HOUR.mul_f64(f64::from(hour) + within))
    }

    /// The stocks that are not endless.
    pub fn stocks(&self) -> &[KwokCapacity] {
        &self.chaos.capacity
    }

    fn hits(&self, percent: Option<i64>, uid: &str, purpose: &str) -> bool {
        self.draw(uid, purpose) * 100.0 < percent.unwrap_or(0) as f64
    }

    /// A number from 0 up to 1.
    fn draw(&self, uid: &str, purpose: &str) -> f64 {
        let seed = self.chaos.seed.unwrap_or(0).cast_unsigned();
        let number = xxh3_64_with_seed(format!("{uid}/{purpose}").as_bytes(), seed);
        // As many bits as a double holds exactly.
        (number >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Whether a machine takes from a stock.
pub fn draws_on(stock: &KwokCapacity, offering: &OfferingKey) -> bool {
    let is = |wanted: &Option<String>, have: Option<&str>| wanted.is_none() || wanted.as_deref() == have;
    is(&stock.instance_type, Some(&offering.instance_type))
        && is(&stock.zone, offering.zone.as_deref())
        && is(&stock.capacity_type, offering.capacity_type.as_deref())
}

fn length(field: &str, text: Option<&str>) -> Result<Duration, Error> {
    let Some(text) = text else { return Ok(Duration::ZERO) };
    let parsed = duration::Duration::parse(text)
        .map_err(|error| Error::ClassNotReady(format!("spec.{field}: {error}")))?;
    Ok(Duration::from_nanos(parsed.nanos().max(0).unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn behaviour(spec: Value) -> Behaviour {
        Behaviour::of_class(&json!({"spec": spec})).unwrap()
    }

    fn share(count: impl Fn(&str) -> bool) -> usize {
        (0..1000).filter(|number| count(&format!("uid-{number}"))).count()
    }

    #[test]
    fn a_class_that_says_nothing_behaves() {
        let plain = behaviour(Value::Null);
        assert!(!plain.ends_machines() && plain.vanishes_at("x").is_none());
        assert_eq!((plain.delay("x"), plain.partition("x")), (Duration::ZERO, "a"));
        let offering = OfferingKey { instance_type: "t".to_owned(), ..OfferingKey::default() };
        assert_eq!(
            share(|uid| plain.fails(uid, 0) || plain.lacks(uid, &offering) || !plain.registers(uid)),
            0
        );
    }

    #[test]
    fn shares_are_about_what_was_asked_for_and_the_same_again() {
        let chaos = json!({"launchFailurePercent": 20, "noCapacityPercent": 50, "neverRegisterPercent": 100});
        let class = behaviour(json!({"chaos": chaos}));
        let offering = OfferingKey { instance_type: "t".to_owned(), ..OfferingKey::default() };
        let failed = share(|uid| class.fails(uid, 0));
        assert!((150..250).contains(&failed), "{failed}");
        assert_eq!(failed, share(|uid| class.fails(uid, 0)));
        assert!(share(|uid| class.fails(uid, 0) && class.fails(uid, 1)) < 80, "each try is drawn anew");
        assert!((450..550).contains(&share(|uid| class.lacks(uid, &offering))));
        assert_eq!(share(|uid| class.registers(uid)), 0);
        let mut other = chaos;
        other["seed"] = json!(7);
        let other = behaviour(json!({"chaos": other}));
        assert!(share(|uid| class.fails(uid, 0) != other.fails(uid, 0)) > 100);
    }

    #[test]
    fn so_many_machines_end_in_each_hour_of_their_lives() {
        let chaos =
            json!({"vanishPercentPerHour": 20, "spotReclaimPercentPerHour": 100, "spotReclaimNotice": "30s"});
        let class = behaviour(json!({"chaos": chaos}));
        let within = |hour: u32| {
            let hour = HOUR * hour..HOUR * (hour + 1);
            share(|uid| class.vanishes_at(uid).is_some_and(|age| hour.contains(&age)))
        };
        assert!((160..240).contains(&within(0)), "{}", within(0));
        assert!((120..200).contains(&within(1)), "of those that are left: {}", within(1));
        assert_eq!(
            share(|uid| class
                .reclaimed_at(uid, Some("spot"))
                .is_some_and(|(told, ends)| told < HOUR && ends == told + Duration::from_secs(30))),
            1000
        );
        assert_eq!(share(|uid| class.reclaimed_at(uid, Some("on-demand")).is_some()), 0);
        assert_eq!(class.vanishes_at("x"), class.vanishes_at("x"));
        assert!(class.ends_machines() && !behaviour(Value::Null).ends_machines());
        assert_eq!(
            behaviour(json!({"chaos": {"spotReclaimPercentPerHour": 100}})).notice,
            Duration::from_secs(120)
        );
    }

    #[test]
    fn delays_and_partitions_differ_by_machine_within_their_bounds() {
        let spec = json!({"nodeRegistrationDelay": "10s", "nodeRegistrationDelayJitter": "5s", "partitions": ["a", "b", "c"]});
        let class = behaviour(spec);
        let bounds = Duration::from_secs(10)..Duration::from_secs(15);
        assert_eq!(share(|uid| bounds.contains(&class.delay(uid))), 1000);
        for partition in ["a", "b", "c"] {
            assert!((250..420).contains(&share(|uid| class.partition(uid) == partition)), "{partition}");
        }
    }

    #[test]
    fn a_stock_counts_what_it_names() {
        let offering = OfferingKey {
            instance_type: "t".to_owned(),
            zone: Some("a".to_owned()),
            capacity_type: Some("spot".to_owned()),
            reservation: None,
        };
        let stock = |instance_type: Option<&str>, zone: Option<&str>| KwokCapacity {
            instance_type: instance_type.map(str::to_owned),
            zone: zone.map(str::to_owned),
            ..KwokCapacity::default()
        };
        assert!(draws_on(&stock(None, None), &offering) && draws_on(&stock(Some("t"), Some("a")), &offering));
        assert!(
            !draws_on(&stock(Some("u"), None), &offering) && !draws_on(&stock(None, Some("b")), &offering)
        );
    }

    #[test]
    fn a_field_that_cannot_be_read_is_named() {
        for (spec, field) in [
            (json!({"nodeRegistrationDelayJitter": "soon"}), "spec.nodeRegistrationDelayJitter"),
            (json!({"partitions": "a"}), "spec: "),
        ] {
            let error = Behaviour::of_class(&json!({"spec": spec})).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
