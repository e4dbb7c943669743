//! Warns clients that write exclusion rules which match no request, or which exclude all that a webhook or policy
//! matches. Never changes or rejects a request. No upstream counterpart.

use async_trait::async_trait;
use rhumb_admission::ExclusionRuleCheck;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use serde_json::Value;

use crate::writable_resources::{ADMISSION_REGISTRATION_GROUP, writable_resources};

const RULES: &str = "excludeResourceRules";

#[derive(Debug)]
pub(super) struct ExclusionRuleWarningPlugin;

#[async_trait]
impl AdmissionPlugin for ExclusionRuleWarningPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation
            && attributes.context.resource.kind.group == ADMISSION_REGISTRATION_GROUP
            && attributes.subresource().is_empty()
            && matches!(attributes.operation, Operation::Create | Operation::Update)
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        let places = places_with_exclusions(object);
        if places.is_empty() {
            return Ok(());
        }
        let resources = writable_resources(attributes.context.resources);
        let mut check = ExclusionRuleCheck::new(&resources);
        for (path, rules_field, matching) in &places {
            check.check(matching, rules_field, path);
        }
        for warning in check.into_warnings() {
            attributes.context.warn(warning);
        }
        Ok(())
    }
}

/// The parts of a configuration, policy or binding that have exclusion rules: path, name of the rules that include, value.
fn places_with_exclusions(object: &JsonObject) -> Vec<(String, &'static str, &Value)> {
    let mut places = Vec::new();
    let webhooks = object.get("webhooks").and_then(Value::as_array);
    for (index, webhook) in webhooks.into_iter().flatten().enumerate() {
        places.push((format!("webhooks[{index}]"), "rules", webhook));
    }
    for name in ["matchConstraints", "matchResources"] {
        if let Some(matching) = object.get("spec").and_then(|spec| spec.get(name)) {
            places.push((format!("spec.{name}"), "resourceRules", matching));
        }
    }
    let has_rules = |matching: &Value| matching[RULES].as_array().is_some_and(|it| !it.is_empty());
    places.retain(|(.., matching)| has_rules(matching));
    places
}
