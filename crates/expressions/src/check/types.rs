//! What is known of a value before there is one.

use super::structs::Struct;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Dyn,
    /// Of an expression with an issue, which is said once and not again.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// The type of a field that nobody has declared, which upstream's JSONPatch has instead of an error.
    Unspecified,
    Composite(Arc<Composite>),
    /// A type without parts.
    Opaque(&'static str),
    Struct(Arc<Struct>),
    /// A type that is yet to be found out.
    Param(usize),
}

/// A type that is made of others.
#[derive(Clone, Debug)]
pub(crate) struct Composite {
    pub(crate) kind: CompositeKind,
    pub(crate) parameters: Vec<Type>,
    weight: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompositeKind {
    List,
    Map,
    Optional,
    Type,
}

/// Types that share parts look small and are large to whoever walks through them; beyond this, they are dyn.
const WEIGHT_MAX: usize = 200;

impl Type {
    pub(crate) fn composite(kind: CompositeKind, parameters: Vec<Type>) -> Type {
        let weight = 1 + parameters.iter().map(Type::weight).sum::<usize>();
        if weight > WEIGHT_MAX {
            return Type::Dyn;
        }
        Type::Composite(Arc::new(Composite {
            kind,
            parameters,
            weight,
        }))
    }

    fn weight(&self) -> usize {
        match self {
            Type::Composite(composite) => composite.weight,
            _ => 1,
        }
    }

    pub(crate) fn list(item: Type) -> Type {
        Type::composite(CompositeKind::List, vec![item])
    }

    pub(crate) fn map(key: Type, value: Type) -> Type {
        Type::composite(CompositeKind::Map, vec![key, value])
    }

    pub(crate) fn optional(of: Type) -> Type {
        Type::composite(CompositeKind::Optional, vec![of])
    }

    pub(crate) fn type_of(of: Type) -> Type {
        Type::composite(CompositeKind::Type, vec![of])
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// The parts of a type of that kind.
    pub(crate) fn parts(&self, kind: CompositeKind) -> Option<&[Type]> {
        match self {
            Type::Composite(composite) if composite.kind == kind => Some(&composite.parameters),
            _ => None,
        }
    }

    /// What an optional holds; anything else is itself, and no optional.
    pub(crate) fn unwrap_optional(&self) -> (Type, bool) {
        match self.parts(CompositeKind::Optional) {
            Some([of]) => (of.clone(), true),
            _ => (self.clone(), false),
        }
    }

    pub(crate) fn is_exactly(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Composite(left), Type::Composite(right)) => {
                left.kind == right.kind
                    && left.parameters.len() == right.parameters.len()
                    && left
                        .parameters
                        .iter()
                        .zip(&right.parameters)
                        .all(|(left, right)| left.is_exactly(right))
            }
            (Type::Opaque(left), Type::Opaque(right)) => left == right,
            (Type::Struct(left), Type::Struct(right)) => left.name == right.name,
            (Type::Param(left), Type::Param(right)) => left == right,
            _ => self.is_same_kind(other),
        }
    }

    /// Whether both are the same of the kinds without parts.
    pub(crate) fn is_same_kind(&self, other: &Type) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether null may stand for a value of it.
    pub(crate) fn takes_null(&self) -> bool {
        match self {
            Type::Null | Type::Opaque(_) | Type::Struct(_) | Type::Duration | Type::Timestamp => {
                true
            }
            Type::Composite(composite) => composite.kind == CompositeKind::Optional,
            _ => false,
        }
    }

    /// As it is shown in what an expression must evaluate to.
    pub(crate) fn declared_name(&self) -> String {
        let mut name = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut name, true);
        name
    }

    fn write(&self, out: &mut impl fmt::Write, declared: bool) -> fmt::Result {
        match self {
            Type::Dyn | Type::Param(_) => out.write_str("dyn"),
            Type::Error => out.write_str("!error!"),
            Type::Null if declared => out.write_str("null_type"),
            Type::Null => out.write_str("null"),
            Type::Bool => out.write_str("bool"),
            Type::Int => out.write_str("int"),
            Type::Uint => out.write_str("uint"),
            Type::Double => out.write_str("double"),
            Type::String => out.write_str("string"),
            Type::Bytes => out.write_str("bytes"),
            Type::Timestamp if declared => out.write_str("google.protobuf.Timestamp"),
            Type::Timestamp => out.write_str("timestamp"),
            Type::Duration if declared => out.write_str("google.protobuf.Duration"),
            Type::Duration => out.write_str("duration"),
            Type::Unspecified => Ok(()),
            Type::Opaque(name) => out.write_str(name),
            Type::Struct(of) => out.write_str(&of.name),
            Type::Composite(composite) => composite.write(out, declared),
        }
    }
}

impl Composite {
    fn write(&self, out: &mut impl fmt::Write, declared: bool) -> fmt::Result {
        out.write_str(match self.kind {
            CompositeKind::List => "list",
            CompositeKind::Map => "map",
            CompositeKind::Optional => "optional_type",
            CompositeKind::Type => "type",
        })?;
        if self.parameters.is_empty() {
            return Ok(());
        }
        out.write_char('(')?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            if index > 0 {
                out.write_str(", ")?;
            }
            parameter.write(out, declared)?;
        }
        out.write_char(')')
    }
}

/// As issues show it.
impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, false)
    }
}
