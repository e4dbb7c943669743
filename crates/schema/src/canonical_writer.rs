//! Serializes objects as canonical JSON: canonicalizes and writes in a single pass.

use serde_json::Value;

use crate::canonicalize::{
    add_always_written, canonical_zero, canonicalize_value, is_omitted, may_be_noncanonical,
    remove_omitted, replace_empty,
};
use crate::json::{write, write_field, write_object, write_text};
use crate::{FieldEmission, Object, ObjectType, Table, TypeId, ValueType};

/// Writes the fields of one object as canonical JSON, in the order chosen by the caller.
#[derive(Debug)]
pub struct CanonicalWriter<'t> {
    table: &'t Table,
    object_type: &'t ObjectType,
}

impl<'t> CanonicalWriter<'t> {
    /// Adds the missing always-written fields to the object.
    pub fn new(table: &'t Table, type_id: TypeId, object: &mut Object) -> CanonicalWriter<'t> {
        let object_type = table.get(type_id);
        add_always_written(table, object_type, object);
        CanonicalWriter { table, object_type }
    }

    /// Appends `"name":value`. Appends nothing and returns false if Go omits the field.
    pub fn write_field(&self, name: &str, value: &mut Value, out: &mut Vec<u8>) -> bool {
        match self.object_type.position(name) {
            Some(position) => write_known_field(self.table, self.object_type, position, value, out),
            None => {
                write_field(name, value, out);
                true
            }
        }
    }

    /// Removes the fields that Go omits.
    pub fn remove_omitted(&self, object: &mut Object) {
        remove_omitted(self.object_type, object);
    }
}

/// Writes the field at a position of the type; returns false if Go omits it.
fn write_known_field(
    table: &Table,
    object_type: &ObjectType,
    position: usize,
    value: &mut Value,
    out: &mut Vec<u8>,
) -> bool {
    let field = &object_type.fields[position];
    let begin = out.len();
    out.extend_from_slice(object_type.encoded_keys.get(position));
    let begin_value = out.len();
    write_value(table, &field.value_type, value, out);
    if replace_empty(table, field, value) {
        out.truncate(begin_value);
        write(value, out);
        return true;
    }
    let is_written = !is_omitted(field, value);
    if !is_written {
        out.truncate(begin);
    }
    is_written
}

fn write_value(table: &Table, value_type: &ValueType, value: &mut Value, out: &mut Vec<u8>) {
    match (value_type, value) {
        (ValueType::Object(id), Value::Object(object)) => {
            write_canonical_object(table, *id, object, out);
        }
        (ValueType::List(list_schema), Value::Array(list)) => {
            out.push(b'[');
            for (index, item) in list.iter_mut().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_item(table, &list_schema.item_type, item, out);
            }
            out.push(b']');
        }
        (ValueType::Map(values), Value::Object(map)) => {
            out.push(b'{');
            for (index, (key, value)) in map.iter_mut().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write_item(table, values, value, out);
            }
            out.push(b'}');
        }
        (value_type, value) => {
            if may_be_noncanonical(value_type) {
                canonicalize_value(table, value_type, value);
            }
            write(value, out);
        }
    }
}

/// In a list or map, null is the zero value.
fn write_item(table: &Table, value_type: &ValueType, item: &mut Value, out: &mut Vec<u8>) {
    if item.is_null() {
        *item = canonical_zero(table, value_type);
        write(item, out);
    } else {
        write_value(table, value_type, item, out);
    }
}

