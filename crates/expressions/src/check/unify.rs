//! Whether a value of one type may stand where another is wanted, finding out open types on the way.

use super::types::{CompositeKind, Type};

/// What open types have turned out to be.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    found: Vec<Option<Type>>,
    /// What to restore if an attempt fails.
    trail: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    pub(crate) fn open(&mut self) -> Type {
        self.found.push(None);
        Type::Param(self.found.len() - 1)
    }

    fn get(&self, param: usize) -> Option<&Type> {
        self.found.get(param).and_then(Option::as_ref)
    }

    fn set(&mut self, param: usize, to: Type) {
        if let Some(slot) = self.found.get_mut(param) {
            self.trail.push((param, slot.replace(to)));
        }
    }

    /// The type with all that is known put in.
    pub(crate) fn resolve(&self, of: &Type) -> Type {
        match of {
            Type::Param(param) => match self.get(*param) {
                Some(found) => self.resolve(found),
                None => of.clone(),
            },
            Type::Composite(composite) => Type::composite(
                composite.kind,
                composite
                    .parameters
                    .iter()
                    .map(|parameter| self.resolve(parameter))
                    .collect(),
            ),
            _ => of.clone(),
        }
    }

    /// Whether all fit; if one does not, nothing has been found out.
    pub(crate) fn fit_all(&mut self, pairs: &[(Type, Type)]) -> bool {
        self.trail.clear();
        let fits = pairs.iter().all(|(left, right)| self.fit(left, right));
        if !fits {
            while let Some((param, before)) = self.trail.pop() {
                self.found[param] = before;
            }
        }
        fits
    }

    pub(crate) fn fits(&mut self, left: &Type, right: &Type) -> bool {
        self.fit_all(&[(left.clone(), right.clone())])
    }

    fn fit(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Param(param) = right {
            let (valid, known) = self.bind(left, *param);
            if valid || known {
                return valid;
            }
        }
        if let Type::Param(param) = left {
            return self.bind(right, *param).0;
        }
        if left.is_dyn_or_error() || right.is_dyn_or_error() {
            return true;
        }
        match (left, right) {
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::Composite(l), Type::Composite(r)) => {
                // Of two types as values it is not asked what types they are.
                l.kind == r.kind
                    && (l.kind == CompositeKind::Type
                        || l.parameters.len() == r.parameters.len()
                            && l.parameters
                                .iter()
                                .zip(&r.parameters)
                                .all(|(left, right)| self.fit(left, right)))
            }
            _ => left.is_exactly(right),
        }
    }

    /// Whether an open type may be this one, and whether it was known before.
    fn bind(&mut self, to: &Type, param: usize) -> (bool, bool) {
        if matches!(to, Type::Param(other) if *other == param) {
            return (true, true);
        }
        if let Some(known) = self.get(param).cloned() {
            if known.is_exactly(to) {
                return (true, true);
            }
            if !self.fit(to, &known) {
                return (false, true);
            }
            let general = more_general(to, &known);
            if !self.mentions(&general, param) {
                self.set(param, general);
            }
            return (true, true);
        }
        if self.mentions(to, param) {
            return (false, false);
        }
        self.set(param, to.clone());
        (true, false)
    }

    /// Whether an open type is a part of this one.
    fn mentions(&self, within: &Type, param: usize) -> bool {
        match within {
            Type::Param(other) if *other == param => true,
            Type::Param(other) => self
                .get(*other)
                .is_some_and(|found| self.mentions(found, param)),
            Type::Composite(composite) => composite
                .parameters
                .iter()
                .any(|parameter| self.mentions(parameter, param)),
            _ => false,
        }
    }
}

/// Of two types that fit, the one that says less.
pub(crate) fn more_general(left: &Type, right: &Type) -> Type {
    if is_no_more_specific(left, right) {
        left.clone()
    } else {
        right.clone()
    }
}

fn is_no_more_specific(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Composite(l), Type::Composite(r)) => {
            l.kind == r.kind
                && (l.kind == CompositeKind::Type
                    || l.parameters.len() == r.parameters.len()
                        && l.parameters
                            .iter()
                            .zip(&r.parameters)
                            .all(|(left, right)| is_no_more_specific(left, right)))
        }
        _ => left.is_exactly(right),
    }
}
