//! Sends the same requests to two servers and compares the responses field by field.
//!
//! The requests are defined in `interop/differential/cases/`, one file per topic, parsed by [`case`]. [`case_runner`]
//! sends the requests of a case. [`normalizer`] replaces values that differ between runs (UIDs, times, allocated
//! addresses) by placeholders, equal values by equal ones. [`diff`] compares the responses, [`expected_differences`]
//! lists the known differences, and [`recording`] stores the responses of kube-apiserver.

pub mod case;
pub mod case_runner;
pub mod diff;
pub mod expected_differences;
pub mod normalizer;
pub mod recording;
pub(crate) mod volatile_values;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The normalized response to one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalizedResponse {
    /// The number of the step and its request, as in the case.
    pub step: String,
    /// 0 if there was no response; the body is then the error.
    pub status: u16,
    pub headers: BTreeMap<String, Vec<String>>,
    pub body: Value,
}

/// The responses to all steps of each case, by `topic/case`.
pub type ResponsesByCase = BTreeMap<String, Vec<NormalizedResponse>>;
