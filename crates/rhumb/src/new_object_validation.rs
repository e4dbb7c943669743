//! Defaults and validates objects from files, as the API server does for a create request.

use anyhow::{Context, Result, bail};
use rhumb_api::{FeatureGates, FieldView, StrategyContext, metadata};
use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;
use rhumb_schema::{ObjectDefaulter, SchemaRef, Table};
use serde_json::Value;

use crate::manifests::{StrictDecoder, UnstructuredObject};

/// Applies defaults and validation to new objects of built-in kinds, with the default feature gates. Admission plugins
/// are not run.
pub(crate) struct NewObjectPreparer {
    gates: FeatureGates,
    defaults: ObjectDefaulter,
}

impl NewObjectPreparer {
    pub(crate) fn new() -> Result<NewObjectPreparer> {
        let gates = FeatureGates::default();
        let defaults = ObjectDefaulter::new(
            Table::builtin(),
            rhumb_api::defaults::enabled_by_type(&gates),
        )
        .context("invalid schema table")?;
        Ok(NewObjectPreparer { gates, defaults })
    }

    /// The object with defaults; an error lists all validation errors. `object` was decoded by `strict`.
    pub(crate) fn admit(
        &self,
        strict: &StrictDecoder,
        mut object: UnstructuredObject,
    ) -> Result<UnstructuredObject> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, name) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = strict
            .kind(group, name)
            .with_context(|| format!("kind {name} is not served"))?;
        let schema = kind
            .served_version(version)
            .and_then(|served| SchemaRef::find(Table::builtin(), &served.schema))
            .with_context(|| format!("the schema table has no {name} in {api_version:?}"))?;
        let request = StrategyContext {
            gates: &self.gates,
            now: Timestamp::from_unix(0, 0),
            user: "",
            uid: "",
            groups: &[],
            extra: None,
            is_patch: false,
        };
        self.defaults.apply(&schema, &mut object);
        kind.strategy.apply_defaults(&mut object);
        kind.strategy.prepare_create(&mut object, &request);
        let mut errors = ErrorList::new();
        let view = FieldView::root(&object);
        metadata::validate_create(&view, kind, &mut errors);
        kind.strategy.validate_create(&view, &request, &mut errors);
        if errors.is_empty() {
            return Ok(object);
        }
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("{}", errors.join("; "));
    }
}
