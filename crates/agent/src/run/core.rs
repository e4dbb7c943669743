//! The task that knows everything, and brings the kernel up to date.

use std::time::Duration;

use rhumb_netpol::program::Changes;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::patience::Patience;
use super::statement::Statement;
use super::watches::{Heard, WAITING_MAX};
use super::world::{NodeState, World};
use crate::metrics::Metrics;
use crate::nft::{self, Kernel, News, Written};
use crate::probe::System;

/// After the kernel refused everything.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MOST: Duration = Duration::from_secs(15);
/// At most 3 inspections are left out in a row.
const LEFT_OUT_MAX_LOG: u32 = 2;
/// What is told of a node while it is so.
const NO_RULES: &str = "the agent has been started, and the kernel has no rules yet";
const CONTESTED: &str = "somebody else changes or removes the rules of this agent again and again";

pub(super) struct Core<'a> {
    pub(super) world: World,
    pub(super) kernel: Kernel,
    pub(super) system: System,
    pub(super) metrics: &'a Metrics,
    pub(super) statement: Statement,
    pub(super) patience: Patience,
    /// The kernel is not to be tried before.
    pub(super) retry_at: Option<Instant>,
    /// When changes were heard of that the kernel does not have yet.
    pub(super) waiting: Vec<Instant>,
    /// The kernel has had rules of this process.
    pub(super) has_written: bool,
    /// Inspections in a row that found the rules changed.
    pub(super) repairs: u32,
    /// Inspections that are left out.
    pub(super) left_out: u32,
    /// Somebody else has changed the rules, and was not answered yet.
    pub(super) is_touched: bool,
    pub(super) began: Instant,
}

