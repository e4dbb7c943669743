//! In-memory schema table: object types, their fields, and the types of field values.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::encoded_keys::EncodedKeys;
use crate::field_name_index::FieldNameIndex;
use crate::protobuf::MessageLayout;

/// A self-contained set of object types: every referenced type is in the same table.
#[derive(Debug, Default)]
pub struct Table {
    pub(crate) types: Vec<ObjectType>,
    pub(crate) by_name: HashMap<Box<str>, TypeId>,
    /// Protobuf message layout of each type, computed on first use.
    pub(crate) messages: OnceLock<Box<[MessageLayout]>>,
}

/// A type of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

/// An object with named fields.
#[derive(Debug, Clone, Default)]
pub struct ObjectType {
    /// As OpenAPI names it: `io.k8s.api.core.v1.Container`.
    pub name: Box<str>,
    /// As upstream's errors name it: `v1.Container`.
    pub go_name: Box<str>,
    /// Sorted by name.
    pub fields: Box<[Field]>,
    /// Server-side apply treats it as a single unit (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Unknown fields are preserved (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown_fields: bool,
    /// Unknown fields in requests, at any depth below this object, are errors whatever the field validation, because an
    /// object without them would mean something else.
    pub reject_unknown_fields: bool,
    /// Index of the fields by name. Set when the table is built.
    pub(crate) name_index: FieldNameIndex,
    /// The encoded JSON keys of the fields. Set when the table is built.
    pub(crate) encoded_keys: EncodedKeys,
    /// Number of fields that are written even when empty. Set when the table is built.
    pub(crate) always_written: usize,
    /// Field aliases, each with the position of its field. Set when the table is built.
    pub(crate) aliases: Box<[(Box<str>, usize)]>,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub name: Box<str>,
    /// Other names that clients may send for it. It is stored and returned under its own name only.
    pub aliases: Box<[Box<str>]>,
    pub value_type: ValueType,
    /// Its protobuf field number; 0 if it has none.
    pub number: u32,
    /// The embedded Go structs it is promoted from, outermost first. In protobuf each is a separate message.
    pub embedded: Box<[EmbeddedStruct]>,
    pub required: bool,
    /// Whether absent and zero are different values.
    pub pointer: bool,
    pub emission: FieldEmission,
    pub default: Option<Value>,
    /// The values that OpenAPI lists for it, its items or its map values; empty if any. Validation does not use them.
    pub allowed_values: Box<[Box<str>]>,
    /// Its Go type without the pointer, if `value_type` does not determine it: `v1.Protocol`, `v1.ResourceList`.
    pub go_type: Option<Box<str>>,
    /// Whether server-side apply owns it as a whole, where that differs from its type.
    pub atomic: Option<bool>,
    /// A strategic merge patch may list the keys to keep.
    pub retain_keys: bool,
    /// A strategic merge patch replaces it, although it is an object.
    pub replace: bool,
}

impl Field {
    /// Whether the list is encoded as a separate protobuf message, with the items as field 1. Except for list values
    /// of maps, upstream does so for one type only.
    pub(crate) fn is_list_message(&self) -> bool {
        self.go_type.as_deref() == Some("v1.Verbs")
    }
}

/// An embedded Go struct, whose fields JSON inlines into the outer object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedStruct {
    pub go_name: Box<str>,
    /// Its protobuf field number; 0 if it has none.
    pub number: u32,
}

/// When a field is serialized (Go's `omitempty`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldEmission {
    Always,
    /// Omitted if zero, empty or absent (a pointer: only if absent).
    OmitEmpty,
}

/// The type of a field value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueType {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    /// Base64 in JSON.
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    /// Any JSON.
    Any,
    Object(TypeId),
    List(Box<ListSchema>),
    Map(Box<ValueType>),
    /// `JSONSchemaPropsOrBool`: an object of that type, or a boolean.
    SchemaOrBool(TypeId),
    /// `JSONSchemaPropsOrArray`: an object of that type, or a list of them.
    SchemaOrArray(TypeId),
    /// `JSONSchemaPropsOrStringArray`: an object of that type, or a list of strings.
    SchemaOrStringArray(TypeId),
}

