//! The rules of a node as nftables has them: text for the program `nft`, and how it is run.
//!
//! All of it is in one table. Two chains that every forwarded packet goes through look up its addresses in maps
//! (`ingress4`, `egress4`, ...) that lead to the chain of a group (`g3-in`), which asks the chains of its policies
//! (`p7-in`) in turn and drops what none of them accepts. Each of these chains has a mirrored one for replies
//! (`p7-in-re`).

mod base;
mod error;
mod held;
mod kernel;
mod marker;
mod names;
mod phases;
mod rules;
mod run;
mod script;
mod table;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use held::Held;
pub use kernel::{Kernel, Written};
pub use marker::Marker;
pub use run::Nft;
pub use table::{NotAName, Table};
