//! Converts objects to canonical form, as Go's encoder would write them: empty `omitempty` fields are removed, fields
//! that are always written are added, and quantities and times are normalized.

use serde_json::Value;

use crate::decode::{
    canonical_micro_time, canonical_quantity, canonical_time, float, is_plainly_canonical_quantity,
    is_plainly_canonical_time, zero,
};
use crate::{Field, FieldEmission, Object, ObjectType, Table, TypeId, ValueType};

/// Converts an object to canonical form in place. Unknown fields are left unchanged.
pub fn canonicalize(table: &Table, type_id: TypeId, object: &mut Object) {
    let object_type = table.get(type_id);
    let mut always_written = 0;
    let mut has_omitted = false;
    for (name, value) in object.iter_mut() {
        if let Some(field) = object_type.field(name) {
            canonicalize_field(table, field, value);
            always_written += usize::from(field.emission == FieldEmission::Always);
            has_omitted |= is_omitted(field, value);
        }
    }
    // Most objects are already canonical.
    if has_omitted {
        remove_omitted(object_type, object);
    }
    if always_written < object_type.always_written {
        add_always_written(table, object_type, object);
    }
}

/// Removes the fields that Go omits.
pub(crate) fn remove_omitted(object_type: &ObjectType, object: &mut Object) {
    let omitted = |name: &str, value: &Value| {
        let field = object_type.field(name);
        field.is_some_and(|field| is_omitted(field, value))
    };
    object.retain(|name, value| !omitted(name, value));
}

/// Adds the absent fields that are always written.
pub(crate) fn add_always_written(table: &Table, object_type: &ObjectType, object: &mut Object) {
    for field in &object_type.fields {
        if field.emission == FieldEmission::Always && !object.contains_key(&*field.name) {
            object.insert((*field.name).to_owned(), zero_or_null(table, field));
        }
    }
}

#[inline]
fn canonicalize_field(table: &Table, field: &Field, value: &mut Value) {
    if may_be_noncanonical(&field.value_type) {
        canonicalize_value(table, &field.value_type, value);
    }
    replace_empty(table, field, value);
}

/// Replaces a null or empty value of an always-written field by what Go writes; returns whether it did.
#[inline]
pub(crate) fn replace_empty(table: &Table, field: &Field, value: &mut Value) -> bool {
    if field.emission != FieldEmission::Always {
        return false;
    }
    if value.is_null() {
        *value = zero_or_null(table, field);
    } else if !field.pointer && is_empty_collection(&field.value_type, value) {
        *value = Value::Null;
    } else {
        return false;
    }
    true
}

/// Whether a value of this type can be in non-canonical form.
#[inline]
pub(crate) fn may_be_noncanonical(value_type: &ValueType) -> bool {
    !matches!(
        value_type,
        ValueType::String
            | ValueType::Bool
            | ValueType::Int32
            | ValueType::Int64
            | ValueType::Bytes
            | ValueType::IntOrString
            | ValueType::Duration
            | ValueType::Any
    )
}

/// Whether Go omits a field with that value.
#[inline]
pub(crate) fn is_omitted(field: &Field, value: &Value) -> bool {
    let omits = field.emission == FieldEmission::OmitEmpty;
    omits && (value.is_null() || !field.pointer && is_empty(value))
}

/// Upstream's storage encoding does not distinguish an empty list or map from an absent one.
fn is_empty_collection(value_type: &ValueType, value: &Value) -> bool {
    matches!(value_type, ValueType::List(_) | ValueType::Map(_)) && is_empty(value)
}

/// The value that Go writes for an absent field that is always written.
fn zero_or_null(table: &Table, field: &Field) -> Value {
    if field.pointer {
        Value::Null
    } else {
        canonical_zero(table, &field.value_type)
    }
}

/// The zero value, including always-written nested fields.
pub(crate) fn canonical_zero(table: &Table, value_type: &ValueType) -> Value {
    let mut value = zero(value_type);
    if let (ValueType::Object(id), Value::Object(object)) = (value_type, &mut value) {
        canonicalize(table, *id, object);
    }
    value
}

