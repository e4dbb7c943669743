//! How objects reach the store: prepared, checked, encoded, committed, and seen by the cache before anyone is told.

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_api::{Generation, Object, View, fields};
use rhumb_meta::field::ErrorList;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::{Error, Expect, Operation, Transaction};

use super::{Call, Claim, Storage, store_status};
use crate::admission;
use crate::objects::{Metadata, MetadataMut};

/// How often a write is tried again when others write the same object. With so many in between, the client is
/// told of the conflict.
pub(super) const ATTEMPTS_MAX: usize = 32;

/// An object as it is stored, and when it was written.
#[derive(Debug, Clone)]
pub(super) struct Current {
    pub(super) object: Object,
    pub(super) revision: Revision,
}

/// What becomes of an object.
#[derive(Debug)]
pub(super) enum Change {
    /// It is written, with what was chosen for it.
    Put(Object, Claim),
    /// It goes; this is its last state, for the answer.
    Delete(Object),
    /// It was to go, and this change took away what held it. The answer has the version it had before.
    Finish(Object),
    /// Nothing changes; this is the answer.
    Keep(Object),
}

/// Says what becomes of the current object. Asked again when somebody else was quicker.
#[async_trait]
pub(super) trait Edit: Sync {
    async fn edit(&self, current: &Current) -> Result<Change, Status>;

    /// Whether a conflict is final: the client named the version that it meant.
    fn is_conditional(&self) -> bool;
}

/// An object after a write.
#[derive(Debug)]
pub(super) struct Written {
    /// As stored, with its resourceVersion.
    pub(super) object: Object,
    pub(super) deleted: bool,
}

/// How one attempt to write ended.
enum Attempt {
    Done(Written),
    /// Somebody else changed the object since it was read.
    Changed,
    /// Something that was chosen for the object is another's now; another choice may do.
    Taken,
}

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
    fn is_main(self) -> bool {
        matches!(self, Part::Main | Part::Admitted)
    }
}

