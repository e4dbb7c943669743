//! Converts objects between the served versions and the storage version, with defaults (upstream: `runtime.Scheme`).

use rhumb_api::{FieldView, JsonObject};
use rhumb_meta::Status;

use super::{RequestContext, Resource, ResourceStorage, ServedVersion};
use crate::Registry;

impl Registry {
    /// Applies defaults and converts from a served version to the storage version.
    pub(crate) fn convert_to_stored(
        &self,
        resource: &Resource,
        version: &ServedVersion,
        storage: &ResourceStorage,
        object: &mut JsonObject,
    ) -> Result<(), Status> {
        resource.defaults.apply(&version.schema, object);
        if let Some(conversion) = &version.served.conversion {
            (conversion.to_stored)(object);
            object.insert("apiVersion".into(), storage.api_version.clone().into());
            self.check_converted(storage, object)?;
            resource.defaults.apply(&storage.schema, object);
        }
        resource.kind.strategy.apply_defaults(object);
        // Validation compares the new object with the stored one, which is in canonical form.
        storage.schema.canonicalize(object);
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
        let schema = &storage.schema;
        let decoded = rhumb_schema::decode_value(schema.table(), schema.id(), &value, options)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        *object = decoded.object;
        Ok(())
    }

    /// Converts from the storage version to a served version.
    pub fn convert_to_served(&self, version: &ServedVersion, object: &mut JsonObject) {
        if let Some(conversion) = &version.served.conversion {
            (conversion.from_stored)(object);
            object.insert("apiVersion".into(), version.api_version.clone().into());
            version.schema.canonicalize(object);
        }
    }
}

impl RequestContext<'_> {
    /// Applies defaults and converts from the version of the request to the storage version.
    pub fn convert_to_stored(&self, object: &mut JsonObject) -> Result<(), Status> {
        let storage = self.storage()?;
        let mut warnings = Vec::new();
        self.resource.kind.strategy.input_warnings(
            &FieldView::root(object),
            self.verb != "create",
            &self.registry.gates,
            &mut warnings,
        );
        self.warn_all(warnings);
        self.registry
            .convert_to_stored(self.resource, self.version, storage, object)
    }

    /// Converts from the storage version to the version of the request.
    pub fn convert_to_served(&self, object: &mut JsonObject) {
        self.registry.convert_to_served(self.version, object);
    }
}