fn write_canonical_object(table: &Table, type_id: TypeId, object: &mut Object, out: &mut Vec<u8>) {
    let object_type = table.get(type_id);
    let begin = out.len();
    let (mut always_written, mut has_omitted, mut is_first) = (0, false, true);
    out.push(b'{');
    for (name, value) in object.iter_mut() {
        let before = out.len();
        if !is_first {
            out.push(b',');
        }
        let is_written = match object_type.position(name) {
            None => {
                write_field(name, value, out);
                true
            }
            Some(position) => {
                always_written +=
                    usize::from(object_type.fields[position].emission == FieldEmission::Always);
                write_known_field(table, object_type, position, value, out)
            }
        };
        if is_written {
            is_first = false;
        } else {
            has_omitted = true;
            out.truncate(before);
        }
    }
    out.push(b'}');
    if has_omitted {
        remove_omitted(object_type, object);
    }
    // Rare: nearly all objects are already canonical.
    if always_written < object_type.always_written {
        add_always_written(table, object_type, object);
        out.truncate(begin);
        write_object(object, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::canonicalize;

    const POD: &str = "io.k8s.api.core.v1.Pod";

    /// Checks that the output and the object are the same as when canonicalized first and then written.
    fn check(type_name: &str, value: Value) {
        let table = Table::builtin();
        let type_id = table.type_id(type_name).expect(type_name);
        let Value::Object(mut object) = value else {
            panic!("an object is expected");
        };
        let mut expect = object.clone();
        canonicalize(table, type_id, &mut expect);
        let canonical_writer = CanonicalWriter::new(table, type_id, &mut object);
        let mut written = vec![b'{'];
        for (name, value) in &mut object {
            let begin = written.len();
            if begin > 1 {
                written.push(b',');
            }
            if !canonical_writer.write_field(name, value, &mut written) {
                written.truncate(begin);
            }
        }
        written.push(b'}');
        canonical_writer.remove_omitted(&mut object);
        assert_eq!(object, expect);
        let written = String::from_utf8(written).expect("text");
        assert_eq!(written, Value::Object(expect).to_string());
    }

    #[test]
    fn objects_are_written_in_canonical_form() {
        check(POD, json!({}));
        check(
            POD,
            json!({"spec": null, "metadata": null, "unknown": {"a": null}}),
        );
        check(
            POD,
            json!({
                "metadata": {
                    "name": "a", "labels": {}, "finalizers": [], "generation": 0, "namespace": "",
                    "creationTimestamp": "2024-05-01T12:00:00.5+02:00", "annotations": {"a": "\n\"", "b": null},
                },
                "spec": {
                    "containers": [{"name": "a"}, null, {"resources": {"limits": {"cpu": 0.5, "memory": "1024Ki"}}}],
                    "hostNetwork": false, "volumes": null, "securityContext": {"fsGroup": null},
                    "affinity": {"nodeAffinity": {}}, "odd": [1, {"b": []}],
                    "nodeSelector": {"a": "b"}, "tolerations": [{}, {"key": ""}],
                },
                "status": {"conditions": [], "phase": ""},
            }),
        );
        check("io.k8s.api.rbac.v1.Role", json!({"rules": []}));
        check("io.k8s.api.rbac.v1.Role", json!({"rules": {"no": "list"}}));
        check(
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
                "items": [{"type": ""}], "additionalProperties": {"maximum": 2.0}, "default": null,
            }}}]}}),
        );
    }

    /// Valid and invalid parts of pods.
    fn pod_part() -> impl Strategy<Value = Value> {
        let name = prop::sample::select(vec![
            "metadata",
            "labels",
            "spec",
            "containers",
            "resources",
            "limits",
            "name",
            "status",
            "env",
            "volumes",
            "emptyDir",
            "securityContext",
            "creationTimestamp",
            "other",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            Just(json!("")),
            Just(json!("1024Ki")),
            Just(json!("2024-05-01T12:00:00+02:00")),
            Just(json!({})),
            Just(json!([])),
        ];
        leaf.prop_recursive(6, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(name.clone(), inner, 0..6).prop_map(|fields| {
                    let fields = fields.into_iter();
                    fields
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn writing_equals_canonicalizing_and_then_writing(
            metadata in pod_part(), spec in pod_part(), containers in pod_part(),
        ) {
            check(POD, json!({"metadata": metadata, "spec": spec}));
            check(POD, json!({"spec": {"containers": containers}}));
        }
    }
}