impl Call<'_> {
    /// The current object from the cache, which holds every write that was answered.
    pub(super) async fn current(&self, key: &ObjectKey) -> Result<Current, Status> {
        let storage = self.storage()?;
        self.api.fresh(self).await?;
        let entry = storage
            .cache
            .get(key)
            .map_err(Status::internal_error)?
            .ok_or_else(|| self.not_found())?;
        let object = serde_json::from_slice(entry.json_slice()).map_err(Status::internal_error)?;
        Ok(Current {
            object,
            revision: entry.revision(),
        })
    }

    /// The current object from the store: after a conflict the cache may be behind.
    async fn current_in_store(&self, key: &ObjectKey) -> Result<Current, Status> {
        let storage = self.storage()?;
        let entry = self
            .api
            .store
            .get(&storage.prefix.object(key))
            .await
            .map_err(|error| self.store_failed(&error))?
            .ok_or_else(|| self.not_found())?;
        let mut object = storage
            .forms
            .read(&entry.value)
            .map_err(Status::internal_error)?;
        object.set_meta("resourceVersion", entry.modified.to_string());
        Ok(Current {
            object,
            revision: entry.modified,
        })
    }

    pub(super) fn store_failed(&self, error: &Error) -> Status {
        store_status(error, &self.resource.group_resource, self.verb)
    }

    /// Changes an existing object, however often others change it meanwhile.
    pub(super) async fn change(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        edit: &dyn Edit,
    ) -> Result<Written, Status> {
        let mut current = self.current(key).await?;
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(key, dry_run, edit, &current).await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Changed if edit.is_conditional() => return Err(self.modified(key)),
                Attempt::Changed => current = self.current_in_store(key).await?,
                Attempt::Taken => {
                    self.api.fresh(self).await?;
                    current = self.current_in_store(key).await?;
                }
            }
        }
        Err(self.modified(key))
    }

    pub(super) fn modified(&self, key: &ObjectKey) -> Status {
        Status::conflict(
            &self.resource.group_resource,
            key.name(),
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    async fn attempt(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        edit: &dyn Edit,
        current: &Current,
    ) -> Result<Attempt, Status> {
        let storage = self.storage()?;
        let expect = Expect::At(current.revision);
        let storage_key = storage.prefix.object(key);
        let old = &current.object;
        let mut claim = Claim::default();
        let mut keeps_version = false;
        let (transaction, companions, mut object, deleted) = match edit.edit(current).await? {
            Change::Keep(object) => return Ok(done(object, false)),
            Change::Finish(mut object) => {
                rhumb_schema::conform(self.api.table, storage.schema, &mut object);
                keeps_version = true;
                (
                    Transaction::new().delete(storage_key.as_str(), expect),
                    self.companion_operations(Some(old), None)?,
                    object,
                    true,
                )
            }
            Change::Delete(object) => (
                Transaction::new().delete(storage_key.as_str(), expect),
                self.companion_operations(Some(old), None)?,
                object,
                true,
            ),
            Change::Put(mut object, chosen) => {
                let bytes = self.encode(storage, &mut object)?;
                if bytes == self.encode(storage, &mut old.clone())? {
                    object.set_meta("resourceVersion", current.revision.to_string());
                    return Ok(done(object, false));
                }
                claim = chosen;
                let put = Transaction::new().put(storage_key.as_str(), bytes, expect);
                let companions = self.companion_operations(Some(old), Some(&object))?;
                (put, companions, object, false)
            }
        };
        if dry_run {
            object.set_meta("resourceVersion", current.revision.to_string());
            return Ok(done(object, deleted));
        }
        match self.commit(with(transaction, companions)).await {
            Ok(revision) => {
                let version = if keeps_version {
                    current.revision
                } else {
                    revision
                };
                object.set_meta("resourceVersion", version.to_string());
                Ok(done(object, deleted))
            }
            Err(Error::Conflict(conflict)) if *conflict.key == *storage_key => Ok(Attempt::Changed),
            Err(Error::Conflict(conflict)) => match claim.refusal(&conflict.key) {
                Some(refusal) => Err(refusal.clone()),
                None => Ok(Attempt::Taken),
            },
            Err(error) => Err(self.store_failed(&error)),
        }
    }

    /// Commits, and waits until the cache shows it: a client reads its own writes.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<Revision, Error> {
        let revision = self.api.store.commit(transaction).await?;
        self.api.seen(revision).await;
        Ok(revision)
    }

    /// The bytes to store, in the form in which upstream writes objects.
    pub(super) fn encode(&self, storage: &Storage, object: &mut Object) -> Result<Bytes, Status> {
        rhumb_schema::conform(self.api.table, storage.schema, object);
        storage
            .encoder
            .stored(object)
            .map_err(Status::internal_error)
    }

    /// From the version of the request to the one that is stored, with its defaults.
    pub(super) fn to_stored(&self, object: &mut Object) -> Result<(), Status> {
        self.api.defaults.apply(self.version.schema, object);
        let storage = self.storage()?;
        if let Some(conversion) = &self.version.served.conversion {
            (conversion.to_stored)(object);
            object.insert("apiVersion".into(), storage.api_version.clone().into());
            self.check_converted(storage, object)?;
            self.api.defaults.apply(storage.schema, object);
        }
        self.resource.kind.rules.default(object);
        // Rules compare what is sent with what is stored, which has this form.
        rhumb_schema::conform(self.api.table, storage.schema, object);
        Ok(())
    }

    /// What a conversion makes of annotations is as little known as any body: it must fit the schema too.
    fn check_converted(&self, storage: &Storage, object: &mut Object) -> Result<(), Status> {
        let options = rhumb_schema::Options {
            strict: false,
            whole: false,
        };
        let value = serde_json::Value::Object(std::mem::take(object));
        let decoded = rhumb_schema::decode_value(self.api.table, storage.schema, &value, options)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        *object = decoded.object;
        Ok(())
    }

    /// From the stored version to the one of the request.
    pub(super) fn to_served(&self, object: &mut Object) {
        if let Some(conversion) = &self.version.served.conversion {
            (conversion.from_stored)(object);
            object.insert("apiVersion".into(), self.version.api_version.clone().into());
            rhumb_schema::conform(self.api.table, self.version.schema, object);
        }
    }

    /// What admission makes of a new object.
    pub(super) async fn admit_create(
        &self,
        object: &mut Object,
        dry_run: bool,
    ) -> Result<(), Status> {
        let attributes = self.attributes(admission::Operation::Create, None, dry_run);
        let chain = &self.api.admission;
        chain.mutate(&attributes, Some(object)).await
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
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
        ] {
            object.clear_meta(field);
        }
        match kind.generation {
            // Whatever the client says, it means nothing here.
            Generation::None => {}
            Generation::Of(_) | Generation::Constant => object.set_meta("generation", 1),
        }
        kind.rules.prepare_create(object, &request);
        let mut errors = ErrorList::new();
        let view = View::root(object);
        rhumb_api::metadata::validate_create(&view, kind, &mut errors);
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
        let kind = &self.resource.kind;
        let request = self.rules_request();
        let attributes = self.attributes(admission::Operation::Update, Some(old), dry_run);
        let chain = &self.api.admission;
        if part != Part::Admitted {
            chain.mutate(&attributes, Some(&mut new)).await?;
        }
        let claim = if part.is_main() {
            self.complete(&mut new, Some(old), dry_run)?
        } else {
            Claim::default()
        };
        self.carry_over(old, &mut new, part);
        match part {
            Part::Main | Part::Admitted => kind.rules.prepare_update(&mut new, old, &request),
            Part::Status => kind.rules.prepare_status_update(&mut new, old, &request),
            Part::Own(name) => kind
                .rules
                .prepare_subresource(name, &mut new, old, &request),
        }
        if part != Part::Status {
            self.count_generation(old, &mut new);
        }
        let mut errors = ErrorList::new();
        let (view, old_view) = (View::root(&new), View::root(old));
        rhumb_api::metadata::validate_update(&view, &old_view, kind, &mut errors);
        rhumb_api::metadata::validate_update_again(&view, &old_view, kind, &mut errors);
        match part {
            Part::Main | Part::Admitted => {
                kind.rules
                    .validate_update(&view, &old_view, &request, &mut errors);
            }
            Part::Status => {
                kind.rules
                    .validate_status_update(&view, &old_view, &request, &mut errors);
            }
            Part::Own(name) => {
                kind.rules
                    .validate_subresource(name, &view, &old_view, &request, &mut errors);
            }
        }
        self.invalid_unless_empty(&new, &errors)?;
        if part == Part::Main {
            self.tell_warnings(&new, Some(old));
        }
        if part != Part::Admitted {
            chain.validate(&attributes, Some(&new)).await?;
        }
        Ok((new, claim))
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

fn done(object: Object, deleted: bool) -> Attempt {
    Attempt::Done(Written { object, deleted })
}

/// A transaction that also does what companions ask for.
pub(crate) fn with(transaction: Transaction, companions: Vec<Operation>) -> Transaction {
    companions
        .into_iter()
        .fold(transaction, |transaction, operation| match operation {
            Operation::Put { key, value, expect } => transaction.put(key, value, expect),
            Operation::Delete { key, expect } => transaction.delete(key, expect),
            Operation::Check { key, expect } => transaction.check(key, expect),
        })
}
