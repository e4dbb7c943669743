//! The table in memory: types, their fields, and the shapes of values.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::keys::Keys;
use crate::names::Names;
use crate::protobuf::Message;

/// A set of types that refer to each other.
#[derive(Debug, Default)]
pub struct Table {
    pub(crate) types: Vec<Type>,
    pub(crate) by_name: HashMap<Box<str>, TypeId>,
    /// The protobuf form of each type, once anyone asks for it.
    pub(crate) messages: OnceLock<Box<[Message]>>,
}

/// A type of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

/// An object with named fields.
#[derive(Debug, Clone, Default)]
pub struct Type {
    /// As OpenAPI names it: `io.k8s.api.core.v1.Container`.
    pub name: Box<str>,
    /// As upstream's errors name it: `v1.Container`.
    pub go: Box<str>,
    /// Sorted by name.
    pub fields: Box<[Field]>,
    /// Server-side apply owns it as a whole.
    pub atomic: bool,
    /// Fields that are not listed are kept as they are.
    pub open: bool,
    /// By which the fields are found. Filled in when the table is built.
    pub(crate) names: Names,
    /// How the fields begin in JSON. Filled in with it.
    pub(crate) keys: Keys,
    /// How many of the fields are written even when empty. Filled in with it.
    pub(crate) always_written: usize,
    /// Other spellings, and the position of the field that each stands for. Filled in with it.
    pub(crate) aliases: Box<[(Box<str>, usize)]>,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub name: Box<str>,
    /// Other names by which clients may send it. It is stored and shown by its own name only.
    pub aliases: Box<[Box<str>]>,
    pub shape: Shape,
    /// Its number in the protobuf form; 0 when it has none.
    pub number: u32,
    /// The structs that Go promotes it from, outermost first. In the protobuf form they are messages of their own.
    pub embedded: Box<[Embedding]>,
    pub required: bool,
    /// Whether absent and zero are different values.
    pub pointer: bool,
    pub emit: Emit,
    pub default: Option<Value>,
    /// The values it may have; empty when any.
    pub values: Box<[Box<str>]>,
    /// Its Go type without the pointer, where the shape does not tell it: `v1.Protocol`, `v1.ResourceList`.
    pub go: Option<Box<str>>,
    /// Whether server-side apply owns it as a whole, where that differs from its type.
    pub atomic: Option<bool>,
    /// A strategic merge patch may list the keys to keep.
    pub retain_keys: bool,
    /// A strategic merge patch replaces it, although it is an object.
    pub replace: bool,
}

impl Field {
    /// Whether its list is a message of its own in the protobuf form, with the items as field 1. Of all lists that are
    /// not values of a map, upstream does so for one type.
    pub(crate) fn is_list_message(&self) -> bool {
        self.go.as_deref() == Some("v1.Verbs")
    }
}

/// A struct in a struct, whose fields JSON shows as fields of the outer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding {
    pub go: Box<str>,
    /// Its number in the protobuf form; 0 when it has none.
    pub number: u32,
}

/// When a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    Always,
    /// Not when it is zero, empty or absent (a pointer: only when absent).
    UnlessEmpty,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
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
    List(Box<Items>),
    Map(Box<Shape>),
    /// An object of that type, or a boolean.
    OrBool(TypeId),
    /// An object of that type, or a list of them.
    OrList(TypeId),
    /// An object of that type, or a list of strings.
    OrStrings(TypeId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Items {
    pub shape: Shape,
    pub topology: Topology,
    /// Strategic merge patches merge the list rather than replace it; by this key if its items are objects.
    pub merge: Option<Box<str>>,
}

/// How a list's items are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    Atomic,
    Set,
    /// By the values of these fields.
    Map(Box<[Box<str>]>),
}

impl Table {
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    pub(crate) fn message(&self, id: TypeId) -> &Message {
        let all = || self.types.iter().map(Message::of).collect();
        &self.messages.get_or_init(all)[id.0 as usize]
    }

    pub fn types(&self) -> impl ExactSizeIterator<Item = &Type> {
        self.types.iter()
    }
}

impl Type {
    /// A type that is neither atomic nor open.
    pub fn new(name: &str, go: &str, fields: Vec<Field>) -> Type {
        Type {
            name: name.into(),
            go: go.into(),
            fields: fields.into(),
            ..Type::default()
        }
    }

    #[inline]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|at| &self.fields[at])
    }

    #[inline]
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.names.position(&self.fields, name)
    }

    /// The position of the field that this is another spelling of.
    pub(crate) fn position_of_alias(&self, name: &str) -> Option<usize> {
        let found = self.aliases.iter().find(|(alias, _)| **alias == *name);
        found.map(|&(_, at)| at)
    }

    /// Puts the fields in order, and makes them easy to find.
    pub(crate) fn index(&mut self) {
        self.fields.sort_by(|a, b| a.name.cmp(&b.name));
        self.names = Names::of(&self.fields);
        self.keys = Keys::of(&self.fields);
        let always_written = |field: &&Field| field.emit == Emit::Always;
        self.always_written = self.fields.iter().filter(always_written).count();
        let aliases = self.fields.iter().enumerate().flat_map(|(at, field)| {
            let aliases = field.aliases.iter().cloned();
            aliases.map(move |alias| (alias, at))
        });
        self.aliases = aliases.collect();
    }

    /// The name without the package, as errors about its fields have it.
    pub(crate) fn short_go(&self) -> &str {
        self.go.rsplit('.').next().unwrap_or_default()
    }
}

/// The protobuf numbers of `ours.table` begin here, far from those that upstream may give away.
const FIRST_OF_OURS: u32 = 1000;

impl Field {
    /// Whether upstream has no such field.
    pub fn is_ours(&self) -> bool {
        self.number >= FIRST_OF_OURS
    }

    /// A field that is neither required nor a pointer, and left out when empty.
    pub fn new(name: &str, shape: Shape) -> Field {
        Field {
            name: name.into(),
            aliases: Box::default(),
            shape,
            number: 0,
            embedded: Box::default(),
            required: false,
            pointer: false,
            emit: Emit::UnlessEmpty,
            default: None,
            values: Box::default(),
            go: None,
            atomic: None,
            retain_keys: false,
            replace: false,
        }
    }
}

impl Shape {
    /// The type of object that is here, or in the list or map that is here.
    pub fn object(&self) -> Option<TypeId> {
        match self {
            Shape::Object(id) | Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id) => {
                Some(*id)
            }
            Shape::List(items) => items.shape.object(),
            Shape::Map(values) => values.object(),
            _ => None,
        }
    }
}
