//! The abstract syntax tree, with macros expanded (cel-go: `common/ast`).

use crate::value::Value;
use std::sync::Arc;

/// A parsed expression (cel-go: `ast.AST`).
#[derive(Debug)]
pub(crate) struct Ast {
    pub(crate) root: Expr,
    /// All expression ids are below this number.
    pub(crate) id_count: usize,
}

/// An expression with its source offset and the id by which the checker stores its type.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: usize,
    /// Source offset in characters, for issues.
    pub(crate) offset: usize,
    /// The height of this subtree.
    pub(crate) depth: usize,
    /// Boxed to keep stack frames of the recursive parser small.
    pub(crate) kind: Box<ExprKind>,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Value),
    Ident(Arc<str>),
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        /// `has(operand.field)`: tests for presence.
        test_only: bool,
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
    Logical {
        operator: LogicalOperator,
        terms: Vec<Expr>,
    },
    List(Vec<ListElement>),
    Map(Vec<MapEntry>),
    Struct {
        name: Arc<str>,
        fields: Vec<StructField>,
    },
    Comprehension(Box<ComprehensionExpr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogicalOperator {
    And,
    Or,
}

#[derive(Clone, Debug)]
pub(crate) struct ListElement {
    pub(crate) optional: bool,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) optional: bool,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct StructField {
    pub(crate) offset: usize,
    pub(crate) optional: bool,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
}

/// A comprehension (cel-go's `ComprehensionExpr`): the expansion of every macro over a list or a map.
#[derive(Clone, Debug)]
pub(crate) struct ComprehensionExpr {
    pub(crate) iter_range: Expr,
    pub(crate) iter_var: Arc<str>,
    pub(crate) iter_var2: Option<Arc<str>>,
    pub(crate) accu_var: Arc<str>,
    pub(crate) accu_init: Expr,
    pub(crate) loop_condition: Expr,
    pub(crate) loop_step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// The direct subexpressions.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &*self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => Vec::new(),
            ExprKind::Select { operand, .. } | ExprKind::OptionalSelect { operand, .. } => {
                vec![operand]
            }
            ExprKind::Call { target, args, .. } => {
                target.as_deref().into_iter().chain(args).collect()
            }
            ExprKind::Logical { terms, .. } => terms.iter().collect(),
            ExprKind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            ExprKind::Map(entries) => entries
                .iter()
                .flat_map(|entry| [&entry.key, &entry.value])
                .collect(),
            ExprKind::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            ExprKind::Comprehension(comprehension) => vec![
                &comprehension.iter_range,
                &comprehension.accu_init,
                &comprehension.loop_condition,
                &comprehension.loop_step,
                &comprehension.result,
            ],
        }
    }

    /// The name `a.b.c` if the expression consists of identifiers and selections only.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &*self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select {
                operand,
                field,
                test_only: false,
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
