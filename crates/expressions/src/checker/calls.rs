//! Type checking of calls: overload resolution.

use super::declarations::{self, FunctionDecl};
use super::types::Type;
use super::{Checker, ReferenceInfo};
use crate::ast::Expr;

impl Checker<'_> {
    pub(super) fn check_logical(&mut self, terms: &[Expr]) -> Type {
        let mut has_error = false;
        for term in terms {
            let ty = self.check(term);
            if !self.substitutions.is_assignable(&ty, &Type::Bool) {
                self.report_type_mismatch(term.offset, &Type::Bool, &ty);
                has_error = true;
            }
        }
        match has_error {
            true => Type::Error,
            false => Type::Bool,
        }
    }

    pub(super) fn check_call(
        &mut self,
        expr: &Expr,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Type {
        for arg in args {
            self.check(arg);
        }
        let mutation = self.environment.is_mutation();
        let Some(target) = target else {
            let unqualified = name.strip_prefix('.').unwrap_or(name);
            return match declarations::find_function(unqualified, mutation) {
                Some(function) => self.resolve_overload(expr, function, None, args),
                None => self.report_undeclared_function(expr, name),
            };
        };
        if let Some(prefix) = target.qualified_name() {
            let prefix = prefix.strip_prefix('.').unwrap_or(&prefix);
            let qualified = format!("{prefix}.{name}");
            if let Some(function) = declarations::find_function(&qualified, mutation) {
                return self.resolve_overload(expr, function, None, args);
            }
        }
        self.check(target);
        match declarations::find_function(name, mutation) {
            Some(function) => self.resolve_overload(expr, function, Some(target), args),
            None => self.report_undeclared_function(expr, name),
        }
    }

    fn report_undeclared_function(&mut self, expr: &Expr, name: &str) -> Type {
        self.report_undeclared(expr.offset, name);
        Type::Error
    }

    /// The common result type of all matching overloads, or dyn if they differ.
    fn resolve_overload(
        &mut self,
        expr: &Expr,
        function: &'static FunctionDecl,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Type {
        let arg_types: Vec<Type> = target
            .into_iter()
            .chain(args)
            .map(|arg| self.info.type_map[arg.id].clone())
            .collect();
        let mut result: Option<Type> = None;
        let mut only_overload = None;
        for overload in &function.overloads {
            if overload.is_member != target.is_some() || overload.arg_types.len() != arg_types.len()
            {
                continue;
            }
            let params: Vec<Type> = (0..overload.type_param_count)
                .map(|_| self.substitutions.new_type_param())
                .collect();
            let pairs: Vec<(Type, Type)> = arg_types
                .iter()
                .zip(&overload.arg_types)
                .map(|(arg_type, expected)| (arg_type.clone(), instantiate(expected, &params)))
                .collect();
            if !self.substitutions.are_all_assignable(&pairs) {
                continue;
            }
            let result_type = self
                .substitutions
                .substitute(&instantiate(&overload.result_type, &params));
            only_overload = result.is_none().then_some(overload.id);
            result = Some(match result {
                None => result_type,
                Some(previous) if previous.is_dyn() || previous.is_exact_type(&result_type) => {
                    previous
                }
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.set_reference(expr, ReferenceInfo::Function(function.name, only_overload));
            return result;
        }
        let displayed: Vec<String> = arg_types
            .iter()
            .map(|arg_type| self.substitute_or_dyn(arg_type).to_string())
            .collect();
        let signature = match (target, displayed.split_first()) {
            (Some(_), Some((target, args))) => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", displayed.join(", ")),
        };
        let name = function.name;
        self.report_error(
            expr.offset,
            format!("found no matching overload for '{name}' applied to '{signature}'"),
        );
        Type::Error
    }
}

/// A declared type with the type parameters of this call.
fn instantiate(ty: &Type, params: &[Type]) -> Type {
    match ty {
        Type::Param(index) => params.get(*index).cloned().unwrap_or(Type::Dyn),
        Type::Parameterized(parameterized) => Type::parameterized(
            parameterized.kind,
            parameterized
                .parameters
                .iter()
                .map(|parameter| instantiate(parameter, params))
                .collect(),
        ),
        _ => ty.clone(),
    }
}
