//! What is done to a table, in order. Each command has a form for people, in the words of `nft`, and one for the kernel.

use std::fmt;

use super::elements::{Braced, Element, SetType};
use super::encode::Encoder;
use super::expressions::Rule;
use super::names::{ChainName, SetName};
use super::table::Table;
use crate::netlink::Batch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    AddTable,
    DeleteTable,
    AddChain {
        chain: ChainName,
        /// For people.
        comment: Option<String>,
    },
    /// One that forwarded packets come to, those with lower priorities first.
    AddHook {
        chain: ChainName,
        priority: u32,
    },
    FlushChain(ChainName),
    DeleteChain(ChainName),
    AddRule(ChainName, Rule),
    AddSet(SetName, SetType),
    DeleteSet(SetName),
    DeleteMap(SetName),
    FlushSet(SetName),
    /// In a set of ranges, all that it is to have.
    AddElements(SetName, Vec<Element>),
    DeleteElements(SetName, Vec<Element>),
}

/// Commands for one table, which are carried out together or not at all.
#[derive(Debug, Clone)]
pub struct Script {
    table: Table,
    commands: Vec<Command>,
}

impl Script {
    pub(super) fn new(table: &Table) -> Script {
        Script {
            table: table.clone(),
            commands: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// None are added to a set that gets none.
    pub(super) fn add_elements(&mut self, set: SetName, elements: impl Iterator<Item = Element>) {
        let elements: Vec<Element> = elements.collect();
        if !elements.is_empty() {
            self.push(Command::AddElements(set, elements));
        }
    }

    pub(super) fn delete_elements(
        &mut self,
        set: SetName,
        elements: impl Iterator<Item = Element>,
    ) {
        let elements: Vec<Element> = elements.collect();
        if !elements.is_empty() {
            self.push(Command::DeleteElements(set, elements));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// For the kernel, with the number of the last message of each command.
    pub(super) fn encode(&self) -> (Batch, Vec<u32>) {
        let mut encoder = Encoder::new(self.table.name());
        let mut ends = Vec::with_capacity(self.commands.len());
        for command in &self.commands {
            encoder.command(command);
            ends.push(encoder.count());
        }
        (encoder.finish(), ends)
    }

    /// A command as a line.
    pub(super) fn line(&self, index: usize) -> Option<String> {
        let command = self.commands.get(index)?;
        Some(Line(&self.table, command).to_string())
    }
}

/// One line for each command, which `nft` would understand.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for command in &self.commands {
            writeln!(f, "{}", Line(&self.table, command))?;
        }
        Ok(())
    }
}

struct Line<'a>(&'a Table, &'a Command);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(table, command) = self;
        match command {
            Command::AddTable => write!(f, "add table {table}"),
            Command::DeleteTable => write!(f, "delete table {table}"),
            Command::AddChain { chain, comment } => {
                write!(f, "add chain {table} {chain}")?;
                match comment {
                    Some(comment) => write!(f, " {{ comment \"{comment}\"; }}"),
                    None => Ok(()),
                }
            }
            Command::AddHook { chain, priority } => write!(
                f,
                "add chain {table} {chain} {{ type filter hook forward priority {priority}; policy accept; }}"
            ),
            Command::FlushChain(chain) => write!(f, "flush chain {table} {chain}"),
            Command::DeleteChain(chain) => write!(f, "delete chain {table} {chain}"),
            Command::AddRule(chain, rule) => write!(f, "add rule {table} {chain} {rule}"),
            Command::AddSet(set, of) => {
                let sort = if of.is_map { "map" } else { "set" };
                write!(f, "add {sort} {table} {set} {{ {of} }}")
            }
            Command::DeleteSet(set) => write!(f, "delete set {table} {set}"),
            Command::DeleteMap(map) => write!(f, "delete map {table} {map}"),
            Command::FlushSet(set) => write!(f, "flush set {table} {set}"),
            Command::AddElements(set, elements) => {
                write!(f, "add element {table} {set} {}", Braced(elements))
            }
            Command::DeleteElements(set, elements) => {
                write!(f, "delete element {table} {set} {}", Braced(elements))
            }
        }
    }
}
