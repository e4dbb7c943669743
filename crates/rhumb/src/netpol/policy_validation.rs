//! Defaults and validates network policies from files, as the API server does for a create request.

use anyhow::{Context, Result, bail};
use rhumb_api::{FeatureGates, FieldView, StrategyContext, metadata};
use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;
use rhumb_schema::{Defaults, Table, TypeId};

use crate::manifests::{StrictDecoder, UnstructuredObject};

const GROUP: &str = "networking.k8s.io";
const KIND: &str = "NetworkPolicy";

/// Applies defaults and validation to a new NetworkPolicy.
pub(super) struct NetworkPolicyValidator {
    gates: FeatureGates,
    defaults: Defaults<'static>,
    schema: TypeId,
}

impl NetworkPolicyValidator {
    pub(super) fn new() -> Result<NetworkPolicyValidator> {
        let gates = FeatureGates::default();
        let table = Table::builtin();
        let defaults = Defaults::new(table, rhumb_api::defaults::enabled_by_type(&gates))
            .context("invalid schema table")?;
        let schema = table
            .type_id("io.k8s.api.networking.v1.NetworkPolicy")
            .context("the schema table has no NetworkPolicy")?;
        Ok(NetworkPolicyValidator {
            gates,
            defaults,
            schema,
        })
    }

    /// The policy with defaults; an error lists all validation errors.
    pub(super) fn admit(
        &self,
        strict: &StrictDecoder,
        mut object: UnstructuredObject,
    ) -> Result<UnstructuredObject> {
        let kind = strict
            .kind(GROUP, KIND)
            .context("kind NetworkPolicy is not served")?;
        let request = StrategyContext {
            gates: &self.gates,
            now: Timestamp::from_unix(0, 0),
            user: "",
            uid: "",
            groups: &[],
            extra: None,
        };
        self.defaults.apply(self.schema, &mut object);
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
