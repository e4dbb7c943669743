//! Warns when a namespace gets a Pod Security level that is not enforced, because the plugin PodSecurity is not
//! implemented. Upstream has no such plugin.

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use serde_json::Value;

use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

const ENFORCE_LABEL: &str = "pod-security.kubernetes.io/enforce";

#[derive(Debug)]
pub(super) struct PodSecurityWarningPlugin;

#[async_trait]
impl AdmissionPlugin for PodSecurityWarningPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && attributes.is_resource("", "namespaces")
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        if let Some(warning) = object.and_then(|new| warning(attributes.old_object, new)) {
            attributes.context.warn(warning);
        }
        Ok(())
    }
}

fn warning(old: Option<&JsonObject>, new: &JsonObject) -> Option<String> {
    let level = enforced_level(new).filter(|level| *level != "privileged")?;
    if old.and_then(enforced_level) == Some(level) {
        return None;
    }
    Some(format!(
        "metadata.labels[{ENFORCE_LABEL}]: the level {level:?} is not enforced: this server does not implement the \
         admission plugin PodSecurity; use a ValidatingAdmissionPolicy or a webhook instead"
    ))
}

fn enforced_level(namespace: &JsonObject) -> Option<&str> {
    let labels = namespace.get("metadata")?.get("labels")?;
    labels.get(ENFORCE_LABEL).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_registry::testing::object;
    use serde_json::json;

    #[test]
    fn a_new_level_causes_a_warning() {
        let namespace =
            |level: &str| object(json!({"metadata": {"labels": {ENFORCE_LABEL: level}}}));
        let restricted = namespace("restricted");
        assert!(warning(None, &restricted).is_some());
        assert!(warning(Some(&namespace("baseline")), &restricted).is_some());
        assert_eq!(warning(Some(&restricted), &restricted), None);
        assert_eq!(warning(None, &namespace("privileged")), None);
        assert_eq!(warning(Some(&restricted), &JsonObject::new()), None);
    }
}
