//! Clusters to take nodes from, built through the model itself: nodes of machine types at prices, ten services a node, rules among them.

use std::sync::Arc;

use joiner_core::disrupt::{Block, Fleet, NodeFacts, PoolFacts, Resident, eviction_cost, rescheduling_cost};
use joiner_core::model::ids::*;
use joiner_core::model::names::{CPU, MEMORY, PODS};
use joiner_core::model::node::ShownNode;
use joiner_core::model::{
    Catalogue, GroupSpec, Identity, InstanceType, Matcher, MatcherTerm, Node, NodeFilter, Offering, Pod,
    PodClass, Pool, Requirement, ResVec, Rung, Snapshot,
};

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const TYPE: &str = "node.kubernetes.io/instance-type";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const GIB: i64 = 1 << 30;

/// How well nodes fit what runs on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Each is the cheapest that holds its pods.
    Tight,
    /// Each is the cheapest that would hold them if they were a half larger.
    Slack,
    /// Each is four times too large.
    Ill,
}

/// A pod of a service: millicores, GiB of memory in eighths, and the rules of the service.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    pub cpu: i64,
    pub memory: i64,
    pub spread: bool,
    pub apart: bool,
}

/// A node to be: millicores and GiB it should have at least, its zone, and the services of its pods.
#[derive(Debug, Clone)]
pub struct Row {
    pub cpu: i64,
    pub memory: i64,
    pub zone: usize,
    pub pods: Vec<usize>,
    pub blocked: bool,
}

/// Builds fleets.
pub struct Builder {
    snapshot: Snapshot,
}

impl Builder {
    /// With a catalogue of three families in these sizes (CPUs), and one pool.
    pub fn new(sizes: &[i64]) -> Self {
        let mut builder = Self { snapshot: Snapshot::default() };
        let names = &mut builder.snapshot.vocabulary.names;
        for lane in ["cpu", "memory", "ephemeral-storage", "pods"] {
            names.lane(lane);
        }
        for key in [ZONE, CAPACITY_TYPE, TYPE] {
            let key = builder.snapshot.vocabulary.names.key(key);
            builder.snapshot.vocabulary.add_well_known(key);
        }
        builder.snapshot.hostname = Some(builder.snapshot.vocabulary.names.key(HOSTNAME));
        builder.catalogue(sizes);
        let requirements = builder.snapshot.vocabulary.set([]);
        let taints = builder.snapshot.vocabulary.taint_list(Vec::new());
        builder.snapshot.pools.push(Pool {
            name: "default".into(),
            weight: 0,
            catalogue: CatalogueIdx(0),
            requirements,
            daemon_requirements: requirements,
            taints,
            limits: Vec::new(),
            not_ready: None,
        });
        builder
    }

    fn is(&mut self, key: &str, value: &str) -> (KeyId, Requirement) {
        let names = &mut self.snapshot.vocabulary.names;
        let key = names.key(key);
        (key, Requirement::is(names.value(key, value)))
    }

    fn amounts(cpu: i64, memory: i64, pods: i64) -> ResVec {
        let mut amounts = ResVec::from_elem(0, 4);
        (amounts[CPU], amounts[MEMORY], amounts[PODS]) = (cpu, memory, pods);
        amounts
    }

    fn catalogue(&mut self, sizes: &[i64]) {
        let mut rows: Vec<(i64, String, usize, ResVec)> = Vec::new();
        // GiB per CPU, and dollars per hour of both.
        for (family, ratio) in [("c", 2), ("m", 4), ("r", 8)] {
            for size in sizes {
                let price = size * 34_000_000 + size * ratio * 4_000_000;
                let room = Self::amounts(size * 1000 - 100, size * ratio * GIB - GIB / 2, 110);
                for zone in 0..ZONES.len() {
                    rows.push((price, format!("{family}.{size}"), zone, room.clone()));
                }
            }
        }
        rows.sort_by(|a, b| (a.0, &a.1, a.2).cmp(&(b.0, &b.1, b.2)));
        let mut types: Vec<String> = rows.iter().map(|row| row.1.clone()).collect();
        types.sort();
        types.dedup();
        let mut catalogue = Catalogue::default();
        for name in &types {
            let capacity = rows.iter().find(|row| row.1 == *name).expect("it is there").3.clone();
            let own = self.is(TYPE, name);
            let requirements = self.snapshot.vocabulary.set([own]);
            catalogue.types.push(InstanceType {
                name: name.as_str().into(),
                requirements,
                capacity,
                volume_limits: Vec::new(),
            });
        }
        for (price_nano_usd, name, zone, allocatable) in rows {
            let (zone, capacity) = (self.is(ZONE, ZONES[zone]), self.is(CAPACITY_TYPE, "on-demand"));
            let (zone_value, capacity_value) = (zone.1.single(), capacity.1.single());
            let requirements = self.snapshot.vocabulary.set([zone, capacity]);
            catalogue.offerings.push(Offering {
                instance_type: TypeIdx::new(types.iter().position(|of| *of == name).expect("it is there")),
                requirements,
                price: price_nano_usd as f64 / 1e9,
                price_nano_usd,
                price_source: Default::default(),
                available: true,
                allocatable,
                reservation: None,
                zone: zone_value,
                capacity_type: capacity_value,
            });
        }
        self.snapshot.catalogues.push(Arc::new(catalogue));
    }

