//! Field selectors such as `spec.nodeName=a,status.phase!=Running` (upstream: `k8s.io/apimachinery/pkg/fields`).
//!
//! Each kind defines its selectable fields. A field that an object does not have has the empty value.

mod escape;
mod parser;
mod selector;

pub use crate::labels::Labels as Fields;
pub use escape::{UnescapeError, escape, unescape};
pub use parser::FieldSelectorParseError;
pub use selector::{Operator, Requirement, Selector};
