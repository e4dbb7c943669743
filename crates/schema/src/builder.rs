//! Builds schema tables from text, from type definitions, and from types of other tables.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::model::{ObjectType, Table, TypeId, ValueType};
use crate::table_parser;

const BUILTIN: &str = include_str!("builtin.table");
const RHUMB_EXTENSIONS: &str = include_str!("ours.table");

/// Why a schema table could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: &'static str },
    #[error("type {0} is used and never defined")]
    Undefined(Box<str>),
    #[error("a table has at most {MAX_TYPES} types")]
    TooLarge,
}

const MAX_TYPES: usize = 100_000;

/// Builder of a schema table. A type may be referenced before it is defined.
#[derive(Debug, Default)]
pub struct TableBuilder {
    types: Vec<Option<ObjectType>>,
    names: Vec<Box<str>>,
    by_name: HashMap<Box<str>, TypeId>,
}

impl TableBuilder {
    pub fn new() -> TableBuilder {
        TableBuilder::default()
    }

    /// Adds the types of a table text. The fields of a type that already exists are merged; a later field replaces an
    /// earlier one with the same name.
    pub fn extend(&mut self, text: &str) -> Result<(), TableError> {
        table_parser::parse(self, text)
    }

    /// The ID of the type with that name, which must be defined before the table is built.
    pub fn declare(&mut self, name: &str) -> TypeId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        // Too many types are rejected when the table is built.
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(None);
        self.names.push(name.into());
        self.by_name.insert(name.into(), id);
        id
    }

    /// Defines a type, or merges its fields into the type of that name.
    pub fn define(&mut self, mut new: ObjectType) -> TypeId {
        let id = self.declare(&new.name);
        let slot = &mut self.types[id.0 as usize];
        if let Some(old) = slot.take() {
            let fields = merge_fields(old.fields, new.fields);
            new = ObjectType { fields, ..old };
        }
        new.index();
        *slot = Some(new);
        id
    }

    /// Copies a type of another table, and all types it references.
    pub fn import(&mut self, from: &Table, id: TypeId) -> TypeId {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let source = from.get(id);
            let own_id = self.declare(&source.name);
            if self.types[own_id.0 as usize].is_some() {
                continue;
            }
            let mut copy = source.clone();
            for field in &mut copy.fields {
                self.import_references(&mut field.value_type, from, &mut pending);
            }
            self.define(copy);
        }
        self.declare(&from.get(id).name)
    }

    fn import_references(
        &mut self,
        value_type: &mut ValueType,
        from: &Table,
        pending: &mut Vec<TypeId>,
    ) {
        match value_type {
            ValueType::Object(id)
            | ValueType::SchemaOrBool(id)
            | ValueType::SchemaOrArray(id)
            | ValueType::SchemaOrStringArray(id) => {
                pending.push(*id);
                *id = self.declare(&from.get(*id).name);
            }
            ValueType::List(list_schema) => {
                self.import_references(&mut list_schema.item_type, from, pending);
            }
            ValueType::Map(values) => self.import_references(values, from, pending),
            _ => {}
        }
    }

    pub fn build(self) -> Result<Table, TableError> {
        if self.types.len() > MAX_TYPES {
            return Err(TableError::TooLarge);
        }
        let types = self
            .types
            .into_iter()
            .zip(self.names)
            .map(|(defined, name)| defined.ok_or(TableError::Undefined(name)))
            .collect::<Result<_, _>>()?;
        Ok(Table {
            types,
            by_name: self.by_name,
            messages: OnceLock::new(),
        })
    }
}

fn merge_fields(old: Box<[crate::Field]>, new: Box<[crate::Field]>) -> Box<[crate::Field]> {
    let mut fields = old.into_vec();
    fields.retain(|field| new.iter().all(|later| later.name != field.name));
    fields.extend(new);
    fields.into()
}

impl Table {
    /// The types of the built-in kinds: upstream's, extended by rhumb's own fields.
    pub fn builtin() -> &'static Arc<Table> {
        static TABLE: OnceLock<Arc<Table>> = OnceLock::new();
        // A test parses both texts, so the fallback to an empty table is never used.
        TABLE.get_or_init(|| Arc::new(parse_builtin().unwrap_or_default()))
    }
}

