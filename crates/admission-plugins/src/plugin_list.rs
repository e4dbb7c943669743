//! The list of admission plugins in upstream's order (`AllOrderedPlugins`), and which of them are enabled by the flags
//! `--enable-admission-plugins` and `--disable-admission-plugins`.

use std::sync::Arc;

use rhumb_admission::WebhookType;
use rhumb_admission::critical_resources::CriticalResources;
use rhumb_quota::LimitedResource;

use super::AdmissionPlugins;
use super::certificates::{
    CertificateApprovalPlugin, CertificateSigningPlugin, CertificateSubjectRestrictionPlugin,
};
use super::critical_webhooks::CriticalWebhookWarningPlugin;
use super::default_classes::{DEFAULT_INGRESS_CLASS, DEFAULT_STORAGE_CLASS};
use super::default_tolerations::DefaultTolerationSecondsPlugin;
use super::escalation::RbacEscalationPlugin;
use super::exclusion_rule_warnings::ExclusionRuleWarningPlugin;
use super::limit_ranger::LimitRangerPlugin;
use super::namespace_lifecycle::NamespaceLifecyclePlugin;
use super::network_policy_reports::NetworkPolicyReportPlugin;
use super::node_taint::TaintNodesByConditionPlugin;
use super::pod_resize::PodResizeValidatorPlugin;
use super::pod_security_warnings::PodSecurityWarningPlugin;
use super::pod_topology_labels::PodTopologyLabelsPlugin;
use super::policies::{MutatingAdmissionPolicyPlugin, ValidatingAdmissionPolicyPlugin};
use super::priority::PriorityPlugin;
use super::runtime_class::RuntimeClassPlugin;
use super::service_account::ServiceAccountPlugin;
use super::storage_protection::StorageObjectInUseProtectionPlugin;
use super::template_quota_warnings::CrossNamespaceAffinityWarningPlugin;
use super::volume_resize::PersistentVolumeClaimResizePlugin;
use super::webhooks::{PluginDependencies, WebhookPlugin};
use crate::resource_quota::ResourceQuotaPlugin;
use rhumb_registry::admission::{AdmissionChain, AdmissionPlugin};

/// Whether a plugin that upstream has is available here.
enum PluginAvailability {
    /// Enabled by default; the constructor.
    Implemented(fn(&PluginDependencies) -> Arc<dyn AdmissionPlugin>),
    /// Enabled by default upstream, not implemented here.
    Missing,
    /// Disabled by default upstream, not implemented here.
    Unavailable,
}