impl Core<'_> {
    pub(super) fn patience() -> Patience {
        Patience::new(RETRY_FIRST, RETRY_MOST)
    }

    /// Ends when it is told to.
    pub(super) async fn run(
        mut self,
        mut heard: mpsc::Receiver<Heard>,
        inspect_every: Duration,
        stop: &CancellationToken,
    ) {
        let mut inspection = interval_at(Instant::now() + inspect_every, inspect_every);
        inspection.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        self.statement.note_bridges(self.system.see_bridged());
        self.tell_of_emptiness().await;
        loop {
            let retry_at = self.retry_at;
            let work = async {
                tokio::select! {
                    biased;
                    // All that is ready is taken together: while the kernel is told, more comes.
                    count = heard.recv_many(&mut batch, WAITING_MAX) => {
                        self.hear(&mut batch);
                        // Nobody tells anything any more.
                        if count == 0 {
                            std::future::pending::<()>().await;
                        }
                    }
                    () = at(retry_at) => self.retry_at = None,
                    _ = inspection.tick() => return self.inspect().await,
                    news = self.kernel.others() => return self.hear_of_others(news).await,
                }
                self.bring_up_to_date().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = work => {}
            }
        }
    }

    /// What was told of this node before is not so if its kernel has begun anew.
    async fn tell_of_emptiness(&mut self) {
        if let Ok(false) = self.kernel.exists().await {
            self.statement.note_kernel(Some(NO_RULES.to_owned()));
            self.statement.publish(&self.world.node);
        }
    }

    fn hear(&mut self, batch: &mut Vec<Heard>) {
        for heard in batch.drain(..) {
            if self.waiting.len() < WAITING_MAX {
                self.waiting.push(heard.at);
            }
            self.world.hear(heard.told);
        }
    }

    /// Nothing is written before all that there is has been seen once, and nothing while the kernel refuses.
    async fn bring_up_to_date(&mut self) {
        if let Some(missing) = self.world.missing() {
            let text = format!("not seen yet: {missing}");
            self.metrics.waits_for(Some(text));
            self.waiting.clear();
            return;
        }
        if self.retry_at.is_some() {
            return;
        }
        let changes = self.world.engine.take_changes();
        self.write(&changes).await;
    }

    async fn write(&mut self, changes: &Changes) {
        let begun = Instant::now();
        let program = self.world.engine.program();
        match self.kernel.write(changes, program, &self.world.held).await {
            Ok(written) => self.has_it(written, begun),
            Err(error) => self.has_it_not(&error).await,
        }
    }

    /// The kernel has all that is known.
    fn has_it(&mut self, written: Written, begun: Instant) {
        let now = Instant::now();
        if written == Written::Everything {
            self.is_touched = false;
        }
        let waiting = self.waiting.drain(..);
        if written != Written::Nothing {
            self.metrics.note_sync(now - begun);
            // What is told at the start is no change.
            let waiting = waiting.filter(|_| self.has_written);
            waiting.for_each(|since| self.metrics.note_event(now - since));
        }
        let program = self.world.engine.program();
        let policies = self.world.engine.applied().count();
        self.metrics.note_program(program, policies);
        if self.patience.succeed() {
            tracing::info!("the kernel takes rules again");
        }
        if !std::mem::replace(&mut self.has_written, true) {
            self.metrics.waits_for(None);
            tracing::info!(
                policies,
                addresses = program.known.len(),
                sets = program.sets.len(),
                milliseconds = (now - self.began).as_millis(),
                "the kernel has the rules"
            );
            if self.world.node == NodeState::Unknown {
                tracing::warn!(
                    "the server has no node of this name: no pod is on it, and its report counts for nothing; \
                     --node-name says which node this is"
                );
            }
        }
        self.statement.note_applied(self.world.engine.applied());
        self.statement
            .note_kernel((self.repairs > 1).then(|| CONTESTED.to_owned()));
        self.statement.publish(&self.world.node);
    }

    /// It is tried again with everything: what the kernel has is not known any more, if anything.
    async fn has_it_not(&mut self, error: &nft::Error) {
        self.metrics.note_failure();
        let now = Instant::now();
        let (wait, is_news) = self.patience.fail(now);
        if is_news {
            tracing::error!(%error, "the kernel does not take the rules and has those from before; it is tried again");
        }
        self.retry_at = Some(now + wait);
        // A kernel that is still at work would not answer this either.
        let is_at_work = matches!(error, nft::Error::TimedOut(_));
        if !is_at_work && let Ok(false) = self.kernel.exists().await {
            self.statement.note_applied(std::iter::empty());
        }
        self.statement.note_kernel(Some(error.to_string()));
        self.statement.publish(&self.world.node);
    }

    /// Others can flush all rules that there are, and switch off that rules see what goes over bridges.
    async fn inspect(&mut self) {
        self.statement.note_bridges(self.system.see_bridged());
        if !self.has_written {
            return;
        }
        self.statement.publish(&self.world.node);
        if self.left_out > 0 {
            self.left_out -= 1;
        } else if self.retry_at.is_none() {
            match self.is_intact().await {
                Some(true) => self.is_settled(),
                Some(false) => self.repair().await,
                None => {}
            }
        }
    }

    /// `None` if it cannot be found out.
    async fn is_intact(&self) -> Option<bool> {
        if self.is_touched {
            return Some(false);
        }
        let is_intact = self.kernel.is_intact().await;
        let note = |error: &nft::Error| tracing::debug!(%error, "rules cannot be inspected");
        is_intact.inspect_err(note).ok()
    }

    /// The first time, they are answered at once. Who has been answered since the last inspection that found all well
    /// waits for the next one, and so does one who comes before the kernel takes rules again.
    async fn hear_of_others(&mut self, news: News) {
        if !self.has_written {
            return;
        }
        self.is_touched |= news == News::Changed;
        let may_answer = self.repairs == 0 && self.retry_at.is_none();
        if may_answer && self.is_intact().await == Some(false) {
            self.repair().await;
        }
    }

    fn is_settled(&mut self) {
        if std::mem::take(&mut self.repairs) > 1 {
            self.statement.note_kernel(None);
            self.statement.publish(&self.world.node);
        }
    }

    /// One who changes them again and again is answered more and more rarely, and so is a system where this cannot be
    /// told: everything is written each time.
    async fn repair(&mut self) {
        tracing::warn!(
            "somebody else has changed or removed the rules of this agent; all are written again"
        );
        self.metrics.note_repair();
        self.left_out = (1 << self.repairs.min(LEFT_OUT_MAX_LOG)) - 1;
        self.repairs = self.repairs.saturating_add(1);
        self.kernel.distrust();
        let changes = self.world.engine.take_changes();
        self.write(&changes).await;
    }
}

/// Never, if there is no such moment.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
