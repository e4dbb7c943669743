//! The labels of the namespace that a write is in, and who sees the write with them.

use std::sync::Arc;

use rhumb_admission::{Criteria, LabelSets, ObjectLabels, Operation, Outcome};
use rhumb_api::Object;
use rhumb_cache::Entry;
use rhumb_meta::labels::Labels;
use rhumb_meta::{ObjectKey, Revision, Status};

use super::{Attributes, lookup};

/// Where the labels of a namespace are.
#[derive(Debug)]
pub(super) enum NamespaceLabels {
    /// Nobody asks for them, or there is no namespace.
    Unasked,
    /// The write is about the namespace itself, and says what they are to be.
    InObject,
    Cached(Arc<Entry>),
    Stored(Arc<Object>),
    Unknown(Status),
}

/// Labels for selectors, wherever they are.
pub(super) struct NamespaceView<'a>(Place<'a>);

enum Place<'a> {
    Nowhere,
    Object(ObjectLabels<'a>),
    Entry(&'a Entry),
}

impl Labels for NamespaceView<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match &self.0 {
            Place::Nowhere => None,
            Place::Object(labels) => labels.get(key),
            Place::Entry(entry) => entry.label(key).map(|value| &**value),
        }
    }
}

impl NamespaceLabels {
    /// Whether what was decided with them holds for other writes too.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, NamespaceLabels::Unasked | NamespaceLabels::Cached(_))
    }

    /// Tells them from those before and after.
    pub(super) fn revision(&self) -> Option<Revision> {
        match self {
            NamespaceLabels::Cached(entry) => Some(entry.revision()),
            _ => None,
        }
    }

    /// The labels, or why nobody knows them.
    pub(super) fn view<'a>(
        &'a self,
        object: Option<&'a Object>,
    ) -> Result<NamespaceView<'a>, &'a Status> {
        let place = match (self, object) {
            (NamespaceLabels::Unknown(status), _) => return Err(status),
            (NamespaceLabels::InObject, Some(object)) => Place::Object(ObjectLabels(object)),
            (NamespaceLabels::InObject, None) | (NamespaceLabels::Unasked, _) => Place::Nowhere,
            (NamespaceLabels::Cached(entry), _) => Place::Entry(entry),
            (NamespaceLabels::Stored(object), _) => Place::Object(ObjectLabels(object)),
        };
        Ok(NamespaceView(place))
    }
}

impl Attributes<'_> {
    /// Whether whoever has these criteria sees the write.
    pub(super) fn outcome(
        &self,
        criteria: &Criteria,
        object: Option<&Object>,
        namespace: &NamespaceLabels,
    ) -> Result<Outcome, Status> {
        let facts = self.facts(object)?;
        let namespace = namespace.view(object);
        let (new, old) = (object.map(ObjectLabels), self.old.map(ObjectLabels));
        let labels = LabelSets {
            namespace: match &namespace {
                Ok(view) => Ok(view),
                Err(status) => Err(*status),
            },
            object: new.as_ref().map(|labels| labels as &dyn Labels),
            old: old.as_ref().map(|labels| labels as &dyn Labels),
        };
        Ok(criteria.decide(&facts, &labels))
    }

    /// Finds the labels of the namespace, if anybody asks for them.
    pub(super) async fn namespace_labels(&self, are_needed: bool) -> NamespaceLabels {
        let is_changed = self.is_about("", "namespaces")
            && matches!(self.operation, Operation::Create | Operation::Update);
        let namespace = self.own_namespace(None);
        if !are_needed || (namespace.is_empty() && !is_changed) {
            return NamespaceLabels::Unasked;
        }
        if is_changed {
            return NamespaceLabels::InObject;
        }
        match self.find_namespace(namespace).await {
            Ok(labels) => labels,
            Err(status) => NamespaceLabels::Unknown(status),
        }
    }

    async fn find_namespace(&self, name: &str) -> Result<NamespaceLabels, Status> {
        let key = ObjectKey::cluster(name).map_err(Status::internal_error)?;
        if let Some(entry) = lookup::entry(self.call, "", "namespaces", &key)? {
            return Ok(NamespaceLabels::Cached(entry));
        }
        let found = lookup::anywhere(self.call, "", "namespaces", &key).await?;
        let missing = || {
            let namespaces = rhumb_meta::GroupResource::new("", "namespaces");
            Status::not_found(&namespaces, name)
        };
        found.map(NamespaceLabels::Stored).ok_or_else(missing)
    }
}
