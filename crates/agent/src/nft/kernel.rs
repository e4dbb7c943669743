//! The table in the kernel, and whether it is what it should be.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use rhumb_netpol::program::{Changes, Program};

use super::error::{Error, complaints};
use super::{Held, Nft, Table};

/// How the answer of the kernel about something that rules use ends: C libraries have different words for it.
const IN_USE: &str = "busy";

/// The table of one agent in the kernel.
#[derive(Debug)]
pub struct Kernel {
    nft: Nft,
    table: Table,
    /// By which the table is known to be the one that was written last; another one for every table.
    marker: u32,
    /// The kernel has what it was told so far.
    is_current: bool,
    held: Held,
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
            marker: RandomState::new().hash_one(()) as u32,
            is_current: false,
            held: Held::default(),
        }
    }

    /// Has the kernel look at all that every program is made of. Whatever modules it needs for them are there then.
    pub async fn probe(&self) -> Result<(), Error> {
        let script = self.table.whole(&Program::default(), &Held::default(), 0);
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
            let Some(script) = self.table.update(changes, program, new) else {
                return Ok(Written::Nothing);
            };
            self.is_current = false;
            match self.nft.apply(&script).await {
                Ok(()) => {
                    self.is_current = true;
                    self.held = held.clone();
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

    /// Whatever the kernel has, it is replaced at one moment.
    pub async fn replace(&mut self, program: &Program, held: &Held) -> Result<(), Error> {
        self.is_current = false;
        self.marker = self.marker.wrapping_add(1);
        let script = self.table.whole(program, held, self.marker);
        self.nft.apply(&script).await?;
        self.is_current = true;
        self.held = held.clone();
        Ok(())
    }

    /// Whether the table is still the one that was written, with its rules in it: others may flush all that there is.
    /// It costs no more than a change does.
    pub async fn is_intact(&self) -> Result<bool, Error> {
        let lines = self.table.inspection(self.marker);
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
        let tables = self.nft.tables().await?;
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
