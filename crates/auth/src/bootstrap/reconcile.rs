//! What of the first policy has to be written again.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::rbac::{Kind, PolicyRule, RoleRef, Subject, TooManyPermissions, uncovered};

/// Set to `false`, it keeps a server from adding to a role or binding what it thinks is missing.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What to do with one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Reconciled {
    /// It is as it should be, or it is not ours to touch.
    Keep,
    Create(Map<String, Value>),
    Update(Map<String, Value>),
    /// The role of a binding cannot change, so the old one has to go.
    Recreate(Map<String, Value>),
}

/// Compares what is there with what should be. What somebody added stays; what is missing is added.
pub fn reconcile(
    kind: Kind,
    expected: &Map<String, Value>,
    existing: Option<&Map<String, Value>>,
) -> Reconciled {
    let Some(existing) = existing else {
        return Reconciled::Create(expected.clone());
    };
    if annotation(existing, AUTO_UPDATE) == Some("false") {
        return Reconciled::Keep;
    }
    let mut updated = existing.clone();
    for field in ["annotations", "labels"] {
        add_missing_entries(&mut updated, expected, field);
    }
    let is_same_role = match kind {
        Kind::ClusterRole | Kind::Role => {
            add_missing_rules(&mut updated, expected);
            add_missing_selectors(&mut updated, expected);
            true
        }
        Kind::ClusterRoleBinding | Kind::RoleBinding => {
            add_missing_subjects(&mut updated, expected);
            field::<RoleRef>(existing, "roleRef") == field::<RoleRef>(expected, "roleRef")
        }
    };
    if !is_same_role {
        return Reconciled::Recreate(expected.clone());
    }
    match updated == *existing {
        true => Reconciled::Keep,
        false => Reconciled::Update(updated),
    }
}

fn annotation<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

/// A field in its own form; one that is absent or cannot be read is empty.
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
            // What is there wins, as upstream merges them.
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
    const NAME: &str = "aggregationRule";
    let Some(wanted) = expected.get(NAME).and_then(Value::as_object) else {
        updated.remove(NAME);
        return;
    };
    let held = updated
        .entry(NAME)
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
