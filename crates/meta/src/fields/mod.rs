//! Field selectors: which objects a set of requirements on fields picks (`spec.nodeName=a,status.phase!=Running`).
//!
//! Which fields can be selected is up to each kind; a field an object lacks has the empty value.

mod escape;
mod parser;
mod selector;

pub use crate::labels::Labels as Fields;
pub use escape::{UnescapeError, escape, unescape};
pub use parser::ParseError;
pub use selector::{Operator, Requirement, Selector};
