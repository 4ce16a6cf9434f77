//! A living cluster on the terminal: a full screen, plain lines where there is none, or one table and the end.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use joiner_apiserver::credentials::Credentials;
use joiner_apiserver::serve::Endpoint;
use joiner_provider::TypeSet;
use joiner_provider_kwok::Catalogue;
use joiner_record::words;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use super::assembly::Offer;
use super::cluster::{Cluster, Stage, Wish};
use super::decision_log::DecisionLog;
use super::kubeconfig::Kubeconfig;
use super::{Output, Speed, StartupTaints, UpArgs, api_only, demo, objects, rest};
use crate::cli::{Catalog, Format};
use crate::commands::catalogues::{self, CatalogueArgs, Survey};
use crate::view::lines::{self, Told};
use crate::view::look::{Look, Move};
use crate::view::report::Report;
use crate::view::{Decision, Picture, screen};
use crate::{FINDINGS, FINE, Streams, show};

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Between two looks for plain lines.
const LINE: Duration = Duration::from_millis(500);
/// Between two looks for the end of `--once`.
const ONCE: Duration = Duration::from_millis(20);
/// `--once` does not wait longer for a cluster to come to rest, once everything is there.
const ONCE_AT_MOST: Duration = Duration::from_secs(120);
/// Pods that wait, of which a screen tells why.
const WAITING: usize = 500;
/// Those of which `--once` prints why in a table.
const WAITING_PRINTED: usize = 20;

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
        // Nobody watches.
        (_, true) => Speed::Max,
        (true, false) => Speed::Times(demo::SPEED),
        (false, false) => Speed::Times(1),
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
    if let Some(folder) = &arguments.data_dir {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    }
    // Threads that serve and wait for signals; the cluster itself has its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let signal = runtime.spawn(async {
        api_only::told_to_end().await;
        // Whoever says it again is not kept waiting.
        tokio::spawn(api_only::end_at_once());
    });
    let door = match arguments.lets_clients_in() {
        true => {
            let credentials = match &arguments.data_dir {
                Some(folder) => Credentials::in_folder(folder)?,
                None => Credentials::generate()?,
            };
            let address = SocketAddr::new(arguments.listen, arguments.port);
            let endpoint = runtime.block_on(Endpoint::open(address, &credentials))?;
            let (path, kept) = (arguments.kubeconfig_path(), arguments.data_dir.is_some());
            let kubeconfig = Kubeconfig::write(path, kept, endpoint.kubeconfig())?;
            Some((endpoint, kubeconfig))
        }
        false => None,
    };

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
        startup_taints: match arguments.startup_taints {
            StartupTaints::After(after) => Some(after),
            StartupTaints::Never => None,
        },
        once: arguments.once,
    })?;
    for note in &cluster.notes {
        writeln!(streams.err, "note: {note}")?;
    }
    let mut show = Show { cluster, pace: speed.words(), kubeconfig: None, signal };
    let mut at = None;
    // The file goes with the process.
    let mut kept = None;
    if let Some((endpoint, kubeconfig)) = door {
        let address = endpoint.address();
        if !arguments.listen.is_loopback() {
            writeln!(
                streams.err,
                "note: other machines can reach {address}: whoever has the token of the kubeconfig may do everything"
            )?;
        }
        runtime.spawn(endpoint.serve(show.cluster.server.clone(), std::future::pending()));
        show.kubeconfig = Some(kubeconfig.path().display().to_string());
        (at, kept) = (Some(address), Some(kubeconfig));
    }
    let outcome = match at {
        _ if arguments.once => show.once(arguments.output, streams),
        Some(at) if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) => {
            show.as_lines(streams, at)
        }
        _ => show.on_the_screen(streams.unicode),
    };
    drop(kept);
    runtime.spawn(api_only::end_at_once());
    // What went wrong inside says more than what went wrong with showing it.
    show.cluster.end().map_err(|error| objects::with_place(error, &arguments.filename, added))?;
    runtime.shutdown_background();
    outcome
}

struct Show {
    cluster: Cluster,
    pace: String,
    kubeconfig: Option<String>,
    signal: tokio::task::JoinHandle<()>,
}

