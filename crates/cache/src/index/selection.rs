//! A list: what it asks for, and the objects that it finds.

use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use rhumb_meta::{ObjectKey, fields, labels};

use super::{Found, Plan, Seen};
use crate::Entry;
use crate::cache::Inner;
use crate::snapshot::Version;

/// What a list asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub namespace: Option<&'a str>,
    pub after: Option<&'a ObjectKey>,
    pub labels: &'a labels::Selector,
    pub fields: &'a fields::Selector,
    /// About how many objects will be taken; no more are looked for in advance.
    pub limit: usize,
}

/// Which objects are asked for.
#[derive(Debug, Clone)]
pub(crate) struct Query<'a> {
    pub(super) labels: &'a labels::Selector,
    pub(super) fields: &'a fields::Selector,
    pub(super) field_names: &'a [Arc<str>],
    namespace: Option<&'a str>,
    /// All keys are after this one, and before the end if there is one.
    start: Box<str>,
    end: Option<Box<str>>,
}

impl<'a> Query<'a> {
    pub(crate) fn new(
        namespace: Option<&'a str>,
        labels: &'a labels::Selector,
        fields: &'a fields::Selector,
        field_names: &'a [Arc<str>],
    ) -> Self {
        let namespace = namespace.or_else(|| {
            // Objects of the cluster have no namespace, which a selector calls the empty one.
            let asked = fields.requires_exact_match("metadata.namespace");
            asked.filter(|namespace| !namespace.is_empty())
        });
        Query {
            labels,
            fields,
            field_names,
            namespace,
            start: namespace.map_or_else(Box::default, |name| [name, "/"].concat().into()),
            // The character after the slash.
            end: namespace.map(|name| [name, "0"].concat().into()),
        }
    }

    /// All objects of a namespace, or of the resource.
    pub(crate) fn of_all(namespace: Option<&'a str>) -> Self {
        static EVERYTHING: LazyLock<(labels::Selector, fields::Selector)> =
            LazyLock::new(Default::default);
        Query::new(namespace, &EVERYTHING.0, &EVERYTHING.1, &[])
    }

    /// Only objects after this one.
    pub(crate) fn after(mut self, key: Option<&ObjectKey>) -> Self {
        if let Some(key) = key
            && key.as_str() > &*self.start
        {
            self.start = key.as_str().into();
        }
        self
    }

    pub(super) fn is_unbounded(&self) -> bool {
        self.start.is_empty() && self.end.is_none()
    }

    /// A page can begin behind the end, and then there is nothing.
    pub(crate) fn is_void(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub(super) fn edges(&self) -> (&str, Option<&str>) {
        (&self.start, self.end.as_deref())
    }

    pub(super) fn spans(&self, key: &ObjectKey) -> bool {
        let (after, before) = self.edges();
        key.as_str() > after && before.is_none_or(|before| key.as_str() < before)
    }

    pub(crate) fn objects<'v>(
        &self,
        version: &'v Version,
    ) -> impl Iterator<Item = &'v Arc<Entry>> + Send + use<'v> {
        let (after, before) = self.edges();
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        let range = version
            .objects
            .range::<_, str>((Bound::Excluded(after), end));
        range.map(|(_, entry)| entry)
    }

    /// Whether a single key is asked for: a name, and where to look for it.
    pub(super) fn has_key(&self, version: &Version) -> bool {
        let is_of_the_cluster = || {
            let first = version.objects.get_min();
            first.is_none_or(|(key, _)| key.namespace().is_none())
        };
        let name = self.fields.requires_exact_match("metadata.name");
        name.is_some_and(|name| !name.is_empty())
            && (self.namespace.is_some() || is_of_the_cluster())
    }

    pub(super) fn key(&self) -> Option<ObjectKey> {
        let name = self.fields.requires_exact_match("metadata.name")?;
        let key = ObjectKey::new(self.namespace, name).ok()?;
        self.spans(&key).then_some(key)
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn picks(&self, entry: &Entry) -> bool {
        entry.is_picked_by(self.labels, self.fields, self.field_names)
    }
}

/// The objects that a query picks, in key order.
///
/// What it had to look at is counted when it is dropped.
pub struct Selection<'a> {
    cache: &'a Arc<Inner>,
    version: &'a Version,
    query: Query<'a>,
    plan: Plan,
    found: Found<'a>,
    filters: bool,
    looked_at: usize,
    picked: usize,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(
        cache: &'a Arc<Inner>,
        version: &'a Version,
        query: Query<'a>,
        limit: usize,
    ) -> Self {
        let plan = Plan::of(version, &query, limit);
        Selection {
            cache,
            version,
            plan,
            found: plan.find(version, &query),
            filters: !query.is_everything(),
            query,
            looked_at: 0,
            picked: 0,
        }
    }
}

impl<'a> Iterator for Selection<'a> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<&'a Arc<Entry>> {
        loop {
            let entry = self.found.next()?;
            self.looked_at += 1;
            if !self.filters || self.query.picks(entry) {
                self.picked += 1;
                return Some(entry);
            }
        }
    }
}

impl Drop for Selection<'_> {
    fn drop(&mut self) {
        if self.filters {
            let seen = Seen {
                query: &self.query,
                is_scan: self.plan.is_scan(),
                looked_at: self.looked_at,
                picked: self.picked,
            };
            Inner::note_list(self.cache, self.plan.index(self.version), &seen);
        }
    }
}

impl std::fmt::Debug for Selection<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selection")
            .field("plan", &self.plan)
            .field("looked_at", &self.looked_at)
            .field("picked", &self.picked)
            .finish_non_exhaustive()
    }
}
