//! The labels of a pod, node or namespace.

use rhumb_meta::labels;

/// Labels sorted by key. Looked up by linear scan, since objects have few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        labels::Labels::get(&*self.0, key)
    }
}

impl labels::Labels for Labels {
    fn get(&self, key: &str) -> Option<&str> {
        Labels::get(self, key)
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Box<str>, Box<str>)> = pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        pairs.sort();
        pairs.dedup_by(|a, b| a.0 == b.0);
        Labels(pairs.into())
    }
}
