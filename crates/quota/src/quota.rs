//! A quota as it was written.

use rhumb_api::Object;
use serde_json::Value;

use crate::{Amounts, Name, Requirement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    pub name: Box<str>,
    pub hard: Amounts,
    /// What an object must be to be counted: all of these.
    pub scopes: Vec<Requirement>,
}

impl Quota {
    /// Amounts that cannot be read are left out: validation lets none in.
    pub fn parse(object: &Object) -> Quota {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().into();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let hard = spec["hard"].as_object();
        let hard = hard.into_iter().flatten();
        Quota {
            name: text(object.get("metadata").map(|metadata| &metadata["name"])),
            hard: hard
                .filter_map(|(name, amount)| {
                    let amount = rhumb_meta::Quantity::from_json(amount).ok()?;
                    Some((Name::from(name.clone()), amount))
                })
                .collect(),
            scopes: Requirement::all_of(spec),
        }
    }

    /// Whether both count the same things of the same objects, whatever they allow.
    pub fn counts_as(&self, other: &Quota) -> bool {
        self.scopes == other.scopes && self.hard.names().eq(other.hard.names())
    }
}