impl Show {
    fn picture(&self, waiting: usize) -> Picture {
        let summary = self.cluster.summary.borrow().clone();
        let board = self.cluster.board.open();
        let caption = self.cluster.caption.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let decisions = summary
            .journal
            .iter()
            .map(|decision| Decision { at: decision.time, what: words::summary(decision) })
            .collect();
        let refusals = summary.refusals.iter().map(|(pod, reasons)| (pod.clone(), words::causes(reasons)));
        let awaited = summary.awaited.iter().map(|(pod, awaited)| {
            let words = match &awaited.lacks {
                Some(lacks) => format!("waits for {}: {lacks}", awaited.place),
                None => format!("is expected on {}", awaited.place),
            };
            (pod.clone(), words)
        });
        Picture {
            now: self.cluster.clock.now(),
            pace: self.pace.clone(),
            nodes: board.rows(),
            pods: board.counts(),
            waiting: board.waiting(waiting, &refusals.collect(), &awaited.collect()),
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
        let mut look = Look::default();
        while !self.is_over() {
            let picture = self.picture(WAITING);
            terminal.draw(|frame| screen::draw(frame, &picture, &mut look, unicode))?;
            if event::poll(FRAME)?
                && let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let interrupted =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if interrupted || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    break;
                }
                if let Some(by) = meant(key.code) {
                    look.go(by);
                }
            }
        }
        Ok(FINE)
    }

    fn as_lines(&mut self, streams: &mut Streams, at: SocketAddr) -> anyhow::Result<u8> {
        writeln!(streams.out, "A simulated cluster listens on https://{at}.\n")?;
        writeln!(streams.out, "  export KUBECONFIG={}", self.kubeconfig.as_deref().unwrap_or_default())?;
        writeln!(streams.out, "  kubectl get nodepools,nodes,pods -A\n")?;
        writeln!(streams.out, "Ctrl-C ends it.")?;
        streams.out.flush()?;
        let mut told = Told::default();
        while !self.is_over() {
            let made = self.cluster.summary.borrow().decisions;
            for line in told.news(&self.picture(0), usize::try_from(made).unwrap_or(usize::MAX)) {
                writeln!(streams.out, "{line}")?;
            }
            streams.out.flush()?;
            std::thread::sleep(LINE);
        }
        Ok(FINE)
    }

    /// One table once the cluster has come to rest.
    fn once(&mut self, output: Output, streams: &mut Streams) -> anyhow::Result<u8> {
        // Hidden by itself where there is no terminal. Ticked here and not by its own thread: this one holds standard error.
        let progress = indicatif::ProgressBar::new_spinner();
        let mut begun = None;
        let mut told = Instant::now();
        let goes_on = loop {
            let stage = self.cluster.stage.borrow().clone();
            if let Stage::Rested(goes_on) = stage {
                break goes_on;
            }
            if stage == Stage::Begun && begun.get_or_insert_with(Instant::now).elapsed() >= ONCE_AT_MOST {
                let (counts, starting) = {
                    let board = self.cluster.board.open();
                    (board.counts(), board.starting())
                };
                let what = rest::words(counts, starting, &self.cluster.summary.borrow());
                break Some(format!(
                    "not at rest after {} s: {what}; a higher --speed helps",
                    ONCE_AT_MOST.as_secs()
                ));
            }
            if self.is_over() {
                // Why is told by whoever ends it.
                return Ok(FINE);
            }
            if told.elapsed() >= FRAME {
                told = Instant::now();
                progress.set_message(self.progress());
                progress.tick();
            }
            std::thread::sleep(ONCE);
        };
        progress.finish_and_clear();
        if let Some(goes_on) = &goes_on {
            writeln!(streams.err, "note: {goes_on}")?;
        }
        let json = output != Output::Table;
        let picture = self.picture(if json { usize::MAX } else { WAITING_PRINTED });
        let report = || Report::new(&picture, goes_on.is_none());
        let text = match output {
            Output::Table => lines::frame(&picture, streams.width),
            Output::Json => show::value(&report(), Format::Json)?,
            Output::Yaml => show::value(&report(), Format::Yaml)?,
        };
        write!(streams.out, "{text}")?;
        Ok(if picture.pods.pending == 0 { FINE } else { FINDINGS })
    }

    /// How far it is, in a line.
    fn progress(&self) -> String {
        let picture = self.picture(0);
        let [counts, _] = screen::verdict(&picture);
        let caption = picture.caption.map_or(String::new(), |caption| format!("  {caption}"));
        format!("{}  {counts}{caption}", picture.now.strftime("%Y-%m-%d %H:%M:%S"))
    }
}

/// What a key asks for on the screen.
fn meant(key: KeyCode) -> Option<Move> {
    match key {
        KeyCode::Up | KeyCode::Char('k') => Some(Move::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Move::Down),
        KeyCode::PageUp => Some(Move::PageUp),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(Move::PageDown),
        KeyCode::Home | KeyCode::Char('g') => Some(Move::First),
        KeyCode::End | KeyCode::Char('G') => Some(Move::Last),
        KeyCode::Tab | KeyCode::Right => Some(Move::NextPart),
        KeyCode::BackTab | KeyCode::Left => Some(Move::PreviousPart),
        _ => None,
    }
}
