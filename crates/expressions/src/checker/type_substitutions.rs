//! Assignability of types, and the substitution of type parameters (cel-go: `checker/types.go`, `checker/mapping.go`).

use super::types::{ParameterizedKind, Type};

/// The types substituted for type parameters so far.
#[derive(Debug, Default)]
pub(crate) struct TypeSubstitutions {
    substitutions: Vec<Option<Type>>,
    /// Previous substitutions, restored if a list of pairs is not assignable.
    undo_log: Vec<(usize, Option<Type>)>,
}

impl TypeSubstitutions {
    pub(crate) fn new_type_param(&mut self) -> Type {
        self.substitutions.push(None);
        Type::Param(self.substitutions.len() - 1)
    }

    fn get(&self, param: usize) -> Option<&Type> {
        self.substitutions.get(param).and_then(Option::as_ref)
    }

    fn set(&mut self, param: usize, to: Type) {
        if let Some(slot) = self.substitutions.get_mut(param) {
            self.undo_log.push((param, slot.replace(to)));
        }
    }

    /// Replaces the type parameters that have a substitution.
    pub(crate) fn substitute(&self, ty: &Type) -> Type {
        match ty {
            Type::Param(param) => match self.get(*param) {
                Some(substituted) => self.substitute(substituted),
                None => ty.clone(),
            },
            Type::Parameterized(parameterized) => Type::parameterized(
                parameterized.kind,
                parameterized
                    .parameters
                    .iter()
                    .map(|parameter| self.substitute(parameter))
                    .collect(),
            ),
            _ => ty.clone(),
        }
    }

    /// Whether all pairs are assignable; if not, the substitutions are unchanged.
    pub(crate) fn are_all_assignable(&mut self, pairs: &[(Type, Type)]) -> bool {
        self.undo_log.clear();
        let assignable = pairs
            .iter()
            .all(|(left, right)| self.internal_is_assignable(left, right));
        if !assignable {
            while let Some((param, previous)) = self.undo_log.pop() {
                self.substitutions[param] = previous;
            }
        }
        assignable
    }

    pub(crate) fn is_assignable(&mut self, left: &Type, right: &Type) -> bool {
        self.are_all_assignable(&[(left.clone(), right.clone())])
    }

    fn internal_is_assignable(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Param(param) = right {
            let (valid, substituted) = self.substitute_type_param(left, *param);
            if valid || substituted {
                return valid;
            }
        }
        if let Type::Param(param) = left {
            return self.substitute_type_param(right, *param).0;
        }
        if left.is_dyn_or_error() || right.is_dyn_or_error() {
            return true;
        }
        match (left, right) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Parameterized(l), Type::Parameterized(r)) => {
                // The parameter of a type value is not compared.
                l.kind == r.kind
                    && (l.kind == ParameterizedKind::Type
                        || l.parameters.len() == r.parameters.len()
                            && l.parameters
                                .iter()
                                .zip(&r.parameters)
                                .all(|(left, right)| self.internal_is_assignable(left, right)))
            }
            _ => left.is_exact_type(right),
        }
    }

    /// Whether the type parameter may be substituted by this type, and whether it already had a substitution.
    fn substitute_type_param(&mut self, to: &Type, param: usize) -> (bool, bool) {
        if matches!(to, Type::Param(other) if *other == param) {
            return (true, true);
        }
        if let Some(substituted) = self.get(param).cloned() {
            if substituted.is_exact_type(to) {
                return (true, true);
            }
            if !self.internal_is_assignable(to, &substituted) {
                return (false, true);
            }
            let general = most_general(to, &substituted);
            if !self.occurs_in(&general, param) {
                self.set(param, general);
            }
            return (true, true);
        }
        if self.occurs_in(to, param) {
            return (false, false);
        }
        self.set(param, to.clone());
        (true, false)
    }

    /// The occurs check: whether the type parameter is part of this type.
    fn occurs_in(&self, within: &Type, param: usize) -> bool {
        match within {
            Type::Param(other) if *other == param => true,
            Type::Param(other) => self
                .get(*other)
                .is_some_and(|substituted| self.occurs_in(substituted, param)),
            Type::Parameterized(parameterized) => parameterized
                .parameters
                .iter()
                .any(|parameter| self.occurs_in(parameter, param)),
            _ => false,
        }
    }
}

/// The less specific of two assignable types.
pub(crate) fn most_general(left: &Type, right: &Type) -> Type {
    if is_equal_or_less_specific(left, right) {
        left.clone()
    } else {
        right.clone()
    }
}

fn is_equal_or_less_specific(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Parameterized(l), Type::Parameterized(r)) => {
            l.kind == r.kind
                && (l.kind == ParameterizedKind::Type
                    || l.parameters.len() == r.parameters.len()
                        && l.parameters
                            .iter()
                            .zip(&r.parameters)
                            .all(|(left, right)| is_equal_or_less_specific(left, right)))
        }
        _ => left.is_exact_type(right),
    }
}
