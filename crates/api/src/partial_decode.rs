//! Helpers for partial deserialization: decoding a few fields of an object from JSON bytes or a `serde_json::Value`.
//!
//! Types that derive `Deserialize` with these helpers declare the fields they need; serde skips all others. Strings
//! are borrowed from the input unless they contain escapes. Null counts as absent.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use rhumb_meta::Quantity;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Deserializes a field; null becomes the default.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A string, borrowed from the input where possible; null becomes empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BorrowedStr<'a>(pub Cow<'a, str>);

impl Deref for BorrowedStr<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for BorrowedStr<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(BorrowedStrVisitor)
            .map(BorrowedStr)
    }
}

struct BorrowedStrVisitor;

impl<'de> Visitor<'de> for BorrowedStrVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }
}

/// Quantities by resource name. Names are unique; lists are short, so lookups are linear.
#[derive(Debug, Clone, Default)]
pub struct ResourceList<'a>(Vec<(Cow<'a, str>, Quantity)>);

impl<'a> ResourceList<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Cow<'a, str>, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name, amount))
    }

    pub fn set(&mut self, name: Cow<'a, str>, amount: Quantity) {
        match self.get_mut(&name) {
            Some(known) => *known = amount,
            None => self.0.push((name, amount)),
        }
    }

    /// Adds the quantities of `other`; a missing resource counts as zero.
    pub fn add_all(&mut self, other: &ResourceList<'a>) {
        for (name, amount) in other.iter() {
            match self.get_mut(name) {
                Some(sum) => sum.add(amount),
                None => self.0.push((name.clone(), amount.clone())),
            }
        }
    }

    /// Raises each quantity to the maximum of both lists.
    pub fn max_with(&mut self, other: &ResourceList<'a>) {
        for (name, amount) in other.iter() {
            match self.get_mut(name) {
                Some(known) if *known < *amount => known.clone_from(amount),
                Some(_) => {}
                None => self.0.push((name.clone(), amount.clone())),
            }
        }
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Quantity> {
        self.0.iter_mut().find(|(n, _)| n == name).map(|(_, a)| a)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ResourceList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ResourceListVisitor)
    }
}

struct ResourceListVisitor;

impl<'de> Visitor<'de> for ResourceListVisitor {
    type Value = ResourceList<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of resource names to quantities")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(ResourceList::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut list = ResourceList::default();
        while let Some((name, amount)) = entries.next_entry::<BorrowedStr<'de>, Quantity>()? {
            list.set(name.0, amount);
        }
        Ok(list)
    }
}
