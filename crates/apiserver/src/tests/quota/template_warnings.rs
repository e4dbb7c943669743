//! Warnings about pod templates never reject a write.

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use serde_json::json;

use crate::testing::{TestServer, TestServerOptions};
use rhumb_admission_plugins::AdmissionPlugins;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin};

/// The plugin of another chain that is attached to no server, so that every check of quotas fails.
#[derive(Debug)]
struct FailingTemplateQuotaWarning(Arc<dyn AdmissionPlugin>);

impl FailingTemplateQuotaWarning {
    fn new() -> FailingTemplateQuotaWarning {
        let plugins = AdmissionPlugins::default();
        let mut all = plugins.chain().plugins().iter();
        let plugin =
            all.find(|plugin| format!("{plugin:?}").contains("CrossNamespaceAffinityWarning"));
        FailingTemplateQuotaWarning(Arc::clone(plugin.expect("the plugin is enabled")))
    }
}

#[async_trait]
impl AdmissionPlugin for FailingTemplateQuotaWarning {
    fn handles(&self, pass: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        self.0.handles(pass, attributes)
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        self.0.validate(attributes, object).await
    }
}

#[tokio::test]
async fn failed_check_of_a_pod_template_does_not_reject_the_write() {
    let directory = tempfile::tempdir().expect("a directory");
    let setup = TestServerOptions {
        chain: AdmissionPlugins::default().with_plugin(FailingTemplateQuotaWarning::new()),
        ..TestServerOptions::default()
    };
    let server = TestServer::open(directory.path(), setup).await;
    let term = json!({"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {}});
    let affinity =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"affinity": affinity, "containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let (code, response) = server.create(path, deployment).await;
    assert_eq!(code, 201, "{response}");
    server.close().await;
}
