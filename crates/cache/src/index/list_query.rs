//! List queries: the key range and selectors of a list, and the iterator over the matching objects.

use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use rhumb_meta::{ObjectKey, fields, labels};

use super::{EntryIterator, ListPlan, ListStats};
use crate::CacheEntry;
use crate::resource_cache::CacheInner;
use crate::snapshot::CacheContents;

/// A list request: namespace, start key and selectors.
#[derive(Debug, Clone, Copy)]
pub struct ListQuery<'a> {
    pub namespace: Option<&'a str>,
    pub after: Option<&'a ObjectKey>,
    pub labels: &'a labels::Selector,
    pub fields: &'a fields::Selector,
    /// Approximately how many objects the caller will take; the planner uses it to limit work up front.
    pub limit: usize,
}

/// A query in the form that the planner uses: a key range and selectors.
#[derive(Debug, Clone)]
pub(crate) struct SelectorQuery<'a> {
    pub(super) labels: &'a labels::Selector,
    pub(super) fields: &'a fields::Selector,
    pub(super) field_names: &'a [Arc<str>],
    namespace: Option<&'a str>,
    /// Exclusive bounds of the key range; no upper bound if `end` is `None`.
    start: Box<str>,
    end: Option<Box<str>>,
}

impl<'a> SelectorQuery<'a> {
    pub(crate) fn new(
        namespace: Option<&'a str>,
        labels: &'a labels::Selector,
        fields: &'a fields::Selector,
        field_names: &'a [Arc<str>],
    ) -> Self {
        let namespace = namespace.or_else(|| {
            // A field selector matches cluster-scoped objects by the empty namespace.
            let required = fields.requires_exact_match("metadata.namespace");
            required.filter(|namespace| !namespace.is_empty())
        });
        SelectorQuery {
            labels,
            fields,
            field_names,
            namespace,
            start: namespace.map_or_else(Box::default, |name| [name, "/"].concat().into()),
            // '0' is the character after '/'.
            end: namespace.map(|name| [name, "0"].concat().into()),
        }
    }

    /// All objects of a namespace, or of the resource if `None`.
    pub(crate) fn everything_in(namespace: Option<&'a str>) -> Self {
        static EVERYTHING: LazyLock<(labels::Selector, fields::Selector)> =
            LazyLock::new(Default::default);
        SelectorQuery::new(namespace, &EVERYTHING.0, &EVERYTHING.1, &[])
    }

    /// Limits the query to objects after `key`.
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

    /// Whether the key range is empty: a page may start after the end of the namespace.
    pub(crate) fn is_empty_range(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub(super) fn key_bounds(&self) -> (&str, Option<&str>) {
        (&self.start, self.end.as_deref())
    }

    pub(super) fn contains_key(&self, key: &ObjectKey) -> bool {
        let (after, before) = self.key_bounds();
        key.as_str() > after && before.is_none_or(|before| key.as_str() < before)
    }

    pub(crate) fn objects<'v>(
        &self,
        version: &'v CacheContents,
    ) -> impl Iterator<Item = &'v Arc<CacheEntry>> + Send + use<'v> {
        let (after, before) = self.key_bounds();
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        let range = version
            .objects
            .range::<_, str>((Bound::Excluded(after), end));
        range.map(|(_, entry)| entry)
    }

    /// Whether the selectors determine a single key: a name, with a namespace unless the resource is cluster-scoped.
    pub(super) fn selects_single_key(&self, version: &CacheContents) -> bool {
        let is_cluster_scoped = || {
            let first = version.objects.get_min();
            first.is_none_or(|(key, _)| key.namespace().is_none())
        };
        let name = self.fields.requires_exact_match("metadata.name");
        name.is_some_and(|name| !name.is_empty())
            && (self.namespace.is_some() || is_cluster_scoped())
    }

    pub(super) fn single_key(&self) -> Option<ObjectKey> {
        let name = self.fields.requires_exact_match("metadata.name")?;
        let key = ObjectKey::new(self.namespace, name).ok()?;
        self.contains_key(&key).then_some(key)
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn matches(&self, entry: &CacheEntry) -> bool {
        entry.matches(self.labels, self.fields, self.field_names)
    }
}

/// Iterator over the objects that match a query, in key order.
///
/// Records the number of examined and matched objects when it is dropped.
pub struct MatchingEntries<'a> {
    cache: &'a Arc<CacheInner>,
    version: &'a CacheContents,
    query: SelectorQuery<'a>,
    plan: ListPlan,
    candidates: EntryIterator<'a>,
    has_selectors: bool,
    examined: usize,
    matched: usize,
}

impl<'a> MatchingEntries<'a> {
    pub(crate) fn new(
        cache: &'a Arc<CacheInner>,
        version: &'a CacheContents,
        query: SelectorQuery<'a>,
        limit: usize,
    ) -> Self {
        let plan = ListPlan::choose(version, &query, limit);
        MatchingEntries {
            cache,
            version,
            plan,
            candidates: plan.entries(version, &query),
            has_selectors: !query.is_everything(),
            query,
            examined: 0,
            matched: 0,
        }
    }
}

impl<'a> Iterator for MatchingEntries<'a> {
    type Item = &'a Arc<CacheEntry>;

    fn next(&mut self) -> Option<&'a Arc<CacheEntry>> {
        loop {
            let entry = self.candidates.next()?;
            self.examined += 1;
            if !self.has_selectors || self.query.matches(entry) {
                self.matched += 1;
                return Some(entry);
            }
        }
    }
}

impl Drop for MatchingEntries<'_> {
    fn drop(&mut self) {
        if self.has_selectors {
            let list_stats = ListStats {
                query: &self.query,
                is_scan: self.plan.is_scan(),
                examined: self.examined,
                matched: self.matched,
            };
            CacheInner::record_list(self.cache, self.plan.index(self.version), &list_stats);
        }
    }
}

impl std::fmt::Debug for MatchingEntries<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selection")
            .field("plan", &self.plan)
            .field("looked_at", &self.examined)
            .field("picked", &self.matched)
            .finish_non_exhaustive()
    }
}
