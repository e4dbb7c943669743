//! The executable form of a checked expression, which the planner creates (cel-go: `interpreter.Interpretable`; the
//! payload types are named after cel-go's `eval*` types).

use super::call_cost::CallCost;
use crate::ast::LogicalOperator;
use crate::environment::BuiltinVariable;
use crate::library::FunctionOp;
use crate::value::{ListValue, Value};
use regex::Regex;
use std::sync::Arc;

/// A planned expression.
#[derive(Debug)]
pub(crate) struct ProgramPlan {
    pub(crate) root: Interpretable,
    /// Number of local variable slots needed.
    pub(crate) local_count: usize,
}

#[derive(Debug)]
pub(crate) enum Interpretable {
    Constant(Value),
    Local(usize),
    Builtin(BuiltinVariable),
    /// `variables.<name>`.
    CompositedVariable(Arc<str>),
    Select(Box<EvalSelect>),
    Index(Box<EvalIndex>),
    Logical(LogicalOperator, Vec<Interpretable>),
    Conditional(Box<[Interpretable; 3]>),
    /// `optional.or(..)` and `optional.orValue(..)`.
    OptionalOr(Box<EvalOptionalOr>),
    Call(Box<EvalCall>),
    CreateList(Vec<(bool, Interpretable)>),
    CreateMap(Vec<(bool, Interpretable, Interpretable)>),
    CreateStruct(Box<EvalStruct>),
    Fold(Box<EvalFold>),
    /// `in` with a constant list.
    SetMembership(Box<Interpretable>, ListValue),
}

#[derive(Debug)]
pub(crate) struct EvalSelect {
    pub(crate) operand: Interpretable,
    pub(crate) field: Arc<str>,
    pub(crate) kind: SelectKind,
    /// Selecting from a computed value costs one more than selecting from an identifier.
    pub(crate) extra_cost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectKind {
    Field,
    /// `has(operand.field)`.
    TestOnly,
    Optional,
}

#[derive(Debug)]
pub(crate) struct EvalIndex {
    pub(crate) operand: Interpretable,
    pub(crate) index: Interpretable,
    pub(crate) optional: bool,
    pub(crate) extra_cost: u64,
}

#[derive(Debug)]
pub(crate) struct EvalOptionalOr {
    pub(crate) optional: Interpretable,
    pub(crate) alternative: Interpretable,
    /// `orValue`: return the contained value instead of the optional.
    pub(crate) unwrap: bool,
}

#[derive(Debug)]
pub(crate) struct EvalCall {
    pub(crate) name: &'static str,
    pub(crate) function: FunctionOp,
    pub(crate) cost: CallCost,
    pub(crate) args: Vec<Interpretable>,
    /// The precompiled regex, if the pattern is constant.
    pub(crate) regex: Option<Arc<Regex>>,
}

#[derive(Debug)]
pub(crate) struct EvalStruct {
    pub(crate) type_name: Arc<str>,
    pub(crate) fields: Vec<(bool, Arc<str>, Interpretable)>,
}

#[derive(Debug)]
pub(crate) struct EvalFold {
    pub(crate) iter_range: Interpretable,
    /// Slot of the accumulator; the iteration variables follow it.
    pub(crate) accu_slot: usize,
    pub(crate) two_variables: bool,
    pub(crate) accu_init: Interpretable,
    pub(crate) body: FoldBody,
    pub(crate) result: Interpretable,
}

#[derive(Debug)]
pub(crate) enum FoldBody {
    /// `all` and `exists`: an error is ignored if another item decides the result.
    Quantifier(LogicalOperator, Interpretable),
    /// Visits every item.
    ForEach(FoldStep),
    /// `cel.bind`: binds a name to a value, without iteration.
    Bind,
    /// `cel.bind` whose name is not used.
    UnusedBind,
}

/// The effect of one iteration on the accumulator.
#[derive(Debug)]
pub(crate) enum FoldStep {
    Keep,
    Append(Interpretable),
    Insert(Interpretable, Interpretable),
    Merge(Interpretable),
    Set(Interpretable),
    Conditional(Interpretable, Box<FoldStep>),
}

impl Interpretable {
    /// Whether it is an identifier with selections and indexes (cel-go: `InterpretableAttribute`).
    pub(crate) fn is_attribute(&self) -> bool {
        matches!(
            self,
            Interpretable::Local(_)
                | Interpretable::Builtin(_)
                | Interpretable::CompositedVariable(_)
                | Interpretable::Select(_)
                | Interpretable::Index(_)
        )
    }
}
