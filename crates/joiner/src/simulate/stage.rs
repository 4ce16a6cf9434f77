//! A simulated cluster with joiner in it, as `joiner run` would be beside it: the embedded API server, workload controllers, kubelets and the scheduler, and
//! joiner's controllers as processes that start and end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};
use joiner_controllers::{Fence, Settings};
use joiner_provider::{Clock as _, Monotonic, Provider};
use joiner_provider_kwok::Catalogue;
use joiner_sim::clock::Clock;
use joiner_sim::kubelet::{Lifecycle, Span};
use joiner_sim::scheduler::Scheduler;
use joiner_sim::settings::Settings as WorldSettings;
use joiner_sim::world::World;
use kube::Client;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::Layer;

use crate::autoscaler::Guarded;
use crate::commands::up::api_only::Definitions;
use crate::simulate::checks::Types;
use crate::simulate::cloud::Cloud;
use crate::simulate::hands::Hands;
use crate::simulate::outside::{Trouble, Way};
use crate::simulate::play::Process;
use crate::simulate::referee::Referee;

/// How long a node takes to boot, and a pod to go.
const BOOT: SignedDuration = SignedDuration::from_secs(2);
const TERMINATION: Span = Span::millis(500, 500);
/// How long a process that died stays away.
const AWAY: Duration = Duration::from_secs(3);
/// Changes that are kept for watches.
const HISTORY: usize = 50_000;
/// A process that is asked to end has ended by then.
const GRACE: Duration = Duration::from_secs(30);

