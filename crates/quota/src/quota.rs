//! A parsed ResourceQuota: its name, `spec.hard` and scopes; and the status of one.

use rhumb_api::JsonObject;
use serde_json::{Value, json};

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

/// The status of a quota with this usage; `None` if the quota has it already.
pub fn updated_status(quota: &JsonObject, used: &ResourceQuantities) -> Option<Value> {
    let hard = quota.get("spec").map_or(&Value::Null, |spec| &spec["hard"]);
    let hard = if hard.is_object() {
        hard.clone()
    } else {
        json!({})
    };
    let status = json!({"hard": hard, "used": used.to_json()});
    let is_same = |field: &str| {
        let old = quota.get("status").map_or(&Value::Null, |old| &old[field]);
        old == &status[field] || (old.is_null() && status[field] == json!({}))
    };
    (!is_same("hard") || !is_same("used")).then_some(status)
}
