//! What can go wrong, in the words that users of Kubernetes know.

use std::sync::Arc;

/// Why an expression cannot be used. Its text is upstream's.
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

/// Why an expression has no value. The texts are upstream's where upstream has the case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The expression itself failed; a part of it that nobody needs may fail without harm.
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
    /// The expressions that share the budget have used it up: none of them should be evaluated any more.
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

    /// Whether `||` and `&&` may go on as if nothing had happened.
    pub(crate) fn can_be_absorbed(&self) -> bool {
        matches!(self, EvaluationError::Failed(_))
    }
}

pub(crate) type Evaluated<T> = Result<T, EvaluationError>;
