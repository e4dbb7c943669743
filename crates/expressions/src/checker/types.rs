//! CEL types (cel-go: `types.Type`).

use super::struct_types::StructType;
use std::fmt;
use std::sync::Arc;

/// The CEL type of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Dyn,
    /// The type of an expression with an issue; it is assignable to any type, so that the issue is reported once.
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
    /// The type of an undeclared field of JSONPatch; upstream does not reject it.
    Unspecified,
    Parameterized(Arc<ParameterizedType>),
    /// An opaque type without type parameters.
    Opaque(&'static str),
    Struct(Arc<StructType>),
    /// A type parameter, by its number.
    Param(usize),
}

/// A list, map, optional or type type with its type parameters.
#[derive(Clone, Debug)]
pub(crate) struct ParameterizedType {
    pub(crate) kind: ParameterizedKind,
    pub(crate) parameters: Vec<Type>,
    node_count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterizedKind {
    List,
    Map,
    Optional,
    Type,
}

/// Types are shared trees, whose size when traversed can be exponential; larger ones become dyn.
const NODE_COUNT_MAX: usize = 200;

impl Type {
    pub(crate) fn parameterized(kind: ParameterizedKind, parameters: Vec<Type>) -> Type {
        let node_count = 1 + parameters.iter().map(Type::node_count).sum::<usize>();
        if node_count > NODE_COUNT_MAX {
            return Type::Dyn;
        }
        Type::Parameterized(Arc::new(ParameterizedType {
            kind,
            parameters,
            node_count,
        }))
    }

    fn node_count(&self) -> usize {
        match self {
            Type::Parameterized(parameterized) => parameterized.node_count,
            _ => 1,
        }
    }

    pub(crate) fn list(item: Type) -> Type {
        Type::parameterized(ParameterizedKind::List, vec![item])
    }

    pub(crate) fn map(key: Type, value: Type) -> Type {
        Type::parameterized(ParameterizedKind::Map, vec![key, value])
    }

    pub(crate) fn optional(ty: Type) -> Type {
        Type::parameterized(ParameterizedKind::Optional, vec![ty])
    }

    pub(crate) fn type_of(ty: Type) -> Type {
        Type::parameterized(ParameterizedKind::Type, vec![ty])
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// The type parameters of a type of this kind.
    pub(crate) fn type_parameters(&self, kind: ParameterizedKind) -> Option<&[Type]> {
        match self {
            Type::Parameterized(parameterized) if parameterized.kind == kind => {
                Some(&parameterized.parameters)
            }
            _ => None,
        }
    }

    /// The type inside an optional, and whether it was one.
    pub(crate) fn unwrap_optional(&self) -> (Type, bool) {
        match self.type_parameters(ParameterizedKind::Optional) {
            Some([ty]) => (ty.clone(), true),
            _ => (self.clone(), false),
        }
    }

    pub(crate) fn is_exact_type(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Parameterized(left), Type::Parameterized(right)) => {
                left.kind == right.kind
                    && left.parameters.len() == right.parameters.len()
                    && left
                        .parameters
                        .iter()
                        .zip(&right.parameters)
                        .all(|(left, right)| left.is_exact_type(right))
            }
            (Type::Opaque(left), Type::Opaque(right)) => left == right,
            (Type::Struct(left), Type::Struct(right)) => left.name == right.name,
            (Type::Param(left), Type::Param(right)) => left == right,
            _ => self.is_same_kind(other),
        }
    }

    /// Compares types without type parameters.
    pub(crate) fn is_same_kind(&self, other: &Type) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether null is assignable to it.
    pub(crate) fn is_nullable(&self) -> bool {
        match self {
            Type::Null | Type::Opaque(_) | Type::Struct(_) | Type::Duration | Type::Timestamp => {
                true
            }
            Type::Parameterized(parameterized) => parameterized.kind == ParameterizedKind::Optional,
            _ => false,
        }
    }

    /// The name as "must evaluate to" errors display it.
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
            Type::Struct(ty) => out.write_str(&ty.name),
            Type::Parameterized(parameterized) => parameterized.write(out, declared),
        }
    }
}

impl ParameterizedType {
    fn write(&self, out: &mut impl fmt::Write, declared: bool) -> fmt::Result {
        out.write_str(match self.kind {
            ParameterizedKind::List => "list",
            ParameterizedKind::Map => "map",
            ParameterizedKind::Optional => "optional_type",
            ParameterizedKind::Type => "type",
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

/// The name as checker issues display it.
impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, false)
    }
}
