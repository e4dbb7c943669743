//! Errors of webhook calls, worded like upstream's.

use rhumb_meta::gotext::quote;
use thiserror::Error;

/// Why a webhook call failed. The text is shown to the client whose request is rejected because of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookCallError {
    /// The timeout expired, in whatever stage the call was.
    #[error("Post {}: context deadline exceeded", quote(url))]
    DeadlineExceeded { url: String },
    /// The connection could not be established, or broke before the response began.
    #[error("Post {}: {cause}", quote(url))]
    Connection { url: String, cause: String },
    /// The server responded with a status code other than success.
    #[error("{text}")]
    ErrorResponse { code: u16, text: String },
    /// The response body was truncated, too long or empty.
    #[error("{0}")]
    InvalidBody(String),
    /// The CA bundle or the system's root certificates could not be loaded.
    #[error("unable to load root certificates: {0}")]
    CaBundle(String),
}

impl WebhookCallError {
    /// The status code that upstream's metrics record for this error: the server's own, or 503.
    pub fn metrics_code(&self) -> u16 {
        match self {
            WebhookCallError::ErrorResponse { code, .. } => *code,
            _ => 503,
        }
    }
}