/// All plugins of upstream, in upstream's order.
const PLUGIN_ORDER: &[(&str, PluginAvailability)] = &[
    ("AlwaysAdmit", PluginAvailability::Unavailable),
    ("NamespaceAutoProvision", PluginAvailability::Unavailable),
    (
        "NamespaceLifecycle",
        PluginAvailability::Implemented(|_| Arc::new(NamespaceLifecyclePlugin)),
    ),
    ("NamespaceExists", PluginAvailability::Unavailable),
    (
        "LimitPodHardAntiAffinityTopology",
        PluginAvailability::Unavailable,
    ),
    (
        "LimitRanger",
        PluginAvailability::Implemented(|_| Arc::new(LimitRangerPlugin::default())),
    ),
    (
        "ServiceAccount",
        PluginAvailability::Implemented(|_| Arc::new(ServiceAccountPlugin)),
    ),
    ("NodeRestriction", PluginAvailability::Unavailable),
    (
        "TaintNodesByCondition",
        PluginAvailability::Implemented(|_| Arc::new(TaintNodesByConditionPlugin)),
    ),
    ("AlwaysPullImages", PluginAvailability::Unavailable),
    ("ImagePolicyWebhook", PluginAvailability::Unavailable),
    ("PodSecurity", PluginAvailability::Missing),
    ("PodNodeSelector", PluginAvailability::Unavailable),
    (
        "Priority",
        PluginAvailability::Implemented(|_| Arc::new(PriorityPlugin::default())),
    ),
    (
        "DefaultTolerationSeconds",
        PluginAvailability::Implemented(|_| Arc::new(DefaultTolerationSecondsPlugin)),
    ),
    ("PodTolerationRestriction", PluginAvailability::Unavailable),
    ("EventRateLimit", PluginAvailability::Unavailable),
    (
        "ExtendedResourceToleration",
        PluginAvailability::Unavailable,
    ),
    (
        "DefaultStorageClass",
        PluginAvailability::Implemented(|_| Arc::new(DEFAULT_STORAGE_CLASS)),
    ),
    (
        "StorageObjectInUseProtection",
        PluginAvailability::Implemented(|_| Arc::new(StorageObjectInUseProtectionPlugin)),
    ),
    ("PodGroupProtection", PluginAvailability::Missing),
    (
        "OwnerReferencesPermissionEnforcement",
        PluginAvailability::Unavailable,
    ),
    (
        "PersistentVolumeClaimResize",
        PluginAvailability::Implemented(|_| Arc::new(PersistentVolumeClaimResizePlugin)),
    ),
    (
        "RuntimeClass",
        PluginAvailability::Implemented(|_| Arc::new(RuntimeClassPlugin)),
    ),
    (
        "CertificateApproval",
        PluginAvailability::Implemented(|_| Arc::new(CertificateApprovalPlugin)),
    ),
    (
        "CertificateSigning",
        PluginAvailability::Implemented(|_| Arc::new(CertificateSigningPlugin)),
    ),
    ("ClusterTrustBundleAttest", PluginAvailability::Missing),
    (
        "CertificateSubjectRestriction",
        PluginAvailability::Implemented(|_| Arc::new(CertificateSubjectRestrictionPlugin)),
    ),
    (
        "DefaultIngressClass",
        PluginAvailability::Implemented(|_| Arc::new(DEFAULT_INGRESS_CLASS)),
    ),
    ("DenyServiceExternalIPs", PluginAvailability::Unavailable),
    (
        "PodTopologyLabels",
        PluginAvailability::Implemented(|_| Arc::new(PodTopologyLabelsPlugin)),
    ),
    ("PodGroupWorkloadExists", PluginAvailability::Missing),
    ("NodeDeclaredFeatureValidator", PluginAvailability::Missing),
    ("JobValidation", PluginAvailability::Missing),
    (
        "PodResizeValidator",
        PluginAvailability::Implemented(|_| Arc::new(PodResizeValidatorPlugin)),
    ),
    (
        "MutatingAdmissionPolicy",
        PluginAvailability::Implemented(|dependencies| {
            Arc::new(MutatingAdmissionPolicyPlugin::new(dependencies))
        }),
    ),
    (
        "MutatingAdmissionWebhook",
        PluginAvailability::Implemented(|dependencies| {
            Arc::new(WebhookPlugin::new(WebhookType::Mutating, dependencies))
        }),
    ),
    (
        "ValidatingAdmissionPolicy",
        PluginAvailability::Implemented(|dependencies| {
            Arc::new(ValidatingAdmissionPolicyPlugin::new(dependencies))
        }),
    ),
    (
        "ValidatingAdmissionWebhook",
        PluginAvailability::Implemented(|dependencies| {
            Arc::new(WebhookPlugin::new(WebhookType::Validating, dependencies))
        }),
    ),
    (
        "ResourceQuota",
        PluginAvailability::Implemented(|dependencies| {
            Arc::new(ResourceQuotaPlugin::new(dependencies))
        }),
    ),
    ("AlwaysDeny", PluginAvailability::Unavailable),
];

/// Whether upstream has a plugin of this name.
pub(super) fn is_known_plugin(name: &str) -> bool {
    PLUGIN_ORDER
        .iter()
        .any(|(plugin_name, _)| *plugin_name == name)
}

/// The operator's choices: disabled plugins and plugin configuration.
#[derive(Debug, Default)]
pub struct AdmissionOptions {
    disabled: Vec<String>,
    critical: Arc<CriticalResources>,
    limited: Arc<[LimitedResource]>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginFlagError {
    #[error("{flag}-admission-plugins plugin {name:?} is unknown")]
    Unknown { flag: &'static str, name: String },
    #[error("[{0}] in enable-admission-plugins and disable-admission-plugins overlapped")]
    Overlap(String),
    #[error(
        "enable-admission-plugins plugin {0:?} is not implemented in rhumb and would enforce nothing: remove it from the flag"
    )]
    NotImplemented(String),
}

impl AdmissionOptions {
    /// Validates the plugin names given by flags.
    pub fn new(enable: &[String], disable: &[String]) -> Result<AdmissionOptions, PluginFlagError> {
        for (flag, names) in [("enable", enable), ("disable", disable)] {
            for name in names {
                let known = PLUGIN_ORDER.iter().find(|(known, _)| known == name);
                match known {
                    None => {
                        let name = name.clone();
                        return Err(PluginFlagError::Unknown { flag, name });
                    }
                    Some((_, PluginAvailability::Implemented(_))) => {}
                    Some(_) if flag == "enable" => {
                        return Err(PluginFlagError::NotImplemented(name.clone()));
                    }
                    Some(_) => {}
                }
            }
        }
        let mut overlap: Vec<&str> = enable
            .iter()
            .filter(|name| disable.contains(name))
            .map(String::as_str)
            .collect();
        overlap.sort_unstable();
        overlap.dedup();
        if !overlap.is_empty() {
            return Err(PluginFlagError::Overlap(overlap.join(" ")));
        }
        Ok(AdmissionOptions {
            disabled: disable.to_vec(),
            ..AdmissionOptions::default()
        })
    }

