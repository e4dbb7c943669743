//! Plans a checked expression: resolves names, folds constants and compiles constant regexes. The entry point is
//! [`plan`]. Upstream counterpart: cel-go's `interpreter/planner.go`.

use super::call_cost::CallCost;
use super::interpretable::{
    EvalCall, EvalFold, EvalIndex, EvalOptionalOr, EvalSelect, EvalStruct, FoldBody, FoldStep,
    Interpretable, ProgramPlan, SelectKind,
};
use crate::activation::{Activation, RequestInputs};
use crate::ast::{ComprehensionExpr, Expr, ExprKind, ListElement, MapEntry, StructField};
use crate::checker::{CheckedAstInfo, ReferenceInfo};
use crate::environment::BuiltinVariable;
use crate::error::EvaluationError;
use crate::interpreter::Interpreter;
use crate::library::{self, regexes};
use crate::limits::EvaluationBudget;
use crate::value::{ListValue, MapKey, MapValue, Value};
use regex::Regex;
use std::sync::Arc;

/// Converts a checked expression to its executable form.
pub(crate) fn plan(root: &Expr, info: &CheckedAstInfo) -> Result<ProgramPlan, EvaluationError> {
    let mut planner = Planner {
        info,
        local_names: Vec::new(),
        used: Vec::new(),
        local_count: 0,
    };
    let root = planner.plan_expr(root)?;
    Ok(ProgramPlan {
        root,
        local_count: planner.local_count,
    })
}

type PlanResult<T> = Result<T, EvaluationError>;

struct Planner<'c> {
    info: &'c CheckedAstInfo,
    /// The variables of the enclosing comprehensions, by slot.
    local_names: Vec<Arc<str>>,
    /// Whether the variable of a slot is referenced.
    used: Vec<bool>,
    local_count: usize,
}

