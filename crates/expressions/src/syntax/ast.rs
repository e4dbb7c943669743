//! The tree that the parser makes, with macros already expanded.

use crate::value::Value;
use std::sync::Arc;

/// An expression, where it stands in the text, and a number by which the checker remembers its type.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: usize,
    /// The offset in characters of what an error about this expression points at.
    pub(crate) at: usize,
    /// How many expressions are nested here, this one included.
    pub(crate) depth: usize,
    /// Boxed, so that the parser, which recurses, moves little around.
    pub(crate) kind: Box<Kind>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Value),
    Ident(Arc<str>),
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        /// `has(operand.field)`: only ask whether it is there.
        test: bool,
    },
    OptionalSelect {
        operand: Box<Expr>,
        field: Arc<str>,
    },
    Call {
        function: Arc<str>,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// `a && b && c` or `a || b || c`: one flat list, so that long chains are not deep.
    Logic {
        operator: Logic,
        terms: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct {
        name: Arc<str>,
        fields: Vec<FieldInit>,
    },
    Fold(Box<Fold>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
}

#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) optional: bool,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) optional: bool,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct FieldInit {
    pub(crate) at: usize,
    pub(crate) optional: bool,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
}

/// What every macro over a list or a map becomes: a loop with one variable that is carried along.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: Arc<str>,
    pub(crate) second: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// The expressions directly below this one.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &*self.kind {
            Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
            Kind::Select { operand, .. } | Kind::OptionalSelect { operand, .. } => vec![operand],
            Kind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Kind::Logic { terms, .. } => terms.iter().collect(),
            Kind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Kind::Map(entries) => entries
                .iter()
                .flat_map(|entry| [&entry.key, &entry.value])
                .collect(),
            Kind::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            Kind::Fold(fold) => vec![
                &fold.range,
                &fold.init,
                &fold.condition,
                &fold.step,
                &fold.result,
            ],
        }
    }

    /// `a.b.c` as one name, if that is all there is.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &*self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select {
                operand,
                field,
                test: false,
            } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }
}
