//! Webhooks as configurations list them.

use serde_json::{Value, json};

/// The parts of a webhook that a test is about; all others are as simple as can be.
#[derive(Debug, Clone)]
pub(crate) struct Hook(Value);

impl Hook {
    /// A webhook that wants to see the creation and update of config maps, and is called at the path `/<name>`.
    pub(crate) fn new(name: &str, client_config: Value) -> Hook {
        Hook(json!({
            "name": format!("{name}.example.com"),
            "clientConfig": client_config,
            "rules": [rule(&["CREATE", "UPDATE"], "", "v1", "configmaps")],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }))
    }

    pub(crate) fn with(mut self, field: &str, value: Value) -> Hook {
        self.0[field] = value;
        self
    }

    /// Another rule than that of [`Hook::new`].
    pub(crate) fn sees(
        self,
        operations: &[&str],
        group: &str,
        version: &str,
        resource: &str,
    ) -> Hook {
        let rules = json!([rule(operations, group, version, resource)]);
        self.with("rules", rules)
    }

    /// All there is, and all of its subresources.
    pub(crate) fn sees_everything(self) -> Hook {
        self.sees(&["*"], "*", "*", "*/*")
    }

    pub(crate) fn excluding(self, rules: Value) -> Hook {
        self.with("excludeResourceRules", rules)
    }

    pub(crate) fn ignoring_failures(self) -> Hook {
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