impl Planner<'_> {
    fn plan_expr(&mut self, expr: &Expr) -> PlanResult<Interpretable> {
        Ok(match &*expr.kind {
            ExprKind::Literal(value) => Interpretable::Constant(value.clone()),
            ExprKind::Ident(_) => self.plan_ident(expr)?,
            ExprKind::Select { .. } if self.info.reference_map[expr.id].is_some() => {
                self.plan_ident(expr)?
            }
            ExprKind::Select {
                operand,
                field,
                test_only,
            } => {
                let kind = match test_only {
                    true => SelectKind::TestOnly,
                    false => SelectKind::Field,
                };
                self.plan_select(operand, field, kind)?
            }
            ExprKind::OptionalSelect { operand, field } => {
                self.plan_select(operand, field, SelectKind::Optional)?
            }
            ExprKind::Call {
                function,
                target,
                args,
            } => self.plan_call(expr, function, target.as_deref(), args)?,
            ExprKind::Logical { operator, terms } => {
                let terms: PlanResult<Vec<Interpretable>> =
                    terms.iter().map(|term| self.plan_expr(term)).collect();
                Interpretable::Logical(*operator, terms?)
            }
            ExprKind::List(elements) => self.plan_create_list(elements)?,
            ExprKind::Map(entries) => self.plan_create_map(entries)?,
            ExprKind::Struct { name, fields } => self.plan_create_struct(name, fields)?,
            ExprKind::Comprehension(comprehension) => self.plan_comprehension(comprehension)?,
        })
    }

    fn plan_ident(&mut self, expr: &Expr) -> PlanResult<Interpretable> {
        match &self.info.reference_map[expr.id] {
            Some(ReferenceInfo::Local(name)) => {
                let slot = self.local_names.iter().rposition(|local| local == name);
                let slot = slot.unwrap_or_default();
                if let Some(used) = self.used.get_mut(slot) {
                    *used = true;
                }
                Ok(Interpretable::Local(slot))
            }
            Some(ReferenceInfo::Builtin(variable)) => Ok(Interpretable::Builtin(*variable)),
            Some(ReferenceInfo::Type(name)) => match &**name {
                "timestamp" | "duration" => Err(undefined_type(name)),
                _ if name.starts_with("Object") => Err(undefined_type(name)),
                _ => Ok(Interpretable::Constant(Value::Type(name.clone()))),
            },
            _ => Err(EvaluationError::new("unsupported expr")),
        }
    }

    fn plan_select(
        &mut self,
        operand: &Expr,
        field: &Arc<str>,
        kind: SelectKind,
    ) -> PlanResult<Interpretable> {
        let operand = self.plan_expr(operand)?;
        if matches!(operand, Interpretable::Builtin(BuiltinVariable::Variables))
            && kind == SelectKind::Field
        {
            return Ok(Interpretable::CompositedVariable(field.clone()));
        }
        Ok(Interpretable::Select(Box::new(EvalSelect {
            extra_cost: extra_cost(&operand),
            operand,
            field: field.clone(),
            kind,
        })))
    }

    fn plan_call(
        &mut self,
        expr: &Expr,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> PlanResult<Interpretable> {
        let Some(ReferenceInfo::Function(declared, overload)) = self.info.reference_map[expr.id]
        else {
            return Err(EvaluationError::new(format!("no such overload: {name}")));
        };
        // A target that is part of a qualified function name is not an argument.
        let target = target.filter(|_| name == declared);
        let args: PlanResult<Vec<Interpretable>> = target
            .into_iter()
            .chain(args)
            .map(|arg| self.plan_expr(arg))
            .collect();
        let mut args = args?;
        match (declared, args.len()) {
            ("_?_:_", 3) => {
                if let Ok(args) = <[Interpretable; 3]>::try_from(args) {
                    return Ok(Interpretable::Conditional(Box::new(args)));
                }
                return Err(EvaluationError::no_overload());
            }
            ("_[_]" | "_[?_]", 2) => {
                let (Some(index), Some(operand)) = (args.pop(), args.pop()) else {
                    return Err(EvaluationError::no_overload());
                };
                return Ok(Interpretable::Index(Box::new(EvalIndex {
                    extra_cost: extra_cost(&operand),
                    operand,
                    index,
                    optional: declared == "_[?_]",
                })));
            }
            ("or" | "orValue", 2) => {
                let (Some(alternative), Some(optional)) = (args.pop(), args.pop()) else {
                    return Err(EvaluationError::no_overload());
                };
                return Ok(Interpretable::OptionalOr(Box::new(EvalOptionalOr {
                    optional,
                    alternative,
                    unwrap: declared == "orValue",
                })));
            }
            ("@in", 2) => {
                if let Some(interpretable) = plan_set_membership(&mut args) {
                    return Ok(interpretable);
                }
            }
            _ => {}
        }
        let function = library::find_function(declared)
            .ok_or_else(|| EvaluationError::new(format!("no such overload: {declared}")))?;
        let call = EvalCall {
            name: declared,
            function,
            cost: CallCost::for_call(declared, overload),
            regex: constant_regex(declared, &args)?,
            args,
        };
        if library::is_conversion(declared) && matches!(call.args[..], [Interpretable::Constant(_)])
        {
            return fold_constant(Interpretable::Call(Box::new(call)));
        }
        Ok(Interpretable::Call(Box::new(call)))
    }

    fn plan_create_list(&mut self, elements: &[ListElement]) -> PlanResult<Interpretable> {
        let interpretables: PlanResult<Vec<(bool, Interpretable)>> = elements
            .iter()
            .map(|element| Ok((element.optional, self.plan_expr(&element.value)?)))
            .collect();
        let interpretables = interpretables?;
        match interpretables
            .iter()
            .all(|interpretable| matches!(interpretable, (false, Interpretable::Constant(_))))
        {
            true => fold_constant(Interpretable::CreateList(interpretables)),
            false => Ok(Interpretable::CreateList(interpretables)),
        }
    }

    fn plan_create_map(&mut self, entries: &[MapEntry]) -> PlanResult<Interpretable> {
        let interpretables: PlanResult<Vec<(bool, Interpretable, Interpretable)>> = entries
            .iter()
            .map(|entry| {
                Ok((
                    entry.optional,
                    self.plan_expr(&entry.key)?,
                    self.plan_expr(&entry.value)?,
                ))
            })
            .collect();
        let interpretables = interpretables?;
        let constants: Option<MapValue> = interpretables
            .iter()
            .map(|interpretable| match interpretable {
                (false, Interpretable::Constant(key), Interpretable::Constant(value)) => {
                    Some((MapKey::from_value(key)?, value.clone()))
                }
                _ => None,
            })
            .collect();
        Ok(match constants {
            Some(map) => Interpretable::Constant(Value::Map(Arc::new(map))),
            None => Interpretable::CreateMap(interpretables),
        })
    }

    fn plan_create_struct(
        &mut self,
        name: &str,
        fields: &[StructField],
    ) -> PlanResult<Interpretable> {
        let fields: PlanResult<Vec<(bool, Arc<str>, Interpretable)>> = fields
            .iter()
            .map(|field| {
                Ok((
                    field.optional,
                    field.name.clone(),
                    self.plan_expr(&field.value)?,
                ))
            })
            .collect();
        Ok(Interpretable::CreateStruct(Box::new(EvalStruct {
            type_name: name.strip_prefix('.').unwrap_or(name).into(),
            fields: fields?,
        })))
    }

    fn plan_comprehension(
        &mut self,
        comprehension: &ComprehensionExpr,
    ) -> PlanResult<Interpretable> {
        let iter_range = self.plan_expr(&comprehension.iter_range)?;
        let accu_init = self.plan_expr(&comprehension.accu_init)?;
        let accu_slot = self.local_names.len();
        self.local_names.push(comprehension.accu_var.clone());
        self.local_names.push(comprehension.iter_var.clone());
        self.local_names.extend(comprehension.iter_var2.clone());
        self.local_count = self.local_count.max(self.local_names.len());
        self.used.resize(self.local_names.len(), false);
        let mut body = self.plan_fold_body(comprehension, accu_slot)?;
        self.local_names.truncate(accu_slot + 1);
        self.used.truncate(accu_slot);
        self.used.push(false);
        let result = self.plan_expr(&comprehension.result)?;
        if matches!(body, FoldBody::Bind) && !self.used[accu_slot] {
            body = FoldBody::UnusedBind;
        }
        self.local_names.truncate(accu_slot);
        self.used.truncate(accu_slot);
        Ok(Interpretable::Fold(Box::new(EvalFold {
            iter_range,
            accu_slot,
            two_variables: comprehension.iter_var2.is_some(),
            accu_init,
            body,
            result,
        })))
    }

    fn plan_fold_body(
        &mut self,
        comprehension: &ComprehensionExpr,
        accu_slot: usize,
    ) -> PlanResult<FoldBody> {
        if let ExprKind::Literal(Value::Bool(false)) = *comprehension.loop_condition.kind {
            return Ok(FoldBody::Bind);
        }
        if let ExprKind::Logical { operator, terms } = &*comprehension.loop_step.kind
            && let [_, predicate] = &terms[..]
        {
            return Ok(FoldBody::Quantifier(*operator, self.plan_expr(predicate)?));
        }
        Ok(FoldBody::ForEach(
            self.plan_fold_step(&comprehension.loop_step, accu_slot)?,
        ))
    }

    /// Recognizes the loop steps that macros generate, which update the accumulator in place.
    fn plan_fold_step(&mut self, expr: &Expr, accu_slot: usize) -> PlanResult<FoldStep> {
        let is_accumulator = |planner: &Planner<'_>, expr: &Expr| matches!(&*expr.kind, ExprKind::Ident(name) if *name == planner.local_names[accu_slot]);
        if is_accumulator(self, expr) {
            return Ok(FoldStep::Keep);
        }
        let ExprKind::Call { function, args, .. } = &*expr.kind else {
            return Ok(FoldStep::Set(self.plan_expr(expr)?));
        };
        Ok(match (&**function, &args[..]) {
            ("_?_:_", [condition, then_branch, else_branch])
                if is_accumulator(self, else_branch) =>
            {
                let condition = self.plan_expr(condition)?;
                FoldStep::Conditional(
                    condition,
                    Box::new(self.plan_fold_step(then_branch, accu_slot)?),
                )
            }
            ("_+_", [first, second]) if is_accumulator(self, first) => match &*second.kind {
                ExprKind::List(elements) if elements.len() == 1 => {
                    FoldStep::Append(self.plan_expr(&elements[0].value)?)
                }
                _ => FoldStep::Set(self.plan_expr(expr)?),
            },
            ("cel.@mapInsert", [_, key, value]) => {
                FoldStep::Insert(self.plan_expr(key)?, self.plan_expr(value)?)
            }
            ("cel.@mapInsert", [_, map]) => FoldStep::Merge(self.plan_expr(map)?),
            _ => FoldStep::Set(self.plan_expr(expr)?),
        })
    }
}

