//! Finds out the types of an expression, and what is wrong with them.

mod calls;
pub(crate) mod declarations;
pub(crate) mod structs;
pub(crate) mod types;
mod unify;
mod validators;

use crate::environment::{Environment, Root};
use crate::syntax::Parsed;
use crate::syntax::ast::{Element, Entry, Expr, FieldInit, Fold, Kind};
use crate::syntax::issue::Issue;
use std::sync::Arc;
use structs::{Lookup, Struct};
use types::{CompositeKind, Type};
use unify::{Bindings, more_general};

/// What a name in an expression refers to.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    Local(Arc<str>),
    Root(Root),
    /// A type as a value, by its name.
    Type(Arc<str>),
    /// A function, by the name under which it is declared, and the overload if only one fits.
    Function(&'static str, Option<&'static str>),
}

/// What the checker found out about each expression, by number.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) types: Vec<Type>,
    pub(crate) references: Vec<Option<Reference>>,
}

pub(crate) fn check(
    environment: &Environment,
    parsed: &Parsed,
) -> Result<(Checked, Type), Vec<Issue>> {
    let mut checker = Checker {
        environment,
        checked: Checked {
            types: vec![Type::Error; parsed.ids],
            references: vec![None; parsed.ids],
        },
        bindings: Bindings::default(),
        scopes: Vec::new(),
        issues: Vec::new(),
    };
    checker.check(&parsed.root);
    for index in 0..checker.checked.types.len() {
        checker.checked.types[index] = checker.settled(&checker.checked.types[index]);
    }
    if checker.issues.is_empty() {
        validators::validate(&parsed.root, &checker.checked, &mut checker.issues);
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let result = checker.checked.types[parsed.root.id].clone();
    Ok((checker.checked, result))
}

struct Checker<'e> {
    environment: &'e Environment,
    checked: Checked,
    bindings: Bindings,
    /// The variables of the loops around the expression that is looked at.
    scopes: Vec<(Arc<str>, Type)>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn note(&mut self, at: usize, message: String) {
        self.issues.push(Issue::at(at, message));
    }

    fn undeclared(&mut self, at: usize, name: &str) {
        self.note(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        );
    }

    fn set(&mut self, expr: &Expr, to: Type) -> Type {
        self.checked.types[expr.id] = to.clone();
        to
    }

    fn refer(&mut self, expr: &Expr, to: Reference) {
        self.checked.references[expr.id] = Some(to);
    }

    /// A type whose open parts are dyn.
    fn settled(&self, of: &Type) -> Type {
        without_params(&self.bindings.resolve(of))
    }

    /// The type of an expression, after everything below it has been looked at.
    fn check(&mut self, expr: &Expr) -> Type {
        let found = match &*expr.kind {
            Kind::Literal(value) => literal_type(value),
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select {
                operand,
                field,
                test,
            } => self.select(expr, operand, field, *test),
            Kind::OptionalSelect { operand, field } => {
                self.select_field(expr, operand, field, true)
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(expr, function, target.as_deref(), args),
            Kind::Logic { terms, .. } => self.logic(terms),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.message(expr, name, fields),
            Kind::Fold(fold) => self.fold(fold),
        };
        self.set(expr, found)
    }

    fn list(&mut self, elements: &[Element]) -> Type {
        let mut item = None;
        for element in elements {
            let of = self.check(&element.value);
            let of = self.element(&element.value, of, element.optional);
            item = Some(self.join(item, of));
        }
        Type::list(item.unwrap_or_else(|| self.bindings.open()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let mut found = None;
        for entry in entries {
            let key = self.check(&entry.key);
            let value = self.check(&entry.value);
            let value = self.element(&entry.value, value, entry.optional);
            let (keys, values) = found.take().unzip();
            found = Some((self.join(keys, key), self.join(values, value)));
        }
        let (key, value) = found.unwrap_or_else(|| (self.bindings.open(), self.bindings.open()));
        Type::map(key, value)
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Type {
        match self.lookup(name) {
            Some((of, reference)) => {
                self.refer(expr, reference);
                of
            }
            None => {
                self.undeclared(expr.at, name);
                Type::Error
            }
        }
    }

    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((name, of)) = self.scopes.iter().rev().find(|(scope, _)| **scope == *name) {
            return Some((of.clone(), Reference::Local(name.clone())));
        }
        if let Some((of, root)) = self.environment.variable(name) {
            return Some((of, Reference::Root(root)));
        }
        let of = self.named_type(name)?;
        Some((Type::type_of(of), Reference::Type(name.into())))
    }

    fn named_type(&self, name: &str) -> Option<Type> {
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "int" => Type::Int,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "null_type" => Type::Null,
            "string" => Type::String,
            "type" => Type::composite(CompositeKind::Type, Vec::new()),
            "uint" => Type::Uint,
            "google.protobuf.Timestamp" | "timestamp" => Type::Timestamp,
            "google.protobuf.Duration" | "duration" => Type::Duration,
            "optional_type" => Type::Opaque("optional_type"),
            "net.IP" => Type::Opaque("net.IP"),
            "net.CIDR" => Type::Opaque("net.CIDR"),
            "JSONPatch" if self.environment.patches() => Type::Struct(Arc::new(Struct::patch())),
            _ if self.environment.patches()
                && (name == "Object" || name.starts_with("Object.")) =>
            {
                Type::Struct(Arc::new(Struct::object(name)))
            }
            _ => return None,
        })
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Type {
        if !test
            && let Some(name) = expr.qualified_name()
            && let Some((of, reference)) = self.lookup(&name)
        {
            self.refer(expr, reference);
            return of;
        }
        let selected = self.select_field(expr, operand, field, false);
        match test {
            true => Type::Bool,
            false => self.bindings.resolve(&selected),
        }
    }

    fn select_field(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        let of = self.check(operand);
        let (of, is_optional) = self.bindings.resolve(&of).unwrap_optional();
        let selected = match &of {
            Type::Struct(of) => match of.field(field) {
                Lookup::Field(field) => field,
                Lookup::Undefined => {
                    self.note(expr.at, format!("undefined field '{field}'"));
                    Type::Error
                }
                Lookup::NotAStruct => {
                    let name = &of.name;
                    self.note(expr.at, format!("unexpected failed resolution of '{name}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.bindings.fits(&Type::Dyn, &of);
                Type::Dyn
            }
            _ => match of.parts(CompositeKind::Map) {
                Some([_, value]) => value.clone(),
                _ => {
                    if !of.is_dyn_or_error() {
                        self.note(
                            expr.at,
                            format!("type '{of}' does not support field selection"),
                        );
                    }
                    Type::Dyn
                }
            },
        };
        match is_optional || optional {
            true => Type::optional(selected),
            false => selected,
        }
    }

    /// The type of an element that may be left out if it is an optional.
    fn element(&mut self, expr: &Expr, of: Type, optional: bool) -> Type {
        if !optional {
            return of;
        }
        let (inner, is_optional) = of.unwrap_optional();
        if !is_optional && !inner.is_dyn() {
            let wanted = Type::optional(inner.clone());
            self.mismatch(expr.at, &wanted, &inner);
        }
        inner
    }

    fn mismatch(&mut self, at: usize, wanted: &Type, found: &Type) {
        self.note(at, format!("expected type '{wanted}' but found '{found}'"));
    }

    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        match before {
            None => next,
            Some(before) if self.bindings.fits(&before, &next) => more_general(&before, &next),
            Some(_) => Type::Dyn,
        }
    }

    fn message(&mut self, expr: &Expr, name: &str, fields: &[FieldInit]) -> Type {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let of = match self.lookup(plain) {
            None => {
                self.undeclared(expr.at, name);
                return Type::Error;
            }
            Some((of, _)) => match of.parts(CompositeKind::Type) {
                Some([inner]) => inner.clone(),
                _ => {
                    let shown = of.declared_name();
                    self.note(expr.at, format!("'{shown}' is not a type"));
                    Type::Error
                }
            },
        };
        let of = match of {
            Type::Struct(_) | Type::Error => of,
            other => {
                let shown = other.declared_name();
                self.note(expr.at, format!("'{shown}' is not a message type"));
                Type::Error
            }
        };
        for field in fields {
            self.message_field(&of, field);
        }
        of
    }

    fn message_field(&mut self, of: &Type, field: &FieldInit) {
        let value = self.check(&field.value);
        let value = self.element(&field.value, value, field.optional);
        let wanted = match of {
            Type::Struct(of) => match of.field(&field.name) {
                Lookup::Field(wanted) => wanted,
                _ => {
                    self.note(field.at, format!("undefined field '{}'", field.name));
                    Type::Error
                }
            },
            _ => {
                self.note(field.at, format!("undefined field '{}'", field.name));
                Type::Error
            }
        };
        if !self.bindings.fits(&wanted, &value) {
            let name = &field.name;
            self.note(
                field.at,
                format!(
                    "expected type of field '{name}' is '{wanted}' but provided type is '{value}'"
                ),
            );
        }
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        let range = self.check(&fold.range);
        let accumulated = self.check(&fold.init);
        let range = self.bindings.resolve(&range);
        let (first, second) = self.loop_variables(fold, &range);
        let outer = self.scopes.len();
        self.scopes
            .push((fold.accumulator.clone(), accumulated.clone()));
        let inner = self.scopes.len();
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scopes.push((name.clone(), second));
        }
        let condition = self.check(&fold.condition);
        self.must_fit(&fold.condition, &Type::Bool, &condition);
        let step = self.check(&fold.step);
        self.must_fit(&fold.step, &accumulated, &step);
        self.scopes.truncate(inner);
        let result = self.check(&fold.result);
        self.scopes.truncate(outer);
        self.bindings.resolve(&result)
    }

    /// The types of the one or two variables of a loop over such a thing.
    fn loop_variables(&mut self, fold: &Fold, range: &Type) -> (Type, Type) {
        let two = fold.second.is_some();
        if let Some([item]) = range.parts(CompositeKind::List) {
            return match two {
                true => (Type::Int, item.clone()),
                false => (item.clone(), Type::Error),
            };
        }
        if let Some([key, value]) = range.parts(CompositeKind::Map) {
            return (key.clone(), value.clone());
        }
        if matches!(range, Type::Dyn | Type::Error | Type::Param(_)) {
            self.bindings.fits(&Type::Dyn, range);
            return (Type::Dyn, Type::Dyn);
        }
        self.note(
            fold.range.at,
            format!(
                "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
            ),
        );
        (Type::Error, Type::Error)
    }

    fn must_fit(&mut self, expr: &Expr, wanted: &Type, found: &Type) {
        if !self.bindings.fits(wanted, found) {
            self.mismatch(expr.at, wanted, found);
        }
    }
}

fn without_params(of: &Type) -> Type {
    match of {
        Type::Param(_) => Type::Dyn,
        Type::Composite(composite) => Type::composite(
            composite.kind,
            composite.parameters.iter().map(without_params).collect(),
        ),
        other => other.clone(),
    }
}

fn literal_type(value: &crate::value::Value) -> Type {
    use crate::value::Value;
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}