/// When every simulation begins: a Monday morning.
pub fn begin() -> Timestamp {
    Timestamp::from_second(1_767_600_000).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The clock of the cluster, as somebody has set it.
#[derive(Clone)]
pub struct WallClock {
    clock: Clock,
    set_by: Arc<AtomicI64>,
}

impl WallClock {
    fn now(&self) -> Timestamp {
        let set_by = SignedDuration::from_secs(self.set_by.load(Ordering::Relaxed));
        self.clock.now().saturating_add(set_by).unwrap_or(Timestamp::MAX)
    }

    /// Somebody sets it by so many seconds.
    pub fn set(&self, seconds: i64) {
        self.set_by.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl joiner_provider::Clock for WallClock {
    fn now(&self) -> Timestamp {
        WallClock::now(self)
    }

    fn monotonic(&self) -> Monotonic {
        self.clock.monotonic()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(time)
    }
}

/// A cluster, and joiner's processes. Clones are the same.
#[derive(Clone)]
pub struct Stage {
    /// The API server.
    pub server: ApiServer,
    /// The clock that nobody sets.
    pub clock: Clock,
    /// The clock that objects go by.
    pub wall: WallClock,
    /// Who watches.
    pub referee: Referee,
    /// Hands on the cluster.
    pub hands: Hands,
    settings: Settings,
    catalogue: Catalogue,
    joiner: Rc<RefCell<Joiner>>,
}

/// Joiner's present process, and what befalls the next.
struct Joiner {
    trouble: Trouble,
    /// How many processes there were.
    processes: u32,
    running: Option<Running>,
    /// The way of the latest process.
    way: Option<Way>,
    /// Calls of processes that have ended.
    calls: usize,
    met: Option<String>,
}

struct Running {
    task: JoinHandle<()>,
    shutdown: Option<oneshot::Sender<()>>,
}

/// What machine types have, for checkers.
pub fn types(catalogue: &Catalogue) -> Types {
    let amounts = |type_: &joiner_api::instance_type::InstanceType| {
        let read = |amount: &dyn ToString| {
            crate::simulate::happening::amount(&serde_json::Value::String(amount.to_string()))
        };
        type_.capacity.iter().filter_map(|(name, amount)| Some((name.clone(), read(amount)?))).collect()
    };
    catalogue.types.iter().map(|type_| (type_.name.clone(), amounts(type_))).collect()
}

impl Stage {
    /// A cluster with joiner's definitions, and the world to be lived beside it. To be called inside the runtime that lives it.
    ///
    /// # Errors
    /// The definitions cannot be installed.
    pub fn new(settings: Settings, seed: u64, trouble: Trouble) -> anyhow::Result<(Self, World)> {
        let definitions = Definitions::begin()?;
        let clock = Clock::at_home(begin());
        let wall = WallClock { clock: clock.clone(), set_by: Arc::default() };
        let told = wall.clone();
        let server_settings = ServerSettings { seed, history: HISTORY, ..ServerSettings::default() };
        let server = ApiServer::new(Arc::new(move || told.now()), &server_settings);
        definitions.install(&server)?;
        let lifecycle =
            Lifecycle { node_boot: Span::exactly(BOOT), termination: TERMINATION, ..Lifecycle::fast() };
        let world_settings = WorldSettings { seed, start: begin(), lifecycle, ..WorldSettings::default() };
        let mut world = World::around(server.clone(), clock.clone(), world_settings);
        world.join(Box::new(Scheduler::new(joiner_sim::scheduler::Settings::default())));
        let catalogue = Catalogue::hypothetical();
        let referee = Referee::new(&server, clock.clone(), types(&catalogue))?;
        let hands = Hands::new(Client::new(server.clone(), "default"));
        let joiner = Joiner { trouble, processes: 0, running: None, way: None, calls: 0, met: None };
        let joiner = Rc::new(RefCell::new(joiner));
        Ok((Self { server, clock, wall, referee, hands, settings, catalogue, joiner }, world))
    }

    /// How many calls there were that count, and which of them met the trouble.
    pub fn calls(&self) -> (usize, Option<String>) {
        let joiner = self.joiner.borrow();
        let calls = joiner.calls + joiner.way.as_ref().map_or(0, Way::calls);
        (calls, joiner.met.clone().or_else(|| joiner.way.as_ref().and_then(Way::met)))
    }

    /// What befalls processes that start from now on.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.joiner.borrow_mut().trouble = trouble;
    }

    /// Starts a process again whenever one dies by itself, and lets the referee look. Never ends.
    pub async fn tend(&self) {
        loop {
            let way = self.joiner.borrow().way.clone();
            let crashed = async {
                match &way {
                    Some(way) => way.crashed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = crashed => {
                    self.end_now().await;
                    // What troubled the process does not trouble the next one.
                    self.set_trouble(Trouble::Nothing);
                    self.clock.sleep(AWAY).await;
                    // A file that keeps it down says so with a step of its own; nothing can fail here that did not before.
                    let _ = self.begin_one();
                }
                () = self.clock.sleep(Duration::from_millis(250)) => self.referee.look(),
            }
        }
    }

    fn begin_one(&self) -> anyhow::Result<()> {
        let mut joiner = self.joiner.borrow_mut();
        if joiner.running.is_some() {
            return Ok(());
        }
        joiner.processes += 1;
        let way =
            Way::new(self.server.clone(), self.referee.clone(), joiner.processes, joiner.trouble.clone());
        let clock: Arc<dyn joiner_provider::Clock> = Arc::new(self.wall.clone());
        // Leases are another test's affair.
        let fence = Fence::open(clock.clone(), 1);
        let guarded = Guarded::new(fence, clock, |layer| Client::new(layer.layer(way.clone()), "default"));
        let kwok: Arc<dyn Provider> = Arc::new(guarded.kwok(self.catalogue.clone()));
        let cloud: Arc<dyn Provider> = Arc::new(Cloud::new(kwok, way.clone()));
        let controllers = guarded.controllers([cloud], self.settings.clone())?;
        let (shutdown, told) = oneshot::channel::<()>();
        let task = tokio::spawn(controllers.run(async {
            if told.await.is_err() {
                std::future::pending().await
            }
        }));
        if let Some(before) = joiner.way.replace(way) {
            joiner.calls += before.calls();
            let met = before.met();
            joiner.met = joiner.met.take().or(met);
        }
        joiner.running = Some(Running { task, shutdown: Some(shutdown) });
        Ok(())
    }

    async fn end_now(&self) {
        let running = {
            let mut joiner = self.joiner.borrow_mut();
            if let Some(way) = &joiner.way {
                way.cut();
            }
            joiner.running.take()
        };
        if let Some(running) = running {
            running.task.abort();
            // It was told to end, and how it ends says nothing.
            let _ = running.task.await;
        }
    }
}

impl Process for Stage {
    async fn start(&self) -> anyhow::Result<()> {
        self.begin_one()
    }

    async fn kill(&self) -> anyhow::Result<()> {
        self.end_now().await;
        Ok(())
    }

    async fn stop(&self) -> anyhow::Result<()> {
        let running = self.joiner.borrow_mut().running.take();
        let Some(mut running) = running else { return Ok(()) };
        if let Some(shutdown) = running.shutdown.take() {
            // A process that is gone needs no word.
            let _ = shutdown.send(());
        }
        let ended = tokio::select! {
            biased;
            _ = &mut running.task => true,
            () = self.clock.sleep(GRACE) => false,
        };
        if !ended {
            self.referee.found("L8", format!("the process does not end within {} s", GRACE.as_secs()));
            running.task.abort();
        }
        let way = self.joiner.borrow().way.clone();
        if let Some(way) = way {
            way.cut();
        }
        Ok(())
    }
}

/// Sleeps by the cluster's clock.
pub fn sleep(clock: &Clock, seconds: u64) -> BoxFuture<'static, ()> {
    clock.sleep(Duration::from_secs(seconds)).boxed()
}
