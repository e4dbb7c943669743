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

    /// None is larger than this.
    pub(crate) fn bound(&mut self, most: &Quantity) {
        for (_, amount) in &mut self.0 {
            if *amount > *most {
                *amount = most.clone();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn amounts(text: &str) -> Amounts {
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        entries
            .map(|entry| {
                let (name, amount) = entry.split_once('=').expect("an amount");
                let amount = Quantity::parse(amount).expect("a quantity");
                (Name::from(name.to_owned()), amount)
            })
            .collect()
    }

    #[test]
    fn names_are_in_order_and_there_once() {
        let mut all = amounts("memory=1Gi,cpu=1,pods=2,cpu=3");
        assert_eq!(all.to_string(), "cpu=3,memory=1Gi,pods=2");
        all.set("a", Quantity::ZERO);
        all.set("pods", Quantity::ZERO);
        assert_eq!(all.to_string(), "a=0,cpu=3,memory=1Gi,pods=0");
        assert_eq!(
            all.names().collect::<Vec<_>>(),
            ["a", "cpu", "memory", "pods"]
        );
        assert_eq!(all.get("cpu"), Quantity::parse("3").ok().as_ref());
        assert_eq!(all.get("b"), None);
    }

    #[test]
    fn lists_are_read_and_written() {
        let list = json!({"memory": "1024Mi", "cpu": 2});
        let read = Amounts::parse(list.as_object().expect("a list")).expect("quantities");
        assert_eq!(read.to_json(), json!({"cpu": "2", "memory": "1Gi"}));
        let bad = json!({"cpu": "1x"});
        Amounts::parse(bad.as_object().expect("a list")).expect_err("no quantity");
    }

    #[test]
    fn changes_leave_other_names_alone() {
        type Change = fn(&mut Amounts, &Amounts);
        let table: [(Change, &str); 2] = [
            (Amounts::add_known, "cpu=1500m,memory=1Gi"),
            (Amounts::sub_known, "cpu=500m,memory=1Gi"),
        ];
        for (change, want) in table {
            let mut all = amounts("cpu=1,memory=1Gi");
            change(&mut all, &amounts("cpu=500m,pods=1"));
            assert_eq!(all.to_string(), want);
        }
    }

    #[test]
    fn some_can_be_kept() {
        let all = amounts("cpu=1,memory=1Gi");
        assert_eq!(all.only(|name| name == "cpu"), amounts("cpu=1"));
        assert!(all.only(|_| false).is_empty());
    }
}
