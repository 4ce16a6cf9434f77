//! A living cluster on the terminal: a full screen, plain lines where there is none, or one table and the end.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::SignedDuration;
use joiner_apiserver::credentials::Credentials;
use joiner_apiserver::serve::Endpoint;
use joiner_provider::TypeSet;
use joiner_provider_kwok::Catalogue;
use joiner_record::words;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use super::assembly::Offer;
use super::cluster::{Cluster, Wish};
use super::decision_log::DecisionLog;
use super::kubeconfig::Kubeconfig;
use super::{Speed, UpArgs, api_only, demo, objects};
use crate::cli::Catalog;
use crate::commands::catalogues::{self, CatalogueArgs, Survey};
use crate::view::lines::{self, Told};
use crate::view::{Decision, NodeState, Picture, screen};
use crate::{FINDINGS, FINE, Streams};

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Between two looks for plain lines.
const LINE: Duration = Duration::from_millis(500);
/// A cluster that has not changed for so long has come to rest.
const REST: Duration = Duration::from_millis(2000);
/// So has one whose time jumps, after so long outside and so long by its own clock.
const SHORT_REST: Duration = Duration::from_millis(300);
const LONG_REST: SignedDuration = SignedDuration::from_hours(1);
/// `--once` does not wait longer.
const ONCE_AT_MOST: Duration = Duration::from_secs(120);
/// Pods that wait, of which a picture tells why.
const WAITING: usize = 20;

/// Starts the cluster and shows it until somebody ends it.
pub fn run(arguments: &UpArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let mut objects =
        if arguments.filename.is_empty() { Vec::new() } else { objects::read(&arguments.filename)? };
    let in_files = objects.len();
    for note in objects::complete(&mut objects) {
        writeln!(streams.err, "note: {note}")?;
    }
    let added = objects.len() - in_files;
    let usual = match (arguments.demo, arguments.once) {
        // Nobody watches the day.
        (true, true) => Speed::Max,
        (true, false) => Speed::Times(demo::SPEED),
        (false, _) => Speed::Times(1),
    };
    let import = match arguments.from.as_slice() {
        [] => None,
        files => {
            let import = crate::import::read(files)?.for_simulation(arguments.from_mode);
            for note in &import.notes {
                writeln!(streams.err, "note: {note}")?;
            }
            Some(import)
        }
    };
    let speed = arguments.speed.unwrap_or(usual);
    let known = objects.iter().chain(import.iter().flat_map(|import| &import.objects));
    let survey = Survey::of_values(known);
    let of_aws = import.as_ref().is_some_and(|import| import.of_aws);
    let machines = CatalogueArgs {
        instance_types: None,
        catalog: arguments.catalog.or(of_aws.then_some(Catalog::Aws)),
        aws: arguments.aws.clone(),
    };
    let chosen = catalogues::choose(&machines, &survey)?;
    for note in chosen.notes.iter().filter(|_| !arguments.no_autoscaler) {
        writeln!(streams.err, "note: {note}")?;
    }
    // Nodes of files do not say what they cost.
    let has_nodes = import.is_some() || objects.iter().any(|object| object["kind"] == "Node");
    let prices = has_nodes.then(|| {
        let all = || chosen.all();
        let types = all().flat_map(|of| of.types.iter().cloned()).collect();
        let well_known = all().flat_map(|of| of.well_known.iter().cloned()).collect();
        Arc::new(TypeSet { generation: 1, types, well_known })
    });
    let offer = match machines.catalog {
        Some(Catalog::Kwok) => Offer::from(Catalogue::hypothetical()),
        _ => Offer {
            of_class: catalogues::types_of_classes(&arguments.aws, survey)?,
            catalogue: chosen.everybody.unwrap_or_else(Catalogue::hypothetical),
        },
    };
    let credentials = match &arguments.data_dir {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
            Credentials::in_folder(folder)?
        }
        None => Credentials::generate()?,
    };
    // Threads that serve and wait for signals; the cluster itself has its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let signal = runtime.spawn(async {
        api_only::told_to_end().await;
        // Whoever says it again is not kept waiting.
        tokio::spawn(api_only::end_at_once());
    });
    let address = SocketAddr::new(arguments.listen, arguments.port);
    let endpoint = runtime.block_on(Endpoint::open(address, &credentials))?;
    let kubeconfig = Kubeconfig::write(arguments, endpoint.kubeconfig())?;

    let decisions = arguments.decisions.as_deref().map(DecisionLog::open).transpose()?;
    let cluster = Cluster::start(Wish {
        speed,
        seed: arguments.seed,
        nodes: arguments.nodes,
        import,
        prices,
        objects,
        demo: arguments.demo,
        catalogue: (!arguments.no_autoscaler).then_some(offer),
        folder: arguments.data_dir.clone(),
        decisions,
    })?;
    for note in &cluster.notes {
        writeln!(streams.err, "note: {note}")?;
    }
    let at = endpoint.address();
    if !arguments.listen.is_loopback() {
        writeln!(
            streams.err,
            "note: other machines can reach {at}: whoever has the token of the kubeconfig may do everything"
        )?;
    }
    runtime.spawn(endpoint.serve(cluster.server.clone(), std::future::pending()));
    let autoscaled = !arguments.no_autoscaler;
    let path = kubeconfig.path().display().to_string();
    let mut show = Show { cluster, pace: speed.words(), kubeconfig: path, signal, autoscaled };
    let outcome = if arguments.once {
        show.once(streams)
    } else if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        show.on_the_screen(streams.unicode)
    } else {
        show.as_lines(streams, at)
    };
    runtime.spawn(api_only::end_at_once());
    // What went wrong inside says more than what went wrong with showing it.
    show.cluster.end().map_err(|error| objects::with_place(error, &arguments.filename, added))?;
    runtime.shutdown_background();
    outcome
}

