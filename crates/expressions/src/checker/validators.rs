//! Validates literals that are well-typed but invalid: regexes, timestamps, durations, formats (cel-go's
//! `ASTValidator`s).

use super::CheckedAstInfo;
use super::types::{ParameterizedKind, Type};
use crate::ast::{Expr, ExprKind};
use crate::compile_issue::CompileIssue;
use crate::library::string_format::{self, FormatClause};
use crate::library::{regexes, time};
use crate::value::Value;

pub(super) fn validate(root: &Expr, info: &CheckedAstInfo, issues: &mut Vec<CompileIssue>) {
    let mut validator = AstValidator { info, issues };
    validator.visit(root, false);
}

struct AstValidator<'c> {
    info: &'c CheckedAstInfo,
    issues: &'c mut Vec<CompileIssue>,
}

impl AstValidator<'_> {
    fn type_of(&self, expr: &Expr) -> &Type {
        &self.info.type_map[expr.id]
    }

    fn visit(&mut self, expr: &Expr, in_format: bool) {
        let mut inside_format = in_format;
        match &*expr.kind {
            ExprKind::Call {
                function,
                target,
                args,
            } => {
                self.validate_literal_argument(function, args);
                if &**function == "format" {
                    inside_format = true;
                    self.validate_format(expr, target.as_deref(), args);
                }
            }
            ExprKind::List(elements) if !in_format => {
                let items = elements
                    .iter()
                    .map(|element| (&element.value, element.optional));
                self.validate_homogeneous(items, true);
            }
            ExprKind::Map(entries) if !in_format => {
                self.validate_homogeneous(entries.iter().map(|entry| (&entry.key, false)), false);
                let values = entries.iter().map(|entry| (&entry.value, entry.optional));
                self.validate_homogeneous(values, false);
            }
            _ => {}
        }
        for child in expr.children() {
            self.visit(child, inside_format);
        }
    }

    /// Reports a literal argument that the function cannot parse.
    fn validate_literal_argument(&mut self, function: &str, args: &[Expr]) {
        let index = match function {
            "duration" | "timestamp" => 0,
            // For the member call this is the pattern; for the global call upstream checks the text.
            "matches" => 0,
            _ => return,
        };
        let Some(arg) = args.get(index) else {
            return;
        };
        let ExprKind::Literal(literal) = &*arg.kind else {
            return;
        };
        let valid = match (function, literal) {
            ("duration", Value::String(text)) => time::parse_duration(text).is_some(),
            // Upstream cannot convert an int to a duration at compile time.
            ("duration", Value::Int(_)) => false,
            ("timestamp", Value::String(text)) => time::parse_timestamp(text).is_some(),
            ("matches", Value::String(text)) => regexes::compile(text).is_ok(),
            _ => true,
        };
        if !valid {
            self.issues.push(CompileIssue::at(
                arg.offset,
                format!("invalid {function} argument"),
            ));
        }
    }

    /// All items must have one type. For a list, only the first mismatch is reported.
    fn validate_homogeneous<'e>(
        &mut self,
        items: impl Iterator<Item = (&'e Expr, bool)>,
        first_only: bool,
    ) {
        let mut first: Option<Type> = None;
        for (item, optional) in items {
            let ty = self.type_of(item);
            let ty = match (optional, ty.type_parameters(ParameterizedKind::Optional)) {
                (true, Some([inner])) => inner.clone(),
                _ => ty.clone(),
            };
            match &first {
                None => first = Some(ty),
                Some(expected) if expected.is_exact_type(&ty) => {}
                Some(expected) => {
                    self.issues.push(CompileIssue::at(
                        item.offset,
                        format!("expected type '{expected}' but found '{ty}'"),
                    ));
                    if first_only {
                        return;
                    }
                }
            }
        }
    }

    fn validate_format(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) {
        let Some(ExprKind::Literal(Value::String(text))) = target.map(|target| &*target.kind)
        else {
            return;
        };
        let [arg] = args else {
            return;
        };
        let ExprKind::List(elements) = &*arg.kind else {
            return;
        };
        let mut clause_count = 0;
        let result = string_format::clauses(text, |clause| {
            let Some(element) = elements.get(clause_count) else {
                return Err((None, format!("index {clause_count} out of range")));
            };
            clause_count += 1;
            self.validate_clause(clause, &element.value)
                .map_err(|(offset, message)| {
                    (Some(offset), format!("error during formatting: {message}"))
                })
        });
        match result {
            Err((offset, message)) => self.issues.push(CompileIssue::at(offset.unwrap_or(expr.offset), message)),
            Ok(()) if elements.len() > clause_count => self.issues.push(CompileIssue::at(
                expr.offset,
                format!(
                    "too many arguments supplied to string.format (expected {clause_count}, got {})",
                    elements.len()
                ),
            )),
            Ok(()) => {}
        }
    }

    fn validate_clause(&self, clause: FormatClause, arg: &Expr) -> Result<(), (usize, String)> {
        let ty = self.type_of(arg);
        if ty.is_dyn() {
            return Ok(());
        }
        let fits = match clause {
            FormatClause::String => return self.validate_string_clause(arg),
            FormatClause::Decimal | FormatClause::Octal => {
                matches!(ty, Type::Int | Type::Uint)
            }
            FormatClause::Fixed(_) | FormatClause::Scientific(_) => {
                matches!(ty, Type::Double | Type::String)
            }
            FormatClause::Binary => matches!(ty, Type::Int | Type::Uint | Type::Bool),
            FormatClause::Hex(_) => {
                matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes)
            }
        };
        match fits {
            true => Ok(()),
            false => Err((arg.offset, clause.type_error(&type_name(ty)))),
        }
    }

    fn validate_string_clause(&self, arg: &Expr) -> Result<(), (usize, String)> {
        let ty = self.type_of(arg);
        let valid = match ty {
            Type::Dyn
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Bool
            | Type::String
            | Type::Timestamp
            | Type::Bytes
            | Type::Duration
            | Type::Null => true,
            Type::Parameterized(parameterized) => parameterized.kind != ParameterizedKind::Optional,
            _ => false,
        };
        if !valid {
            return Err((arg.offset, FormatClause::String.type_error(&type_name(ty))));
        }
        match &*arg.kind {
            ExprKind::List(_) | ExprKind::Map(_) => arg
                .children()
                .into_iter()
                .try_for_each(|child| self.validate_string_clause(child)),
            _ => Ok(()),
        }
    }
}

/// The name of a type without its type parameters.
fn type_name(ty: &Type) -> String {
    let name = ty.declared_name();
    match name.split_once('(') {
        Some((constructor, _)) => constructor.to_owned(),
        None => name,
    }
}
