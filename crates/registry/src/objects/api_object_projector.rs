//! Projects stored API objects into the watch cache: served JSON, labels and selectable fields.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_api::{Kind, SelectionAttrsReader};
use rhumb_cache::{CacheEntry, ObjectProjector, ProjectionError, StringInterner};
use rhumb_meta::{ObjectKey, Revision};

use super::{ObjectEncoder, StoredDecoder, replace_resource_version};

/// The projector of one kind.
#[derive(Debug)]
pub struct ApiObjectProjector {
    encoder: ObjectEncoder,
    decoder: StoredDecoder,
    fields: Vec<Arc<str>>,
    outline: SelectionAttrsReader,
}

impl ApiObjectProjector {
    /// `api_version` is that of the storage version.
    pub fn new(kind: &Kind, api_version: &str, decoder: StoredDecoder) -> ApiObjectProjector {
        let fields = kind.selectable.iter();
        ApiObjectProjector {
            encoder: ObjectEncoder::new(api_version, &kind.name),
            decoder,
            fields: fields.map(|field| (&*field.name).into()).collect(),
            outline: SelectionAttrsReader::new(&kind.selectable),
        }
    }

    /// The JSON to serve, with its resourceVersion.
    fn served(&self, stored: &Bytes, revision: Revision) -> Result<Bytes, ProjectionError> {
        let served = self.encoder.insert_resource_version(stored, revision);
        if let Some(json) = served.filter(|_| !self.decoder.needs_fixup(stored)) {
            return Ok(json);
        }
        // Another server wrote it: in another encoding or version, or with another order of keys.
        let mut object = self.decoder.decode(stored).map_err(ProjectionError)?;
        let stored = self.encoder.encode_stored(&mut object);
        let served = self.encoder.insert_resource_version(&stored, revision);
        served.ok_or_else(|| ProjectionError("stored object has no metadata".into()))
    }

    /// The error for a stored object that cannot be decoded.
    fn corrupt_error(&self, stored: &[u8]) -> ProjectionError {
        let reason = self.decoder.decode(stored).err();
        ProjectionError(reason.unwrap_or_else(|| "stored value is not a JSON object".into()))
    }
}

impl ObjectProjector for ApiObjectProjector {
    fn field_names(&self) -> &[Arc<str>] {
        &self.fields
    }

    fn project(
        &self,
        _key: &ObjectKey,
        stored: &Bytes,
        revision: Revision,
        interner: &mut StringInterner,
    ) -> Result<rhumb_cache::ObjectProjection, ProjectionError> {
        let json = self.served(stored, revision)?;
        let outlined = self.outline.read(&json);
        let outlined = outlined.map_err(|_| self.corrupt_error(stored))?;
        let labels = outlined.labels().iter();
        let labels = labels.map(|(key, value)| (interner.intern(key), interner.intern(value)));
        let labels = labels.collect();
        let fields = outlined
            .fields()
            .map(|value| interner.intern(value))
            .collect();
        drop(outlined);
        Ok(rhumb_cache::ObjectProjection {
            json,
            labels,
            fields,
        })
    }

    fn with_revision(&self, entry: &CacheEntry, revision: Revision) -> Bytes {
        replace_resource_version(&self.encoder, entry.json_slice(), revision)
            .unwrap_or_else(|| entry.json())
    }
}
