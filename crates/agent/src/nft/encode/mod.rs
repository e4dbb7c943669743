//! Commands as messages for the kernel.
//!
//! The numbers are those of the kernel's `nf_tables.h`, and of the program `nft` where it keeps something in the kernel
//! for itself: with these it shows rules as it would its own.

mod rules;
mod sets;

use super::command::Command;
use super::names::ChainName;
use crate::netlink::{APPEND, Batch, CREATE, Message, NFTABLES, Request, Writer};

/// The family of tables that see packets of both.
const INET: u8 = 1;

/// What a message asks for.
mod message {
    pub(super) const NEW_TABLE: u8 = 0;
    pub(super) const GET_TABLE: u8 = 1;
    pub(super) const DELETE_TABLE: u8 = 2;
    pub(super) const NEW_CHAIN: u8 = 3;
    pub(super) const DELETE_CHAIN: u8 = 5;
    pub(super) const NEW_RULE: u8 = 6;
    pub(super) const DELETE_RULE: u8 = 8;
    pub(super) const NEW_SET: u8 = 9;
    pub(super) const DELETE_SET: u8 = 11;
    pub(super) const NEW_ELEMENTS: u8 = 12;
    pub(super) const GET_ELEMENTS: u8 = 13;
    pub(super) const DELETE_ELEMENTS: u8 = 14;
    /// A transaction is done.
    pub(super) const NEW_GENERATION: u8 = 15;
}

/// Attributes of tables.
mod table {
    pub(super) const NAME: u16 = 1;
}

/// Attributes of chains.
mod chain {
    pub(super) const TABLE: u16 = 1;
    pub(super) const NAME: u16 = 3;
    pub(super) const HOOK: u16 = 4;
    pub(super) const POLICY: u16 = 5;
    pub(super) const TYPE: u16 = 7;
    pub(super) const USERDATA: u16 = 12;
    /// Within the hook.
    pub(super) const HOOK_NUMBER: u16 = 1;
    pub(super) const HOOK_PRIORITY: u16 = 2;
    pub(super) const FORWARD: u32 = 2;
    pub(super) const ACCEPT: u32 = 1;
    /// Within what nft keeps: a type, a length and a text.
    pub(super) const COMMENT: u8 = 0;
}

/// Writes a batch about one table.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    table: &'a str,
    batch: Batch,
    /// By which a set without a name is known in this batch.
    anonymous: u32,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(table: &'a str) -> Encoder<'a> {
        Encoder {
            table,
            batch: Batch::new(INET),
            anonymous: 0,
        }
    }

    /// How many messages there are.
    pub(super) fn count(&self) -> u32 {
        self.batch.count()
    }

    pub(super) fn finish(self) -> Batch {
        self.batch
    }

    pub(super) fn command(&mut self, command: &Command) {
        match command {
            Command::AddTable => self.table(message::NEW_TABLE, CREATE),
            Command::DeleteTable => self.table(message::DELETE_TABLE, 0),
            Command::AddChain { chain, comment } => self.add_chain(*chain, comment.as_deref()),
            Command::AddHook { chain, priority } => self.add_hook(*chain, *priority),
            Command::DeleteChain(chain) => self.chain(message::DELETE_CHAIN, 0, *chain, |_| {}),
            Command::FlushChain(chain) => {
                let table = self.table;
                self.batch.message(message::DELETE_RULE, 0, |writer| {
                    writer.text(rules::TABLE, table);
                    writer.text(rules::CHAIN, chain);
                });
            }
            Command::AddRule(chain, rule) => self.add_rule(*chain, rule),
            Command::AddSet(set, of) => self.add_set(*set, of),
            Command::DeleteSet(set) | Command::DeleteMap(set) => self.delete_set(*set),
            Command::FlushSet(set) => self.flush_set(*set),
            Command::AddElements(set, elements) => {
                self.elements(message::NEW_ELEMENTS, CREATE, set, None, elements);
            }
            Command::DeleteElements(set, elements) => {
                self.elements(message::DELETE_ELEMENTS, 0, set, None, elements);
            }
        }
    }

    fn table(&mut self, kind: u8, flags: u16) {
        let name = self.table;
        self.batch
            .message(kind, flags, |writer| writer.text(table::NAME, name));
    }

    fn chain(&mut self, kind: u8, flags: u16, chain: ChainName, more: impl FnOnce(&mut Writer)) {
        let table = self.table;
        self.batch.message(kind, flags, |writer| {
            writer.text(chain::TABLE, table);
            writer.text(chain::NAME, chain);
            more(writer);
        });
    }

    fn add_chain(&mut self, chain: ChainName, comment: Option<&str>) {
        self.chain(message::NEW_CHAIN, CREATE, chain, |writer| {
            let Some(comment) = comment else {
                return;
            };
            writer.value(chain::USERDATA, |bytes| {
                // A name that is too long for this is no comment.
                let length = u8::try_from(comment.len() + 1).unwrap_or(u8::MAX);
                bytes.extend([chain::COMMENT, length]);
                bytes.extend(comment.as_bytes());
                bytes.push(0);
            });
        });
    }

    fn add_hook(&mut self, chain: ChainName, priority: u32) {
        self.chain(message::NEW_CHAIN, CREATE, chain, |writer| {
            writer.nested(chain::HOOK, |writer| {
                writer.number(chain::HOOK_NUMBER, chain::FORWARD);
                writer.number(chain::HOOK_PRIORITY, priority);
            });
            writer.number(chain::POLICY, chain::ACCEPT);
            writer.text(chain::TYPE, "filter");
        });
    }

    fn rule(&mut self, chain: ChainName, body: impl FnOnce(&mut Writer)) {
        let table = self.table;
        self.batch
            .message(message::NEW_RULE, CREATE | APPEND, |writer| {
                writer.text(rules::TABLE, table);
                writer.text(rules::CHAIN, chain);
                body(writer);
            });
    }
}

/// Whether there is such a table.
pub(super) fn ask_for_table(name: &str) -> Request {
    Request::one(message::GET_TABLE, INET, |writer| {
        writer.text(table::NAME, name);
    })
}

/// The group that is told of what happens to tables, as a bit.
pub(super) const GROUP: u32 = 1 << 6;

/// What has happened, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// All that the transaction has done has been told.
    Done,
    /// The table that is asked about was deleted.
    Deleted,
    /// Something in it is other than before.
    Changed,
    /// It is about something else.
    Elsewhere,
}

/// Each message about an object begins with the name of its table.
pub(super) fn event(message: &Message<'_>, table: &str) -> Event {
    let [kind, subsystem] = message.kind.to_le_bytes();
    if subsystem != NFTABLES {
        return Event::Elsewhere;
    }
    if kind == message::NEW_GENERATION {
        return Event::Done;
    }
    let name = message.attributes().find(table::NAME);
    let name = name.and_then(|name| name.strip_suffix(&[0]));
    match message.family() == Some(INET) && name == Some(table.as_bytes()) {
        false => Event::Elsewhere,
        true if kind == message::DELETE_TABLE => Event::Deleted,
        true => Event::Changed,
    }
}

pub(super) use sets::{ask_for_elements, first_key};
