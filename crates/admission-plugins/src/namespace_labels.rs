//! Looks up the labels of a request's namespace, and evaluates match criteria with them.

use std::sync::Arc;

use rhumb_admission::{MatchCriteria, MatchOutcome, ObjectLabels, Operation, SelectorLabels};
use rhumb_api::JsonObject;
use rhumb_cache::CacheEntry;
use rhumb_meta::labels::Labels;
use rhumb_meta::{ObjectKey, Revision, Status};

use super::object_lookup;
use rhumb_registry::admission::AdmissionAttributes;

/// Where the namespace labels for selectors come from.
#[derive(Debug)]
pub(super) enum NamespaceLabelSource {
    /// No selector needs them, or the request has no namespace.
    NotNeeded,
    /// The request creates or updates the namespace itself: use the labels of the new object.
    InObject,
    Cached(Arc<CacheEntry>),
    Stored(Arc<JsonObject>),
    Failed(Status),
}

/// The labels of a namespace, read in place.
pub(super) struct NamespaceLabelsView<'a>(NamespaceLabelsRef<'a>);

enum NamespaceLabelsRef<'a> {
    Empty,
    Object(ObjectLabels<'a>),
    Entry(&'a CacheEntry),
}

impl Labels for NamespaceLabelsView<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match &self.0 {
            NamespaceLabelsRef::Empty => None,
            NamespaceLabelsRef::Object(labels) => labels.get(key),
            NamespaceLabelsRef::Entry(entry) => entry.label(key).map(|value| &**value),
        }
    }
}

impl NamespaceLabelSource {
    /// Whether a decision made with them can be cached for other requests.
    pub(super) fn is_cacheable(&self) -> bool {
        matches!(
            self,
            NamespaceLabelSource::NotNeeded | NamespaceLabelSource::Cached(_)
        )
    }

    /// The revision of the namespace, if the labels come from the cache.
    pub(super) fn revision(&self) -> Option<Revision> {
        match self {
            NamespaceLabelSource::Cached(entry) => Some(entry.revision()),
            _ => None,
        }
    }

    /// The labels, or the error of looking them up.
    pub(super) fn view<'a>(
        &'a self,
        object: Option<&'a JsonObject>,
    ) -> Result<NamespaceLabelsView<'a>, &'a Status> {
        let labels = match (self, object) {
            (NamespaceLabelSource::Failed(status), _) => return Err(status),
            (NamespaceLabelSource::InObject, Some(object)) => {
                NamespaceLabelsRef::Object(ObjectLabels(object))
            }
            (NamespaceLabelSource::InObject, None) | (NamespaceLabelSource::NotNeeded, _) => {
                NamespaceLabelsRef::Empty
            }
            (NamespaceLabelSource::Cached(entry), _) => NamespaceLabelsRef::Entry(entry),
            (NamespaceLabelSource::Stored(object), _) => {
                NamespaceLabelsRef::Object(ObjectLabels(object))
            }
        };
        Ok(NamespaceLabelsView(labels))
    }
}

/// Evaluates match criteria for this request.
pub(super) fn match_criteria(
    attributes: &AdmissionAttributes<'_>,
    criteria: &MatchCriteria,
    object: Option<&JsonObject>,
    namespace: &NamespaceLabelSource,
) -> Result<MatchOutcome, Status> {
    let request = attributes.request_attributes(object)?;
    let namespace = namespace.view(object);
    let (new, old) = (
        object.map(ObjectLabels),
        attributes.old_object.map(ObjectLabels),
    );
    let labels = SelectorLabels {
        namespace: match &namespace {
            Ok(view) => Ok(view),
            Err(status) => Err(*status),
        },
        object: new.as_ref().map(|labels| labels as &dyn Labels),
        old_object: old.as_ref().map(|labels| labels as &dyn Labels),
    };
    Ok(criteria.evaluate(&request, &labels))
}

/// Looks up the labels of the namespace if they are needed.
pub(super) async fn namespace_labels(
    attributes: &AdmissionAttributes<'_>,
    are_needed: bool,
) -> NamespaceLabelSource {
    let is_changed = attributes.is_resource("", "namespaces")
        && matches!(attributes.operation, Operation::Create | Operation::Update);
    let namespace = attributes.request_namespace(None);
    if !are_needed || (namespace.is_empty() && !is_changed) {
        return NamespaceLabelSource::NotNeeded;
    }
    if is_changed {
        return NamespaceLabelSource::InObject;
    }
    match find_namespace_labels(attributes, namespace).await {
        Ok(labels) => labels,
        Err(status) => NamespaceLabelSource::Failed(status),
    }
}

async fn find_namespace_labels(
    attributes: &AdmissionAttributes<'_>,
    name: &str,
) -> Result<NamespaceLabelSource, Status> {
    let key = ObjectKey::cluster(name).map_err(Status::internal_error)?;
    if let Some(entry) = object_lookup::cached_entry(attributes.context, "", "namespaces", &key)? {
        return Ok(NamespaceLabelSource::Cached(entry));
    }
    let namespace = object_lookup::find_object(attributes.context, "", "namespaces", &key).await?;
    let missing = || {
        let namespaces = rhumb_meta::GroupResource::new("", "namespaces");
        Status::not_found(&namespaces, name)
    };
    namespace
        .map(NamespaceLabelSource::Stored)
        .ok_or_else(missing)
}