pub(crate) fn canonicalize_value(table: &Table, value_type: &ValueType, value: &mut Value) {
    match (value_type, value) {
        (
            ValueType::Object(id)
            | ValueType::SchemaOrBool(id)
            | ValueType::SchemaOrArray(id)
            | ValueType::SchemaOrStringArray(id),
            Value::Object(object),
        ) => canonicalize(table, *id, object),
        (ValueType::SchemaOrArray(id), Value::Array(items)) => {
            for item in items {
                canonicalize_item(table, &ValueType::Object(*id), item);
            }
        }
        (ValueType::List(list_schema), Value::Array(list)) => {
            for item in list {
                canonicalize_item(table, &list_schema.item_type, item);
            }
        }
        (ValueType::Map(values), Value::Object(map)) => {
            for value in map.values_mut() {
                canonicalize_item(table, values, value);
            }
        }
        (ValueType::Quantity, value) => match value {
            Value::String(text) if is_plainly_canonical_quantity(text) => {}
            Value::String(text) => replace(text, canonical_quantity),
            Value::Number(number) => {
                if let Ok(canonical) = canonical_quantity(&number.to_string()) {
                    *value = Value::String(canonical);
                }
            }
            _ => {}
        },
        (ValueType::Time, Value::String(text)) if is_plainly_canonical_time(text) => {}
        (ValueType::Time, Value::String(text)) => replace(text, canonical_time),
        (ValueType::MicroTime, Value::String(text)) => replace(text, canonical_micro_time),
        (ValueType::Float64, value @ Value::Number(_)) => {
            if let Some(number) = value.as_f64() {
                *value = float(number);
            }
        }
        _ => {}
    }
}

/// In a list or map, null is the zero value.
#[inline]
fn canonicalize_item(table: &Table, value_type: &ValueType, item: &mut Value) {
    if item.is_null() {
        *item = canonical_zero(table, value_type);
    } else if may_be_noncanonical(value_type) {
        canonicalize_value(table, value_type, item);
    }
}

fn replace(text: &mut String, canonical: fn(&str) -> Result<String, String>) {
    if let Ok(canonical) = canonical(text) {
        *text = canonical;
    }
}

pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(type_name: &str, value: Value, expect: &Value) {
        let table = Table::builtin();
        let id = table.type_id(type_name).expect(type_name);
        let Value::Object(mut object) = value else {
            panic!("an object is expected");
        };
        canonicalize(table, id, &mut object);
        assert_eq!(&Value::Object(object), expect);
    }

    #[test]
    fn always_written_fields_are_added() {
        let empty = json!({"metadata": {}, "spec": {"containers": null}, "status": {}});
        check("io.k8s.api.core.v1.Pod", json!({}), &empty);
        check(
            "io.k8s.api.core.v1.Pod",
            json!({"spec": {"containers": [{"name": "a"}]}}),
            &json!({
                "metadata": {},
                "spec": {"containers": [{"name": "a", "resources": {}}]},
                "status": {},
            }),
        );
        check(
            "io.k8s.api.apps.v1.Deployment",
            json!({}),
            &json!({
                "metadata": {},
                "spec": {
                    "selector": null,
                    "strategy": {},
                    "template": {"metadata": {}, "spec": {"containers": null}},
                },
                "status": {},
            }),
        );
    }

    #[test]
    fn empty_omitempty_fields_are_removed() {
        check(
            "io.k8s.api.core.v1.Pod",
            json!({
                "metadata": {
                    "name": "a", "labels": {}, "finalizers": [], "generation": 0, "namespace": "",
                    "creationTimestamp": null, "deletionTimestamp": null,
                },
                "spec": {
                    "containers": [], "hostNetwork": false, "volumes": null,
                    "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                },
            }),
            &json!({
                "metadata": {"name": "a"},
                "spec": {
                    "containers": null, "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 0,
                },
                "status": {},
            }),
        );
    }

    #[test]
    fn an_empty_list_that_is_always_written_is_null() {
        check(
            "io.k8s.api.rbac.v1.Role",
            json!({"rules": []}),
            &json!({"metadata": {}, "rules": null}),
        );
    }

    #[test]
    fn quantities_and_times_are_canonicalized() {
        check(
            "io.k8s.api.core.v1.ResourceQuota",
            json!({
                "metadata": {"creationTimestamp": "2024-05-01T12:00:00.5+02:00"},
                "spec": {"hard": {"cpu": 0.5, "memory": "1024Ki", "pods": null}},
            }),
            &json!({
                "metadata": {"creationTimestamp": "2024-05-01T10:00:00Z"},
                "spec": {"hard": {"cpu": "500m", "memory": "1Mi", "pods": "0"}},
                "status": {},
            }),
        );
    }
}
