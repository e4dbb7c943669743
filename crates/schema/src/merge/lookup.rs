//! Schema lookup during a strategic merge. Upstream counterpart: `strategicpatch.LookupPatchMeta`.

use super::{MergeResult, PatchError};
use crate::{Field, ListSchema, Table, TypeId, ValueType};

/// The schema of the value that is being merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatchSchema<'t> {
    table: &'t Table,
    patched_type: PatchedType<'t>,
    pointer: bool,
    replaces: bool,
}

/// The type of a value that is being merged.
#[derive(Debug, Clone, Copy)]
enum PatchedType<'t> {
    Object(TypeId),
    /// With the name of its Go type, if it has one.
    Other(&'t ValueType, Option<&'t str>),
}

/// The schema of a list and of its items.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListPatchSchema<'t> {
    pub(super) items: PatchSchema<'t>,
    list: Option<&'t ListSchema>,
}

impl<'t> PatchSchema<'t> {
    pub(super) fn root(table: &'t Table, type_id: TypeId) -> PatchSchema<'t> {
        PatchSchema {
            table,
            patched_type: PatchedType::Object(type_id),
            pointer: false,
            replaces: false,
        }
    }

    fn with_type(self, value_type: &'t ValueType, go_type: Option<&'t str>) -> PatchSchema<'t> {
        let patched_type = match value_type {
            ValueType::Object(id) => PatchedType::Object(*id),
            other => PatchedType::Other(other, go_type),
        };
        PatchSchema {
            patched_type,
            pointer: false,
            replaces: false,
            ..self
        }
    }

    /// Whether a patch replaces the object instead of merging into it.
    pub(super) fn replaces(&self) -> bool {
        self.replaces
    }

    /// The schema of an object field.
    pub(super) fn field(self, name: &str) -> MergeResult<PatchSchema<'t>> {
        let field = self.find_field(name)?;
        Ok(PatchSchema {
            pointer: field.pointer,
            replaces: field.replace,
            ..self.with_type(&field.value_type, field.go_type.as_deref())
        })
    }

    /// The schema of a list field.
    pub(super) fn list(self, name: &str) -> MergeResult<ListPatchSchema<'t>> {
        let field = self.find_field(name)?;
        match &field.value_type {
            ValueType::List(list_schema) if matches!(list_schema.item_type, ValueType::List(_)) => {
                Err("unexpected slice of slice".into())
            }
            ValueType::List(list_schema) => Ok(ListPatchSchema {
                items: self.with_type(&list_schema.item_type, None),
                list: Some(list_schema),
            }),
            value_type if field.pointer || *value_type == ValueType::Bytes => Ok(ListPatchSchema {
                items: self.with_type(value_type, field.go_type.as_deref()),
                list: None,
            }),
            _ => Err(PatchError(format!(
                "expected slice or array type, but got: {}",
                self.go_kind()
            ))),
        }
    }

    fn find_field(self, name: &str) -> MergeResult<&'t Field> {
        let (struct_name, field) = match self.patched_type {
            PatchedType::Object(id) => {
                let object_type = self.table.get(id);
                // Upstream ignores case here.
                let case_insensitive = || {
                    object_type
                        .fields
                        .iter()
                        .find(|field| field.name.eq_ignore_ascii_case(name))
                };
                (
                    object_type.short_go_name(),
                    object_type.field(name).or_else(case_insensitive),
                )
            }
            PatchedType::Other(value_type, go_type) => {
                match custom_struct_name(value_type, go_type) {
                    Some(struct_name) => (struct_name, None),
                    None => {
                        return Err(PatchError(format!(
                            "merging an object in json but data type is not struct, instead is: {}",
                            go_kind(value_type)
                        )));
                    }
                }
            }
        };
        field.ok_or_else(|| {
            let name = rhumb_meta::gotext::quote(name);
            PatchError(format!(
                "unable to find api field in struct {struct_name} for the json field {name}"
            ))
        })
    }

    /// The `reflect.Kind` of the Go type, for errors.
    pub(super) fn go_kind(&self) -> &'static str {
        match self.patched_type {
            _ if self.pointer => "ptr",
            PatchedType::Object(_) => "struct",
            PatchedType::Other(value_type, _) => go_kind(value_type),
        }
    }
}

impl ListPatchSchema<'_> {
    /// Whether a patch merges the list instead of replacing it.
    pub(super) fn merges(&self) -> bool {
        self.list.is_some_and(|list| list.merge_key.is_some())
    }

    /// Empty for lists of scalars.
    pub(super) fn merge_key(&self) -> &str {
        let key = self.list.and_then(|list| list.merge_key.as_deref());
        key.unwrap_or_default()
    }
}

/// The name of a Go struct that has custom JSON marshaling.
fn custom_struct_name<'t>(value_type: &ValueType, go_type: Option<&'t str>) -> Option<&'t str> {
    let default_name = match value_type {
        ValueType::Quantity => "Quantity",
        ValueType::IntOrString => "IntOrString",
        ValueType::Time => "Time",
        ValueType::MicroTime => "MicroTime",
        ValueType::Duration => "Duration",
        ValueType::Any => "RawExtension",
        ValueType::SchemaOrBool(_) => "JSONSchemaPropsOrBool",
        ValueType::SchemaOrArray(_) => "JSONSchemaPropsOrArray",
        ValueType::SchemaOrStringArray(_) => "JSONSchemaPropsOrStringArray",
        _ => return None,
    };
    Some(
        go_type
            .and_then(|go_type| go_type.rsplit('.').next())
            .unwrap_or(default_name),
    )
}

fn go_kind(value_type: &ValueType) -> &'static str {
    match value_type {
        ValueType::String => "string",
        ValueType::Bool => "bool",
        ValueType::Int32 => "int32",
        ValueType::Int64 => "int64",
        ValueType::Float64 => "float64",
        ValueType::Bytes | ValueType::List(_) => "slice",
        ValueType::Map(_) => "map",
        _ => "struct",
    }
}
