//! A parsed ResourceQuota: its name, `spec.hard` and scopes.

use rhumb_api::JsonObject;
use serde_json::Value;

use crate::{ResourceName, ResourceQuantities, ScopeRequirement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceQuota {
    pub name: Box<str>,
    pub hard: ResourceQuantities,
    /// Objects are counted if they match all of these.
    pub scopes: Vec<ScopeRequirement>,
}

impl ResourceQuota {
    /// Invalid quantities are skipped; validation does not admit any.
    pub fn parse(object: &JsonObject) -> ResourceQuota {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().into();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let hard = spec["hard"].as_object();
        let hard = hard.into_iter().flatten();
        ResourceQuota {
            name: text(object.get("metadata").map(|metadata| &metadata["name"])),
            hard: hard
                .filter_map(|(name, amount)| {
                    let amount = rhumb_meta::Quantity::from_json(amount).ok()?;
                    Some((ResourceName::from(name.clone()), amount))
                })
                .collect(),
            scopes: ScopeRequirement::all_of(spec),
        }
    }

    /// Whether both count the same names and scopes, regardless of their limits.
    pub fn tracks_same_as(&self, other: &ResourceQuota) -> bool {
        self.scopes == other.scopes && self.hard.names().eq(other.hard.names())
    }
}
