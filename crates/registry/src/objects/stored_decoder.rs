//! Decodes stored objects. rhumb stores JSON in the storage version, but other servers on the same store
//! (kube-apiserver) may have written protobuf, or another version.

use rhumb_api::{FeatureGates, JsonObject, ReadFixup, VersionConversion};
use rhumb_schema::SchemaRef;
use rhumb_schema::protobuf::{self, UnknownEnvelope};
use serde_json::Value;

/// A version in which objects may be stored, and its conversion to the storage version.
#[derive(Debug, Clone)]
pub struct DecodableVersion {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub schema: SchemaRef,
    /// `None` for the storage version.
    pub conversion: Option<VersionConversion>,
}

/// Decodes the objects below one storage path, whichever server stored them.
#[derive(Debug, Clone)]
pub struct StoredDecoder {
    storage_version: DecodableVersion,
    other_versions: Vec<DecodableVersion>,
    fixup: Option<(ReadFixup, FeatureGates)>,
}

impl StoredDecoder {
    pub fn new(
        storage_version: DecodableVersion,
        other_versions: Vec<DecodableVersion>,
    ) -> StoredDecoder {
        StoredDecoder {
            storage_version,
            other_versions,
            fixup: None,
        }
    }

    /// Applies a fixup to every decoded object.
    #[must_use]
    pub fn with_fixup(mut self, fixup: ReadFixup, gates: FeatureGates) -> StoredDecoder {
        self.fixup = Some((fixup, gates));
        self
    }

    /// Whether the fixup changes the stored object, so that its bytes cannot be served as they are.
    pub fn needs_fixup(&self, stored: &[u8]) -> bool {
        self.fixup.is_some_and(|(fixup, gates)| {
            serde_json::from_slice(stored).is_ok_and(|mut object| fixup(&mut object, &gates))
        })
    }

    /// Decodes an object and converts it to the storage version. Errors do not reveal its contents.
    pub fn decode(&self, stored: &[u8]) -> Result<JsonObject, String> {
        let mut object = if stored.starts_with(protobuf::MAGIC) {
            self.decode_protobuf(stored)?
        } else {
            self.decode_json(stored)?
        };
        let types = [
            ("apiVersion", &self.storage_version.api_version),
            ("kind", &self.storage_version.kind),
        ];
        for (name, value) in types {
            object.insert(name.into(), Value::from(&**value));
        }
        if let Some((fixup, gates)) = &self.fixup {
            fixup(&mut object, gates);
        }
        Ok(object)
    }

    fn decode_json(&self, stored: &[u8]) -> Result<JsonObject, String> {
        let mut object: JsonObject =
            serde_json::from_slice(stored).map_err(|error| not_json(&error))?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(version) = self.find(text("apiVersion"), text("kind")) {
            self.convert(version, &mut object);
        }
        Ok(object)
    }

    fn decode_protobuf(&self, stored: &[u8]) -> Result<JsonObject, String> {
        let envelope = UnknownEnvelope::decode(stored).map_err(|error| error.to_string())?;
        let (api_version, kind) = (&*envelope.api_version, &*envelope.kind);
        let version = self
            .find(api_version, kind)
            .ok_or_else(|| format!("stored object has unknown type {api_version} {kind}"))?;
        let mut object =
            protobuf::decode(version.schema.table(), version.schema.id(), envelope.raw).map_err(
                |error| format!("stored object is not a valid protobuf {kind}: {error}"),
            )?;
        self.convert(version, &mut object);
        // Protobuf omits fields that the JSON encoding has.
        self.storage_version.schema.canonicalize(&mut object);
        Ok(object)
    }

    fn find(&self, api_version: &str, kind: &str) -> Option<&DecodableVersion> {
        std::iter::once(&self.storage_version)
            .chain(&self.other_versions)
            .find(|version| *version.api_version == *api_version && *version.kind == *kind)
    }

    fn convert(&self, version: &DecodableVersion, object: &mut JsonObject) {
        if let Some(conversion) = &version.conversion {
            (conversion.to_stored)(object);
        }
    }
}

fn not_json(error: &serde_json::Error) -> String {
    format!(
        "stored value is not a JSON object (line {}, column {})",
        error.line(),
        error.column()
    )
}
