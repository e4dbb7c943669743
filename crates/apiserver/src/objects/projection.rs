//! What the cache keeps of a stored object.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_api::{Kind, Object, Selectable};
use rhumb_cache::{Entry, ProjectionError, Projector};
use rhumb_meta::{ObjectKey, Revision};
use serde::Deserialize;

use super::{Encoder, Forms, Metadata, outline, with_revision};

/// Reads the stored objects of one kind for the cache.
#[derive(Debug)]
pub struct Projection {
    encoder: Encoder,
    forms: Forms,
    fields: Vec<Arc<str>>,
    selectable: Vec<Selectable>,
}

/// All that is needed of an object of a kind without selectable fields.
#[derive(Deserialize)]
struct Labelled {
    #[serde(default)]
    metadata: Labels,
}

#[derive(Deserialize, Default)]
struct Labels {
    #[serde(default)]
    labels: Option<Vec2>,
}

/// A map read as a list: it is only passed on.
struct Vec2(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Vec2 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec2;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Vec2, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Vec2(entries))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl Projection {
    /// `api_version` is the one that is stored.
    pub fn new(kind: &Kind, api_version: &str, forms: Forms) -> Projection {
        Projection {
            encoder: Encoder::new(api_version, &kind.name),
            forms,
            fields: kind
                .selectable
                .iter()
                .map(|field| field.name.into())
                .collect(),
            selectable: kind.selectable.clone(),
        }
    }
}

fn unreadable(error: serde_json::Error) -> ProjectionError {
    ProjectionError(format!(
        "what is stored is not an object in JSON (at line {}, column {})",
        error.line(),
        error.column()
    ))
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
    ) -> Result<rhumb_cache::Projection, ProjectionError> {
        let served = self.encoder.served(stored, revision);
        let Some(json) = served.filter(|_| !self.forms.is_to_mend(stored)) else {
            // What was written by someone else may have any form, and its keys in any order.
            let mut object = self.forms.read(stored).map_err(ProjectionError)?;
            let stored = self.encoder.stored(&mut object).map_err(unreadable)?;
            let json = self
                .encoder
                .served(&stored, revision)
                .ok_or_else(|| ProjectionError("what is stored has no metadata".into()))?;
            return Ok(self.projection(json, &object));
        };
        if self.selectable.is_empty() {
            let labelled: Labelled = serde_json::from_slice(stored).map_err(unreadable)?;
            return Ok(rhumb_cache::Projection {
                json,
                labels: labelled
                    .metadata
                    .labels
                    .map(|labels| labels.0)
                    .unwrap_or_default(),
                fields: Vec::new(),
            });
        }
        let object = outline::read(stored).map_err(unreadable)?;
        Ok(self.projection(json, &object))
    }

    fn with_revision(&self, entry: &Entry, revision: Revision) -> Bytes {
        with_revision(&self.encoder, entry.json_slice(), revision).unwrap_or_else(|| entry.json())
    }
}

impl Projection {
    fn projection(&self, json: Bytes, object: &Object) -> rhumb_cache::Projection {
        rhumb_cache::Projection {
            json,
            labels: object.labels(),
            fields: self
                .selectable
                .iter()
                .map(|field| (field.value)(object))
                .collect(),
        }
    }
}
