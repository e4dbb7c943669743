//! What stands between an object as a client sent it and the store: versions, defaults, admission and rules.

use rhumb_api::{Generation, Object, View, fields, metadata};
use rhumb_meta::Status;
use rhumb_meta::field::ErrorList;

use super::create::place_in_namespace;
use super::{Call, Claim, Resource, Storage, Version};
use crate::objects::{Metadata, MetadataMut};
use crate::{Api, admission};

/// Which part of an object an update is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but status.
    Main,
    /// The same, for a subresource that has had its own admission.
    Admitted,
    Status,
    /// A subresource that takes the whole object and changes a part of it; the kind's rules know which.
    Own(&'static str),
}

impl Part {
    pub(super) fn is_main(self) -> bool {
        matches!(self, Part::Main | Part::Admitted)
    }
}

impl Api {
    /// From a version to the one that is stored, with its defaults.
    pub(crate) fn to_stored(
        &self,
        resource: &Resource,
        version: &Version,
        storage: &Storage,
        object: &mut Object,
    ) -> Result<(), Status> {
        self.defaults.apply(version.schema, object);
        if let Some(conversion) = &version.served.conversion {
            (conversion.to_stored)(object);
            object.insert("apiVersion".into(), storage.api_version.clone().into());
            self.check_converted(storage, object)?;
            self.defaults.apply(storage.schema, object);
        }
        resource.kind.rules.default(object);
        // Rules compare what is sent with what is stored, which has this form.
        rhumb_schema::conform(self.table, storage.schema, object);
        Ok(())
    }

    /// What a conversion makes of annotations is as little known as any body: it must fit the schema too.
    fn check_converted(&self, storage: &Storage, object: &mut Object) -> Result<(), Status> {
        let options = rhumb_schema::Options {
            strict: false,
            whole: false,
        };
        let value = serde_json::Value::Object(std::mem::take(object));
        let decoded = rhumb_schema::decode_value(self.table, storage.schema, &value, options)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        *object = decoded.object;
        Ok(())
    }

    /// From the stored version to another.
    pub(crate) fn to_served(&self, version: &Version, object: &mut Object) {
        if let Some(conversion) = &version.served.conversion {
            (conversion.from_stored)(object);
            object.insert("apiVersion".into(), version.api_version.clone().into());
            rhumb_schema::conform(self.table, version.schema, object);
        }
    }
}

