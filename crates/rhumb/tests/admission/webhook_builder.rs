//! Builds the webhooks of configurations.

use serde_json::{Value, json};

/// A webhook with minimal defaults for fields that a test does not set.
#[derive(Debug, Clone)]
pub(crate) struct WebhookBuilder(Value);

impl WebhookBuilder {
    /// A webhook for create and update of config maps, called at the path `/<name>`.
    pub(crate) fn new(name: &str, client_config: Value) -> WebhookBuilder {
        WebhookBuilder(json!({
            "name": format!("{name}.example.com"),
            "clientConfig": client_config,
            "rules": [rule(&["CREATE", "UPDATE"], "", "v1", "configmaps")],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }))
    }

    pub(crate) fn with(mut self, field: &str, value: Value) -> WebhookBuilder {
        self.0[field] = value;
        self
    }

    /// Replaces the rule of [`WebhookBuilder::new`].
    pub(crate) fn matching(
        self,
        operations: &[&str],
        group: &str,
        version: &str,
        resource: &str,
    ) -> WebhookBuilder {
        let rules = json!([rule(operations, group, version, resource)]);
        self.with("rules", rules)
    }

    /// All resources and subresources.
    pub(crate) fn matching_everything(self) -> WebhookBuilder {
        self.matching(&["*"], "*", "*", "*/*")
    }

    pub(crate) fn excluding(self, rules: Value) -> WebhookBuilder {
        self.with("excludeResourceRules", rules)
    }

    pub(crate) fn ignoring_failures(self) -> WebhookBuilder {
        self.with("failurePolicy", json!("Ignore"))
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }
}

pub(crate) fn rule(operations: &[&str], group: &str, version: &str, resource: &str) -> Value {
    json!({
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
    })
}
