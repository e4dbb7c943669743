//! The type checker: resolves references and overloads, and infers the type of each expression. The entry point is
//! [`check`]. Upstream counterpart: cel-go's `checker` package.

mod calls;
pub(crate) mod declarations;
pub(crate) mod struct_types;
mod type_substitutions;
pub(crate) mod types;
mod validators;

use crate::ast::{Ast, ComprehensionExpr, Expr, ExprKind, ListElement, MapEntry, StructField};
use crate::compile_issue::CompileIssue;
use crate::environment::{BuiltinVariable, Environment};
use std::sync::Arc;
use struct_types::{FieldLookup, StructType};
use type_substitutions::{TypeSubstitutions, most_general};
use types::{ParameterizedKind, Type};

/// The declaration that an identifier or call resolves to.
#[derive(Clone, Debug)]
pub(crate) enum ReferenceInfo {
    Local(Arc<str>),
    Builtin(BuiltinVariable),
    /// A type as a value, by its name.
    Type(Arc<str>),
    /// A function by its declared name, and the overload id if exactly one matches.
    Function(&'static str, Option<&'static str>),
}

/// The type map and reference map of a checked AST, indexed by expression id.
#[derive(Debug)]
pub(crate) struct CheckedAstInfo {
    pub(crate) type_map: Vec<Type>,
    pub(crate) reference_map: Vec<Option<ReferenceInfo>>,
}

pub(crate) fn check(
    environment: &Environment,
    ast: &Ast,
) -> Result<(CheckedAstInfo, Type), Vec<CompileIssue>> {
    let mut checker = Checker {
        environment,
        info: CheckedAstInfo {
            type_map: vec![Type::Error; ast.id_count],
            reference_map: vec![None; ast.id_count],
        },
        substitutions: TypeSubstitutions::default(),
        locals: Vec::new(),
        issues: Vec::new(),
    };
    checker.check(&ast.root);
    for index in 0..checker.info.type_map.len() {
        checker.info.type_map[index] = checker.substitute_or_dyn(&checker.info.type_map[index]);
    }
    if checker.issues.is_empty() {
        validators::validate(&ast.root, &checker.info, &mut checker.issues);
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let result = checker.info.type_map[ast.root.id].clone();
    Ok((checker.info, result))
}

struct Checker<'e> {
    environment: &'e Environment,
    info: CheckedAstInfo,
    substitutions: TypeSubstitutions,
    /// The variables of the enclosing comprehensions, innermost last.
    locals: Vec<(Arc<str>, Type)>,
    issues: Vec<CompileIssue>,
}

