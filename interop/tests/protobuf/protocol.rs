//! Requests to and responses of the Go program.

use serde::{Deserialize, Serialize};

/// Directory of the Go program.
pub(crate) const SOURCE: &str = "gotypes/oracle";

#[derive(Debug, Serialize)]
pub(crate) struct OracleRequest {
    pub(crate) op: &'static str,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// JSON, or a protobuf message in base64.
    pub(crate) input: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OracleResponse {
    /// A protobuf message in base64, or JSON.
    pub(crate) output: String,
    pub(crate) error: String,
}
