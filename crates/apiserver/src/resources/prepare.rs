//! Prepares objects for storage: defaulting, version conversion, admission, validation (upstream: `BeforeCreate` and
//! `BeforeUpdate` of the `rest` package, and the create and update strategies).
//!
//! Entry points: `RequestContext::prepare_create` and `prepare_update`.

use rhumb_api::{FieldView, GenerationPolicy, JsonObject, fields, metadata};
use rhumb_meta::Status;
use rhumb_meta::field::ErrorList;

use super::create::ensure_request_namespace;
use super::{AllocationHold, RequestContext, Resource, ResourceStorage, ServedVersion};
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::{ServerState, admission};

/// Which part of an object an update is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectPart {
    /// Everything but the status.
    Main,
    /// Everything but the status, through a subresource (scale) that has already run admission on its own object.
    AlreadyAdmitted,
    Status,
    /// A subresource that takes the whole object and updates a part of it, which the rules of the kind determine.
    Subresource(&'static str),
}

impl ObjectPart {
    pub(super) fn is_main(self) -> bool {
        matches!(self, ObjectPart::Main | ObjectPart::AlreadyAdmitted)
    }
}

impl ServerState {
    /// Applies defaults and converts from a served version to the storage version.
    pub(crate) fn convert_to_stored(
        &self,
        resource: &Resource,
        version: &ServedVersion,
        storage: &ResourceStorage,
        object: &mut JsonObject,
    ) -> Result<(), Status> {
        self.defaults.apply(version.schema, object);
        if let Some(conversion) = &version.served.conversion {
            (conversion.to_stored)(object);
            object.insert("apiVersion".into(), storage.api_version.clone().into());
            self.check_converted(storage, object)?;
            self.defaults.apply(storage.schema, object);
        }
        resource.kind.strategy.apply_defaults(object);
        // Validation compares the new object with the stored one, which is in canonical form.
        rhumb_schema::canonicalize(self.table, storage.schema, object);
        Ok(())
    }

    /// Conversions restore fields from annotations, which clients control, so the result is checked against the schema.
    fn check_converted(
        &self,
        storage: &ResourceStorage,
        object: &mut JsonObject,
    ) -> Result<(), Status> {
        let options = rhumb_schema::DecodeOptions {
            strict: false,
            top_level: false,
        };
        let value = serde_json::Value::Object(std::mem::take(object));
        let decoded = rhumb_schema::decode_value(self.table, storage.schema, &value, options)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        *object = decoded.object;
        Ok(())
    }

    /// Converts from the storage version to a served version.
    pub(crate) fn convert_to_served(&self, version: &ServedVersion, object: &mut JsonObject) {
        if let Some(conversion) = &version.served.conversion {
            (conversion.from_stored)(object);
            object.insert("apiVersion".into(), version.api_version.clone().into());
            rhumb_schema::canonicalize(self.table, version.schema, object);
        }
    }
}

impl RequestContext<'_> {
    /// Applies defaults and converts from the version of the request to the storage version.
    pub(super) fn convert_to_stored(&self, object: &mut JsonObject) -> Result<(), Status> {
        let storage = self.storage()?;
        self.state
            .convert_to_stored(self.resource, self.version, storage, object)
    }

    /// Converts from the storage version to the version of the request.
    pub(super) fn convert_to_served(&self, object: &mut JsonObject) {
        self.state.convert_to_served(self.version, object);
    }

    /// Runs mutating admission on a new object, then sets uid and creationTimestamp, which only the server may set.
    pub(super) async fn admit_create(
        &self,
        object: &mut JsonObject,
        dry_run: bool,
    ) -> Result<(), Status> {
        let attributes = self.admission_attributes(admission::Operation::Create, None, dry_run);
        let chain = &self.state.admission;
        chain.mutate(&attributes, Some(object)).await?;
        if !matches!(object.resource_version(), "" | "0") {
            return Err(Status::internal_error(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        object.set_meta("uid", uuid::Uuid::new_v4().to_string());
        object.set_time("creationTimestamp", self.now);
        ensure_request_namespace(self, object)
    }

    /// Allocates, resets server-managed fields, validates and runs validating admission on a new object.
    pub(super) async fn prepare_create(
        &self,
        object: &mut JsonObject,
        dry_run: bool,
    ) -> Result<AllocationHold, Status> {
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
        let chain = &self.state.admission;
        chain.validate(&attributes, Some(object)).await?;
        Ok(hold)
    }

    /// Runs all admission, preparation and validation on the new state of an object, in the storage version.
    pub(super) async fn prepare_update(
        &self,
        old: &JsonObject,
        mut new: JsonObject,
        part: ObjectPart,
        dry_run: bool,
    ) -> Result<(JsonObject, AllocationHold), Status> {
        let attributes =
            self.admission_attributes(admission::Operation::Update, Some(old), dry_run);
        let chain = &self.state.admission;
        if part != ObjectPart::AlreadyAdmitted {
            let version_before = new.resource_version().to_owned();
            chain.mutate(&attributes, Some(&mut new)).await?;
            if new.resource_version() != version_before {
                return Err(self.object_modified(self.name()));
            }
        }
        let hold = if part.is_main() {
            self.allocate(&mut new, Some(old), dry_run)?
        } else {
            AllocationHold::default()
        };
        self.keep_protected_fields(old, &mut new, part);
        self.prepare_part(old, &mut new, part);
        if part != ObjectPart::Status {
            self.increment_generation(old, &mut new);
        }
        self.validate_part(old, &new, part)?;
        if part == ObjectPart::Main {
            self.add_rule_warnings(&new, Some(old));
        }
        if part != ObjectPart::AlreadyAdmitted {
            chain.validate(&attributes, Some(&new)).await?;
        }
        Ok((new, hold))
    }

    /// Runs the prepare step of the rules of the kind for the updated part.
    fn prepare_part(&self, old: &JsonObject, new: &mut JsonObject, part: ObjectPart) {
        let rules = &self.resource.kind.strategy;
        let request = self.rules_request();
        match part {
            ObjectPart::Main | ObjectPart::AlreadyAdmitted => {
                rules.prepare_update(new, old, &request);
            }
            ObjectPart::Status => rules.prepare_status_update(new, old, &request),
            ObjectPart::Subresource(name) => rules.prepare_subresource(name, new, old, &request),
        }
    }

    /// Validates metadata, and the updated part by the rules of the kind.
    fn validate_part(
        &self,
        old: &JsonObject,
        new: &JsonObject,
        part: ObjectPart,
    ) -> Result<(), Status> {
        let kind = &self.resource.kind;
        let rules = &kind.strategy;
        let request = self.rules_request();
        let mut errors = ErrorList::new();
        let (view, old) = (FieldView::root(new), FieldView::root(old));
        metadata::validate_update(&view, &old, kind, &mut errors);
        metadata::revalidate_update(&view, &old, kind, &mut errors);
        match part {
            ObjectPart::Main | ObjectPart::AlreadyAdmitted => {
                rules.validate_update(&view, &old, &request, &mut errors);
            }
            ObjectPart::Status => rules.validate_status_update(&view, &old, &request, &mut errors),
            ObjectPart::Subresource(name) => {
                rules.validate_subresource(name, &view, &old, &request, &mut errors);
            }
        }
        self.invalid_unless_empty(new, &errors)
    }

    /// Copies from the old object what this update must not change.
    fn keep_protected_fields(&self, old: &JsonObject, new: &mut JsonObject, part: ObjectPart) {
        if part == ObjectPart::Status {
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
                rhumb_schema::canonicalize(self.state.table, storage.schema, new);
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