impl Checker<'_> {
    fn report_error(&mut self, offset: usize, message: String) {
        self.issues.push(CompileIssue::at(offset, message));
    }

    fn report_undeclared(&mut self, offset: usize, name: &str) {
        self.report_error(
            offset,
            format!("undeclared reference to '{name}' (in container '')"),
        );
    }

    fn set_type(&mut self, expr: &Expr, to: Type) -> Type {
        self.info.type_map[expr.id] = to.clone();
        to
    }

    fn set_reference(&mut self, expr: &Expr, to: ReferenceInfo) {
        self.info.reference_map[expr.id] = Some(to);
    }

    /// Substitutes type parameters; unbound ones become dyn.
    fn substitute_or_dyn(&self, ty: &Type) -> Type {
        type_params_to_dyn(&self.substitutions.substitute(ty))
    }

    /// Infers the type of an expression and of its subexpressions.
    fn check(&mut self, expr: &Expr) -> Type {
        let ty = match &*expr.kind {
            ExprKind::Literal(value) => literal_type(value),
            ExprKind::Ident(name) => self.check_ident(expr, name),
            ExprKind::Select {
                operand,
                field,
                test_only,
            } => self.check_select(expr, operand, field, *test_only),
            ExprKind::OptionalSelect { operand, field } => {
                self.check_select_field(expr, operand, field, true)
            }
            ExprKind::Call {
                function,
                target,
                args,
            } => self.check_call(expr, function, target.as_deref(), args),
            ExprKind::Logical { terms, .. } => self.check_logical(terms),
            ExprKind::List(elements) => self.check_list(elements),
            ExprKind::Map(entries) => self.check_map(entries),
            ExprKind::Struct { name, fields } => self.check_struct(expr, name, fields),
            ExprKind::Comprehension(comprehension) => self.check_comprehension(comprehension),
        };
        self.set_type(expr, ty)
    }

    fn check_list(&mut self, elements: &[ListElement]) -> Type {
        let mut item_type = None;
        for element in elements {
            let ty = self.check(&element.value);
            let ty = self.element_type(&element.value, ty, element.optional);
            item_type = Some(self.join_types(item_type, ty));
        }
        Type::list(item_type.unwrap_or_else(|| self.substitutions.new_type_param()))
    }

    fn check_map(&mut self, entries: &[MapEntry]) -> Type {
        let mut joined = None;
        for entry in entries {
            let key = self.check(&entry.key);
            let value = self.check(&entry.value);
            let value = self.element_type(&entry.value, value, entry.optional);
            let (keys, values) = joined.take().unzip();
            joined = Some((self.join_types(keys, key), self.join_types(values, value)));
        }
        let (key, value) = joined.unwrap_or_else(|| {
            (
                self.substitutions.new_type_param(),
                self.substitutions.new_type_param(),
            )
        });
        Type::map(key, value)
    }

    fn check_ident(&mut self, expr: &Expr, name: &str) -> Type {
        match self.resolve_name(name) {
            Some((ty, reference)) => {
                self.set_reference(expr, reference);
                ty
            }
            None => {
                self.report_undeclared(expr.offset, name);
                Type::Error
            }
        }
    }

    fn resolve_name(&self, name: &str) -> Option<(Type, ReferenceInfo)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((name, ty)) = self.locals.iter().rev().find(|(local, _)| **local == *name) {
            return Some((ty.clone(), ReferenceInfo::Local(name.clone())));
        }
        if let Some((ty, variable)) = self.environment.variable(name) {
            return Some((ty, ReferenceInfo::Builtin(variable)));
        }
        let ty = self.resolve_type(name)?;
        Some((Type::type_of(ty), ReferenceInfo::Type(name.into())))
    }

    fn resolve_type(&self, name: &str) -> Option<Type> {
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "int" => Type::Int,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "null_type" => Type::Null,
            "string" => Type::String,
            "type" => Type::parameterized(ParameterizedKind::Type, Vec::new()),
            "uint" => Type::Uint,
            "google.protobuf.Timestamp" | "timestamp" => Type::Timestamp,
            "google.protobuf.Duration" | "duration" => Type::Duration,
            "optional_type" => Type::Opaque("optional_type"),
            "net.IP" => Type::Opaque("net.IP"),
            "net.CIDR" => Type::Opaque("net.CIDR"),
            "JSONPatch" if self.environment.is_mutation() => {
                Type::Struct(Arc::new(StructType::json_patch()))
            }
            _ if self.environment.is_mutation()
                && (name == "Object" || name.starts_with("Object.")) =>
            {
                Type::Struct(Arc::new(StructType::object(name)))
            }
            _ => return None,
        })
    }

    fn check_select(&mut self, expr: &Expr, operand: &Expr, field: &str, test_only: bool) -> Type {
        if !test_only
            && let Some(name) = expr.qualified_name()
            && let Some((ty, reference)) = self.resolve_name(&name)
        {
            self.set_reference(expr, reference);
            return ty;
        }
        let selected = self.check_select_field(expr, operand, field, false);
        match test_only {
            true => Type::Bool,
            false => self.substitutions.substitute(&selected),
        }
    }

    fn check_select_field(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        field: &str,
        optional: bool,
    ) -> Type {
        let ty = self.check(operand);
        let (ty, was_optional) = self.substitutions.substitute(&ty).unwrap_optional();
        let selected = match &ty {
            Type::Struct(ty) => match ty.field(field) {
                FieldLookup::Field(field) => field,
                FieldLookup::Undefined => {
                    self.report_error(expr.offset, format!("undefined field '{field}'"));
                    Type::Error
                }
                FieldLookup::NoFields => {
                    let name = &ty.name;
                    self.report_error(
                        expr.offset,
                        format!("unexpected failed resolution of '{name}'"),
                    );
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.substitutions.is_assignable(&Type::Dyn, &ty);
                Type::Dyn
            }
            _ => match ty.type_parameters(ParameterizedKind::Map) {
                Some([_, value]) => value.clone(),
                _ => {
                    if !ty.is_dyn_or_error() {
                        self.report_error(
                            expr.offset,
                            format!("type '{ty}' does not support field selection"),
                        );
                    }
                    Type::Dyn
                }
            },
        };
        match was_optional || optional {
            true => Type::optional(selected),
            false => selected,
        }
    }

    /// The type of a list element, map value or field: that inside the optional for `?element`.
    fn element_type(&mut self, expr: &Expr, ty: Type, optional: bool) -> Type {
        if !optional {
            return ty;
        }
        let (inner, was_optional) = ty.unwrap_optional();
        if !was_optional && !inner.is_dyn() {
            let expected = Type::optional(inner.clone());
            self.report_type_mismatch(expr.offset, &expected, &inner);
        }
        inner
    }

    fn report_type_mismatch(&mut self, offset: usize, expected: &Type, found: &Type) {
        self.report_error(
            offset,
            format!("expected type '{expected}' but found '{found}'"),
        );
    }

    fn join_types(&mut self, previous: Option<Type>, next: Type) -> Type {
        match previous {
            None => next,
            Some(previous) if self.substitutions.is_assignable(&previous, &next) => {
                most_general(&previous, &next)
            }
            Some(_) => Type::Dyn,
        }
    }

    fn check_struct(&mut self, expr: &Expr, name: &str, fields: &[StructField]) -> Type {
        let unqualified = name.strip_prefix('.').unwrap_or(name);
        let ty = match self.resolve_name(unqualified) {
            None => {
                self.report_undeclared(expr.offset, name);
                return Type::Error;
            }
            Some((ty, _)) => match ty.type_parameters(ParameterizedKind::Type) {
                Some([inner]) => inner.clone(),
                _ => {
                    let displayed = ty.declared_name();
                    self.report_error(expr.offset, format!("'{displayed}' is not a type"));
                    Type::Error
                }
            },
        };
        let ty = match ty {
            Type::Struct(_) | Type::Error => ty,
            other => {
                let displayed = other.declared_name();
                self.report_error(expr.offset, format!("'{displayed}' is not a message type"));
                Type::Error
            }
        };
        for field in fields {
            self.check_struct_field(&ty, field);
        }
        ty
    }

    fn check_struct_field(&mut self, ty: &Type, field: &StructField) {
        let value = self.check(&field.value);
        let value = self.element_type(&field.value, value, field.optional);
        let expected = match ty {
            Type::Struct(ty) => match ty.field(&field.name) {
                FieldLookup::Field(expected) => expected,
                _ => {
                    self.report_error(field.offset, format!("undefined field '{}'", field.name));
                    Type::Error
                }
            },
            _ => {
                self.report_error(field.offset, format!("undefined field '{}'", field.name));
                Type::Error
            }
        };
        if !self.substitutions.is_assignable(&expected, &value) {
            let name = &field.name;
            self.report_error(
                field.offset,
                format!(
                    "expected type of field '{name}' is '{expected}' but provided type is '{value}'"
                ),
            );
        }
    }

    fn check_comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let range_type = self.check(&comprehension.iter_range);
        let accu_type = self.check(&comprehension.accu_init);
        let range_type = self.substitutions.substitute(&range_type);
        let (first, second) = self.iter_var_types(comprehension, &range_type);
        let outer = self.locals.len();
        self.locals
            .push((comprehension.accu_var.clone(), accu_type.clone()));
        let inner = self.locals.len();
        self.locals.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.locals.push((name.clone(), second));
        }
        let condition = self.check(&comprehension.loop_condition);
        self.assert_type(&comprehension.loop_condition, &Type::Bool, &condition);
        let step = self.check(&comprehension.loop_step);
        self.assert_type(&comprehension.loop_step, &accu_type, &step);
        self.locals.truncate(inner);
        let result = self.check(&comprehension.result);
        self.locals.truncate(outer);
        self.substitutions.substitute(&result)
    }

    /// The types of the iteration variables.
    fn iter_var_types(&mut self, comprehension: &ComprehensionExpr, range: &Type) -> (Type, Type) {
        let two = comprehension.iter_var2.is_some();
        if let Some([item]) = range.type_parameters(ParameterizedKind::List) {
            return match two {
                true => (Type::Int, item.clone()),
                false => (item.clone(), Type::Error),
            };
        }
        if let Some([key, value]) = range.type_parameters(ParameterizedKind::Map) {
            return (key.clone(), value.clone());
        }
        if matches!(range, Type::Dyn | Type::Error | Type::Param(_)) {
            self.substitutions.is_assignable(&Type::Dyn, range);
            return (Type::Dyn, Type::Dyn);
        }
        self.report_error(
            comprehension.iter_range.offset,
            format!(
                "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
            ),
        );
        (Type::Error, Type::Error)
    }

    fn assert_type(&mut self, expr: &Expr, expected: &Type, found: &Type) {
        if !self.substitutions.is_assignable(expected, found) {
            self.report_type_mismatch(expr.offset, expected, found);
        }
    }
}

fn type_params_to_dyn(ty: &Type) -> Type {
    match ty {
        Type::Param(_) => Type::Dyn,
        Type::Parameterized(parameterized) => Type::parameterized(
            parameterized.kind,
            parameterized
                .parameters
                .iter()
                .map(type_params_to_dyn)
                .collect(),
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
