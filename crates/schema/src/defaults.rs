//! Applies defaults by type, at every depth of an object. Upstream counterpart: `zz_generated.defaults.go`.

use std::sync::Arc;

use serde_json::Value;

use crate::builder::TableError;
use crate::canonicalize::is_empty;
use crate::{Field, Object, ObjectType, SchemaRef, Table, TypeId, ValueType};

/// Sets missing fields of one object. It must depend on that object alone: its effect on an empty object is computed
/// once and assumed to be constant.
pub type DefaultFn = fn(&mut Object);

/// The defaults of each type: registered functions, constants of the schema table, and fields to descend into.
#[derive(Debug)]
pub struct ObjectDefaulter {
    table: Arc<Table>,
    type_defaults: Vec<TypeDefaults>,
}

/// The defaults of one type.
#[derive(Debug, Default)]
struct TypeDefaults {
    functions: Vec<DefaultFn>,
    /// Positions of fields with a constant default.
    constants: Vec<usize>,
    /// Positions of fields whose values contain types with defaults, in order.
    nested_fields: Vec<usize>,
    /// Positions of fields that are created when absent, because defaults make them non-empty.
    created_fields: Vec<usize>,
}

impl TypeDefaults {
    fn has_own(&self) -> bool {
        !(self.functions.is_empty() && self.constants.is_empty())
    }

    /// Whether its own defaults add fields to an empty object.
    fn changes_empty_object(&self) -> bool {
        let mut empty = Object::new();
        for function in &self.functions {
            function(&mut empty);
        }
        !(self.constants.is_empty() && empty.is_empty())
    }
}

