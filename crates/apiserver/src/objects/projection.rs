//! What the cache keeps of a stored object.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_api::{Kind, Outline};
use rhumb_cache::{Entry, ProjectionError, Projector, Texts};
use rhumb_meta::{ObjectKey, Revision};

use super::{Encoder, Forms, with_revision};

/// Reads the stored objects of one kind for the cache.
#[derive(Debug)]
pub struct Projection {
    encoder: Encoder,
    forms: Forms,
    fields: Vec<Arc<str>>,
    outline: Outline,
}

impl Projection {
    /// `api_version` is the one that is stored.
    pub fn new(kind: &Kind, api_version: &str, forms: Forms) -> Projection {
        let fields = kind.selectable.iter();
        Projection {
            encoder: Encoder::new(api_version, &kind.name),
            forms,
            fields: fields.map(|field| field.name.into()).collect(),
            outline: Outline::new(&kind.selectable),
        }
    }

    /// The object as it is served.
    fn served(&self, stored: &Bytes, revision: Revision) -> Result<Bytes, ProjectionError> {
        let served = self.encoder.served(stored, revision);
        if let Some(json) = served.filter(|_| !self.forms.is_to_mend(stored)) {
            return Ok(json);
        }
        // What was written by someone else may have any form, and its keys in any order.
        let mut object = self.forms.read(stored).map_err(ProjectionError)?;
        let stored = self.encoder.stored(&mut object);
        let served = self.encoder.served(&stored, revision);
        served.ok_or_else(|| ProjectionError("what is stored has no metadata".into()))
    }

    /// What is wrong with what is stored.
    fn unreadable(&self, stored: &[u8]) -> ProjectionError {
        let reason = self.forms.read(stored).err();
        ProjectionError(reason.unwrap_or_else(|| "what is stored is not an object in JSON".into()))
    }
}

impl Projector for Projection {
    fn fields(&self) -> &[Arc<str>] {
        &self.fields
    }

    fn project(
        &self,
        _key: &ObjectKey,
        stored: &Bytes,
        revision: Revision,
        texts: &mut Texts,
    ) -> Result<rhumb_cache::Projection, ProjectionError> {
        let json = self.served(stored, revision)?;
        let outlined = self.outline.read(&json);
        let outlined = outlined.map_err(|_| self.unreadable(stored))?;
        let labels = outlined.labels().iter();
        let labels = labels.map(|(key, value)| (texts.text(key), texts.text(value)));
        let labels = labels.collect();
        let fields = outlined.fields().map(|value| texts.text(value)).collect();
        drop(outlined);
        Ok(rhumb_cache::Projection {
            json,
            labels,
            fields,
        })
    }

    fn with_revision(&self, entry: &Entry, revision: Revision) -> Bytes {
        with_revision(&self.encoder, entry.json_slice(), revision).unwrap_or_else(|| entry.json())
    }
}
