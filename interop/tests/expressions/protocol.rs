//! What the Go program is asked and what it answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Where the program is, below this package.
pub(crate) const SOURCE: &str = "expressions";

/// Everything that is the same for all questions.
#[derive(Debug, Deserialize)]
pub(crate) struct World {
    pub(crate) inputs: Value,
    pub(crate) variables: Vec<Variable>,
    pub(crate) authorizer: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) expression: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Question {
    pub(crate) expression: String,
    pub(crate) want: String,
    pub(crate) params: bool,
    pub(crate) patches: bool,
    pub(crate) variables: Vec<Variable>,
    pub(crate) inputs: Value,
    pub(crate) authorizer: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) compile: String,
    pub(crate) error: String,
    pub(crate) value: Value,
    pub(crate) r#type: String,
    pub(crate) cost: u64,
}