fn undefined_type(name: &str) -> EvaluationError {
    EvaluationError::new(format!("reference to undefined type: {name}"))
}

fn extra_cost(operand: &Interpretable) -> u64 {
    u64::from(!operand.is_attribute())
}

/// `in` with a constant list.
fn plan_set_membership(args: &mut Vec<Interpretable>) -> Option<Interpretable> {
    let Some(Interpretable::Constant(Value::List(list))) = args.get(1) else {
        return None;
    };
    let list = ListValue::clone(list);
    args.truncate(1);
    Some(Interpretable::SetMembership(Box::new(args.pop()?), list))
}

fn constant_regex(function: &str, args: &[Interpretable]) -> PlanResult<Option<Arc<Regex>>> {
    match (function, args.get(1)) {
        ("matches" | "find" | "findAll", Some(Interpretable::Constant(Value::String(pattern)))) => {
            regexes::compile(pattern).map(|regex| Some(Arc::new(regex)))
        }
        _ => Ok(None),
    }
}

/// Evaluates a constant expression at plan time.
fn fold_constant(interpretable: Interpretable) -> PlanResult<Interpretable> {
    let plan = ProgramPlan {
        root: interpretable,
        local_count: 0,
    };
    let inputs = RequestInputs::default();
    let mut activation = Activation::new(&inputs);
    let mut budget = EvaluationBudget::for_policy(None);
    budget.begin_expression();
    Interpreter::new(&plan, &mut activation, &mut budget)
        .run()
        .map(Interpretable::Constant)
}
