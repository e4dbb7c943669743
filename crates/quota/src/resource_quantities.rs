//! Quantities by resource name (upstream: `corev1.ResourceList`).

use std::borrow::Cow;
use std::fmt;

use rhumb_meta::{Quantity, QuantityError};
use serde_json::{Map, Value};

/// A resource name as used in quotas, such as `requests.cpu` or `count/jobs.batch`.
pub type ResourceName = Cow<'static, str>;

/// Quantities by resource name, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceQuantities(Vec<(ResourceName, Quantity)>);

impl ResourceQuantities {
    /// Parses a resource list.
    pub fn parse(list: &Map<String, Value>) -> Result<ResourceQuantities, QuantityError> {
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

    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name, amount))
    }

    pub fn set(&mut self, name: impl Into<ResourceName>, amount: Quantity) {
        let name = name.into();
        match self.find(&name) {
            Ok(at) => self.0[at].1 = amount,
            Err(at) => self.0.insert(at, (name, amount)),
        }
    }

    /// Adds the quantities of names that exist here; ignores other names.
    pub fn add_existing(&mut self, other: &ResourceQuantities) {
        self.change_existing(other.iter(), Quantity::add);
    }

    /// Subtracts the quantities of names that exist here; ignores other names.
    pub fn subtract_existing(&mut self, other: &ResourceQuantities) {
        self.change_existing(other.iter(), Quantity::sub);
    }

    pub(crate) fn change_existing<'a>(
        &mut self,
        by: impl Iterator<Item = (&'a ResourceName, &'a Quantity)>,
        change: fn(&mut Quantity, &Quantity),
    ) {
        for (name, amount) in by {
            if let Ok(at) = self.find(name) {
                change(&mut self.0[at].1, amount);
            }
        }
    }

    /// Reduces larger quantities to `maximum`.
    pub(crate) fn clamp(&mut self, maximum: &Quantity) {
        for (_, amount) in &mut self.0 {
            if *amount > *maximum {
                *amount = maximum.clone();
            }
        }
    }

    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> ResourceQuantities {
        let kept = self.0.iter().filter(|(name, _)| keep(name));
        ResourceQuantities(kept.cloned().collect())
    }

    /// The JSON of a resource list.
    pub fn to_json(&self) -> Value {
        let entries = self.0.iter();
        let entries = entries.map(|(name, amount)| (name.to_string(), amount.to_string().into()));
        Value::Object(entries.collect())
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl FromIterator<(ResourceName, Quantity)> for ResourceQuantities {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Quantity)>>(amounts: I) -> Self {
        let mut all = ResourceQuantities::default();
        for (name, amount) in amounts {
            all.set(name, amount);
        }
        all
    }
}

impl fmt::Display for ResourceQuantities {
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

    fn amounts(text: &str) -> ResourceQuantities {
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        entries
            .map(|entry| {
                let (name, amount) = entry.split_once('=').expect("name=quantity");
                let amount = Quantity::parse(amount).expect("valid quantity");
                (ResourceName::from(name.to_owned()), amount)
            })
            .collect()
    }

    #[test]
    fn names_are_sorted_and_unique() {
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
    fn lists_are_parsed_and_serialized() {
        let list = json!({"memory": "1024Mi", "cpu": 2});
        let read = ResourceQuantities::parse(list.as_object().expect("JSON list"))
            .expect("valid quantities");
        assert_eq!(read.to_json(), json!({"cpu": "2", "memory": "1Gi"}));
        let bad = json!({"cpu": "1x"});
        ResourceQuantities::parse(bad.as_object().expect("JSON list"))
            .expect_err("invalid quantity");
    }

    #[test]
    fn adding_and_subtracting_affect_only_existing_names() {
        type QuantityOperation = fn(&mut ResourceQuantities, &ResourceQuantities);
        let table: [(QuantityOperation, &str); 2] = [
            (ResourceQuantities::add_existing, "cpu=1500m,memory=1Gi"),
            (ResourceQuantities::subtract_existing, "cpu=500m,memory=1Gi"),
        ];
        for (change, want) in table {
            let mut all = amounts("cpu=1,memory=1Gi");
            change(&mut all, &amounts("cpu=500m,pods=1"));
            assert_eq!(all.to_string(), want);
        }
    }

    #[test]
    fn quantities_can_be_filtered() {
        let all = amounts("cpu=1,memory=1Gi");
        assert_eq!(all.filtered(|name| name == "cpu"), amounts("cpu=1"));
        assert!(all.filtered(|_| false).is_empty());
    }
}
