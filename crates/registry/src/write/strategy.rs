//! Applies the strategy of a kind to the object of a write: allocation, server-managed fields, preparation, validation,
//! validating admission (upstream: `BeforeCreate` and `BeforeUpdate` of the `rest` package).
//!
//! Entry points: `RequestContext::prepare_create` and `prepare_update`.

use rhumb_api::{FieldView, GenerationPolicy, JsonObject, fields, metadata};
use rhumb_meta::Status;
use rhumb_meta::field::ErrorList;

use crate::admission;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::{InFlightAllocations, RequestContext};

/// Which part of an object an update is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateScope {
    /// Everything but the status.
    Main,
    /// Everything but the status, through a subresource (scale) that has already run admission on its own object.
    AlreadyAdmitted,
    Status,
    /// A subresource that takes the whole object and updates a part of it, which the rules of the kind determine.
    Subresource(&'static str),
}

impl UpdateScope {
    pub fn is_main(self) -> bool {
        matches!(self, UpdateScope::Main | UpdateScope::AlreadyAdmitted)
    }
}

impl RequestContext<'_> {
    /// Allocates, resets server-managed fields, validates and runs validating admission on a new object.
    pub(super) async fn prepare_create(
        &self,
        object: &mut JsonObject,
        dry_run: bool,
    ) -> Result<InFlightAllocations, Status> {
        let kind = &self.resource.kind;
        let request = self.rules_request();
        let hold = self.allocate(object, None, dry_run)?;
        if kind.has_status() && !kind.write_behavior.create_with_status {
            object.remove("status");
        }
        object.edit_metadata(|metadata| {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "managedFields",
            ] {
                metadata.remove(field);
            }
        });
        match kind.generation {
            // The kind does not track generations, so the value of the client is kept.
            GenerationPolicy::None => {}
            GenerationPolicy::ChangesTo(_) | GenerationPolicy::AlwaysOne => {
                object.set_meta("generation", 1);
            }
        }
        kind.strategy.prepare_create(object, &request);
        let mut errors = ErrorList::new();
        let view = FieldView::root(object);
        metadata::validate_create(&view, kind, &mut errors);
        kind.strategy.validate_create(&view, &request, &mut errors);
        self.invalid_unless_empty(object, &errors)?;
        self.add_rule_warnings(object, None);
        let attributes = self.admission_attributes(admission::Operation::Create, None, dry_run);
        let chain = &self.registry.admission;
        chain.validate(&attributes, Some(object)).await?;
        Ok(hold)
    }

    /// Allocates, keeps protected fields, validates and runs validating admission on the new state of an object.
    pub(super) async fn prepare_update(
        &self,
        old: &JsonObject,
        new: &mut JsonObject,
        part: UpdateScope,
        dry_run: bool,
    ) -> Result<InFlightAllocations, Status> {
        let hold = if part.is_main() {
            self.allocate(new, Some(old), dry_run)?
        } else {
            InFlightAllocations::default()
        };
        self.keep_protected_fields(old, new, part);
        self.prepare_part(old, new, part);
        if part != UpdateScope::Status {
            self.increment_generation(old, new);
        }
        self.validate_part(old, new, part)?;
        if part == UpdateScope::Main {
            self.add_rule_warnings(new, Some(old));
        }
        if part != UpdateScope::AlreadyAdmitted {
            let attributes =
                self.admission_attributes(admission::Operation::Update, Some(old), dry_run);
            let chain = &self.registry.admission;
            chain.validate(&attributes, Some(new)).await?;
        }
        Ok(hold)
    }

    /// Runs the prepare step of the rules of the kind for the updated part.
    fn prepare_part(&self, old: &JsonObject, new: &mut JsonObject, part: UpdateScope) {
        let rules = &self.resource.kind.strategy;
        let request = self.rules_request();
        match part {
            UpdateScope::Main | UpdateScope::AlreadyAdmitted => {
                rules.prepare_update(new, old, &request);
            }
            UpdateScope::Status => rules.prepare_status_update(new, old, &request),
            UpdateScope::Subresource(name) => rules.prepare_subresource(name, new, old, &request),
        }
    }

    /// Validates metadata, and the updated part by the rules of the kind.
    fn validate_part(
        &self,
        old: &JsonObject,
        new: &JsonObject,
        part: UpdateScope,
    ) -> Result<(), Status> {
        let kind = &self.resource.kind;
        let rules = &kind.strategy;
        let request = self.rules_request();
        let mut errors = ErrorList::new();
        let (view, old) = (FieldView::root(new), FieldView::root(old));
        metadata::validate_update(&view, &old, kind, &mut errors);
        metadata::revalidate_update(&view, &old, kind, &mut errors);
        match part {
            UpdateScope::Main | UpdateScope::AlreadyAdmitted => {
                rules.validate_update(&view, &old, &request, &mut errors);
            }
            UpdateScope::Status => rules.validate_status_update(&view, &old, &request, &mut errors),
            UpdateScope::Subresource(name) => {
                rules.validate_subresource(name, &view, &old, &request, &mut errors);
            }
        }
        self.invalid_unless_empty(new, &errors)
    }

    /// Copies from the old object what this update must not change.
    fn keep_protected_fields(&self, old: &JsonObject, new: &mut JsonObject, part: UpdateScope) {
        if part == UpdateScope::Status {
            let status = new.remove("status");
            let metadata = new.remove("metadata");
            *new = old.clone();
            new.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
            for field in self.resource.kind.write_behavior.status_update_preserves {
                new.copy_meta_from(old, field);
            }
            match status {
                Some(status) => new.insert("status".into(), status),
                None => new.remove("status"),
            };
        } else if part.is_main() && self.resource.kind.has_status() {
            match old.get("status") {
                Some(status) => new.insert("status".into(), status.clone()),
                None => new.remove("status"),
            };
        }
        if new.uid().is_empty() {
            new.copy_meta_from(old, "uid");
        }
        for field in ["creationTimestamp", "generation", "managedFields"] {
            new.copy_meta_from(old, field);
        }
        if old.is_deleting() {
            new.copy_meta_from(old, "deletionTimestamp");
            if new.meta_int("deletionGracePeriodSeconds").is_none() {
                new.copy_meta_from(old, "deletionGracePeriodSeconds");
            }
        }
        new.clear_meta("selfLink");
    }

    fn increment_generation(&self, old: &JsonObject, new: &mut JsonObject) {
        if let GenerationPolicy::ChangesTo(paths) = self.resource.kind.generation {
            if let Some(storage) = &self.resource.storage {
                storage.schema.canonicalize(new);
            }
            if paths
                .iter()
                .any(|&path| fields::get(new, path) != fields::get(old, path))
            {
                new.set_meta("generation", old.generation() + 1);
            }
        }
    }

    fn invalid_unless_empty(&self, object: &JsonObject, errors: &ErrorList) -> Result<(), Status> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(
            &self.resource.group_kind(),
            object.name(),
            errors,
        ))
    }

    fn add_rule_warnings(&self, object: &JsonObject, old: Option<&JsonObject>) {
        let mut warnings = Vec::new();
        let old = old.map(FieldView::root);
        self.resource
            .kind
            .strategy
            .warnings(&FieldView::root(object), old.as_ref(), &mut warnings);
        for warning in warnings {
            self.warn(warning);
        }
    }
}
