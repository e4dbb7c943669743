//! Amounts of several resources, by name.

use std::borrow::Cow;
use std::fmt;

use rhumb_meta::{Quantity, QuantityError};
use serde_json::{Map, Value};

/// The name of a resource as quotas know it, such as `requests.cpu` or `count/jobs.batch`.
pub type Name = Cow<'static, str>;

/// How much of which resources, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(Vec<(Name, Quantity)>);

impl Amounts {
    /// Reads a resource list.
    pub fn parse(list: &Map<String, Value>) -> Result<Amounts, QuantityError> {
        list.iter()
            .map(|(name, amount)| Ok((Cow::Owned(name.clone()), Quantity::from_json(amount)?)))
            .collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Quantity> {
        let at = self.find(name).ok()?;
        Some(&self.0[at].1)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name, amount))
    }

    pub fn set(&mut self, name: impl Into<Name>, amount: Quantity) {
        let name = name.into();
        match self.find(&name) {
            Ok(at) => self.0[at].1 = amount,
            Err(at) => self.0.insert(at, (name, amount)),
        }
    }

    /// What is not there counts as nothing.
    pub fn add(&mut self, name: &Name, amount: &Quantity) {
        match self.find(name) {
            Ok(at) => self.0[at].1.add(amount),
            Err(at) => self.0.insert(at, (name.clone(), amount.clone())),
        }
    }

    pub fn add_all(&mut self, other: &Amounts) {
        other
            .iter()
            .for_each(|(name, amount)| self.add(name, amount));
    }

    /// Adds to every name that is here; others are left alone.
    pub fn add_known(&mut self, other: &Amounts) {
        self.change_known(other.iter(), Quantity::add);
    }

    /// The same, less.
    pub fn sub_known(&mut self, other: &Amounts) {
        self.change_known(other.iter(), Quantity::sub);
    }

    pub(crate) fn change_known<'a>(
        &mut self,
        by: impl Iterator<Item = (&'a Name, &'a Quantity)>,
        change: fn(&mut Quantity, &Quantity),
    ) {
        for (name, amount) in by {
            if let Ok(at) = self.find(name) {
                change(&mut self.0[at].1, amount);
            }
        }
    }

    /// Each as large as the larger of both.
    pub fn raise_to(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            match self.find(name) {
                Ok(at) if self.0[at].1 < *amount => self.0[at].1 = amount.clone(),
                Ok(_) => {}
                Err(at) => self.0.insert(at, (name.clone(), amount.clone())),
            }
        }
    }

    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Amounts {
        let kept = self.0.iter().filter(|(name, _)| keep(name));
        Amounts(kept.cloned().collect())
    }

    /// As a resource list.
    pub fn to_json(&self) -> Value {
        let entries = self.0.iter();
        let entries = entries.map(|(name, amount)| (name.to_string(), amount.to_string().into()));
        Value::Object(entries.collect())
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl FromIterator<(Name, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (Name, Quantity)>>(amounts: I) -> Self {
        let mut all = Amounts::default();
        for (name, amount) in amounts {
            all.set(name, amount);
        }
        all
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{name}={amount}")?;
        }
        Ok(())
    }
}
