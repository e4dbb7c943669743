//! Feature gates: what is on, what is off, and what an operator may change.

/// The state of every feature gate of one server.
#[derive(Debug, Clone, Default)]
pub struct Gates {}
