//! Label selectors: which objects a set of requirements on labels picks.
//!
//! [`Selector`] is what everything matches with; it comes from text (`app=web,tier in (a,b)`) or from the
//! [`LabelSelector`] that objects carry. Its [`Requirement`]s are public, because indexes and watch triggers
//! are built on them. Matching allocates nothing.

mod api;
mod lexer;
mod parser;
mod requirement;
mod selector;
mod set;

pub use api::{
    LabelSelector, LabelSelectorRequirement, SelectorError, ValidationOptions, validate_labels,
};
pub use parser::{ParseError, RequirementError};
pub use requirement::{Operator, Requirement};
pub use selector::Selector;
pub use set::Labels;

/// The longest selector text that is parsed: as long as upstream's HTTP server lets a request line be.
pub const SELECTOR_MAX_BYTES: usize = 1 << 20;

/// The most requirements one selector may have.
///
/// Upstream has no such limit. Each requirement costs a lookup for each object, so without one a single
/// request of a megabyte could keep a server busy for minutes.
pub const REQUIREMENTS_MAX: usize = 4096;