impl Call<'_> {
    /// From the version of the request to the one that is stored, with its defaults.
    pub(super) fn to_stored(&self, object: &mut Object) -> Result<(), Status> {
        let storage = self.storage()?;
        self.api
            .to_stored(self.resource, self.version, storage, object)
    }

    /// From the stored version to the one of the request.
    pub(super) fn to_served(&self, object: &mut Object) {
        self.api.to_served(self.version, object);
    }

    /// What admission makes of a new object. By which uid it is known and since when, nobody but the server says.
    pub(super) async fn admit_create(
        &self,
        object: &mut Object,
        dry_run: bool,
    ) -> Result<(), Status> {
        let attributes = self.attributes(admission::Operation::Create, None, dry_run);
        let chain = &self.api.admission;
        chain.mutate(&attributes, Some(object)).await?;
        if !matches!(object.resource_version(), "" | "0") {
            return Err(Status::internal_error(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        object.set_meta("uid", uuid::Uuid::new_v4().to_string());
        object.set_time("creationTimestamp", self.now);
        place_in_namespace(self, object)
    }

    /// All else that stands between a new object and the store, but for the commit.
    pub(super) async fn prepare_create(
        &self,
        object: &mut Object,
        dry_run: bool,
    ) -> Result<Claim, Status> {
        let kind = &self.resource.kind;
        let request = self.rules_request();
        let claim = self.complete(object, None, dry_run)?;
        if kind.has_status() && !kind.writes.create_with_status {
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
            // Whatever the client says, it means nothing here.
            Generation::None => {}
            Generation::Of(_) | Generation::Constant => object.set_meta("generation", 1),
        }
        kind.rules.prepare_create(object, &request);
        let mut errors = ErrorList::new();
        let view = View::root(object);
        metadata::validate_create(&view, kind, &mut errors);
        kind.rules.validate_create(&view, &request, &mut errors);
        self.invalid_unless_empty(object, &errors)?;
        self.tell_warnings(object, None);
        let attributes = self.attributes(admission::Operation::Create, None, dry_run);
        let chain = &self.api.admission;
        chain.validate(&attributes, Some(object)).await?;
        Ok(claim)
    }

    /// The same for the new state of an existing object, in stored form.
    pub(super) async fn prepare_update(
        &self,
        old: &Object,
        mut new: Object,
        part: Part,
        dry_run: bool,
    ) -> Result<(Object, Claim), Status> {
        let attributes = self.attributes(admission::Operation::Update, Some(old), dry_run);
        let chain = &self.api.admission;
        if part != Part::Admitted {
            let version = new.resource_version().to_owned();
            chain.mutate(&attributes, Some(&mut new)).await?;
            if new.resource_version() != version {
                return Err(self.modified(self.name()));
            }
        }
        let claim = if part.is_main() {
            self.complete(&mut new, Some(old), dry_run)?
        } else {
            Claim::default()
        };
        self.carry_over(old, &mut new, part);
        self.prepare_part(old, &mut new, part);
        if part != Part::Status {
            self.count_generation(old, &mut new);
        }
        self.validate_part(old, &new, part)?;
        if part == Part::Main {
            self.tell_warnings(&new, Some(old));
        }
        if part != Part::Admitted {
            chain.validate(&attributes, Some(&new)).await?;
        }
        Ok((new, claim))
    }

    /// What the kind's rules make of the part that is updated.
    fn prepare_part(&self, old: &Object, new: &mut Object, part: Part) {
        let rules = &self.resource.kind.rules;
        let request = self.rules_request();
        match part {
            Part::Main | Part::Admitted => rules.prepare_update(new, old, &request),
            Part::Status => rules.prepare_status_update(new, old, &request),
            Part::Own(name) => rules.prepare_subresource(name, new, old, &request),
        }
    }

    /// What they and the rules of all metadata have against it.
    fn validate_part(&self, old: &Object, new: &Object, part: Part) -> Result<(), Status> {
        let kind = &self.resource.kind;
        let rules = &kind.rules;
        let request = self.rules_request();
        let mut errors = ErrorList::new();
        let (view, old) = (View::root(new), View::root(old));
        metadata::validate_update(&view, &old, kind, &mut errors);
        metadata::validate_update_again(&view, &old, kind, &mut errors);
        match part {
            Part::Main | Part::Admitted => {
                rules.validate_update(&view, &old, &request, &mut errors);
            }
            Part::Status => rules.validate_status_update(&view, &old, &request, &mut errors),
            Part::Own(name) => {
                rules.validate_subresource(name, &view, &old, &request, &mut errors);
            }
        }
        self.invalid_unless_empty(new, &errors)
    }

    /// What an update can never change.
    fn carry_over(&self, old: &Object, new: &mut Object, part: Part) {
        if part == Part::Status {
            let status = new.remove("status");
            let metadata = new.remove("metadata");
            *new = old.clone();
            new.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
            for field in self.resource.kind.writes.status_keeps {
                new.carry_meta(old, field);
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
            new.carry_meta(old, "uid");
        }
        for field in ["creationTimestamp", "generation", "managedFields"] {
            new.carry_meta(old, field);
        }
        if old.is_deleting() {
            new.carry_meta(old, "deletionTimestamp");
            if new.meta_int("deletionGracePeriodSeconds").is_none() {
                new.carry_meta(old, "deletionGracePeriodSeconds");
            }
        }
        new.clear_meta("selfLink");
    }

    fn count_generation(&self, old: &Object, new: &mut Object) {
        if let Generation::Of(paths) = self.resource.kind.generation {
            if let Some(storage) = &self.resource.storage {
                rhumb_schema::conform(self.api.table, storage.schema, new);
            }
            if paths
                .iter()
                .any(|&path| fields::get(new, path) != fields::get(old, path))
            {
                new.set_meta("generation", old.generation() + 1);
            }
        }
    }

    fn invalid_unless_empty(&self, object: &Object, errors: &ErrorList) -> Result<(), Status> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(
            &self.resource.group_kind(),
            object.name(),
            errors,
        ))
    }

    fn tell_warnings(&self, object: &Object, old: Option<&Object>) {
        let mut warnings = Vec::new();
        let old = old.map(View::root);
        self.resource
            .kind
            .rules
            .warnings(&View::root(object), old.as_ref(), &mut warnings);
        for warning in warnings {
            self.warn(warning);
        }
    }
}
