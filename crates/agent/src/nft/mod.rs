//! The ruleset of a node as an nftables table, and its transfer to the kernel. Entry point: [`KernelTable`].
//!
//! Everything is in one table. Two base chains on the forward hook look up the addresses of each packet in verdict maps
//! (`ingress4`, `egress4`, ...) that lead to the chain of a policy group (`g3-in`). It jumps to the chains of its
//! policies (`p7-in`) one after the other and drops packets that none of them accepts. Each of these chains has a
//! mirrored one for reply packets (`p7-in-re`).
//!
//! A ruleset or a delta becomes a list of commands (`command.rs`) that correspond to `nft` commands (`set_elements.rs`,
//! `rule_expressions.rs`); `encode/` turns them into netlink messages.

mod base_chains;
mod command;
mod connection;
mod encode;
mod error;
mod kernel_table;
mod names;
mod pod_cidr_ranges;
mod policy_rule_matches;
mod rule_expressions;
mod set_elements;
mod table_marker;
mod table_monitor;
mod table_scripts;
#[cfg(test)]
mod tests;
mod two_phase_update;

pub use command::NftScript;
pub use connection::NftablesConnection;
pub use error::NftablesError;
pub use kernel_table::{KernelTable, TableWriteOutcome};
pub use pod_cidr_ranges::PodCidrRanges;
pub use table_marker::TableMarker;
pub use table_monitor::ForeignTableChange;
pub use table_scripts::{InvalidTableName, NftTable};
