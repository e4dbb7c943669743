//! Encodes commands as nftables netlink messages, and decodes notifications.
//!
//! The constants are from the kernel's `nf_tables.h`, and from `nft` for the user data that it stores in the kernel:
//! with it, `nft list` displays the rules like its own.

mod rules;
mod sets;

use super::command::NftCommand;
use super::names::ChainName;
use crate::netlink::{
    APPEND, CREATE, NFTABLES, NetlinkBatch, NetlinkGetRequest, NetlinkMessage, NetlinkWriter,
};

/// NFPROTO_INET: tables that see IPv4 and IPv6 packets.
const INET: u8 = 1;

/// Message types (NFT_MSG_*).
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
    /// Notification: end of a transaction.
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
    /// Attributes nested in HOOK, and their values.
    pub(super) const HOOK_NUMBER: u16 = 1;
    pub(super) const HOOK_PRIORITY: u16 = 2;
    pub(super) const FORWARD: u32 = 2;
    pub(super) const ACCEPT: u32 = 1;
    /// User data of nft: type, length and text.
    pub(super) const COMMENT: u8 = 0;
}

/// Encodes commands for one table into a batch.
#[derive(Debug)]
pub(super) struct NftBatchEncoder<'a> {
    table: &'a str,
    batch: NetlinkBatch,
    /// The last id that was given to a set of this batch; rules refer to anonymous sets by id.
    last_set_id: u32,
}

impl<'a> NftBatchEncoder<'a> {
    pub(super) fn new(table: &'a str) -> NftBatchEncoder<'a> {
        NftBatchEncoder {
            table,
            batch: NetlinkBatch::new(INET),
            last_set_id: 0,
        }
    }

    /// The number of messages so far.
    pub(super) fn count(&self) -> u32 {
        self.batch.count()
    }

    pub(super) fn finish(self) -> NetlinkBatch {
        self.batch
    }

    pub(super) fn command(&mut self, command: &NftCommand) {
        match command {
            NftCommand::AddTable => self.table(message::NEW_TABLE, CREATE),
            NftCommand::DeleteTable => self.table(message::DELETE_TABLE, 0),
            NftCommand::AddChain { chain, comment } => self.add_chain(*chain, comment.as_deref()),
            NftCommand::AddBaseChain { chain, priority } => self.add_hook(*chain, *priority),
            NftCommand::DeleteChain(chain) => self.chain(message::DELETE_CHAIN, 0, *chain, |_| {}),
            NftCommand::FlushChain(chain) => {
                let table = self.table;
                self.batch.message(message::DELETE_RULE, 0, |writer| {
                    writer.text(rules::TABLE, table);
                    writer.text(rules::CHAIN, chain);
                });
            }
            NftCommand::AddRule(chain, rule) => self.add_rule(*chain, rule),
            NftCommand::AddSet(set, of) => self.add_set(*set, of),
            NftCommand::DeleteSet(set) | NftCommand::DeleteMap(set) => self.delete_set(*set),
            NftCommand::FlushSet(set) => self.flush_set(*set),
            NftCommand::AddElements(set, elements) => {
                self.elements(message::NEW_ELEMENTS, CREATE, set, None, elements);
            }
            NftCommand::DeleteElements(set, elements) => {
                self.elements(message::DELETE_ELEMENTS, 0, set, None, elements);
            }
        }
    }

    fn table(&mut self, kind: u8, flags: u16) {
        let name = self.table;
        self.batch
            .message(kind, flags, |writer| writer.text(table::NAME, name));
    }

    fn chain(
        &mut self,
        kind: u8,
        flags: u16,
        chain: ChainName,
        more: impl FnOnce(&mut NetlinkWriter),
    ) {
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
                // Cannot overflow: comments have at most 127 characters.
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

    fn rule(&mut self, chain: ChainName, body: impl FnOnce(&mut NetlinkWriter)) {
        let table = self.table;
        self.batch
            .message(message::NEW_RULE, CREATE | APPEND, |writer| {
                writer.text(rules::TABLE, table);
                writer.text(rules::CHAIN, chain);
                body(writer);
            });
    }
}

/// A query for the table.
pub(super) fn get_table_request(name: &str) -> NetlinkGetRequest {
    NetlinkGetRequest::get(message::GET_TABLE, INET, |writer| {
        writer.text(table::NAME, name);
    })
}

/// The multicast group of nftables notifications, as a bit mask.
pub(super) const NFTABLES_MULTICAST_GROUP: u32 = 1 << 6;

/// What a notification says about the agent's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NftNotification {
    /// End of a transaction.
    TransactionDone,
    /// The table was deleted.
    Deleted,
    /// Something in the table changed.
    Changed,
    /// It is about another table or subsystem.
    Unrelated,
}

/// Classifies a notification. Each notification about an object begins with the name of its table.
pub(super) fn classify_event(message: &NetlinkMessage<'_>, table: &str) -> NftNotification {
    let [kind, subsystem] = message.kind.to_le_bytes();
    if subsystem != NFTABLES {
        return NftNotification::Unrelated;
    }
    if kind == message::NEW_GENERATION {
        return NftNotification::TransactionDone;
    }
    let name = message.attributes().find(table::NAME);
    let name = name.and_then(|name| name.strip_suffix(&[0]));
    match message.family() == Some(INET) && name == Some(table.as_bytes()) {
        false => NftNotification::Unrelated,
        true if kind == message::DELETE_TABLE => NftNotification::Deleted,
        true => NftNotification::Changed,
    }
}

pub(super) use sets::{dump_elements_request, first_key};
