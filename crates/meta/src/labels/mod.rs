//! Label selectors (upstream: `k8s.io/apimachinery/pkg/labels` and `metav1.LabelSelector`).
//!
//! [`Selector`] matches labels; it is parsed from text (`app=web,tier in (a,b)`) or converted from the
//! [`LabelSelector`] field of an object. Its [`Requirement`]s are public for indexes and watch triggers. Matching does
//! not allocate.

mod label_selector;
mod lexer;
mod parser;
mod requirement;
mod selector;
mod set;

pub use label_selector::{
    LabelSelector, LabelSelectorError, LabelSelectorRequirement, LabelSelectorValidationOptions,
    validate_labels,
};
pub use parser::{LabelSelectorParseError, RequirementParseError};
pub use requirement::{Operator, Requirement};
pub use selector::Selector;
pub use set::Labels;

/// The maximum length of a selector text: the limit of upstream's HTTP server for a request line.
pub const SELECTOR_MAX_BYTES: usize = 1 << 20;

/// The maximum number of requirements of a selector.
///
/// Upstream has no limit. Each requirement costs a lookup for every object, so that without a limit a single request
/// of 1 MiB could keep the server busy for minutes.
pub const REQUIREMENTS_MAX: usize = 4096;
