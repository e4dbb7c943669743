//! The form in which upstream writes an object back: what Go leaves out is left out, what it always writes is
//! there, and quantities and times look as it prints them.

use serde_json::Value;

use crate::decode::{
    canonical_micro_time, canonical_quantity, canonical_time, float, is_plainly_canonical,
    is_plainly_canonical_time, zero,
};
use crate::{Emit, Field, Object, Shape, Table, Type, TypeId};

/// Brings an object into upstream's form. Fields that the schema does not know stay as they are.
pub fn conform(table: &Table, of: TypeId, object: &mut Object) {
    let of = table.get(of);
    let mut always_written = 0;
    let mut surplus = false;
    for (name, value) in object.iter_mut() {
        if let Some(field) = of.field(name) {
            conform_field(table, field, value);
            always_written += usize::from(field.emit == Emit::Always);
            surplus |= is_left_out(field, value);
        }
    }
    // An object that was read or written before is usually in this form already.
    if surplus {
        leave_out(of, object);
    }
    if always_written < of.always_written {
        add_unset(table, of, object);
    }
}

/// Removes the fields that are not written at all.
pub(crate) fn leave_out(of: &Type, object: &mut Object) {
    let left_out = |name: &str, value: &Value| {
        let field = of.field(name);
        field.is_some_and(|field| is_left_out(field, value))
    };
    object.retain(|name, value| !left_out(name, value));
}

pub(crate) fn add_unset(table: &Table, of: &Type, object: &mut Object) {
    for field in &of.fields {
        if field.emit == Emit::Always && !object.contains_key(&*field.name) {
            object.insert((*field.name).to_owned(), unset(table, field));
        }
    }
}

#[inline]
fn conform_field(table: &Table, field: &Field, value: &mut Value) {
    if has_form(&field.shape) {
        conform_value(table, &field.shape, value);
    }
    fill_in(table, field, value);
}

/// Says what is written for a field that is always written and says nothing. Answers whether it was one.
#[inline]
pub(crate) fn fill_in(table: &Table, field: &Field, value: &mut Value) -> bool {
    if field.emit != Emit::Always {
        return false;
    }
    if value.is_null() {
        *value = unset(table, field);
    } else if !field.pointer && is_empty_collection(&field.shape, value) {
        *value = Value::Null;
    } else {
        return false;
    }
    true
}

/// Whether a value can be of that shape and not yet in upstream's form.
#[inline]
pub(crate) fn has_form(shape: &Shape) -> bool {
    !matches!(
        shape,
        Shape::String
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Bytes
            | Shape::IntOrString
            | Shape::Duration
            | Shape::Any
    )
}

/// Whether a field with that value is not written at all.
#[inline]
pub(crate) fn is_left_out(field: &Field, value: &Value) -> bool {
    let omits = field.emit == Emit::UnlessEmpty;
    omits && (value.is_null() || !field.pointer && is_empty(value))
}

/// Upstream's store does not tell an empty list or map from none.
fn is_empty_collection(shape: &Shape, value: &Value) -> bool {
    matches!(shape, Shape::List(_) | Shape::Map(_)) && is_empty(value)
}

/// What is written for a field that has no value.
fn unset(table: &Table, field: &Field) -> Value {
    if field.pointer {
        Value::Null
    } else {
        whole_zero(table, &field.shape)
    }
}

/// The zero value with all that is always written.
pub(crate) fn whole_zero(table: &Table, shape: &Shape) -> Value {
    let mut value = zero(shape);
    if let (Shape::Object(id), Value::Object(object)) = (shape, &mut value) {
        conform(table, *id, object);
    }
    value
}

pub(crate) fn conform_value(table: &Table, shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (
            Shape::Object(id) | Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id),
            Value::Object(object),
        ) => conform(table, *id, object),
        (Shape::OrList(id), Value::Array(items)) => {
            for item in items {
                conform_item(table, &Shape::Object(*id), item);
            }
        }
        (Shape::List(items), Value::Array(list)) => {
            for item in list {
                conform_item(table, &items.shape, item);
            }
        }
        (Shape::Map(values), Value::Object(map)) => {
            for value in map.values_mut() {
                conform_item(table, values, value);
            }
        }
        (Shape::Quantity, value) => match value {
            Value::String(text) if is_plainly_canonical(text) => {}
            Value::String(text) => replace(text, canonical_quantity),
            Value::Number(number) => {
                if let Ok(canonical) = canonical_quantity(&number.to_string()) {
                    *value = Value::String(canonical);
                }
            }
            _ => {}
        },
        (Shape::Time, Value::String(text)) if is_plainly_canonical_time(text) => {}
        (Shape::Time, Value::String(text)) => replace(text, canonical_time),
        (Shape::MicroTime, Value::String(text)) => replace(text, canonical_micro_time),
        (Shape::Float64, value @ Value::Number(_)) => {
            if let Some(number) = value.as_f64() {
                *value = float(number);
            }
        }
        _ => {}
    }
}

/// In a list or map, null is the zero value.
#[inline]
fn conform_item(table: &Table, shape: &Shape, item: &mut Value) {
    if item.is_null() {
        *item = whole_zero(table, shape);
    } else if has_form(shape) {
        conform_value(table, shape, item);
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

    fn check(of: &str, value: Value, expect: &Value) {
        let table = Table::builtin();
        let id = table.named(of).expect(of);
        let Value::Object(mut object) = value else {
            panic!("an object is expected");
        };
        conform(table, id, &mut object);
        assert_eq!(&Value::Object(object), expect);
    }

    #[test]
    fn what_go_always_writes_is_there() {
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
    fn what_is_empty_is_left_out_where_go_leaves_it_out() {
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
    fn quantities_and_times_look_as_upstream_prints_them() {
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
