//! What is wrong with literals, although the types fit.

use super::Checked;
use super::types::{CompositeKind, Type};
use crate::library::{format, regexes, time};
use crate::syntax::ast::{Expr, Kind};
use crate::syntax::issue::Issue;
use crate::value::Value;

pub(super) fn validate(root: &Expr, checked: &Checked, issues: &mut Vec<Issue>) {
    let mut validator = Validator { checked, issues };
    validator.visit(root, false);
}

struct Validator<'c> {
    checked: &'c Checked,
    issues: &'c mut Vec<Issue>,
}

impl Validator<'_> {
    fn type_of(&self, expr: &Expr) -> &Type {
        &self.checked.types[expr.id]
    }

    fn visit(&mut self, expr: &Expr, in_format: bool) {
        let mut inside = in_format;
        match &*expr.kind {
            Kind::Call {
                function,
                target,
                args,
            } => {
                self.argument(function, args);
                if &**function == "format" {
                    inside = true;
                    self.format(expr, target.as_deref(), args);
                }
            }
            Kind::List(elements) if !in_format => {
                let items = elements
                    .iter()
                    .map(|element| (&element.value, element.optional));
                self.homogeneous(items, true);
            }
            Kind::Map(entries) if !in_format => {
                self.homogeneous(entries.iter().map(|entry| (&entry.key, false)), false);
                let values = entries.iter().map(|entry| (&entry.value, entry.optional));
                self.homogeneous(values, false);
            }
            _ => {}
        }
        for child in expr.children() {
            self.visit(child, inside);
        }
    }

    /// A literal argument that is not what the function reads.
    fn argument(&mut self, function: &str, args: &[Expr]) {
        let index = match function {
            "duration" | "timestamp" => 0,
            // As a member, it has the pattern as its only argument; as a function, upstream looks at the text.
            "matches" => 0,
            _ => return,
        };
        let Some(arg) = args.get(index) else {
            return;
        };
        let Kind::Literal(literal) = &*arg.kind else {
            return;
        };
        let good = match (function, literal) {
            ("duration", Value::String(text)) => time::parse_duration(text).is_some(),
            // Upstream cannot make a duration of a number before it runs.
            ("duration", Value::Int(_)) => false,
            ("timestamp", Value::String(text)) => time::parse_timestamp(text).is_some(),
            ("matches", Value::String(text)) => regexes::compile(text).is_ok(),
            _ => true,
        };
        if !good {
            self.issues
                .push(Issue::at(arg.at, format!("invalid {function} argument")));
        }
    }

    /// All items must have one type. Of a list, only the first that differs is named.
    fn homogeneous<'e>(&mut self, items: impl Iterator<Item = (&'e Expr, bool)>, once: bool) {
        let mut first: Option<Type> = None;
        for (item, optional) in items {
            let of = self.type_of(item);
            let of = match (optional, of.parts(CompositeKind::Optional)) {
                (true, Some([inner])) => inner.clone(),
                _ => of.clone(),
            };
            match &first {
                None => first = Some(of),
                Some(wanted) if wanted.is_exactly(&of) => {}
                Some(wanted) => {
                    self.issues.push(Issue::at(
                        item.at,
                        format!("expected type '{wanted}' but found '{of}'"),
                    ));
                    if once {
                        return;
                    }
                }
            }
        }
    }

    fn format(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) {
        let Some(Kind::Literal(Value::String(text))) = target.map(|target| &*target.kind) else {
            return;
        };
        let [arg] = args else {
            return;
        };
        let Kind::List(elements) = &*arg.kind else {
            return;
        };
        let mut wanted = 0;
        let checked = format::clauses(text, |clause| {
            let Some(element) = elements.get(wanted) else {
                return Err((None, format!("index {wanted} out of range")));
            };
            wanted += 1;
            self.clause(clause, &element.value)
                .map_err(|(at, problem)| (Some(at), format!("error during formatting: {problem}")))
        });
        match checked {
            Err((at, problem)) => self.issues.push(Issue::at(at.unwrap_or(expr.at), problem)),
            Ok(()) if elements.len() > wanted => self.issues.push(Issue::at(
                expr.at,
                format!(
                    "too many arguments supplied to string.format (expected {wanted}, got {})",
                    elements.len()
                ),
            )),
            Ok(()) => {}
        }
    }

    fn clause(&self, clause: format::Clause, arg: &Expr) -> Result<(), (usize, String)> {
        let of = self.type_of(arg);
        if of.is_dyn() {
            return Ok(());
        }
        let fits = match clause {
            format::Clause::String => return self.string_clause(arg),
            format::Clause::Decimal | format::Clause::Octal => {
                matches!(of, Type::Int | Type::Uint)
            }
            format::Clause::Fixed(_) | format::Clause::Scientific(_) => {
                matches!(of, Type::Double | Type::String)
            }
            format::Clause::Binary => matches!(of, Type::Int | Type::Uint | Type::Bool),
            format::Clause::Hex(_) => {
                matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes)
            }
        };
        match fits {
            true => Ok(()),
            false => Err((arg.at, clause.refusal(&type_name(of)))),
        }
    }

    fn string_clause(&self, arg: &Expr) -> Result<(), (usize, String)> {
        let of = self.type_of(arg);
        let good = match of {
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
            Type::Composite(composite) => composite.kind != CompositeKind::Optional,
            _ => false,
        };
        if !good {
            return Err((arg.at, format::Clause::String.refusal(&type_name(of))));
        }
        match &*arg.kind {
            Kind::List(_) | Kind::Map(_) => arg
                .children()
                .into_iter()
                .try_for_each(|child| self.string_clause(child)),
            _ => Ok(()),
        }
    }
}

/// The name of a type without its parts.
fn type_name(of: &Type) -> String {
    let shown = of.declared_name();
    match shown.split_once('(') {
        Some((name, _)) => name.to_owned(),
        None => shown,
    }
}
