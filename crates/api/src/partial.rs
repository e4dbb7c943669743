//! Reading a few fields of an object, from JSON or from a tree, without building or copying the rest.
//!
//! Types that derive `Deserialize` with these say which fields they are after; all others are skipped. Texts are
//! borrowed from what is read wherever it holds them as they are. What is null is absent.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use rhumb_meta::Quantity;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Reads a field; the default if it is null.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text, empty if it is null.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
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

/// Amounts by the names of resources, each name once. Lists are short, so finding a name is a walk.
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

    /// What is not there counts as nothing.
    pub fn add_all(&mut self, other: &ResourceList<'a>) {
        for (name, amount) in other.iter() {
            match self.get_mut(name) {
                Some(sum) => sum.add(amount),
                None => self.0.push((name.clone(), amount.clone())),
            }
        }
    }

    /// Each as large as the larger of both.
    pub fn raise_to(&mut self, other: &ResourceList<'a>) {
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
        deserializer.deserialize_any(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = ResourceList<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("amounts by the names of resources")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(ResourceList::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut list = ResourceList::default();
        while let Some((name, amount)) = entries.next_entry::<Text<'de>, Quantity>()? {
            list.set(name.0, amount);
        }
        Ok(list)
    }
}