fn parse_builtin() -> Result<Table, TableError> {
    let mut builder = TableBuilder::new();
    builder.extend(BUILTIN)?;
    builder.extend(RHUMB_EXTENSIONS)?;
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmbeddedStruct, FieldEmission, ListSchema, ListType};

    fn builtin_type(name: &str) -> &'static ObjectType {
        let table = Table::builtin();
        table.get(table.type_id(name).expect(name))
    }

    #[test]
    fn the_built_in_table_is_valid() {
        let table = parse_builtin().expect("readable");
        assert!(table.types().len() > 500);
    }

    #[test]
    fn fields_have_the_properties_that_upstream_declares() {
        let container = builtin_type("io.k8s.api.core.v1.Container");
        assert_eq!(&*container.go_name, "v1.Container");
        let ports = container.field("ports").expect("ports");
        let ValueType::List(list_schema) = &ports.value_type else {
            panic!("{ports:?}");
        };
        assert_eq!(list_schema.merge_key.as_deref(), Some("containerPort"));
        assert_eq!(
            list_schema.list_type,
            ListType::Map(["containerPort".into(), "protocol".into()].into())
        );
        let resources = container.field("resources").expect("resources");
        assert_eq!(resources.emission, FieldEmission::Always);
        let port = builtin_type("io.k8s.api.core.v1.ContainerPort");
        let protocol = port.field("protocol").expect("protocol");
        assert_eq!(protocol.default, Some("TCP".into()));
        assert_eq!(protocol.go_type.as_deref(), Some("v1.Protocol"));
        let volume = builtin_type("io.k8s.api.core.v1.Volume");
        let empty_dir = volume.field("emptyDir").expect("emptyDir");
        let source = EmbeddedStruct {
            go_name: "VolumeSource".into(),
            number: 2,
        };
        assert_eq!((empty_dir.number, &*empty_dir.embedded), (2, &[source][..]));
    }

    #[test]
    fn fields_are_found_by_exact_name() {
        for found in Table::builtin().types() {
            for field in &found.fields {
                let name = &*field.name;
                assert_eq!(found.field(name).map(|field| &*field.name), Some(name));
                for other in [
                    format!("{name}x"),
                    name[1..].to_owned(),
                    name.to_uppercase(),
                ] {
                    let exists = found.fields.iter().any(|field| *field.name == *other);
                    assert_eq!(found.field(&other).is_some(), exists, "{other}");
                }
            }
        }
    }

    #[test]
    fn a_later_text_adds_and_replaces_fields() {
        let mut builder = TableBuilder::new();
        builder
            .extend("a.B v1.B\n x 1 r string\n y 2 o string\n")
            .expect("first");
        builder
            .extend("a.B v1.B\n y 3 po int32\n z 4 o []a.B merge=x\n")
            .expect("second");
        let table = builder.build().expect("complete");
        let id = table.type_id("a.B").expect("exists");
        let found = table.get(id);
        let names: Vec<&str> = found.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["x", "y", "z"]);
        assert_eq!(
            found.field("y").map(|y| (y.number, y.pointer)),
            Some((3, true))
        );
        let items = ListSchema {
            item_type: ValueType::Object(id),
            list_type: ListType::Atomic,
            merge_key: Some("x".into()),
        };
        assert_eq!(
            found.field("z").expect("z").value_type,
            ValueType::List(items.into())
        );
    }

    #[test]
    fn importing_a_type_imports_the_types_it_references() {
        let builtin = Table::builtin();
        let schema = builtin
            .type_id("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            .expect("exists");
        let mut builder = TableBuilder::new();
        builder.declare("first");
        let id = builder.import(builtin, schema);
        let metadata = crate::Field::new("metadata", ValueType::Object(id));
        builder.define(ObjectType::new("first", "v1.First", vec![metadata]));
        let table = builder.build().expect("complete");
        let owners = table.get(id).field("ownerReferences").expect("exists");
        let owner = table.get(owners.value_type.object().expect("objects"));
        assert_eq!(&*owner.go_name, "v1.OwnerReference");
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, expect: &str| {
            let mut builder = TableBuilder::new();
            let result = builder.extend(text).and_then(|()| builder.build());
            assert_eq!(result.expect_err(text).to_string(), expect, "{text}");
        };
        check(" x 1 r string\n", "line 1: a field before any type");
        check(
            "a.B v1.B\n x one r string\n",
            "line 2: a number is expected",
        );
        check("a.B v1.B\n x 1 q string\n", "line 2: an unknown flag");
        check("a.B v1.B\n x 1 r\n", "line 2: a value type is expected");
        check(
            "a.B v1.B\n x 1 r string huh=5\n",
            "line 2: an unknown property",
        );
        check(
            "a.B v1.B\n x 1 r string default={\n",
            "line 2: a default that is not JSON",
        );
        check(
            "a.B v1.B\n x 1 r a.C\n",
            "type a.C is used and never defined",
        );
    }
}