    /// The plugins that upstream enables by default and that are not implemented here, without those that are disabled.
    pub fn missing_defaults(&self) -> Vec<&'static str> {
        PLUGIN_ORDER
            .iter()
            .filter(|(_, availability)| matches!(availability, PluginAvailability::Missing))
            .map(|(name, _)| *name)
            .filter(|name| !self.disabled.iter().any(|disabled| disabled == name))
            .collect()
    }

    /// Replaces the built-in list of critical resources.
    #[must_use]
    pub fn with_critical_resources(mut self, critical: CriticalResources) -> AdmissionOptions {
        self.critical = Arc::new(critical);
        self
    }

    /// Sets the limited resources, which may be consumed only where a quota covers them.
    #[must_use]
    pub fn with_limited_resources(mut self, limited: Vec<LimitedResource>) -> AdmissionOptions {
        self.limited = limited.into();
        self
    }

    fn is_disabled(&self, plugin: &str) -> bool {
        self.disabled.iter().any(|disabled| disabled == plugin)
    }

    /// Builds the enabled plugins. Plugins without a name upstream are always enabled: the RBAC escalation check, the
    /// restriction of node reports, and those that only warn. Warnings about quotas are disabled with ResourceQuota.
    pub fn build(&self) -> AdmissionPlugins {
        let dependencies =
            PluginDependencies::default().with_limited_resources(self.limited.clone());
        let mut plugins: Vec<Arc<dyn AdmissionPlugin>> = PLUGIN_ORDER
            .iter()
            .filter(|(name, _)| !self.is_disabled(name))
            .filter_map(|(_, availability)| match availability {
                PluginAvailability::Implemented(make) => Some(make(&dependencies)),
                PluginAvailability::Missing | PluginAvailability::Unavailable => None,
            })
            .collect();
        plugins.push(Arc::new(RbacEscalationPlugin::new(
            dependencies.services.clone(),
        )));
        plugins.push(Arc::new(CriticalWebhookWarningPlugin::new(
            self.critical.clone(),
        )));
        plugins.push(Arc::new(ExclusionRuleWarningPlugin));
        plugins.push(Arc::new(NetworkPolicyReportPlugin));
        plugins.push(Arc::new(PodSecurityWarningPlugin));
        if !self.is_disabled("ResourceQuota") {
            plugins.push(Arc::new(CrossNamespaceAffinityWarningPlugin::new(
                &dependencies,
            )));
        }
        AdmissionPlugins {
            chain: AdmissionChain::new(plugins),
            metrics: dependencies.metrics,
            service_resolver: dependencies.service_resolver,
            critical: self.critical.clone(),
            limited_resources: self.limited.clone(),
            services: dependencies.services,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn plugin_names_are_validated_like_upstream() {
        let table = [
            ("", "", ""),
            ("Priority LimitRanger", "RuntimeClass AlwaysDeny", ""),
            (
                "Nope",
                "",
                "enable-admission-plugins plugin \"Nope\" is unknown",
            ),
            (
                "",
                "nope",
                "disable-admission-plugins plugin \"nope\" is unknown",
            ),
            (
                "Priority RuntimeClass",
                "RuntimeClass Priority",
                "[Priority RuntimeClass] in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
            (
                "AlwaysDeny",
                "",
                "enable-admission-plugins plugin \"AlwaysDeny\" is not implemented in rhumb and would enforce nothing: remove it from the flag",
            ),
            (
                "Priority PodSecurity",
                "",
                "enable-admission-plugins plugin \"PodSecurity\" is not implemented in rhumb and would enforce nothing: remove it from the flag",
            ),
            ("", "PodSecurity JobValidation", ""),
        ];
        for (enable, disable, want) in table {
            let got = AdmissionOptions::new(&names(enable), &names(disable))
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert_eq!(got, want, "{enable} / {disable}");
        }
    }

    #[test]
    fn missing_defaults_are_named_unless_they_are_disabled() {
        let missing = |disable: &str| {
            let options = AdmissionOptions::new(&[], &names(disable)).expect("valid plugin names");
            options.missing_defaults()
        };
        assert!(missing("").contains(&"PodSecurity"));
        assert!(!missing("PodSecurity").contains(&"PodSecurity"));
        assert!(!missing("").contains(&"Priority"));
    }

    #[test]
    fn disabled_plugins_are_not_in_the_chain() {
        let all = AdmissionPlugins::default().chain.plugins().len();
        let plugins =
            AdmissionOptions::new(&[], &names("Priority PodSecurity")).expect("valid plugin names");
        let chain = plugins.build().chain;
        assert_eq!(chain.plugins().len(), all - 1);
        assert!(!format!("{chain:?}").contains("Priority"));
    }

    #[test]
    fn warnings_about_quotas_are_disabled_with_quotas() {
        let chain = |disable: &str| {
            let plugins = AdmissionOptions::new(&[], &names(disable)).expect("valid plugin names");
            format!("{:?}", plugins.build().chain)
        };
        for (disable, expect) in [("Priority", true), ("ResourceQuota", false)] {
            let has_warnings = chain(disable).contains("CrossNamespaceAffinityWarningPlugin");
            assert_eq!(has_warnings, expect, "{disable}");
        }
    }
}
