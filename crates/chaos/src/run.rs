//! The run: starts everything, injects the faults, and collects the evidence.

use crate::caller::ask;
use crate::history::{Asked, History, Span, StrangersSeen};
use crate::law::{Evidence, Law, judged};
use crate::ledger::{priced, written};
use crate::lone::Lone;
use crate::model::Model;
use crate::node::Node;
use crate::process::descriptors;
use crate::schedule::{DISHONEST, MODELS, NODES, OVERRUNS, Planned, Trouble, schedule, spoils};
use crate::setting::NodeSettings;
use crate::show::Screen;
use crate::store::Store;
use crate::strangers::strangers;
use crate::traffic::{Arrival, arrivals};
use anyhow::Context as _;
use seawall_core::chance::SeededChance;
use seawall_core::handle::Timer as _;
use seawall_core::time::Timestamp;
use seawall_gateway::TokioRuntime;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Interval between two readings of ledgers and processes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The quiet time without requests before the final readings.
const QUIET: Duration = Duration::from_secs(2);
/// From this part of the cap on, in thousandths, the share of a tier or of a caller may be exhausted.
const TIGHT: u64 = 400;
const NANOS_PER_CENT: u64 = 10_000_000;

/// The options of a run.
pub(crate) struct RunOptions {
    pub(crate) minutes: u32,
    pub(crate) seed: u64,
    /// The program under test.
    pub(crate) program: PathBuf,
}

/// All running parts.
struct Stage {
    runtime: TokioRuntime,
    zero: Timestamp,
    whole: Duration,
    cents: u64,
    store: Store,
    lone: Lone,
    models: Vec<Model>,
    nodes: Vec<Node>,
    history: History,
}

/// Runs the test, and returns the checked invariants.
pub(crate) async fn run(
    options: &RunOptions,
    folder: &Path,
    runtime: TokioRuntime,
    screen: &Screen,
) -> anyhow::Result<Vec<Law>> {
    let whole = Duration::from_secs(60) * options.minutes;
    let stage = Arc::new(set_up(options, folder, runtime, whole).await?);
    let troubles = schedule(whole, options.seed);
    let questions = arrivals(whole, &troubles, options.seed);
    let (over, is_over) = watch::channel(false);
    let mut around = JoinSet::new();
    for place in 0..NODES {
        let (stage, is_over) = (Arc::clone(&stage), is_over.clone());
        around.spawn(async move {
            look_on(&stage, place, is_over).await;
            Ok(())
        });
    }
    let asked = (Arc::clone(&stage), is_over.clone());
    around.spawn(async move {
        asked.0.lone.ask(&asked.0.history, asked.1).await;
        Ok(())
    });
    let playing = Arc::clone(&stage);
    let lines = screen.clone();
    around.spawn(async move { make_trouble(&playing, troubles, &lines).await });
    ask_all(&stage, questions, screen).await;
    screen.say("waiting for quiet");
    runtime.sleep_until((stage.zero + whole).max(runtime.monotonic())).await;
    runtime.sleep_until(runtime.monotonic() + QUIET).await;
    let held = last_looks(&stage).await;
    // The observers may stop now.
    let _ = over.send(true);
    while let Some(ended) = around.join_next().await {
        ended??;
    }
    let evidence = evidence(&stage, held).await?;
    Ok(judged(&evidence))
}

async fn set_up(
    options: &RunOptions,
    folder: &Path,
    runtime: TokioRuntime,
    whole: Duration,
) -> anyhow::Result<Stage> {
    let history = History::default();
    let store = Store::start(folder, runtime).await?;
    let lone = Lone::start(options, folder, runtime).await?;
    let mut models = Vec::new();
    for number in 0..MODELS {
        let seed = options.seed.wrapping_add(number as u64);
        models.push(Model::start(number, &options.program, folder, seed, runtime).await?);
    }
    let mut chance = SeededChance::new(options.seed ^ 0x006d_6f6e_6579);
    let cents = u64::from(options.minutes) * (12 + chance.draw().below(140));
    let mut stage = Stage {
        runtime,
        zero: runtime.monotonic(),
        whole,
        cents,
        store,
        lone,
        models,
        nodes: Vec::new(),
        history,
    };
    for number in 0..NODES {
        let node = Node::new(number, folder, &options.program, runtime, stage.history.clone())?;
        node.write(&stage.settings(&node, 0))?;
        node.start().await?;
        stage.nodes.push(node);
    }
    stage.zero = runtime.monotonic();
    stage.history.seen().variants.push((stage.zero, 0));
    Ok(stage)
}