    fn class(&mut self, at: usize, service: &Service) {
        let label = self.is("app", &format!("app-{at}"));
        let labels = self.snapshot.vocabulary.set([label.clone()]);
        let selector = self.snapshot.vocabulary.set([label]);
        let identity = IdentityIdx(self.snapshot.identities.intern(Identity { namespace: 0, labels }));
        let matcher =
            || Matcher { terms: vec![MatcherTerm { namespaces: Some(vec![0]), selector: Some(selector) }] };
        let nothing = self.snapshot.vocabulary.set([]);
        let (mut groups, mut anti_affinity) = (Vec::new(), Vec::new());
        if service.spread {
            let key = self.snapshot.vocabulary.names.key(ZONE);
            let spec = GroupSpec::Spread {
                key,
                matcher: matcher(),
                max_skew: 3,
                min_domains: None,
                filter: NodeFilter { asks: None, tolerations: None },
            };
            groups.push(GroupIdx(self.snapshot.groups.intern(spec)));
        }
        if service.apart {
            let key = self.snapshot.vocabulary.names.key(HOSTNAME);
            let group =
                GroupIdx(self.snapshot.groups.intern(GroupSpec::AntiAffinity { key, matcher: matcher() }));
            groups.push(group);
            anti_affinity.push(group);
        }
        let tolerations = self.snapshot.vocabulary.toleration_list(Vec::new());
        self.snapshot.classes.push(Arc::new(PodClass {
            identity,
            requests: Self::amounts(service.cpu, service.memory * GIB / 8, 1),
            priority: 0,
            tolerations,
            ports: Vec::new(),
            volumes: Vec::new(),
            volume_alternatives: Vec::new(),
            anti_affinity,
            rungs: vec![Rung {
                ask: nothing,
                strict: nothing,
                spare_preferred: false,
                groups,
                relaxed: None,
            }],
            refused: None,
            filler: false,
        }));
    }

