//! The table in the kernel, and whether it is what it should be.

use std::collections::BTreeSet;

use rhumb_netpol::program::{ChainId, Changes, Program};
use rustix::io::Errno;

use super::encode::{ask_for_elements, ask_for_table, first_key};
use super::error::Error;
use super::names::SetName;
use super::others::Others;
use super::phases::apart;
use super::{Connection, Held, Marker, News, Table};

/// The table of one agent in the kernel.
#[derive(Debug)]
pub struct Kernel {
    connection: Connection,
    others: Option<Others>,
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
    pub fn new(mut connection: Connection, table: Table) -> Kernel {
        Kernel {
            others: connection.others(table.name()),
            connection,
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
        self.connection.check(script).await
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
                self.connection.apply(script).await?;
            }
            Some((first, rest)) => {
                let script = self.table.update(marker, &first, program, None);
                self.connection.apply(script).await?;
                let script = self.table.update(marker, &rest, program, held);
                self.connection.apply(script).await?;
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
        let before = self.marker_there().await.unwrap_or_default();
        let marker = Marker::after(before.or(self.marker));
        self.marker = Some(marker);
        let script = self.table.whole(program, held, marker);
        self.connection.apply(script).await?;
        if let Some(others) = &mut self.others {
            others.catch_up();
        }
        self.chains = program.chains.keys().copied().collect();
        self.has(held);
        Ok(())
    }

    /// The marker of the table that there is, whoever made it.
    async fn marker_there(&self) -> Result<Option<Marker>, Error> {
        let request = ask_for_elements(self.table.name(), SetName::Marker);
        let answer = self.connection.ask(request).await?;
        let key = answer.as_deref().and_then(first_key);
        Ok(key.and_then(Marker::of_key))
    }

    /// Whether the table is still the one that was written, with its rules in it: others may flush all that there is.
    /// It costs no more than a change does.
    pub async fn is_intact(&self) -> Result<bool, Error> {
        let Some(marker) = self.marker else {
            return Ok(false);
        };
        let script = self.table.inspection(marker);
        let in_use: Vec<_> = (1..script.len())
            .map(|command| (Some(command), Errno::BUSY))
            .collect();
        let refusals = self.connection.refusals(script).await?;
        Ok(refusals == in_use)
    }

    /// Waits until somebody else has changed the table, since it was last replaced. Nobody is heard if the connection
    /// was not made for it.
    pub async fn others(&mut self) -> News {
        match &mut self.others {
            Some(others) => others.news().await,
            None => std::future::pending().await,
        }
    }

    /// What the kernel has is not known any more.
    pub fn distrust(&mut self) {
        self.is_current = false;
    }

    /// Whether there is such a table, whoever made it.
    pub async fn exists(&self) -> Result<bool, Error> {
        let request = ask_for_table(self.table.name());
        Ok(self.connection.ask(request).await?.is_some())
    }

    /// Removes the table; whether there was one.
    pub async fn remove(&mut self) -> Result<bool, Error> {
        if !self.exists().await? {
            return Ok(false);
        }
        self.is_current = false;
        self.connection.apply(self.table.removal()).await?;
        Ok(true)
    }
}
