//! POST to a collection.

use std::borrow::Cow;

use bytes::Bytes;
use rhumb_api::Object;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::{Error, Expect, Transaction};

use super::get::parse_uint;
use super::prepare::Part;
use super::write::with;
use super::{Call, Claim, Storage, render};
use crate::admission;
use crate::http::Reply;
use crate::objects::{Metadata, MetadataMut};
use crate::request::WriteOptions;

/// How often another name is tried when a generated one is taken.
const NAME_ATTEMPTS_MAX: usize = 8;

/// How often something else is chosen for an object when others have what was chosen. Each time somebody got
/// something, so this ends soon.
const CHOICES_MAX: usize = 64;

/// What is left of a generated name for the prefix.
const NAME_PREFIX_BYTES_MAX: usize = 58;

/// What became of a new object.
#[derive(Debug)]
pub(super) enum Created {
    /// It was only tried out.
    Draft(Object),
    /// Its bytes are stored, with this revision.
    Stored(Bytes, Revision),
}

pub(super) async fn create(call: &Call<'_>) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let validation = call.validation(options.field_validation, Part::Main);
    let mut object = call.decode(call.expected(), validation)?;
    place(call, &mut object)?;
    call.to_stored(&mut object)?;
    let created = create_object(call, object, options.dry_run).await?;
    render::created(call, created)
}

/// Stores a new object, in stored form, under its own name or a generated one.
pub(super) async fn create_object(
    call: &Call<'_>,
    mut object: Object,
    dry_run: bool,
) -> Result<Created, Status> {
    call.admit_create(&mut object, dry_run).await?;
    let generated = object.name().is_empty() && !object.meta_str("generateName").is_empty();
    if !generated {
        return store_new(call, object, dry_run).await;
    }
    let mut attempts_left = NAME_ATTEMPTS_MAX;
    loop {
        let mut draft = object.clone();
        let name = generate_name(draft.meta_str("generateName"));
        draft.set_meta("name", name);
        attempts_left -= 1;
        match store_new(call, draft, dry_run).await {
            Err(status) if status.is_already_exists() => {
                if attempts_left == 0 {
                    let name = status.details.as_ref().map_or("", |details| &details.name);
                    return Err(Status::generate_name_conflict(
                        &call.resource.group_resource,
                        name,
                        1,
                    ));
                }
            }
            result => return result,
        }
    }
}

/// Tries until what was chosen for the object is nobody else's.
async fn store_new(call: &Call<'_>, object: Object, dry_run: bool) -> Result<Created, Status> {
    if call.api.companions.of(call.resource).is_none() {
        // Nothing is chosen for it.
        let created = try_store_new(call, object, dry_run).await?;
        return created.ok_or_else(|| call.modified(""));
    }
    for _ in 0..CHOICES_MAX {
        if let Some(created) = try_store_new(call, object.clone(), dry_run).await? {
            return Ok(created);
        }
        call.api.fresh(call).await?;
    }
    Err(Status::server_timeout(
        &call.resource.group_resource,
        call.verb,
        1,
    ))
}

/// `None` if something that was chosen for the object is another's.
async fn try_store_new(
    call: &Call<'_>,
    mut object: Object,
    dry_run: bool,
) -> Result<Option<Created>, Status> {
    let storage = call.storage()?;
    let claim = call.prepare_create(&mut object, dry_run).await?;
    let key = ObjectKey::new(call.namespace(), object.name())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let bytes = call.encode(storage, &mut object);
    let exists = || already_exists(call, storage, &key);
    if dry_run {
        call.api.fresh(call).await?;
        return match storage.cache.get(&key) {
            Ok(None) => Ok(Some(Created::Draft(object))),
            _ => Err(exists()),
        };
    }
    let storage_key = storage.prefix.object(&key);
    let put = Transaction::new().put(storage_key.as_str(), bytes.clone(), Expect::Absent);
    let companions = call.companion_operations(None, Some(&object))?;
    let attributes = call.attributes(admission::Operation::Create, None, false);
    // The tree is given away, so that it is gone before the store is waited for: many writers wait at once, and what
    // they would hold pushes out of the processor's caches what those who work need there. Only who may have to choose
    // another name, or whatever else is chosen for it, keeps one.
    let mut encoded = Some(object);
    let tree = || match encoded.take() {
        Some(object) => Ok(Cow::Owned(object)),
        None => storage.forms.read(&bytes).map(Cow::Owned),
    };
    let committed = call.commit_admitted(&attributes, tree, with(put, companions));
    match committed.await? {
        Ok(revision) => Ok(Some(Created::Stored(bytes, revision))),
        Err(Error::Conflict(conflict)) if *conflict.key == *storage_key => Err(exists()),
        Err(Error::Conflict(conflict)) => match claim.refusal(&conflict.key) {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(None),
        },
        Err(error) => Err(call.store_failed(&error)),
    }
}

/// The error for a name that is taken. It says so if the name will be free again.
fn already_exists(call: &Call<'_>, storage: &Storage, key: &ObjectKey) -> Status {
    let mut status = Status::already_exists(&call.resource.group_resource, key.name());
    let existing = storage.cache.get(key).ok().flatten();
    let is_going = existing
        .and_then(|entry| serde_json::from_slice::<Object>(entry.json_slice()).ok())
        .is_some_and(|object| object.is_deleting());
    if is_going {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Where the new object goes must be where the path says.
fn place(call: &Call<'_>, object: &mut Object) -> Result<(), Status> {
    place_in_namespace(call, object)?;
    let version = object.resource_version();
    if !version.is_empty() && parse_uint(version).is_ok_and(|version| version != 0) {
        return Err(Status::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    object.clear_meta("resourceVersion");
    Ok(())
}

/// Puts the object into the namespace of the path, or says that it names another one.
pub(super) fn place_in_namespace(call: &Call<'_>, object: &mut Object) -> Result<(), Status> {
    let wanted = call.namespace().unwrap_or_default();
    let given = object.namespace();
    if given == wanted {
        return Ok(());
    }
    if wanted.is_empty() {
        object.clear_meta("namespace");
    } else if given.is_empty() {
        object.set_meta("namespace", wanted);
    } else {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// A prefix and five characters without vowels or anything that could be mistaken for another.
pub(crate) fn generate_name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut end = prefix.len().min(NAME_PREFIX_BYTES_MAX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let random = uuid::Uuid::new_v4();
    let suffix = random
        .as_bytes()
        .iter()
        .take(5)
        .map(|&byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
    prefix[..end].chars().chain(suffix).collect()
}

impl Call<'_> {
    /// An object of the server's own, with all that a client's would get.
    pub(crate) async fn complete_new(&self, object: &mut Object) -> Result<Claim, Status> {
        self.to_stored(object)?;
        self.admit_create(object, false).await?;
        self.prepare_create(object, false).await
    }

    pub(crate) fn stored_bytes(&self, object: &mut Object) -> Result<Bytes, Status> {
        Ok(self.encode(self.storage()?, object))
    }
}
