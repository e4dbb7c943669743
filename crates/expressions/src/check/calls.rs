//! Which overload a call may mean.

use super::declarations::{self, Function};
use super::types::Type;
use super::{Checker, Reference};
use crate::syntax::ast::Expr;

impl Checker<'_> {
    pub(super) fn logic(&mut self, terms: &[Expr]) -> Type {
        let mut wrong = false;
        for term in terms {
            let of = self.check(term);
            if !self.bindings.fits(&of, &Type::Bool) {
                self.mismatch(term.at, &Type::Bool, &of);
                wrong = true;
            }
        }
        match wrong {
            true => Type::Error,
            false => Type::Bool,
        }
    }

    pub(super) fn call(
        &mut self,
        expr: &Expr,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Type {
        for arg in args {
            self.check(arg);
        }
        let patches = self.environment.patches();
        let Some(target) = target else {
            let plain = name.strip_prefix('.').unwrap_or(name);
            return match declarations::function(plain, patches) {
                Some(function) => self.overload(expr, function, None, args),
                None => self.unknown_function(expr, name),
            };
        };
        if let Some(prefix) = target.qualified_name() {
            let prefix = prefix.strip_prefix('.').unwrap_or(&prefix);
            let qualified = format!("{prefix}.{name}");
            if let Some(function) = declarations::function(&qualified, patches) {
                return self.overload(expr, function, None, args);
            }
        }
        self.check(target);
        match declarations::function(name, patches) {
            Some(function) => self.overload(expr, function, Some(target), args),
            None => self.unknown_function(expr, name),
        }
    }

    fn unknown_function(&mut self, expr: &Expr, name: &str) -> Type {
        self.undeclared(expr.at, name);
        Type::Error
    }

    /// The type of the result: that of all overloads that fit, if they agree.
    fn overload(
        &mut self,
        expr: &Expr,
        function: &'static Function,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Type {
        let given: Vec<Type> = target
            .into_iter()
            .chain(args)
            .map(|arg| self.checked.types[arg.id].clone())
            .collect();
        let mut result: Option<Type> = None;
        let mut only = None;
        for overload in &function.overloads {
            if overload.member != target.is_some() || overload.args.len() != given.len() {
                continue;
            }
            let params: Vec<Type> = (0..overload.params).map(|_| self.bindings.open()).collect();
            let pairs: Vec<(Type, Type)> = given
                .iter()
                .zip(&overload.args)
                .map(|(given, wanted)| (given.clone(), instantiate(wanted, &params)))
                .collect();
            if !self.bindings.fit_all(&pairs) {
                continue;
            }
            let found = self
                .bindings
                .resolve(&instantiate(&overload.result, &params));
            only = result.is_none().then_some(overload.id);
            result = Some(match result {
                None => found,
                Some(before) if before.is_dyn() || before.is_exactly(&found) => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.refer(expr, Reference::Function(function.name, only));
            return result;
        }
        let shown: Vec<String> = given
            .iter()
            .map(|given| self.settled(given).to_string())
            .collect();
        let signature = match (target, shown.split_first()) {
            (Some(_), Some((target, args))) => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let name = function.name;
        self.note(
            expr.at,
            format!("found no matching overload for '{name}' applied to '{signature}'"),
        );
        Type::Error
    }
}

/// A declared type, with the open types of this call in place of the numbered ones.
fn instantiate(of: &Type, params: &[Type]) -> Type {
    match of {
        Type::Param(index) => params.get(*index).cloned().unwrap_or(Type::Dyn),
        Type::Composite(composite) => Type::composite(
            composite.kind,
            composite
                .parameters
                .iter()
                .map(|parameter| instantiate(parameter, params))
                .collect(),
        ),
        _ => of.clone(),
    }
}