impl Stage {
    fn settings<'a>(&self, node: &'a Node, variant: u64) -> NodeSettings<'a> {
        let address = |place: usize| self.models.get(place).map_or(self.store.address, |model| model.address);
        NodeSettings {
            listen: node.address(),
            folder: &node.folder,
            store: Some(self.store.address),
            models: [address(0), address(1)],
            cents: self.cents,
            variant,
        }
    }

    /// Records that counts are about to be lost.
    fn forget(&self) {
        let now = self.runtime.monotonic();
        self.history.seen().forgotten.get_or_insert(now);
    }

    fn cap(&self) -> u64 {
        self.cents.saturating_mul(NANOS_PER_CENT)
    }
}

/// Sends every request at its time, and waits for the last response.
async fn ask_all(stage: &Arc<Stage>, questions: Vec<Arrival>, screen: &Screen) {
    let nodes: Vec<SocketAddr> = stage.nodes.iter().map(Node::address).collect();
    let nodes: Arc<[SocketAddr]> = nodes.into();
    let runtime = stage.runtime;
    let mut asking = JoinSet::new();
    for arrival in questions {
        runtime.sleep_until(stage.zero + arrival.at).await;
        screen.at(runtime.monotonic() - stage.zero);
        let (stage, nodes) = (Arc::clone(stage), Arc::clone(&nodes));
        asking.spawn(async move {
            let got = ask(&arrival, &nodes, runtime).await;
            let Arrival { who, dialect, is_streamed, is_hostile, .. } = arrival;
            stage.history.seen().asked.push(Asked { who, dialect, is_streamed, is_hostile, got });
        });
        while asking.try_join_next().is_some() {}
    }
    while asking.join_next().await.is_some() {}
}

/// Injects the planned faults, each at its time.
async fn make_trouble(stage: &Arc<Stage>, planned: Vec<Planned>, screen: &Screen) -> anyhow::Result<()> {
    let mut making = JoinSet::new();
    for Planned { at, trouble } in planned {
        stage.runtime.sleep_until(stage.zero + at).await;
        screen.say(&format!("{:5.1} s  {}", at.as_secs_f64(), told(&trouble)));
        let stage = Arc::clone(stage);
        making.spawn(async move { make(&stage, trouble).await });
        while let Some(made) = making.try_join_next() {
            made??;
        }
    }
    while let Some(made) = making.join_next().await {
        made??;
    }
    Ok(())
}

async fn make(stage: &Stage, trouble: Trouble) -> anyhow::Result<()> {
    match trouble {
        Trouble::Faults { model, name, rules } => {
            let is_well = rules.as_array().is_none_or(Vec::is_empty);
            if !is_well {
                let from = stage.runtime.monotonic();
                let span = Span { from, to: None };
                let mut seen = stage.history.seen();
                if spoils(name) { &mut seen.spoilt[model] } else { &mut seen.strained[model] }.push(span);
                if DISHONEST.contains(&name) {
                    seen.may_be_aside[model].get_or_insert(from);
                    seen.dishonest.push(span);
                }
            }
            stage.models[model].spoil(&rules).await?;
            if is_well {
                let (mut seen, now) = (stage.history.seen(), stage.runtime.monotonic());
                let seen = &mut *seen;
                for span in [&mut seen.spoilt[model], &mut seen.strained[model]].into_iter().flatten() {
                    span.to.get_or_insert(now);
                }
                if model == OVERRUNS {
                    seen.dishonest.iter_mut().for_each(|span| {
                        span.to.get_or_insert(now);
                    });
                }
            }
        }
        Trouble::StoreKilled(away) => {
            stage.forget();
            stage.store.kill(away).await?;
        }
        Trouble::StoreFrozen(away) => stage.store.freeze(away).await?,
        Trouble::StoreLineLost(back_after) => {
            stage.store.lose_connections();
            stage.runtime.sleep_until(stage.runtime.monotonic() + back_after).await;
            for (place, node) in stage.nodes.iter().enumerate() {
                // A node that is being restarted cannot be read.
                let is_alone = node.books().await.is_some_and(|books| !books.is_shared);
                if is_alone {
                    let misdeed =
                        format!("node {place} still decides alone {back_after:?} after its line was lost");
                    stage.history.seen().misdeeds.push(misdeed);
                }
            }
        }
        Trouble::NodeStopped(node) => {
            stage.forget();
            stage.nodes[node].stop_and_start().await.context("a node that was stopped")?;
        }
        Trouble::NodeKilled(node) => {
            stage.forget();
            stage.nodes[node].kill_and_start().await.context("a node that was killed")?;
        }
        Trouble::LoneKilled(times) => stage.lone.kill(times).await.context("the gateway of its own")?,
        Trouble::Reload(variant) => {
            stage.history.seen().variants.push((stage.runtime.monotonic(), variant));
            for node in &stage.nodes {
                node.write(&stage.settings(node, variant))?;
                node.reread().await?;
            }
        }
        Trouble::Strangers(lasts) => {
            let at = |number: usize| strangers(&stage.nodes[number], number, lasts, stage.runtime);
            let seen: [Option<StrangersSeen>; NODES] = tokio::join!(at(0), at(1)).into();
            stage.history.seen().strangers.extend(seen.into_iter().flatten());
        }
        // Part of the requests.
        Trouble::Flood(_) | Trouble::Hostile(_) => {}
    }
    Ok(())
}

