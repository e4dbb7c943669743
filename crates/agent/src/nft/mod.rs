//! The rules of a node as nftables has them, and how the kernel is told.
//!
//! All of it is in one table. Two chains that every forwarded packet goes through look up its addresses in maps
//! (`ingress4`, `egress4`, ...) that lead to the chain of a group (`g3-in`), which asks the chains of its policies
//! (`p7-in`) in turn and drops what none of them accepts. Each of these chains has a mirrored one for replies
//! (`p7-in-re`).
//!
//! A program or a change is a list of commands (`command.rs`), in terms that `nft` has words for (`elements.rs`,
//! `expressions.rs`); `encode/` makes messages of them.

mod base;
mod command;
mod connection;
mod elements;
mod encode;
mod error;
mod expressions;
mod held;
mod kernel;
mod marker;
mod names;
mod others;
mod phases;
mod rules;
mod table;
#[cfg(test)]
mod tests;

pub use command::Script;
pub use connection::Connection;
pub use error::Error;
pub use held::Held;
pub use kernel::{Kernel, Written};
pub use marker::Marker;
pub use others::News;
pub use table::{NotAName, Table};
