//! Questions and answers as they travel to the Go program and back.

use serde::{Deserialize, Serialize};

/// Where the Go program is.
pub(crate) const SOURCE: &str = "gotypes/oracle";

#[derive(Debug, Serialize)]
pub(crate) struct Question {
    pub(crate) op: &'static str,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// JSON, or a message in base64.
    pub(crate) input: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// A message in base64, or JSON.
    pub(crate) output: String,
    pub(crate) error: String,
}
