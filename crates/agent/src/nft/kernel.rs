//! The table in the kernel, and whether it is what it should be.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_netpol::program::{ChainId, Changes, Program};

use super::error::{Error, complaints};
use super::phases::apart;
use super::{Held, Marker, Nft, Table};

/// How the answer of the kernel about something that rules use ends: C libraries have different words for it.
const IN_USE: &str = "busy";

/// The table of one agent in the kernel.
#[derive(Debug)]
pub struct Kernel {
    nft: Nft,
    table: Table,
    /// Of the table that was written last; `None` before the first.
    marker: Option<Marker>,
    /// The kernel has what it was told so far.
    is_current: bool,
    held: Held,
    /// The chains of policies that it has.
    chains: BTreeSet<ChainId>,
}

/// How the kernel was brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Nothing,
    Changes,
    Everything,
}

impl Kernel {
    pub fn new(nft: Nft, table: Table) -> Kernel {
        Kernel {
            nft,
            table,
            marker: None,
            is_current: false,
            held: Held::default(),
            chains: BTreeSet::new(),
        }
    }

    /// Has the kernel look at all that every program is made of. Whatever modules it needs for them are there then.
    pub async fn probe(&self) -> Result<(), Error> {
        let (nothing, nobody) = (Program::default(), Held::default());
        let script = self.table.whole(&nothing, &nobody, Marker::after(None));
        self.nft.check(&script).await
    }

    /// Brings the kernel from the program as it was when this was last called to `program`, which it is after the
    /// changes. If it is not known what the kernel has, or it does not take the changes, everything is replaced.
    pub async fn write(
        &mut self,
        changes: &Changes,
        program: &Program,
        held: &Held,
    ) -> Result<Written, Error> {
        if self.is_current {
            let new = (*held != self.held).then_some(held);
            if changes.is_empty() && new.is_none() {
                return Ok(Written::Nothing);
            }
            self.is_current = false;
            match self.change(changes, program, new).await {
                Ok(()) => {
                    self.has(held);
                    return Ok(Written::Changes);
                }
                Err(error) => {
                    tracing::warn!(%error, "the kernel does not take a change; all rules are replaced");
                }
            }
        }
        self.replace(program, held).await?;
        Ok(Written::Everything)
    }

    async fn change(
        &mut self,
        changes: &Changes,
        program: &Program,
        held: Option<&Held>,
    ) -> Result<(), Error> {
        let Some(marker) = self.marker else {
            return Ok(());
        };
        match apart(changes, &self.chains) {
            None => {
                let script = self.table.update(marker, changes, program, held);
                self.nft.apply(&script).await?;
            }
            Some((first, rest)) => {
                let script = self.table.update(marker, &first, program, None);
                self.nft.apply(&script).await?;
                let script = self.table.update(marker, &rest, program, held);
                self.nft.apply(&script).await?;
            }
        }
        self.chains.extend(changes.chains.keys());
        for chain in &changes.removed_chains {
            self.chains.remove(chain);
        }
        Ok(())
    }

    fn has(&mut self, held: &Held) {
        self.is_current = true;
        self.held = held.clone();
    }

    /// Whatever the kernel has, it is replaced at one moment.
    pub async fn replace(&mut self, program: &Program, held: &Held) -> Result<(), Error> {
        self.is_current = false;
        // Somebody else may have replaced it, an agent before this one for example.
        let shown = self.nft.ask(&self.table.question()).await;
        let before = shown.ok().and_then(|shown| Marker::find(&shown));
        let marker = Marker::after(before.or(self.marker));
        self.marker = Some(marker);
        let script = self.table.whole(program, held, marker);
        self.nft.apply(&script).await?;
        self.chains = program.chains.keys().copied().collect();
        self.has(held);
        Ok(())
    }

    /// Whether the table is still the one that was written, with its rules in it: others may flush all that there is.
    /// It costs no more than a change does.
    pub async fn is_intact(&self) -> Result<bool, Error> {
        let Some(marker) = self.marker else {
            return Ok(false);
        };
        let lines = self.table.inspection(marker);
        let said = self.nft.complaints(&(lines.join("\n") + "\n")).await?;
        let mut expected: BTreeMap<usize, &str> =
            (2..=lines.len()).map(|line| (line, IN_USE)).collect();
        let is_expected = complaints(&said).all(|complaint| {
            let known = expected.remove(&complaint.line);
            known.is_some_and(|end| complaint.message.ends_with(end))
        });
        Ok(is_expected && expected.is_empty())
    }

    /// What the kernel has is not known any more.
    pub fn distrust(&mut self) {
        self.is_current = false;
    }

    /// Whether there is such a table, whoever made it.
    pub async fn exists(&self) -> Result<bool, Error> {
        let line = format!("table {}", self.table);
        let tables = self.nft.ask("list tables\n").await?;
        Ok(tables.lines().any(|table| table.trim() == line))
    }

    /// Removes the table; whether there was one.
    pub async fn remove(&mut self) -> Result<bool, Error> {
        if !self.exists().await? {
            return Ok(false);
        }
        self.is_current = false;
        self.nft.apply(&self.table.removal()).await?;
        Ok(true)
    }
}
