//! Making tables: from text, from types, and from parts of other tables.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::model::{Shape, Table, Type, TypeId};
use crate::text;

const BUILTIN: &str = include_str!("builtin.table");
const OURS: &str = include_str!("ours.table");

/// Why a table cannot be made.
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

/// A table in the making. Types may refer to others before those are defined.
#[derive(Debug, Default)]
pub struct TableBuilder {
    types: Vec<Option<Type>>,
    names: Vec<Box<str>>,
    by_name: HashMap<Box<str>, TypeId>,
}

impl TableBuilder {
    pub fn new() -> TableBuilder {
        TableBuilder::default()
    }

    /// Adds the types of a text. A type that is there already gets the text's fields as well; of two fields with
    /// one name the later one counts.
    pub fn extend(&mut self, text: &str) -> Result<(), TableError> {
        text::read(self, text)
    }

    /// The type with that name, which must be defined before the table is built.
    pub fn declare(&mut self, name: &str) -> TypeId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        // More types than fit are refused when the table is built.
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(None);
        self.names.push(name.into());
        self.by_name.insert(name.into(), id);
        id
    }

    /// Defines the type with that name, or adds to its fields.
    pub fn define(&mut self, mut new: Type) -> TypeId {
        let id = self.declare(&new.name);
        let slot = &mut self.types[id.0 as usize];
        if let Some(old) = slot.take() {
            let fields = merge_fields(old.fields, new.fields);
            new = Type { fields, ..old };
        }
        new.index();
        *slot = Some(new);
        id
    }

    /// Takes over a type of another table, and the types that it refers to.
    pub fn import(&mut self, from: &Table, id: TypeId) -> TypeId {
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let source = from.get(id);
            let own = self.declare(&source.name);
            if self.types[own.0 as usize].is_some() {
                continue;
            }
            let mut copy = source.clone();
            for field in &mut copy.fields {
                self.move_here(&mut field.shape, from, &mut waiting);
            }
            self.define(copy);
        }
        self.declare(&from.get(id).name)
    }

    fn move_here(&mut self, shape: &mut Shape, from: &Table, waiting: &mut Vec<TypeId>) {
        match shape {
            Shape::Object(id) | Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id) => {
                waiting.push(*id);
                *id = self.declare(&from.get(*id).name);
            }
            Shape::List(items) => self.move_here(&mut items.shape, from, waiting),
            Shape::Map(values) => self.move_here(values, from, waiting),
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
    /// The built-in kinds: upstream's types, and over them the fields that only rhumb has.
    pub fn builtin() -> &'static Table {
        static TABLE: OnceLock<Table> = OnceLock::new();
        // A test reads both texts, so that the server never starts with an empty table.
        TABLE.get_or_init(|| read_builtin().unwrap_or_default())
    }
}

fn read_builtin() -> Result<Table, TableError> {
    let mut builder = TableBuilder::new();
    builder.extend(BUILTIN)?;
    builder.extend(OURS)?;
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedding, Emit, Items, Topology};

    fn builtin_type(name: &str) -> &'static Type {
        let table = Table::builtin();
        table.get(table.named(name).expect(name))
    }

    #[test]
    fn the_texts_of_the_built_in_table_can_be_read() {
        let table = read_builtin().expect("readable");
        assert!(table.types().len() > 500);
    }

    #[test]
    fn fields_know_what_upstream_declares() {
        let container = builtin_type("io.k8s.api.core.v1.Container");
        assert_eq!(&*container.go, "v1.Container");
        let ports = container.field("ports").expect("ports");
        let Shape::List(items) = &ports.shape else {
            panic!("{ports:?}");
        };
        assert_eq!(items.merge.as_deref(), Some("containerPort"));
        assert_eq!(
            items.topology,
            Topology::Map(["containerPort".into(), "protocol".into()].into())
        );
        let resources = container.field("resources").expect("resources");
        assert_eq!(resources.emit, Emit::Always);
        let port = builtin_type("io.k8s.api.core.v1.ContainerPort");
        let protocol = port.field("protocol").expect("protocol");
        assert_eq!(protocol.default, Some("TCP".into()));
        assert_eq!(protocol.go.as_deref(), Some("v1.Protocol"));
        let volume = builtin_type("io.k8s.api.core.v1.Volume");
        let empty_dir = volume.field("emptyDir").expect("emptyDir");
        let source = Embedding {
            go: "VolumeSource".into(),
            number: 2,
        };
        assert_eq!((empty_dir.number, &*empty_dir.embedded), (2, &[source][..]));
    }

    #[test]
    fn every_field_is_found_by_its_name_alone() {
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
    fn a_later_text_adds_fields_and_replaces_them() {
        let mut builder = TableBuilder::new();
        builder
            .extend("a.B v1.B\n x 1 r string\n y 2 o string\n")
            .expect("first");
        builder
            .extend("a.B v1.B\n y 3 po int32\n z 4 o []a.B merge=x\n")
            .expect("second");
        let table = builder.build().expect("complete");
        let id = table.named("a.B").expect("there");
        let found = table.get(id);
        let names: Vec<&str> = found.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["x", "y", "z"]);
        assert_eq!(
            found.field("y").map(|y| (y.number, y.pointer)),
            Some((3, true))
        );
        let items = Items {
            shape: Shape::Object(id),
            topology: Topology::Atomic,
            merge: Some("x".into()),
        };
        assert_eq!(
            found.field("z").expect("z").shape,
            Shape::List(items.into())
        );
    }

    #[test]
    fn parts_of_another_table_are_taken_over_whole() {
        let builtin = Table::builtin();
        let schema = builtin
            .named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            .expect("there");
        let mut builder = TableBuilder::new();
        builder.declare("first");
        let id = builder.import(builtin, schema);
        let metadata = crate::Field::new("metadata", Shape::Object(id));
        builder.define(Type::new("first", "v1.First", vec![metadata]));
        let table = builder.build().expect("complete");
        let owners = table.get(id).field("ownerReferences").expect("there");
        let owner = table.get(owners.shape.object().expect("objects"));
        assert_eq!(&*owner.go, "v1.OwnerReference");
    }

    #[test]
    fn what_is_wrong_with_a_text_is_said_with_its_line() {
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
        check("a.B v1.B\n x 1 r\n", "line 2: a shape is expected");
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
