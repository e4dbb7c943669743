//! What the schema says of the place where a patch is being merged.

use super::{Merged, PatchError};
use crate::{Field, Items, Shape, Table, TypeId};

/// A value of an object, as Go's types have it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'t> {
    table: &'t Table,
    at: At<'t>,
    pointer: bool,
    replaces: bool,
}

#[derive(Debug, Clone, Copy)]
enum At<'t> {
    Object(TypeId),
    /// With the name of its Go type, if it has one.
    Other(&'t Shape, Option<&'t str>),
}

/// A list, and where its items are.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListPlace<'t> {
    pub(super) items: Place<'t>,
    list: Option<&'t Items>,
}

impl<'t> Place<'t> {
    pub(super) fn root(table: &'t Table, of: TypeId) -> Place<'t> {
        Place {
            table,
            at: At::Object(of),
            pointer: false,
            replaces: false,
        }
    }

    fn of_shape(self, shape: &'t Shape, go: Option<&'t str>) -> Place<'t> {
        let at = match shape {
            Shape::Object(id) => At::Object(*id),
            other => At::Other(other, go),
        };
        Place {
            at,
            pointer: false,
            replaces: false,
            ..self
        }
    }

    /// Whether a patch replaces the object that is here.
    pub(super) fn replaces(&self) -> bool {
        self.replaces
    }

    pub(super) fn field(self, name: &str) -> Merged<Place<'t>> {
        let field = self.find(name)?;
        Ok(Place {
            pointer: field.pointer,
            replaces: field.replace,
            ..self.of_shape(&field.shape, field.go.as_deref())
        })
    }

    pub(super) fn list(self, name: &str) -> Merged<ListPlace<'t>> {
        let field = self.find(name)?;
        match &field.shape {
            Shape::List(list) if matches!(list.shape, Shape::List(_)) => {
                Err("unexpected slice of slice".into())
            }
            Shape::List(list) => Ok(ListPlace {
                items: self.of_shape(&list.shape, None),
                list: Some(list),
            }),
            shape if field.pointer || *shape == Shape::Bytes => Ok(ListPlace {
                items: self.of_shape(shape, field.go.as_deref()),
                list: None,
            }),
            _ => Err(PatchError(format!(
                "expected slice or array type, but got: {}",
                self.kind()
            ))),
        }
    }

    fn find(self, name: &str) -> Merged<&'t Field> {
        let (struct_name, field) = match self.at {
            At::Object(id) => {
                let of = self.table.get(id);
                // Upstream is not strict about the case here.
                let folded = || of.fields.iter().find(|f| f.name.eq_ignore_ascii_case(name));
                (of.short_go(), of.field(name).or_else(folded))
            }
            At::Other(shape, go) => match own_struct(shape, go) {
                Some(struct_name) => (struct_name, None),
                None => {
                    return Err(PatchError(format!(
                        "merging an object in json but data type is not struct, instead is: {}",
                        kind_of(shape)
                    )));
                }
            },
        };
        field.ok_or_else(|| {
            let name = rhumb_meta::gotext::quote(name);
            PatchError(format!(
                "unable to find api field in struct {struct_name} for the json field {name}"
            ))
        })
    }

    /// The kind of the Go type.
    pub(super) fn kind(&self) -> &'static str {
        match self.at {
            _ if self.pointer => "ptr",
            At::Object(_) => "struct",
            At::Other(shape, _) => kind_of(shape),
        }
    }
}

impl ListPlace<'_> {
    pub(super) fn merges(&self) -> bool {
        self.list.is_some_and(|list| list.merge.is_some())
    }

    /// Empty for lists of values that are no objects.
    pub(super) fn merge_key(&self) -> &str {
        let key = self.list.and_then(|list| list.merge.as_deref());
        key.unwrap_or_default()
    }
}

/// The name of a struct that has a JSON form of its own.
fn own_struct<'t>(shape: &Shape, go: Option<&'t str>) -> Option<&'t str> {
    let usual = match shape {
        Shape::Quantity => "Quantity",
        Shape::IntOrString => "IntOrString",
        Shape::Time => "Time",
        Shape::MicroTime => "MicroTime",
        Shape::Duration => "Duration",
        Shape::Any => "RawExtension",
        Shape::OrBool(_) => "JSONSchemaPropsOrBool",
        Shape::OrList(_) => "JSONSchemaPropsOrArray",
        Shape::OrStrings(_) => "JSONSchemaPropsOrStringArray",
        _ => return None,
    };
    Some(go.and_then(|go| go.rsplit('.').next()).unwrap_or(usual))
}

fn kind_of(shape: &Shape) -> &'static str {
    match shape {
        Shape::String => "string",
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float64 => "float64",
        Shape::Bytes | Shape::List(_) => "slice",
        Shape::Map(_) => "map",
        _ => "struct",
    }
}
