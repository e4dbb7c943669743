//! The same requests to two servers, and every answer compared field by field.
//!
//! The requests are data, under `interop/differential/cases/`: one file a topic, read by [`case`]. [`play`]
//! sends those of a case; [`normal`] replaces what differs from run to run (identities, times, allocated
//! addresses) by placeholders that keep what is equal equal. [`diff`] finds what is left, [`expected`] knows
//! which differences are meant, and [`recording`] keeps the answers of the real server.

pub mod case;
pub mod diff;
pub mod expected;
pub mod normal;
pub mod play;
pub mod recording;
pub(crate) mod scan;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a server answered to one step, after everything was replaced that must differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The number of the step and its request, as the case has it.
    pub step: String,
    /// 0 when there was no answer at all; the body then says why.
    pub status: u16,
    pub headers: BTreeMap<String, Vec<String>>,
    pub body: Value,
}

/// The answers to all steps of each case, by `topic/case`.
pub type Answers = BTreeMap<String, Vec<Answer>>;