impl ObjectDefaulter {
    /// Each function belongs to a type by its name in the table; a type may have several, which run in order.
    pub fn new(
        table: &Arc<Table>,
        functions: impl IntoIterator<Item = (&'static str, DefaultFn)>,
    ) -> Result<ObjectDefaulter, TableError> {
        let mut type_defaults: Vec<TypeDefaults> = table.types().map(constant_defaults).collect();
        for (name, function) in functions {
            let id = table
                .type_id(name)
                .ok_or(TableError::Undefined(name.into()))?;
            type_defaults[id.0 as usize].functions.push(function);
        }
        let mut defaults = ObjectDefaulter {
            table: Arc::clone(table),
            type_defaults,
        };
        defaults.find_nested_fields();
        Ok(defaults)
    }

    /// Computes `nested_fields` and `created_fields` of each type.
    fn find_nested_fields(&mut self) {
        let has_own = self
            .type_defaults
            .iter()
            .map(TypeDefaults::has_own)
            .collect();
        for (user, position) in fields_leading_to(&self.table, has_own, |_| true) {
            self.type_defaults[user].nested_fields.push(position);
        }
        for defaults in &mut self.type_defaults {
            defaults.nested_fields.sort_unstable();
        }
        let changes_empty = self
            .type_defaults
            .iter()
            .map(TypeDefaults::changes_empty_object)
            .collect();
        for (user, position) in fields_leading_to(&self.table, changes_empty, is_struct_value) {
            self.type_defaults[user].created_fields.push(position);
        }
    }

    /// Whether these are the defaults of the type's table.
    pub fn covers(&self, schema: &SchemaRef) -> bool {
        Arc::ptr_eq(&self.table, schema.table())
    }

    /// Applies the defaults to an object and all nested objects, a parent before its children. Types of other tables
    /// have no defaults here.
    ///
    /// In Go, a struct that is not a pointer always exists. An absent one is created here if it has defaults.
    pub fn apply(&self, schema: &SchemaRef, object: &mut Object) {
        if self.covers(schema) {
            self.apply_type(schema.id(), object);
        }
    }

    fn apply_type(&self, type_id: TypeId, object: &mut Object) {
        let defaults = &self.type_defaults[type_id.0 as usize];
        let object_type = self.table.get(type_id);
        for function in &defaults.functions {
            function(object);
        }
        for &position in &defaults.constants {
            apply_constant(&object_type.fields[position], object);
        }
        for &position in &defaults.created_fields {
            create_struct(&object_type.fields[position], object);
        }
        if !defaults.nested_fields.is_empty() {
            self.apply_nested(defaults, object_type, object);
        }
    }

    fn apply_nested(&self, defaults: &TypeDefaults, object_type: &ObjectType, object: &mut Object) {
        // Iterate over the fields of the type or of the object, whichever are fewer. Looking up a field in an object
        // costs about twice as much as iterating over it.
        if defaults.nested_fields.len() * 2 <= object.len() {
            for field in defaults
                .nested_fields
                .iter()
                .map(|&position| &object_type.fields[position])
            {
                if let Some(value) = object.get_mut(&*field.name) {
                    self.apply_value(&field.value_type, value);
                }
            }
            return;
        }
        for (name, value) in object.iter_mut() {
            if matches!(value, Value::Object(_) | Value::Array(_))
                && let Some(position) = object_type.position(name)
                && defaults.nested_fields.binary_search(&position).is_ok()
            {
                self.apply_value(&object_type.fields[position].value_type, value);
            }
        }
    }

    fn apply_value(&self, value_type: &ValueType, value: &mut Value) {
        match (value_type, value) {
            (
                ValueType::Object(id)
                | ValueType::SchemaOrBool(id)
                | ValueType::SchemaOrArray(id)
                | ValueType::SchemaOrStringArray(id),
                Value::Object(object),
            ) => self.apply_type(*id, object),
            (ValueType::SchemaOrArray(id), Value::Array(list)) => {
                for item in list {
                    self.apply_value(&ValueType::Object(*id), item);
                }
            }
            (ValueType::List(list_schema), Value::Array(list)) => {
                for item in list {
                    self.apply_value(&list_schema.item_type, item);
                }
            }
            (ValueType::Map(values), Value::Object(map)) => {
                for (_, value) in map {
                    self.apply_value(values, value);
                }
            }
            _ => {}
        }
    }
}

/// Whether a field is a struct that always exists in Go.
fn is_struct_value(field: &Field) -> bool {
    matches!(field.value_type, ValueType::Object(_)) && !field.pointer
}

/// The fields whose values contain one of the marked types at any depth, as positions of a type and of its field.
/// Only fields that satisfy `is_followed` are considered.
fn fields_leading_to(
    table: &Table,
    mut marked: Vec<bool>,
    is_followed: fn(&Field) -> bool,
) -> Vec<(usize, usize)> {
    let mut users: Vec<Vec<(usize, usize)>> = vec![Vec::new(); marked.len()];
    for (user, object_type) in table.types().enumerate() {
        for (position, field) in object_type.fields.iter().enumerate() {
            if let Some(id) = field.value_type.object().filter(|_| is_followed(field)) {
                users[id.0 as usize].push((user, position));
            }
        }
    }
    let mut queue: Vec<usize> = (0..marked.len()).filter(|&index| marked[index]).collect();
    let mut found = Vec::new();
    while let Some(index) = queue.pop() {
        for &(user, position) in &users[index] {
            found.push((user, position));
            if !std::mem::replace(&mut marked[user], true) {
                queue.push(user);
            }
        }
    }
    found
}

/// Creates an absent struct; its defaults are applied with those of the other nested fields.
fn create_struct(field: &Field, object: &mut Object) {
    if let None | Some(Value::Null) = object.get(&*field.name) {
        object.insert((*field.name).to_owned(), Value::Object(Object::new()));
    }
}

fn constant_defaults(object_type: &ObjectType) -> TypeDefaults {
    let has_default =
        |(position, field): (usize, &Field)| field.default.is_some().then_some(position);
    TypeDefaults {
        constants: object_type
            .fields
            .iter()
            .enumerate()
            .filter_map(has_default)
            .collect(),
        ..TypeDefaults::default()
    }
}

fn apply_constant(field: &Field, object: &mut Object) {
    let Some(default) = &field.default else {
        return;
    };
    let is_unset = match object.get(&*field.name) {
        None | Some(Value::Null) => true,
        Some(value) => !field.pointer && is_empty(value),
    };
    if is_unset {
        object.insert((*field.name).to_owned(), default.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mark(object: &mut Object) {
        object.insert("marked".to_owned(), true.into());
    }

    fn replicas(object: &mut Object) {
        object.entry("replicas").or_insert_with(|| 1.into());
    }

    fn check(
        functions: &[(&'static str, DefaultFn)],
        type_name: &str,
        value: Value,
        expect: &Value,
    ) {
        let table = Table::builtin();
        let defaults = ObjectDefaulter::new(table, functions.iter().copied()).expect("known types");
        let Value::Object(mut object) = value else {
            panic!("an object is expected");
        };
        let schema = SchemaRef::find(table, type_name).expect(type_name);
        defaults.apply(&schema, &mut object);
        assert_eq!(&Value::Object(object), expect);
    }

    const POD: &str = "io.k8s.api.core.v1.Pod";
    const PROBE: &str = "io.k8s.api.core.v1.Probe";

    #[test]
    fn constant_defaults_are_applied() {
        check(
            &[],
            POD,
            json!({"spec": {"containers": [{"ports": [{"containerPort": 1}, {"protocol": "UDP"}, {"protocol": ""}]}]}}),
            &json!({"spec": {"containers": [{"ports": [
                {"containerPort": 1, "protocol": "TCP"}, {"protocol": "UDP"}, {"protocol": "TCP"},
            ]}]}}),
        );
    }

    #[test]
    fn functions_run_on_existing_objects() {
        check(
            &[(PROBE, mark)],
            POD,
            json!({"spec": {"containers": [{"livenessProbe": {}, "readinessProbe": null}, {}]}}),
            &json!({"spec": {"containers": [{"livenessProbe": {"marked": true}, "readinessProbe": null}, {}]}}),
        );
    }

    #[test]
    fn absent_structs_are_created_if_they_have_defaults() {
        check(
            &[("io.k8s.api.apps.v1.DeploymentSpec", replicas)],
            "io.k8s.api.apps.v1.Deployment",
            json!({}),
            &json!({"spec": {"replicas": 1}}),
        );
        check(
            &[(PROBE, mark)],
            "io.k8s.api.apps.v1.Deployment",
            json!({}),
            &json!({}),
        );
    }

    #[test]
    fn a_function_for_an_unknown_type_is_rejected() {
        let result = ObjectDefaulter::new(Table::builtin(), [("no.Such", mark as DefaultFn)]);
        let error = result.err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("type no.Such is used and never defined")
        );
    }
}
