//! Reconciliation of stored default roles and bindings (upstream: `reconciliation` of `component-helpers/auth/rbac`).

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::rbac::{PolicyRule, RbacKind, RoleRef, Subject, TooManyPermissions, uncovered};

/// The annotation that disables reconciliation of an object if its value is `false`.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const AGGREGATION_RULE: &str = "aggregationRule";

/// The write that one object needs.
#[derive(Debug, Clone, PartialEq)]
pub enum ReconcileAction {
    /// The object is complete, or reconciliation is disabled for it.
    Keep,
    Create(Map<String, Value>),
    Update(Map<String, Value>),
    /// Delete and create: the `roleRef` of a binding is immutable.
    Recreate(Map<String, Value>),
}

/// Compares an existing object with the expected one. Adds what is missing; keeps what others have added.
pub fn reconcile(
    kind: RbacKind,
    expected: &Map<String, Value>,
    existing: Option<&Map<String, Value>>,
) -> ReconcileAction {
    let Some(existing) = existing else {
        return ReconcileAction::Create(expected.clone());
    };
    if annotation(existing, AUTO_UPDATE) == Some("false") {
        return ReconcileAction::Keep;
    }
    let mut updated = existing.clone();
    for field in ["annotations", "labels"] {
        add_missing_entries(&mut updated, expected, field);
    }
    let is_same_role = match kind {
        RbacKind::ClusterRole | RbacKind::Role => {
            // The rules of an aggregated role follow from the roles that it selects, not from the default ones.
            if expected.get(AGGREGATION_RULE).is_none() {
                add_missing_rules(&mut updated, expected);
            }
            add_missing_selectors(&mut updated, expected);
            true
        }
        RbacKind::ClusterRoleBinding | RbacKind::RoleBinding => {
            add_missing_subjects(&mut updated, expected);
            field::<RoleRef>(existing, "roleRef") == field::<RoleRef>(expected, "roleRef")
        }
    };
    if !is_same_role {
        return ReconcileAction::Recreate(expected.clone());
    }
    match updated == *existing {
        true => ReconcileAction::Keep,
        false => ReconcileAction::Update(updated),
    }
}

fn annotation<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

/// Parses a field; the default if it is absent or invalid.
fn field<T: Default + for<'de> Deserialize<'de>>(object: &Map<String, Value>, name: &str) -> T {
    object
        .get(name)
        .and_then(|value| T::deserialize(value).ok())
        .unwrap_or_default()
}

fn add_missing_entries(
    updated: &mut Map<String, Value>,
    expected: &Map<String, Value>,
    name: &str,
) {
    let wanted = expected
        .get("metadata")
        .and_then(|it| it.get(name))
        .and_then(Value::as_object);
    let metadata = updated
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let (Some(wanted), Some(metadata)) = (wanted, metadata.as_object_mut()) else {
        return;
    };
    let entries = metadata
        .entry(name)
        .or_insert_with(|| Value::Object(Map::new()));
    if entries.is_null() {
        *entries = Value::Object(Map::new());
    }
    if let Some(entries) = entries.as_object_mut() {
        for (key, value) in wanted {
            // Existing values take precedence, as upstream.
            entries.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn add_missing_rules(updated: &mut Map<String, Value>, expected: &Map<String, Value>) {
    let held: Vec<PolicyRule> = field(updated, "rules");
    let wanted: Vec<PolicyRule> = field(expected, "rules");
    let missing: Result<_, TooManyPermissions> = uncovered(&held, &wanted);
    append(updated, "rules", missing.unwrap_or_default());
}

fn add_missing_selectors(updated: &mut Map<String, Value>, expected: &Map<String, Value>) {
    let Some(wanted) = expected.get(AGGREGATION_RULE).and_then(Value::as_object) else {
        updated.remove(AGGREGATION_RULE);
        return;
    };
    let held = updated
        .entry(AGGREGATION_RULE)
        .or_insert_with(|| Value::Object(Map::new()));
    if held.is_null() {
        *held = Value::Object(Map::new());
    }
    if let Some(held) = held.as_object_mut() {
        add_missing_values(held, wanted, "clusterRoleSelectors");
    }
}

fn add_missing_values(held: &mut Map<String, Value>, wanted: &Map<String, Value>, name: &str) {
    let has: Vec<Value> = field(held, name);
    let mut missing: Vec<Value> = field(wanted, name);
    missing.retain(|value| !has.contains(value));
    append(held, name, missing);
}

fn add_missing_subjects(updated: &mut Map<String, Value>, expected: &Map<String, Value>) {
    let has: Vec<Subject> = field(updated, "subjects");
    let mut missing: Vec<Subject> = field(expected, "subjects");
    missing.retain(|subject| !has.contains(subject));
    append(updated, "subjects", missing);
}

fn append<T: serde::Serialize>(object: &mut Map<String, Value>, name: &str, more: Vec<T>) {
    let more = more
        .into_iter()
        .filter_map(|it| serde_json::to_value(it).ok());
    let more: Vec<Value> = more.collect();
    if more.is_empty() {
        return;
    }
    match object.get_mut(name).and_then(Value::as_array_mut) {
        Some(values) => values.extend(more),
        None => {
            object.insert(name.to_owned(), Value::Array(more));
        }
    }
}

#[cfg(test)]
mod tests;
