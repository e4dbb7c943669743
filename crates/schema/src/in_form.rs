//! Objects as JSON in the form in which upstream writes them: they are brought into that form as they are written, in
//! one walk.

use serde_json::Value;

use crate::conform::{
    add_unset, conform_value, fill_in, has_form, is_left_out, leave_out, whole_zero,
};
use crate::json::{write, write_field, write_object, write_text};
use crate::{Emit, Object, Shape, Table, Type, TypeId};

/// Writes the fields of one object, one after the other, in whatever order they are wanted.
#[derive(Debug)]
pub struct InForm<'t> {
    table: &'t Table,
    of: &'t Type,
}

impl<'t> InForm<'t> {
    /// Adds to the object what is always written.
    pub fn new(table: &'t Table, of: TypeId, object: &mut Object) -> InForm<'t> {
        let of = table.get(of);
        add_unset(table, of, object);
        InForm { table, of }
    }

    /// Appends `"name":value`. Nothing is appended, and false is returned, if the field has to be left out.
    pub fn write_field(&self, name: &str, value: &mut Value, out: &mut Vec<u8>) -> bool {
        match self.of.position(name) {
            Some(at) => write_known(self.table, self.of, at, value, out),
            None => {
                write_field(name, value, out);
                true
            }
        }
    }

    /// Removes the fields that have to be left out.
    pub fn leave_out(&self, object: &mut Object) {
        leave_out(self.of, object);
    }
}

/// The field at a position of the type; false if it has to be left out.
fn write_known(table: &Table, of: &Type, at: usize, value: &mut Value, out: &mut Vec<u8>) -> bool {
    let field = &of.fields[at];
    let begin = out.len();
    out.extend_from_slice(of.keys.get(at));
    let begin_value = out.len();
    write_value(table, &field.shape, value, out);
    if fill_in(table, field, value) {
        out.truncate(begin_value);
        write(value, out);
        return true;
    }
    let is_written = !is_left_out(field, value);
    if !is_written {
        out.truncate(begin);
    }
    is_written
}

fn write_value(table: &Table, shape: &Shape, value: &mut Value, out: &mut Vec<u8>) {
    match (shape, value) {
        (Shape::Object(id), Value::Object(object)) => write_in_form(table, *id, object, out),
        (Shape::List(items), Value::Array(list)) => {
            out.push(b'[');
            for (index, item) in list.iter_mut().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_item(table, &items.shape, item, out);
            }
            out.push(b']');
        }
        (Shape::Map(values), Value::Object(map)) => {
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
        (shape, value) => {
            if has_form(shape) {
                conform_value(table, shape, value);
            }
            write(value, out);
        }
    }
}

/// In a list or map, null is the zero value.
fn write_item(table: &Table, shape: &Shape, item: &mut Value, out: &mut Vec<u8>) {
    if item.is_null() {
        *item = whole_zero(table, shape);
        write(item, out);
    } else {
        write_value(table, shape, item, out);
    }
}

fn write_in_form(table: &Table, of: TypeId, object: &mut Object, out: &mut Vec<u8>) {
    let of = table.get(of);
    let begin = out.len();
    let (mut always_written, mut surplus, mut is_first) = (0, false, true);
    out.push(b'{');
    for (name, value) in object.iter_mut() {
        let before = out.len();
        if !is_first {
            out.push(b',');
        }
        let is_written = match of.position(name) {
            None => {
                write_field(name, value, out);
                true
            }
            Some(at) => {
                always_written += usize::from(of.fields[at].emit == Emit::Always);
                write_known(table, of, at, value, out)
            }
        };
        if is_written {
            is_first = false;
        } else {
            surplus = true;
            out.truncate(before);
        }
    }
    out.push(b'}');
    if surplus {
        leave_out(of, object);
    }
    // That is rare: nearly all that is written was in this form before.
    if always_written < of.always_written {
        add_unset(table, of, object);
        out.truncate(begin);
        write_object(object, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::conform;

    const POD: &str = "io.k8s.api.core.v1.Pod";

    /// What is written, and what the object is afterwards, must be what it is when both are done in turn.
    fn check(of: &str, value: Value) {
        let table = Table::builtin();
        let of = table.named(of).expect(of);
        let Value::Object(mut object) = value else {
            panic!("an object is expected");
        };
        let mut expect = object.clone();
        conform(table, of, &mut expect);
        let in_form = InForm::new(table, of, &mut object);
        let mut written = vec![b'{'];
        for (name, value) in &mut object {
            let begin = written.len();
            if begin > 1 {
                written.push(b',');
            }
            if !in_form.write_field(name, value, &mut written) {
                written.truncate(begin);
            }
        }
        written.push(b'}');
        in_form.leave_out(&mut object);
        assert_eq!(object, expect);
        let written = String::from_utf8(written).expect("text");
        assert_eq!(written, Value::Object(expect).to_string());
    }

    #[test]
    fn objects_in_any_form_are_written_in_one() {
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

    /// Parts of pods, right and wrong.
    fn part() -> impl Strategy<Value = Value> {
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
        fn whatever_an_object_is_like_it_is_written_as_if_both_were_done_in_turn(
            metadata in part(), spec in part(), containers in part(),
        ) {
            check(POD, json!({"metadata": metadata, "spec": spec}));
            check(POD, json!({"spec": {"containers": containers}}));
        }
    }
}
