//! What objects of a resource count for.

use rhumb_api::Object;

use crate::{Amounts, Charge, Name};

/// Knows what the objects of one resource use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// What counts each object, such as `count/jobs.batch`, and the older name of the same where there is one.
    counts: Vec<Name>,
}

impl Meter {
    /// How the objects of a resource are measured; `None` for those that no quota looks at.
    pub fn of(_group: &str, _plural: &str) -> Option<Meter> {
        None
    }

    /// Whether a quota for this name is one for these objects.
    pub fn covers(&self, name: &str) -> bool {
        self.counts.iter().any(|count| count == name)
    }

    /// What an object counts for.
    pub fn measure(&self, _object: &Object) -> Charge {
        Charge::default()
    }

    /// The same, of an object in JSON.
    pub fn measure_json(&self, json: &[u8]) -> Result<Charge, serde_json::Error> {
        Ok(self.measure(&serde_json::from_slice(json)?))
    }

    /// What is said of an object that must name amounts for these resources and does not.
    pub fn missing(&self, _required: &Amounts, _object: &Object) -> Option<String> {
        None
    }

    /// Whether an update of an object, or of this part of it, may cost more than before.
    pub fn minds_update(&self, _subresource: &str, _old: &Object, _new: &Object) -> bool {
        false
    }
}
