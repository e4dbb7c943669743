//! Keeps the agent's table in the kernel in sync with the ruleset, and detects foreign changes.

use std::collections::BTreeSet;

use rhumb_netpol::ruleset::{NodeRuleset, PolicyChainId, RulesetDelta};
use rustix::io::Errno;

use super::encode::{dump_elements_request, first_key, get_table_request};
use super::error::NftablesError;
use super::names::SetName;
use super::table_monitor::TableMonitor;
use super::two_phase_update::split_update;
use super::{ForeignTableChange, NftTable, NftablesConnection, PodCidrRanges, TableMarker};

/// The agent's table in the kernel.
#[derive(Debug)]
pub struct KernelTable {
    connection: NftablesConnection,
    monitor: Option<TableMonitor>,
    table: NftTable,
    /// The marker of the table that was written last; `None` before the first write.
    marker: Option<TableMarker>,
    /// Whether the kernel has the ruleset of the last write; if not, the next write replaces the table.
    is_current: bool,
    pod_cidr_ranges: PodCidrRanges,
    /// The policy chains in the kernel.
    chains: BTreeSet<PolicyChainId>,
}

/// What a write changed in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableWriteOutcome {
    Unchanged,
    Updated,
    Replaced,
}

impl KernelTable {
    pub fn new(mut connection: NftablesConnection, table: NftTable) -> KernelTable {
        KernelTable {
            monitor: connection.table_monitor(table.name()),
            connection,
            table,
            marker: None,
            is_current: false,
            pod_cidr_ranges: PodCidrRanges::default(),
            chains: BTreeSet::new(),
        }
    }

    /// Has the kernel validate an empty ruleset, which contains the parts that all rulesets share. This also loads the
    /// kernel modules that they need.
    pub async fn probe(&self) -> Result<(), NftablesError> {
        let (no_rules, no_cidrs) = (NodeRuleset::default(), PodCidrRanges::default());
        let script =
            self.table
                .replacement_script(&no_rules, &no_cidrs, TableMarker::next_after(None));
        self.connection.check(script).await
    }

    /// Updates the kernel from the ruleset of the last call to `program`, which is that ruleset with `changes` applied.
    /// Replaces the whole table if the kernel's state is unknown or the kernel rejects the changes.
    pub async fn write(
        &mut self,
        changes: &RulesetDelta,
        program: &NodeRuleset,
        held: &PodCidrRanges,
    ) -> Result<TableWriteOutcome, NftablesError> {
        if self.is_current {
            let new = (*held != self.pod_cidr_ranges).then_some(held);
            if changes.is_empty() && new.is_none() {
                return Ok(TableWriteOutcome::Unchanged);
            }
            self.is_current = false;
            match self.apply_delta(changes, program, new).await {
                Ok(()) => {
                    self.mark_current(held);
                    return Ok(TableWriteOutcome::Updated);
                }
                Err(error) => {
                    tracing::warn!(%error, "the kernel rejected an update of the rules; replacing the whole table");
                }
            }
        }
        self.replace(program, held).await?;
        Ok(TableWriteOutcome::Replaced)
    }

    async fn apply_delta(
        &mut self,
        changes: &RulesetDelta,
        program: &NodeRuleset,
        held: Option<&PodCidrRanges>,
    ) -> Result<(), NftablesError> {
        let Some(marker) = self.marker else {
            return Ok(());
        };
        match split_update(changes, &self.chains) {
            None => {
                let script = self.table.update_script(marker, changes, program, held);
                self.connection.apply(script).await?;
            }
            Some((first, rest)) => {
                let script = self.table.update_script(marker, &first, program, None);
                self.connection.apply(script).await?;
                let script = self.table.update_script(marker, &rest, program, held);
                self.connection.apply(script).await?;
            }
        }
        self.chains.extend(changes.chains.keys());
        for chain in &changes.removed_chains {
            self.chains.remove(chain);
        }
        Ok(())
    }

    fn mark_current(&mut self, held: &PodCidrRanges) {
        self.is_current = true;
        self.pod_cidr_ranges = held.clone();
    }

    /// Replaces the table atomically, whatever the kernel has.
    pub async fn replace(
        &mut self,
        program: &NodeRuleset,
        held: &PodCidrRanges,
    ) -> Result<(), NftablesError> {
        self.is_current = false;
        // Another process, such as a previous agent, may have replaced the table.
        let before = self.read_marker().await.unwrap_or_default();
        let marker = TableMarker::next_after(before.or(self.marker));
        self.marker = Some(marker);
        let script = self.table.replacement_script(program, held, marker);
        self.connection.apply(script).await?;
        if let Some(others) = &mut self.monitor {
            others.drain();
        }
        self.chains = program.chains.keys().copied().collect();
        self.mark_current(held);
        Ok(())
    }

    /// The marker of the table in the kernel, whichever process created it.
    async fn read_marker(&self) -> Result<Option<TableMarker>, NftablesError> {
        let request = dump_elements_request(self.table.name(), SetName::Marker);
        let answer = self.connection.query(request).await?;
        let key = answer.as_deref().and_then(first_key);
        Ok(key.and_then(TableMarker::from_key))
    }

    /// Whether the table is still the one that was written, with its rules. As cheap as a small update.
    pub async fn is_intact(&self) -> Result<bool, NftablesError> {
        let Some(marker) = self.marker else {
            return Ok(false);
        };
        let script = self.table.inspection_script(marker);
        let in_use: Vec<_> = (1..script.len())
            .map(|command| (Some(command), Errno::BUSY))
            .collect();
        let refusals = self.connection.dry_run_rejections(script).await?;
        Ok(refusals == in_use)
    }

    /// Waits until another process has changed the table since it was last replaced. Never completes if the connection
    /// has no monitor.
    pub async fn next_foreign_change(&mut self) -> ForeignTableChange {
        match &mut self.monitor {
            Some(others) => others.next_change().await,
            None => std::future::pending().await,
        }
    }

    /// Makes the next write replace the whole table.
    pub fn mark_stale(&mut self) {
        self.is_current = false;
    }

    /// Whether the table exists, whichever process created it.
    pub async fn exists(&self) -> Result<bool, NftablesError> {
        let request = get_table_request(self.table.name());
        Ok(self.connection.query(request).await?.is_some())
    }

    /// Removes the table. Returns whether there was one.
    pub async fn remove(&mut self) -> Result<bool, NftablesError> {
        if !self.exists().await? {
            return Ok(false);
        }
        self.is_current = false;
        self.connection.apply(self.table.deletion_script()).await?;
        Ok(true)
    }
}