/// A list: the type of its items, and how patches and server-side apply merge it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListSchema {
    pub item_type: ValueType,
    pub list_type: ListType,
    /// Set if strategic merge patches merge the list instead of replacing it (`x-kubernetes-patch-merge-key`). Empty if
    /// the items are not objects.
    pub merge_key: Option<Box<str>>,
}

/// How list items are identified (`x-kubernetes-list-type`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    /// By the values of these fields.
    Map(Box<[Box<str>]>),
}

impl Table {
    /// The type with that OpenAPI name.
    pub fn type_id(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, id: TypeId) -> &ObjectType {
        &self.types[id.0 as usize]
    }

    pub(crate) fn message(&self, id: TypeId) -> &MessageLayout {
        let all = || self.types.iter().map(MessageLayout::new).collect();
        &self.messages.get_or_init(all)[id.0 as usize]
    }

    pub fn types(&self) -> impl ExactSizeIterator<Item = &ObjectType> {
        self.types.iter()
    }
}

impl ObjectType {
    /// A type that is not atomic and does not preserve unknown fields.
    pub fn new(name: &str, go_name: &str, fields: Vec<Field>) -> ObjectType {
        ObjectType {
            name: name.into(),
            go_name: go_name.into(),
            fields: fields.into(),
            ..ObjectType::default()
        }
    }

    #[inline]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|position| &self.fields[position])
    }

    #[inline]
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.name_index.position(&self.fields, name)
    }

    /// The position of the field with this alias.
    pub(crate) fn position_of_alias(&self, name: &str) -> Option<usize> {
        let found = self.aliases.iter().find(|(alias, _)| **alias == *name);
        found.map(|&(_, position)| position)
    }

    /// Sorts the fields and builds the lookup structures derived from them.
    pub(crate) fn index(&mut self) {
        self.fields.sort_by(|a, b| a.name.cmp(&b.name));
        self.name_index = FieldNameIndex::new(&self.fields);
        self.encoded_keys = EncodedKeys::new(&self.fields);
        let always_written = |field: &&Field| field.emission == FieldEmission::Always;
        self.always_written = self.fields.iter().filter(always_written).count();
        let aliases = self
            .fields
            .iter()
            .enumerate()
            .flat_map(|(position, field)| {
                let aliases = field.aliases.iter().cloned();
                aliases.map(move |alias| (alias, position))
            });
        self.aliases = aliases.collect();
    }

    /// The name without the package, as errors about its fields have it.
    pub(crate) fn short_go_name(&self) -> &str {
        self.go_name.rsplit('.').next().unwrap_or_default()
    }
}

/// Protobuf field numbers of `ours.table` start here, well above any that upstream may assign.
const FIRST_RHUMB_FIELD_NUMBER: u32 = 1000;

impl Field {
    /// Whether it is a rhumb extension that upstream does not have.
    pub fn is_rhumb_extension(&self) -> bool {
        self.number >= FIRST_RHUMB_FIELD_NUMBER
    }

    /// A field that is neither required nor a pointer, and left out when empty.
    pub fn new(name: &str, value_type: ValueType) -> Field {
        Field {
            name: name.into(),
            aliases: Box::default(),
            value_type,
            number: 0,
            embedded: Box::default(),
            required: false,
            pointer: false,
            emission: FieldEmission::OmitEmpty,
            default: None,
            allowed_values: Box::default(),
            go_type: None,
            atomic: None,
            retain_keys: false,
            replace: false,
        }
    }
}

impl ValueType {
    /// The object type of the value, or of the items of the list or map.
    pub fn object(&self) -> Option<TypeId> {
        match self {
            ValueType::Object(id)
            | ValueType::SchemaOrBool(id)
            | ValueType::SchemaOrArray(id)
            | ValueType::SchemaOrStringArray(id) => Some(*id),
            ValueType::List(list_schema) => list_schema.item_type.object(),
            ValueType::Map(values) => values.object(),
            _ => None,
        }
    }
}
