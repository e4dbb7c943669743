//! Types with named fields: what the request has, and what the schema table says of an object.

use super::types::Type;
use crate::syntax::words;
use rhumb_schema::{Shape, Table, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Struct {
    pub(crate) name: String,
    fields: Fields,
}

#[derive(Clone, Debug)]
enum Fields {
    /// Nothing can be selected from it.
    None,
    Declared(BTreeMap<String, Type>),
    /// `Object` and what is below it: any field, of any type.
    Any,
    Patch,
    Schema(Arc<Schema>, TypeId),
}

/// The table that types of objects come from. Most are the built-in one, which lives forever.
#[derive(Clone, Debug)]
pub enum Schema {
    Builtin(&'static Table),
    Own(Arc<Table>),
}

impl Schema {
    fn table(&self) -> &Table {
        match self {
            Schema::Builtin(table) => table,
            Schema::Own(table) => table,
        }
    }
}

/// What there is to know of a field.
pub(crate) enum Lookup {
    Field(Type),
    Undefined,
    /// The type has no fields at all.
    NotAStruct,
}

impl Struct {
    pub(crate) fn without_fields(name: &str) -> Struct {
        Struct {
            name: name.to_owned(),
            fields: Fields::None,
        }
    }

    pub(crate) fn declared(name: &str, fields: BTreeMap<String, Type>) -> Struct {
        Struct {
            name: name.to_owned(),
            fields: Fields::Declared(fields),
        }
    }

    pub(crate) fn object(name: &str) -> Struct {
        Struct {
            name: name.to_owned(),
            fields: Fields::Any,
        }
    }

    pub(crate) fn patch() -> Struct {
        Struct {
            name: "JSONPatch".to_owned(),
            fields: Fields::Patch,
        }
    }

    /// Declares one more field.
    pub(crate) fn insert(&mut self, name: &str, of: Type) {
        if let Fields::Declared(fields) = &mut self.fields {
            fields.insert(name.to_owned(), of);
        }
    }

    pub(crate) fn field(&self, name: &str) -> Lookup {
        match &self.fields {
            Fields::None => Lookup::NotAStruct,
            Fields::Declared(fields) => match fields.get(name) {
                Some(field) => Lookup::Field(field.clone()),
                None => Lookup::Undefined,
            },
            Fields::Any => Lookup::Field(Type::Dyn),
            Fields::Patch => Lookup::Field(match name {
                "op" | "from" | "path" => Type::String,
                "value" => Type::Dyn,
                _ => Type::Unspecified,
            }),
            Fields::Schema(schema, id) => {
                let of = schema.table().get(*id);
                match of.field(name).or_else(|| of.field(&unescaped(name)?)) {
                    Some(field) => Lookup::Field(of_shape(schema, &field.shape)),
                    None if of.open => Lookup::Field(Type::Dyn),
                    None => Lookup::Undefined,
                }
            }
        }
    }
}

/// Names that CEL cannot spell are written otherwise in schemas: `__namespace__`, `a__dash__b`.
fn unescaped(name: &str) -> Option<String> {
    let inner = name.strip_prefix("__").and_then(|n| n.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| words::is_kept(word)) {
        return Some(word.to_owned());
    }
    name.contains("__").then(|| {
        name.replace("__dot__", ".")
            .replace("__dash__", "-")
            .replace("__slash__", "/")
            .replace("__underscores__", "__")
    })
}

/// The type of an object of the schema.
pub(crate) fn of_schema(schema: &Arc<Schema>, id: TypeId) -> Type {
    let of = schema.table().get(id);
    // Without fields, nothing is known: it may be anything.
    if of.fields.is_empty() {
        return Type::Dyn;
    }
    Type::Struct(Arc::new(Struct {
        name: of.name.to_string(),
        fields: Fields::Schema(schema.clone(), id),
    }))
}

fn of_shape(schema: &Arc<Schema>, shape: &Shape) -> Type {
    match shape {
        Shape::String | Shape::Duration => Type::String,
        Shape::Bool => Type::Bool,
        Shape::Int32 | Shape::Int64 => Type::Int,
        Shape::Float64 => Type::Double,
        Shape::Bytes => Type::Bytes,
        Shape::Time | Shape::MicroTime => Type::Timestamp,
        // More than one kind of value is allowed.
        Shape::Quantity
        | Shape::IntOrString
        | Shape::Any
        | Shape::OrBool(_)
        | Shape::OrList(_)
        | Shape::OrStrings(_) => Type::Dyn,
        Shape::Object(id) => of_schema(schema, *id),
        Shape::List(items) => Type::list(of_shape(schema, &items.shape)),
        Shape::Map(value) => Type::map(Type::String, of_shape(schema, value)),
    }
}

fn declare(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields
        .iter()
        .map(|(name, field)| ((*name).to_owned(), field.clone()))
        .collect();
    Type::Struct(Arc::new(Struct::declared(name, fields)))
}

/// What `request` is.
pub(crate) fn request() -> Type {
    let strings = || Type::list(Type::String);
    let of_strings =
        |name: &str, fields: [&str; 3]| declare(name, &fields.map(|field| (field, Type::String)));
    let kind = of_strings("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let resource = of_strings(
        "kubernetes.GroupVersionResource",
        ["group", "version", "resource"],
    );
    let user = declare(
        "kubernetes.UserInfo",
        &[
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", strings()),
            ("extra", Type::map(Type::String, strings())),
        ],
    );
    declare(
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

/// What `namespaceObject` is.
pub(crate) fn namespace() -> Type {
    let strings = || Type::list(Type::String);
    let labels = || Type::map(Type::String, Type::String);
    let metadata = declare(
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
    let condition = declare(
        "kubernetes.NamespaceCondition",
        &[
            ("status", Type::String),
            ("type", Type::String),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String),
            ("reason", Type::String),
        ],
    );
    let status = declare(
        "kubernetes.NamespaceStatus",
        &[
            ("conditions", Type::list(condition)),
            ("phase", Type::String),
        ],
    );
    let spec = declare("kubernetes.NamespaceSpec", &[("finalizers", strings())]);
    declare(
        "kubernetes.Namespace",
        &[("metadata", metadata), ("spec", spec), ("status", status)],
    )
}