struct Show {
    cluster: Cluster,
    pace: String,
    kubeconfig: String,
    signal: tokio::task::JoinHandle<()>,
    /// Whether joiner is in the cluster.
    autoscaled: bool,
}

impl Show {
    fn picture(&self) -> Picture {
        let summary = self.cluster.summary.borrow().clone();
        let board = self.cluster.board.open();
        let caption = self.cluster.caption.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let decisions = summary
            .journal
            .iter()
            .map(|decision| Decision { at: decision.time, what: words::summary(decision) })
            .collect();
        let refusals = summary.refusals.iter().map(|(pod, reasons)| (pod.clone(), words::causes(reasons)));
        Picture {
            now: self.cluster.clock.now(),
            pace: self.pace.clone(),
            nodes: board.rows(),
            pods: board.counts(),
            waiting: board.waiting(WAITING, &refusals.collect()),
            gap: summary.last_plan.and_then(|plan| plan.gap),
            decisions,
            warnings: summary.watch_troubles.iter().map(words::watch_trouble).collect(),
            caption,
            kubeconfig: self.kubeconfig.clone(),
        }
    }

    fn is_over(&self) -> bool {
        self.signal.is_finished() || !self.cluster.lives()
    }

    fn on_the_screen(&mut self, unicode: bool) -> anyhow::Result<u8> {
        let mut terminal = ratatui::try_init().context("the terminal cannot be drawn on")?;
        let outcome = self.draw_until_told(&mut terminal, unicode);
        ratatui::restore();
        outcome
    }

    fn draw_until_told(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        unicode: bool,
    ) -> anyhow::Result<u8> {
        while !self.is_over() {
            let picture = self.picture();
            terminal.draw(|frame| screen::draw(frame, &picture, unicode))?;
            if event::poll(FRAME)?
                && let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let interrupted =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if interrupted || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    break;
                }
            }
        }
        Ok(FINE)
    }

    fn as_lines(&mut self, streams: &mut Streams, at: SocketAddr) -> anyhow::Result<u8> {
        writeln!(streams.out, "A simulated cluster listens on https://{at}.\n")?;
        writeln!(streams.out, "  export KUBECONFIG={}", self.kubeconfig)?;
        writeln!(streams.out, "  kubectl get nodepools,nodes,pods -A\n")?;
        writeln!(streams.out, "Ctrl-C ends it.")?;
        streams.out.flush()?;
        let mut told = Told::default();
        while !self.is_over() {
            let made = self.cluster.summary.borrow().decisions;
            for line in told.news(&self.picture(), usize::try_from(made).unwrap_or(usize::MAX)) {
                writeln!(streams.out, "{line}")?;
            }
            streams.out.flush()?;
            std::thread::sleep(LINE);
        }
        Ok(FINE)
    }

    /// Whether something is under way, though nothing changes at this moment.
    fn is_busy(&self, picture: &Picture) -> bool {
        let starts = picture.nodes.iter().any(|node| node.state == NodeState::Starting);
        // Joiner waits a while for more pods before it decides, and says of how many it can do nothing for them.
        let undecided = self.autoscaled && picture.pods.pending > self.cluster.summary.borrow().refused_pods;
        picture.pods.starting > 0 || picture.pods.leaving > 0 || starts || undecided
    }

    /// One table once the cluster has come to rest.
    fn once(&mut self, streams: &mut Streams) -> anyhow::Result<u8> {
        let begun = Instant::now();
        let mut last = String::new();
        let mut since = (Instant::now(), self.cluster.clock.now());
        while !self.is_over() && begun.elapsed() < ONCE_AT_MOST {
            let picture = self.picture();
            let now = format!("{:?} {:?} {:?}", picture.nodes, picture.pods, picture.decisions);
            if now != last || !*self.cluster.begun.borrow() {
                last = now;
                since = (Instant::now(), picture.now);
            }
            let (outside, inside) = (since.0.elapsed(), picture.now.duration_since(since.1));
            let rests = outside >= REST || (outside >= SHORT_REST && inside >= LONG_REST);
            if rests && !self.is_busy(&picture) {
                break;
            }
            std::thread::sleep(FRAME);
        }
        if !self.cluster.lives() {
            // Why is told by whoever ends it.
            return Ok(FINE);
        }
        let picture = self.picture();
        write!(streams.out, "{}", lines::frame(&picture, streams.width))?;
        Ok(if picture.pods.pending == 0 { FINE } else { FINDINGS })
    }
}
