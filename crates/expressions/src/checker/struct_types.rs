//! Struct types: the admission request, the namespace, and objects described by a schema table (upstream: `DeclType`).

use super::types::Type;
use crate::identifiers;
use rhumb_schema::{SchemaRef, ValueType};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct StructType {
    pub(crate) name: String,
    fields: StructFields,
}

#[derive(Clone, Debug)]
enum StructFields {
    /// No field can be selected.
    None,
    Declared(BTreeMap<String, Type>),
    /// `Object` and its nested types, which have any field, of type dyn.
    Any,
    JsonPatch,
    Schema(SchemaRef),
}

/// Result of a field lookup.
pub(crate) enum FieldLookup {
    Field(Type),
    Undefined,
    /// The type has no fields at all.
    NoFields,
}

impl StructType {
    pub(crate) fn without_fields(name: &str) -> StructType {
        StructType {
            name: name.to_owned(),
            fields: StructFields::None,
        }
    }

    pub(crate) fn with_fields(name: &str, fields: BTreeMap<String, Type>) -> StructType {
        StructType {
            name: name.to_owned(),
            fields: StructFields::Declared(fields),
        }
    }

    pub(crate) fn object(name: &str) -> StructType {
        StructType {
            name: name.to_owned(),
            fields: StructFields::Any,
        }
    }

    pub(crate) fn json_patch() -> StructType {
        StructType {
            name: "JSONPatch".to_owned(),
            fields: StructFields::JsonPatch,
        }
    }

    /// Declares a field.
    pub(crate) fn insert(&mut self, name: &str, ty: Type) {
        if let StructFields::Declared(fields) = &mut self.fields {
            fields.insert(name.to_owned(), ty);
        }
    }

    pub(crate) fn field(&self, name: &str) -> FieldLookup {
        match &self.fields {
            StructFields::None => FieldLookup::NoFields,
            StructFields::Declared(fields) => match fields.get(name) {
                Some(field) => FieldLookup::Field(field.clone()),
                None => FieldLookup::Undefined,
            },
            StructFields::Any => FieldLookup::Field(Type::Dyn),
            StructFields::JsonPatch => FieldLookup::Field(match name {
                "op" | "from" | "path" => Type::String,
                "value" => Type::Dyn,
                _ => Type::Unspecified,
            }),
            StructFields::Schema(schema) => {
                let ty = schema.get();
                match ty
                    .field(name)
                    .or_else(|| ty.field(&unescape_property_name(name)?))
                {
                    Some(field) => FieldLookup::Field(type_of_value(schema, &field.value_type)),
                    None if ty.preserve_unknown_fields => FieldLookup::Field(Type::Dyn),
                    None => FieldLookup::Undefined,
                }
            }
        }
    }
}

/// Reverses upstream's escaping of property names that are not CEL identifiers: `__namespace__`, `a__dash__b`.
fn unescape_property_name(name: &str) -> Option<String> {
    let inner = name.strip_prefix("__").and_then(|n| n.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| identifiers::is_reserved_or_literal(word)) {
        return Some(word.to_owned());
    }
    name.contains("__").then(|| {
        name.replace("__dot__", ".")
            .replace("__dash__", "-")
            .replace("__slash__", "/")
            .replace("__underscores__", "__")
    })
}

/// The type of an object described by the schema.
pub(crate) fn object_type(schema: SchemaRef) -> Type {
    let ty = schema.get();
    // A schema without fields allows any value.
    if ty.fields.is_empty() {
        return Type::Dyn;
    }
    Type::Struct(Arc::new(StructType {
        name: ty.name.to_string(),
        fields: StructFields::Schema(schema),
    }))
}

fn type_of_value(schema: &SchemaRef, value_type: &ValueType) -> Type {
    match value_type {
        ValueType::String | ValueType::Duration => Type::String,
        ValueType::Bool => Type::Bool,
        ValueType::Int32 | ValueType::Int64 => Type::Int,
        ValueType::Float64 => Type::Double,
        ValueType::Bytes => Type::Bytes,
        ValueType::Time | ValueType::MicroTime => Type::Timestamp,
        // Several JSON types are allowed.
        ValueType::Quantity
        | ValueType::IntOrString
        | ValueType::Any
        | ValueType::SchemaOrBool(_)
        | ValueType::SchemaOrArray(_)
        | ValueType::SchemaOrStringArray(_) => Type::Dyn,
        ValueType::Object(id) => object_type(SchemaRef::new(Arc::clone(schema.table()), *id)),
        ValueType::List(items) => Type::list(type_of_value(schema, &items.item_type)),
        ValueType::Map(value) => Type::map(Type::String, type_of_value(schema, value)),
    }
}

fn declare_struct(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields
        .iter()
        .map(|(name, field)| ((*name).to_owned(), field.clone()))
        .collect();
    Type::Struct(Arc::new(StructType::with_fields(name, fields)))
}

/// The type of `request`.
pub(crate) fn admission_request_type() -> Type {
    let strings = || Type::list(Type::String);
    let of_strings = |name: &str, fields: [&str; 3]| {
        declare_struct(name, &fields.map(|field| (field, Type::String)))
    };
    let kind = of_strings("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let resource = of_strings(
        "kubernetes.GroupVersionResource",
        ["group", "version", "resource"],
    );
    let user = declare_struct(
        "kubernetes.UserInfo",
        &[
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", strings()),
            ("extra", Type::map(Type::String, strings())),
        ],
    );
    declare_struct(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", Type::String),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

/// The type of `namespaceObject`.
pub(crate) fn namespace_object_type() -> Type {
    let strings = || Type::list(Type::String);
    let labels = || Type::map(Type::String, Type::String);
    let metadata = declare_struct(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", Type::String),
            ("generateName", Type::String),
            ("namespace", Type::String),
            ("labels", labels()),
            ("annotations", labels()),
            ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::String),
            ("finalizers", strings()),
        ],
    );
    let condition = declare_struct(
        "kubernetes.NamespaceCondition",
        &[
            ("status", Type::String),
            ("type", Type::String),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String),
            ("reason", Type::String),
        ],
    );
    let status = declare_struct(
        "kubernetes.NamespaceStatus",
        &[
            ("conditions", Type::list(condition)),
            ("phase", Type::String),
        ],
    );
    let spec = declare_struct("kubernetes.NamespaceSpec", &[("finalizers", strings())]);
    declare_struct(
        "kubernetes.Namespace",
        &[("metadata", metadata), ("spec", spec), ("status", status)],
    )
}
