//! What becomes of a call that brings no answer, in upstream's words.

use rhumb_meta::gotext::quote;
use thiserror::Error;

/// Why a call brought no answer. The text is for whoever is refused because of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The time was over, wherever the call was then.
    #[error("Post {}: context deadline exceeded", quote(url))]
    DeadlineExceeded { url: String },
    /// There was no connection, or it broke before the answer began.
    #[error("Post {}: {cause}", quote(url))]
    Connection { url: String, cause: String },
    /// The server answered, but not with success.
    #[error("{text}")]
    Answer { code: u16, text: String },
    /// The answer broke off, was too long, or was none.
    #[error("{0}")]
    Body(String),
    /// The certificates that the server should be held against are none.
    #[error("unable to load root certificates: {0}")]
    CaBundle(String),
}

impl CallError {
    /// The status code that upstream's metrics have for it: the server's own, or 503.
    pub fn code(&self) -> u16 {
        match self {
            CallError::Answer { code, .. } => *code,
            _ => 503,
        }
    }
}
