//! The sync loop: applies watch events to the engine, writes the resulting ruleset to the kernel, and repairs it when
//! another process changes it. Corresponds to kube-proxy's `syncProxyRules`.

use std::time::Duration;

use rhumb_netpol::ruleset::RulesetDelta;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::observed_state::{NodeObjectState, ObservedState};
use super::report_publisher::NodeReportPublisher;
use super::retry_backoff::RetryBackoff;
use super::watches::{EVENT_QUEUE_CAPACITY, ReceivedAgentEvent};
use crate::metrics::AgentMetrics;
use crate::nft::{self, ForeignTableChange, KernelTable, TableWriteOutcome};
use crate::probe::HostProbe;

/// Backoff after the kernel rejected the whole ruleset.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// At most 2^2 - 1 = 3 inspections are skipped in a row.
const SKIPPED_INSPECTIONS_MAX_LOG2: u32 = 2;
/// Problems in the node's report.
const NO_RULES_PROBLEM: &str = "the agent has started; the kernel has no rules yet";
const CONTESTED_PROBLEM: &str =
    "another process repeatedly changes or removes the rules of this agent";

/// State of the sync loop.
pub(super) struct SyncLoop<'a> {
    pub(super) observed: ObservedState,
    pub(super) kernel: KernelTable,
    pub(super) host: HostProbe,
    pub(super) metrics: &'a AgentMetrics,
    pub(super) report_publisher: NodeReportPublisher,
    pub(super) backoff: RetryBackoff,
    /// When to retry after a failed write; no writes before.
    pub(super) retry_at: Option<Instant>,
    /// When the events were received that the kernel does not have yet, for the latency metric.
    pub(super) pending_since: Vec<Instant>,
    /// This process has written rules to the kernel.
    pub(super) has_synced: bool,
    /// Repairs since the last inspection that found the table intact.
    pub(super) consecutive_repairs: u32,
    /// Number of inspections to skip.
    pub(super) inspections_to_skip: u32,
    /// Another process has changed the rules, and they have not been repaired yet.
    pub(super) has_unrepaired_change: bool,
    pub(super) started_at: Instant,
}

