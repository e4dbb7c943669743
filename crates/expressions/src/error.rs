//! Errors of compilation and evaluation, with upstream's messages.

use std::sync::Arc;

/// Why an expression does not compile, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CompileError {
    text: String,
}

impl CompileError {
    pub(crate) fn new(text: String) -> CompileError {
        CompileError { text }
    }
}

/// Why the evaluation failed. The messages are upstream's where upstream has the case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The expression itself failed; `||`, `&&` and quantifiers absorb this error.
    #[error("{0}")]
    Failed(Arc<str>),
    #[error("operation cancelled: actual cost limit exceeded")]
    CostExceeded,
    #[error("operation interrupted")]
    Interrupted,
    #[error("operation cancelled: values too large")]
    TooLarge,
    #[error("operation cancelled: evaluation nested too deeply")]
    TooDeep,
    /// The shared budget is used up: no further expression should be evaluated.
    #[error(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )]
    OutOfBudget,
}

impl EvaluationError {
    pub(crate) fn new(message: impl Into<Arc<str>>) -> EvaluationError {
        EvaluationError::Failed(message.into())
    }

    pub(crate) fn no_overload() -> EvaluationError {
        EvaluationError::new("no such overload")
    }

    pub(crate) fn is_no_overload(&self) -> bool {
        matches!(self, EvaluationError::Failed(text) if &**text == "no such overload")
    }

    /// Whether `||`, `&&` and quantifiers absorb the error.
    pub(crate) fn can_be_absorbed(&self) -> bool {
        matches!(self, EvaluationError::Failed(_))
    }
}

pub(crate) type EvaluationResult<T> = Result<T, EvaluationError>;