    /// Nodes with their pods: each the cheapest offering of its zone that has what its row says and holds its pods.
    pub fn fleet(mut self, services: &[Service], rows: &[Row]) -> Fleet {
        for (at, service) in services.iter().enumerate() {
            self.class(at, service);
        }
        let taints = self.snapshot.vocabulary.taint_list(Vec::new());
        let mut nodes = Vec::new();
        let pool_of_all: Vec<PoolIdx> = vec![PoolIdx(0)];
        for (at, row) in rows.iter().enumerate() {
            let cpu: i64 = row.pods.iter().map(|pod| services[*pod].cpu).sum();
            let memory: i64 = row.pods.iter().map(|pod| services[*pod].memory * GIB / 8).sum();
            let catalogue = self.snapshot.catalogues[0].clone();
            let zone = self.is(ZONE, ZONES[row.zone]);
            let offering = catalogue.offerings.iter().position(|offering| {
                offering.zone == zone.1.single()
                    && offering.allocatable[CPU] >= cpu.max(row.cpu)
                    && offering.allocatable[MEMORY] >= memory.max(row.memory * GIB)
                    && offering.allocatable[PODS] >= row.pods.len() as i64
            });
            let offering = offering.expect("some type is large enough");
            let bought = &catalogue.offerings[offering];
            let name = format!("node-{at:05}");
            let type_name = &catalogue.types[bought.instance_type.at()].name;
            let labels = [zone, self.is(CAPACITY_TYPE, "on-demand"), self.is(TYPE, type_name)].to_vec();
            let labels = self.snapshot.vocabulary.set(labels);
            let mut available = bought.allocatable.clone();
            (available[CPU], available[MEMORY]) = (available[CPU] - cpu, available[MEMORY] - memory);
            available[PODS] -= row.pods.len() as i64;
            let mut pods: Vec<(IdentityIdx, u32)> = Vec::new();
            let mut anti_affinity = Vec::new();
            let mut residents = Vec::new();
            for (number, pod) in row.pods.iter().enumerate() {
                let class = &self.snapshot.classes[*pod];
                match pods.iter_mut().find(|(identity, _)| *identity == class.identity) {
                    Some((_, count)) => *count += 1,
                    None => pods.push((class.identity, 1)),
                }
                anti_affinity.extend(class.anti_affinity.iter().copied());
                residents.push(Resident {
                    pod: PodIdx::new(self.snapshot.pods.len()),
                    eviction_cost: eviction_cost(0.0, 0),
                });
                self.snapshot.pods.push(Pod {
                    class: ClassIdx::new(*pod),
                    created: None,
                    uid: "".into(),
                    name: format!("shop/app-{pod}-{at}-{number}").as_str().into(),
                });
            }
            anti_affinity.sort_unstable();
            let shown = ShownNode {
                pool: Some("default".into()),
                instance_type: Some(type_name.clone()),
                zone: Some(ZONES[row.zone].into()),
                capacity_type: Some("on-demand".into()),
                price: Some(bought.price),
                price_source: Default::default(),
                allocatable: bought.allocatable.clone(),
            };
            self.snapshot.nodes.push(Arc::new(Node {
                name: name.as_str().into(),
                labels,
                hostname: None,
                taints,
                available,
                daemons_present: ResVec::from_elem(0, 4),
                accepts_pods: true,
                initialised: true,
                ports: Vec::new(),
                volumes: Vec::new(),
                volume_limits: Vec::new(),
                pods,
                anti_affinity,
                pool: Some(pool_of_all[0]),
                bought: None,
                offering: Some((CatalogueIdx(0), OfferingIdx::new(offering))),
                price_nano_usd: Some(bought.price_nano_usd),
                shown: Arc::new(shown),
            }));
            let blocks = if row.blocked {
                vec![Block::DisruptionBudget { pod: "shop/blocked".into(), budget: "shop/all".into() }]
            } else {
                Vec::new()
            };
            nodes.push(NodeFacts { residents, blocks, counts: bought.allocatable.clone(), receives: true });
        }
        let price_nano_usd = self.snapshot.nodes.iter().filter_map(|node| node.price_nano_usd).sum();
        let costs =
            nodes.iter().map(|facts| rescheduling_cost(facts.residents.iter().map(|r| r.eviction_cost)));
        let pools = vec![PoolFacts { price_nano_usd, disruption: costs.sum(), ..PoolFacts::default() }];
        Fleet { snapshot: self.snapshot, waiting: 0, nodes, pools }
    }
}

/// So many nodes with ten pods each: a hundred services, a fifth of them spread over zones, a tenth with one pod a node; of the nodes every
/// twentieth may not be disrupted.
pub fn large(count: usize, fit: Fit) -> Fleet {
    const SERVICES: usize = 101;
    let service = |at: usize| Service {
        cpu: [100, 250, 250, 500, 500, 1000, 2000][at % 7],
        memory: [2, 4, 4, 8, 8, 16, 32, 1][at % 8],
        spread: at.is_multiple_of(5),
        apart: at % 10 == 3,
    };
    let services: Vec<Service> = (0..SERVICES).map(service).collect();
    let row = |at: usize| {
        // A step that has nothing in common with the number of services: every service comes to every zone.
        let pods: Vec<usize> = (0..10).map(|pod| (at * 37 + pod * 13) % SERVICES).collect();
        let cpu: i64 = pods.iter().map(|pod| services[*pod].cpu).sum();
        let memory: i64 = pods.iter().map(|pod| services[*pod].memory).sum();
        let (cpu, memory) = match fit {
            Fit::Tight => (0, 0),
            Fit::Slack => (cpu * 10 / 7, memory * 10 / 56),
            Fit::Ill => (cpu * 4, memory / 2),
        };
        Row { cpu, memory, zone: at % 3, pods, blocked: at % 20 == 7 }
    };
    let rows: Vec<Row> = (0..count).map(row).collect();
    Builder::new(&[1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96]).fleet(&services, &rows)
}
