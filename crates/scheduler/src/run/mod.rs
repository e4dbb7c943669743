//! The scheduler as a client of an API server: what the server shows goes to the thread that decides, and what is
//! decided goes to the server, while this process leads.
//!
//! ```text
//!  watches ──► mailbox ──► core: one thread, Engine ──► writer: a task for each decision ──► bindings, conditions
//!                 ▲                                        │
//!                 └──────────── bound, or not ─────────────┘──► teller: events, when there is time
//! ```

mod core;
mod fence;
mod health;
mod in_flight;
mod lanes;
mod mailbox;
mod requests;
mod telling;
#[cfg(test)]
mod tests;
mod watched;
mod watches;
mod writer;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rhumb_client::leader::{Before, Election, Lead, Leadership, Lost, Term};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use health::Health;

use self::core::Core;
use crate::engine::{Change, Engine, Pending};
use crate::metrics::Metrics;
use crate::model::Pod;
use in_flight::InFlight;
use lanes::Lanes;
use mailbox::Mailbox;
use requests::Server;
use telling::Teller;
use writer::Writer;

/// Between a failure and the next start.
const PAUSE: Duration = Duration::from_secs(1);
/// How long what is under way may take at the end.
const DRAIN_MAX: Duration = Duration::from_secs(5);
const DRAIN_TICK: Duration = Duration::from_millis(5);

/// What a scheduler needs to run.
#[derive(Clone)]
pub struct Options {
    /// `None` schedules without asking whether another process does.
    pub election: Option<Election>,
    /// The schedulers that pods name to be scheduled here.
    pub scheduler_names: HashSet<Box<str>>,
    /// Makes an engine that knows nothing yet, for each time that this process begins to lead.
    pub engine: Arc<dyn Fn() -> Engine + Send + Sync>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("election", &self.election)
            .field("scheduler_names", &self.scheduler_names)
            .finish_non_exhaustive()
    }
}

/// Schedules whenever this process leads, until `stop`. Then the lease is given back, so that another process goes on
/// at once: but only if nothing is under way any more that this one asked for.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    let leadership = options
        .election
        .clone()
        .map(|election| Leadership::new(client.clone(), election));
    loop {
        let term = tokio::select! {
            () = stop.cancelled() => return,
            term = acquire(leadership.as_ref()) => term,
        };
        tracing::info!("this process has the lease: it schedules");
        let served = tokio::select! {
            end = serve(&client, &options, &term, &stop) => end,
            lost = keep(leadership.as_ref(), &term.lead) => End::Lost(lost),
        };
        match served {
            End::Done { is_all_settled } => {
                if let Some(leadership) = leadership.filter(|_| is_all_settled) {
                    leadership.release().await;
                }
                return;
            }
            End::Lost(Lost::ToAnother) => {
                tracing::warn!("another process has the lease of the scheduler: this one pauses");
            }
            End::Lost(Lost::ByTime) => {
                tracing::warn!("the lease of the scheduler was not renewed in time: it pauses");
            }
            End::Failed => {
                tracing::error!("the scheduler failed, and is started again");
                sleep(PAUSE).await;
            }
        }
    }
}

/// How a time of leading ended.
enum End {
    /// It was told to.
    Done {
        /// Nothing is under way any more.
        is_all_settled: bool,
    },
    Lost(Lost),
    Failed,
}

async fn acquire(leadership: Option<&Leadership>) -> Term {
    match leadership {
        Some(leadership) => leadership.acquire().await,
        // Who was here before, nobody knows.
        None => Term {
            lead: Lead::unasked(),
            before: Before::Anothers,
        },
    }
}

async fn keep(leadership: Option<&Leadership>, lead: &Lead) -> Lost {
    match leadership {
        Some(leadership) => leadership.keep(lead).await,
        None => std::future::pending().await,
    }
}

async fn serve(client: &Client, options: &Options, term: &Term, stop: &CancellationToken) -> End {
    let server = Server::new(client.clone(), term.lead.clone());
    let _leading = options.health.starts();
    let mut held = Vec::new();
    if term.before != Before::Nobodys {
        let fenced = tokio::select! {
            () = stop.cancelled() => return End::Done { is_all_settled: false },
            fenced = fence::fence(&server, &options.scheduler_names) => fenced,
        };
        held = match fenced {
            Some(held) => held,
            // Whoever keeps the lease knows why, and ends this.
            None => return std::future::pending().await,
        };
    }
    let mut running = match Running::start(client, server, options, held) {
        Ok(running) => running,
        Err(error) => {
            tracing::error!(%error, "no threads can be started");
            return End::Failed;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        _ = &mut running.ended => return End::Failed,
    }
    End::Done {
        is_all_settled: running.drain().await,
    }
}

/// All that runs while this process leads. It ends when it is dropped.
struct Running {
    mailbox: Arc<Mailbox>,
    in_flight: Arc<InFlight>,
    /// The thread that decides is no more.
    ended: oneshot::Receiver<()>,
    _work: JoinSet<()>,
}

impl Running {
    fn start(
        client: &Client,
        server: Server,
        options: &Options,
        held: Vec<Pod>,
    ) -> std::io::Result<Running> {
        let mailbox = Arc::new(Mailbox::new(watches::LISTS));
        let uids = held.iter().map(|pod| pod.uid.clone());
        mailbox.answer(Change::Hold(uids.collect()));
        let in_flight = Arc::<InFlight>::default();
        let lanes = Arc::<Lanes>::default();
        let metrics = options.metrics.clone();
        let (decided, to_write) = mpsc::unbounded_channel();
        let (is_over, ended) = oneshot::channel();
        let make = options.engine.clone();
        let health = options.health.clone();
        let parts = (mailbox.clone(), in_flight.clone(), metrics.clone());
        std::thread::Builder::new()
            .name("scheduler".to_owned())
            .spawn(move || {
                let (mailbox, in_flight, metrics) = parts;
                Core {
                    engine: make(),
                    mailbox,
                    decided,
                    in_flight,
                    metrics: metrics.clone(),
                    health,
                }
                .run();
                // Whoever leads next has them in its queues.
                metrics.note_pending(&Pending::default());
                // After a panic it is dropped, which says the same.
                drop(is_over);
            })?;
        let teller = Teller::start(server.clone(), in_flight.clone(), metrics.clone());
        let writer = Writer::new(
            server.clone(),
            mailbox.clone(),
            lanes.clone(),
            in_flight.clone(),
            metrics,
            teller,
        );
        let mut work = JoinSet::new();
        work.spawn(fence::fence_beside(server, mailbox.clone(), held));
        work.spawn(Arc::new(writer).run(to_write));
        watches::start(client, &mailbox, &lanes, &mut work);
        Ok(Running {
            mailbox,
            in_flight,
            ended,
            _work: work,
        })
    }

    /// Decides nothing more, and waits for what was decided. Whether all of it has come to its end.
    async fn drain(&self) -> bool {
        self.mailbox.stop_deciding();
        let settled = async {
            while !(self.mailbox.has_stopped() && self.in_flight.is_settled()) {
                sleep(DRAIN_TICK).await;
            }
        };
        timeout(DRAIN_MAX, settled).await.is_ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}