fn told(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Faults { model, name, rules } => {
            let percent = rules[0]["percent"].as_u64().map_or(String::new(), |share| format!(" ({share} %)"));
            format!("model {model}: {name}{percent}")
        }
        Trouble::StoreKilled(away) => format!("redis-server killed, back empty after {away:.1?}"),
        Trouble::StoreFrozen(away) => format!("redis-server frozen for {away:.1?}"),
        Trouble::StoreLineLost(_) => "lost Redis line: connections die without a reset".to_owned(),
        Trouble::NodeStopped(node) => format!("node {node} told to stop, and started anew"),
        Trouble::NodeKilled(node) => format!("node {node} killed, and started anew"),
        Trouble::LoneKilled(times) => format!("the gateway of its own killed {times} times"),
        Trouble::Reload(variant) => format!("both nodes read limits {variant}"),
        Trouble::Strangers(lasts) => format!("unfinished, idle and unread connections for {lasts:.1?}"),
        Trouble::Flood(lasts) => format!("one caller floods for {lasts:.1?}"),
        Trouble::Hostile(lasts) => format!("one caller provokes failures for {lasts:.1?}"),
    }
}

/// Reads a node's ledger and checks its process periodically.
async fn look_on(stage: &Stage, place: usize, mut is_over: watch::Receiver<bool>) {
    let (node, cap) = (&stage.nodes[place], stage.cap());
    let mut before = stage.zero;
    loop {
        node.look(stage.whole / 5);
        let now = stage.runtime.monotonic();
        if let Some(books) = node.books().await {
            let mut seen = stage.history.seen();
            seen.readings += 1;
            // The cost of calls beyond their reservations is spent; no admission check could have prevented it.
            let sum = books.posted.saturating_add(books.held).saturating_sub(books.overrun);
            let thousandths = |nanos: u64| nanos.saturating_mul(1_000) / cap.max(1);
            seen.fullest = seen.fullest.max(thousandths(sum));
            // It reduces the budget all the same.
            if thousandths(sum.saturating_add(books.overrun)) >= TIGHT {
                seen.tight[place].get_or_insert(before);
            }
            if sum > cap {
                seen.overdrawn.push(format!("node {place}: {books:?} of {cap}"));
            }
            seen.note_alone(place, stage.runtime.monotonic(), books.decided_alone);
            before = now;
        }
        tokio::select! {
            biased;
            _ = is_over.changed() => return,
            () = stage.runtime.sleep_until(stage.runtime.monotonic() + LOOK_EVERY) => {}
        }
    }
}

/// The ledgers of nodes when no requests are in flight any more; also records the open descriptors of their processes.
async fn last_looks(stage: &Stage) -> Vec<Option<(u64, u64)>> {
    let mut books = Vec::new();
    let kept: Vec<u16> = stage.models.iter().map(|model| model.address.port()).collect();
    for (place, node) in stage.nodes.iter().enumerate() {
        let last = node.books().await;
        if let Some(calls) = last.as_ref().map(|books| books.in_flight).filter(|calls| *calls > 0) {
            let misdeed = format!("node {place} has {calls} calls under way when nobody asks any more");
            stage.history.seen().misdeeds.push(misdeed);
        }
        books.push(last.map(|books| (books.posted, books.held)));
        if let Some(life) = stage.history.seen().life_of(place) {
            life.descriptors.1 = descriptors(life.id, &kept);
        }
    }
    books
}

/// Stops everything, and reads the persisted state.
async fn evidence(stage: &Stage, books: Vec<Option<(u64, u64)>>) -> anyhow::Result<Evidence> {
    let lives_at_the_end: Vec<u32> =
        stage.history.seen().lives.iter().filter(|life| life.span.to.is_none()).map(|life| life.id).collect();
    for node in &stage.nodes {
        node.stop().await?;
    }
    stage.lone.stop().await?;
    let mut evidence = Evidence {
        books,
        seen: stage.history.seen().clone(),
        zero: Some(stage.zero),
        lives_at_the_end,
        ..Evidence::default()
    };
    for node in &stage.nodes {
        evidence.written.push(written(&node.folder.join("state"), stage.cents, stage.runtime).await?);
        evidence.priced.push(priced(&node.folder.join("access.log"))?);
        evidence.said.push(std::fs::read_to_string(node.errors())?);
    }
    for model in &stage.models {
        evidence.billed.push(model.billed().await?);
        evidence.said.push(std::fs::read_to_string(&model.errors)?);
    }
    Ok(evidence)
}
