//! The table in memory: types, their fields, and the shapes of values.

use std::collections::HashMap;

use serde_json::Value;

/// A set of types that refer to each other.
#[derive(Debug, Default)]
pub struct Table {
    types: Vec<Type>,
    by_name: HashMap<Box<str>, TypeId>,
}

/// A type of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(u32);

/// An object with named fields.
#[derive(Debug)]
pub struct Type {
    /// As OpenAPI names it: `io.k8s.api.core.v1.Container`.
    pub name: Box<str>,
    /// Sorted by name.
    pub fields: Box<[Field]>,
}

#[derive(Debug)]
pub struct Field {
    pub name: Box<str>,
    pub shape: Shape,
    /// Its number in the protobuf form; 0 when it has none.
    pub number: u32,
    pub required: bool,
    /// Whether absent and zero are different values.
    pub pointer: bool,
    pub emit: Emit,
    pub default: Option<Value>,
    /// The values it may have; empty when any.
    pub values: Box<[Box<str>]>,
}

/// When a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    Always,
    /// Not when it is zero, empty or absent (a pointer: only when absent).
    UnlessEmpty,
}

/// What a value is.
#[derive(Debug, PartialEq, Eq)]
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
}

#[derive(Debug, PartialEq, Eq)]
pub struct Items {
    pub shape: Shape,
    pub topology: Topology,
    /// Strategic merge patches merge the list rather than replace it; by this key if its items are objects.
    pub merge: Option<Box<str>>,
}

/// How a list's items are told apart.
#[derive(Debug, PartialEq, Eq)]
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
}

impl Type {
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self
            .fields
            .binary_search_by(|field| (*field.name).cmp(name))
            .ok()?;
        Some(&self.fields[at])
    }
}