impl SyncLoop<'_> {
    pub(super) fn new_backoff() -> RetryBackoff {
        RetryBackoff::new(RETRY_FIRST, RETRY_MAX)
    }

    /// Runs until `stop` is cancelled.
    pub(super) async fn run(
        mut self,
        mut events: mpsc::Receiver<ReceivedAgentEvent>,
        inspect_every: Duration,
        stop: &CancellationToken,
    ) {
        let mut inspection = interval_at(Instant::now() + inspect_every, inspect_every);
        inspection.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        self.report_publisher
            .set_bridge_filtering(self.host.enable_bridge_filtering());
        self.report_missing_table().await;
        loop {
            let retry_at = self.retry_at;
            let work = async {
                tokio::select! {
                    biased;
                    // Take all queued events at once: more arrive while the kernel is being written.
                    count = events.recv_many(&mut batch, EVENT_QUEUE_CAPACITY) => {
                        self.apply_events(&mut batch);
                        // All watches have ended.
                        if count == 0 {
                            std::future::pending::<()>().await;
                        }
                    }
                    () = sleep_until_optional(retry_at) => self.retry_at = None,
                    _ = inspection.tick() => return self.inspect().await,
                    change = self.kernel.next_foreign_change() => return self.on_foreign_change(change).await,
                }
                self.sync().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = work => {}
            }
        }
    }

    /// After a reboot the kernel has no table, and an earlier report is wrong.
    async fn report_missing_table(&mut self) {
        if let Ok(false) = self.kernel.exists().await {
            self.report_publisher
                .set_kernel_problem(Some(NO_RULES_PROBLEM.to_owned()));
            self.report_publisher.publish(&self.observed.node);
        }
    }

    fn apply_events(&mut self, batch: &mut Vec<ReceivedAgentEvent>) {
        for received in batch.drain(..) {
            if self.pending_since.len() < EVENT_QUEUE_CAPACITY {
                self.pending_since.push(received.received_at);
            }
            self.observed.apply_event(received.event);
        }
    }

    /// Nothing is written before all resources have been listed once, nor during backoff.
    async fn sync(&mut self) {
        if let Some(missing) = self.observed.unsynced_resources() {
            let text = format!("not listed yet: {missing}");
            self.metrics.set_not_ready_reason(Some(text));
            self.pending_since.clear();
            return;
        }
        if self.retry_at.is_some() {
            return;
        }
        let changes = self.observed.engine.take_ruleset_delta();
        self.write_delta(&changes).await;
    }

    async fn write_delta(&mut self, changes: &RulesetDelta) {
        let started = Instant::now();
        let program = self.observed.engine.ruleset();
        match self
            .kernel
            .write(changes, program, &self.observed.pod_cidr_ranges)
            .await
        {
            Ok(written) => self.on_sync_success(written, started),
            Err(error) => self.on_sync_failure(&error).await,
        }
    }

    /// The kernel is up to date.
    fn on_sync_success(&mut self, written: TableWriteOutcome, started: Instant) {
        let now = Instant::now();
        if written == TableWriteOutcome::Replaced {
            self.has_unrepaired_change = false;
        }
        let waiting = self.pending_since.drain(..);
        if written != TableWriteOutcome::Unchanged {
            self.metrics.record_sync(now - started);
            // The initial lists are not changes.
            let waiting = waiting.filter(|_| self.has_synced);
            waiting.for_each(|since| self.metrics.record_event_latency(now - since));
        }
        let program = self.observed.engine.ruleset();
        let policies = self.observed.engine.applied_policies().count();
        self.metrics.record_ruleset(program, policies);
        if self.backoff.on_success() {
            tracing::info!("writing rules to the kernel succeeded again");
        }
        if !std::mem::replace(&mut self.has_synced, true) {
            self.metrics.set_not_ready_reason(None);
            tracing::info!(
                policies,
                addresses = program.known_addresses.len(),
                sets = program.sets.len(),
                milliseconds = (now - self.started_at).as_millis(),
                "initial rules written to the kernel"
            );
            if self.observed.node == NodeObjectState::NeverSeen {
                tracing::warn!(
                    "the server has no Node object of this name, so it has no pods and its report is ignored; \
                     check --node-name"
                );
            }
        }
        self.report_publisher
            .set_applied_policies(self.observed.engine.applied_policies());
        let has_changed_targets = self.observed.take_changed_targets();
        self.report_publisher
            .set_pods_version(self.observed.pods_version(), has_changed_targets);
        self.report_publisher.set_kernel_problem(
            (self.consecutive_repairs > 1).then(|| CONTESTED_PROBLEM.to_owned()),
        );
        self.report_publisher.publish(&self.observed.node);
    }

    /// Schedules a retry, which replaces the whole table: the kernel's state is unknown now.
    async fn on_sync_failure(&mut self, error: &nft::NftablesError) {
        self.metrics.record_sync_failure();
        let now = Instant::now();
        let (wait, is_news) = self.backoff.on_failure(now);
        if is_news {
            tracing::error!(%error, ?wait, "failed to write rules to the kernel; the previous rules stay; retrying");
        }
        self.retry_at = Some(now + wait);
        // After a timeout the kernel is still busy and would not answer this query either.
        let is_busy = matches!(error, nft::NftablesError::TimedOut(_));
        if !is_busy && let Ok(false) = self.kernel.exists().await {
            self.report_publisher
                .set_applied_policies(std::iter::empty());
        }
        self.report_publisher
            .set_kernel_problem(Some(error.to_string()));
        self.report_publisher.publish(&self.observed.node);
    }

    /// Checks periodically for changes by other processes: flushed rules, disabled bridge filtering.
    async fn inspect(&mut self) {
        self.report_publisher
            .set_bridge_filtering(self.host.enable_bridge_filtering());
        if !self.has_synced {
            return;
        }
        self.report_publisher.publish(&self.observed.node);
        if self.inspections_to_skip > 0 {
            self.inspections_to_skip -= 1;
        } else if self.retry_at.is_none() {
            match self.is_table_intact().await {
                Some(true) => self.on_table_intact(),
                Some(false) => self.repair_table().await,
                None => {}
            }
        }
    }

    /// Whether the kernel still has the rules as written; `None` if unknown.
    async fn is_table_intact(&self) -> Option<bool> {
        if self.has_unrepaired_change {
            return Some(false);
        }
        let is_intact = self.kernel.is_intact().await;
        let note = |error: &nft::NftablesError| tracing::debug!(%error, "failed to inspect the rules; retrying later");
        is_intact.inspect_err(note).ok()
    }

    /// Repairs the first foreign change immediately. Further ones, until an inspection finds the table intact, wait for
    /// the next inspection; so do changes during backoff.
    async fn on_foreign_change(&mut self, change: ForeignTableChange) {
        if !self.has_synced {
            return;
        }
        self.has_unrepaired_change |= change == ForeignTableChange::Changed;
        let may_answer = self.consecutive_repairs == 0 && self.retry_at.is_none();
        if may_answer && self.is_table_intact().await == Some(false) {
            self.repair_table().await;
        }
    }

    fn on_table_intact(&mut self) {
        if std::mem::take(&mut self.consecutive_repairs) > 1 {
            self.report_publisher.set_kernel_problem(None);
            self.report_publisher.publish(&self.observed.node);
        }
    }

    /// Replaces the whole table. Repeated repairs skip more and more inspections, since each one is expensive and the
    /// other process may never stop.
    async fn repair_table(&mut self) {
        tracing::warn!(
            "another process has changed or removed the rules of this agent; replacing the whole table"
        );
        self.metrics.record_repair();
        self.inspections_to_skip =
            (1 << self.consecutive_repairs.min(SKIPPED_INSPECTIONS_MAX_LOG2)) - 1;
        self.consecutive_repairs = self.consecutive_repairs.saturating_add(1);
        self.kernel.mark_stale();
        let changes = self.observed.engine.take_ruleset_delta();
        self.write_delta(&changes).await;
    }
}

/// Never completes if there is no such moment.
async fn sleep_until_optional(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
