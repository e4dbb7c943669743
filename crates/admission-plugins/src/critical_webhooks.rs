//! Warns clients that write a webhook configuration which intercepts critical resources. Never changes or rejects a
//! request. No upstream counterpart.

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_admission::critical_resources::{ClusterInventory, ClusterNamespace, CriticalResources};
use rhumb_admission::{CriteriaFeatures, WebhookType, parse_webhooks};
use rhumb_api::JsonObject;
use rhumb_api::feature_gates::Feature;
use rhumb_api::kinds::exclusion_rule_problems;
use rhumb_cache::CacheEntry;
use rhumb_meta::{ConfigFileError, Status};

use crate::writable_resources::{ADMISSION_REGISTRATION_GROUP, writable_resources};
use rhumb_registry::ResourceTable;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

/// Maximum number of namespaces to check besides those that rules name.
const MAX_NAMESPACES: usize = 1_000;

/// Reads the file of `--critical-resources-file`. Its rules must be valid as exclusion rules.
pub fn read_critical_resources(text: &str) -> Result<CriticalResources, ConfigFileError> {
    let critical = CriticalResources::parse(text)?;
    for rule in critical.rules() {
        let fields: JsonObject = serde_json::from_str(rule.json()).unwrap_or_default();
        let problems = exclusion_rule_problems(&fields);
        if !problems.is_empty() {
            let position = (rule.line(), 0);
            return Err(ConfigFileError::at(position, problems.to_string()));
        }
    }
    Ok(critical)
}

/// Warns about rules that cover no served resource: likely a typo, but possibly a resource that is added later.
pub(super) fn warn_unserved_rules(critical: &CriticalResources, resources: &ResourceTable) {
    let resources = writable_resources(resources);
    for rule in critical.rules() {
        if !rule.covers_any(&resources) {
            tracing::warn!(
                rule = rule.name(),
                "critical resource rule matches no served resource; it has no effect"
            );
        }
    }
}

#[derive(Debug)]
pub(super) struct CriticalWebhookWarningPlugin(Arc<CriticalResources>);

impl CriticalWebhookWarningPlugin {
    pub(super) fn new(critical: Arc<CriticalResources>) -> CriticalWebhookWarningPlugin {
        CriticalWebhookWarningPlugin(critical)
    }

    /// The namespaces that rules name, and up to `MAX_NAMESPACES` others.
    fn namespaces(&self, resources: &ResourceTable) -> Vec<ClusterNamespace> {
        let namespaces = resources.find("", "namespaces");
        let Some(storage) = namespaces.and_then(|resource| resource.storage.as_ref()) else {
            return Vec::new();
        };
        let snapshot = storage.cache.snapshot();
        let all = snapshot.range(None, None).enumerate();
        all.filter(|(index, entry)| {
            *index < MAX_NAMESPACES || self.0.names_namespace(entry.key().name())
        })
        .map(|(_, entry)| namespace(entry))
        .collect()
    }
}

#[async_trait]
impl AdmissionPlugin for CriticalWebhookWarningPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation
            && attributes.context.resource.kind.group == ADMISSION_REGISTRATION_GROUP
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        let is_configuration =
            [WebhookType::Mutating, WebhookType::Validating]
                .iter()
                .any(|webhook_type| {
                    attributes.is_resource(
                        ADMISSION_REGISTRATION_GROUP,
                        webhook_type.configurations_resource(),
                    )
                });
        let (true, Some(object)) = (is_write && is_configuration, object) else {
            return Ok(());
        };
        let context = attributes.context;
        let exclusions = context
            .registry
            .gates
            .enabled(Feature::AdmissionWebhookExclusionRules);
        let webhooks = parse_webhooks(
            object,
            CriteriaFeatures {
                exclusion_rules: exclusions,
            },
        );
        let cluster = ClusterInventory {
            resources: writable_resources(context.resources),
            namespaces: self.namespaces(context.resources),
        };
        for warning in self.0.warnings(&webhooks, &cluster, exclusions) {
            attributes.context.warn(warning);
        }
        Ok(())
    }
}

fn namespace(entry: &CacheEntry) -> ClusterNamespace {
    let labels = entry.labels().iter();
    ClusterNamespace {
        name: entry.key().name().to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
    }
}
