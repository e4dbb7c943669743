//! Requests and responses of the Go oracle program.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The directory of the oracle program, relative to this package.
pub(crate) const SOURCE: &str = "expressions";

/// The inputs shared by all expressions (`inputs.json`).
#[derive(Debug, Deserialize)]
pub(crate) struct CelTestInputs {
    pub(crate) inputs: Value,
    pub(crate) variables: Vec<CelVariable>,
    pub(crate) authorizer: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CelVariable {
    pub(crate) name: String,
    pub(crate) expression: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct OracleRequest {
    pub(crate) expression: String,
    pub(crate) want: String,
    pub(crate) params: bool,
    pub(crate) patches: bool,
    pub(crate) variables: Vec<CelVariable>,
    pub(crate) inputs: Value,
    pub(crate) authorizer: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OracleResponse {
    pub(crate) compile: String,
    pub(crate) error: String,
    pub(crate) value: Value,
    pub(crate) r#type: String,
    pub(crate) cost: u64,
}
