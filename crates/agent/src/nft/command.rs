//! Commands that change a table. Each can be displayed in `nft` syntax and encoded as netlink messages.

use std::fmt;

use super::encode::NftBatchEncoder;
use super::names::{ChainName, SetName};
use super::rule_expressions::NftRule;
use super::set_elements::{ElementListDisplay, NftSetElement, NftSetType};
use super::table_scripts::NftTable;
use crate::netlink::NetlinkBatch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NftCommand {
    AddTable,
    DeleteTable,
    AddChain {
        chain: ChainName,
        /// Shown by `nft list`.
        comment: Option<String>,
    },
    /// A base chain on the forward hook. Packets pass chains of lower priority first.
    AddBaseChain {
        chain: ChainName,
        priority: u32,
    },
    FlushChain(ChainName),
    DeleteChain(ChainName),
    AddRule(ChainName, NftRule),
    AddSet(SetName, NftSetType),
    DeleteSet(SetName),
    DeleteMap(SetName),
    FlushSet(SetName),
    /// For an interval set, this must be the complete content.
    AddElements(SetName, Vec<NftSetElement>),
    DeleteElements(SetName, Vec<NftSetElement>),
}

/// Commands for one table that are executed in one transaction.
#[derive(Debug, Clone)]
pub struct NftScript {
    table: NftTable,
    commands: Vec<NftCommand>,
}

impl NftScript {
    pub(super) fn new(table: &NftTable) -> NftScript {
        NftScript {
            table: table.clone(),
            commands: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, command: NftCommand) {
        self.commands.push(command);
    }

    /// Adds no command if there are no elements.
    pub(super) fn add_elements(
        &mut self,
        set: SetName,
        elements: impl Iterator<Item = NftSetElement>,
    ) {
        let elements: Vec<NftSetElement> = elements.collect();
        if !elements.is_empty() {
            self.push(NftCommand::AddElements(set, elements));
        }
    }

    pub(super) fn delete_elements(
        &mut self,
        set: SetName,
        elements: impl Iterator<Item = NftSetElement>,
    ) {
        let elements: Vec<NftSetElement> = elements.collect();
        if !elements.is_empty() {
            self.push(NftCommand::DeleteElements(set, elements));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Encodes the script. Also returns the sequence number of the last message of each command.
    pub(super) fn encode(&self) -> (NetlinkBatch, Vec<u32>) {
        let mut encoder = NftBatchEncoder::new(self.table.name());
        let mut ends = Vec::with_capacity(self.commands.len());
        for command in &self.commands {
            encoder.command(command);
            ends.push(encoder.count());
        }
        (encoder.finish(), ends)
    }

    /// A command in `nft` syntax.
    pub(super) fn line(&self, index: usize) -> Option<String> {
        let command = self.commands.get(index)?;
        Some(NftCommandLine(&self.table, command).to_string())
    }
}

/// One line per command in `nft` syntax; `nft -f` accepts it.
impl fmt::Display for NftScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for command in &self.commands {
            writeln!(f, "{}", NftCommandLine(&self.table, command))?;
        }
        Ok(())
    }
}

/// Displays a command in `nft` syntax.
struct NftCommandLine<'a>(&'a NftTable, &'a NftCommand);

impl fmt::Display for NftCommandLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NftCommandLine(table, command) = self;
        match command {
            NftCommand::AddTable => write!(f, "add table {table}"),
            NftCommand::DeleteTable => write!(f, "delete table {table}"),
            NftCommand::AddChain { chain, comment } => {
                write!(f, "add chain {table} {chain}")?;
                match comment {
                    Some(comment) => write!(f, " {{ comment \"{comment}\"; }}"),
                    None => Ok(()),
                }
            }
            NftCommand::AddBaseChain { chain, priority } => write!(
                f,
                "add chain {table} {chain} {{ type filter hook forward priority {priority}; policy accept; }}"
            ),
            NftCommand::FlushChain(chain) => write!(f, "flush chain {table} {chain}"),
            NftCommand::DeleteChain(chain) => write!(f, "delete chain {table} {chain}"),
            NftCommand::AddRule(chain, rule) => write!(f, "add rule {table} {chain} {rule}"),
            NftCommand::AddSet(set, of) => {
                let keyword = if of.is_map { "map" } else { "set" };
                write!(f, "add {keyword} {table} {set} {{ {of} }}")
            }
            NftCommand::DeleteSet(set) => write!(f, "delete set {table} {set}"),
            NftCommand::DeleteMap(map) => write!(f, "delete map {table} {map}"),
            NftCommand::FlushSet(set) => write!(f, "flush set {table} {set}"),
            NftCommand::AddElements(set, elements) => {
                write!(
                    f,
                    "add element {table} {set} {}",
                    ElementListDisplay(elements)
                )
            }
            NftCommand::DeleteElements(set, elements) => {
                write!(
                    f,
                    "delete element {table} {set} {}",
                    ElementListDisplay(elements)
                )
            }
        }
    }
}
