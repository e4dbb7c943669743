//! Which plugins are on, and in which order they are asked.

use std::sync::Arc;

use rhumb_admission::Flavor;
use rhumb_admission::critical::CriticalResources;
use rhumb_quota::Limited;

use super::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use super::critical::Critical;
use super::default_classes::{INGRESS, STORAGE};
use super::default_tolerations::DefaultTolerations;
use super::escalation::Escalation;
use super::limit_ranger::LimitRanger;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::node_taint::TaintNodesByCondition;
use super::policies::{MutatingPolicies, ValidatingPolicies};
use super::priority::Priority;
use super::quota::ResourceQuota;
use super::runtime_class::RuntimeClass;
use super::service_account::ServiceAccount;
use super::storage_protection::StorageProtection;
use super::volume_resize::VolumeResize;
use super::webhooks::{Outside, Webhooks};
use super::{Chain, Plugin};

/// What a name stands for.
enum Known {
    /// On by default, and here.
    Here(fn(&Outside) -> Box<dyn Plugin>),
    /// On by default upstream; not here yet. Naming it changes nothing.
    Later,
    /// Off by default upstream, and not here.
    Off,
}

/// All names that upstream knows, in its order.
const ORDER: &[(&str, Known)] = &[
    ("AlwaysAdmit", Known::Off),
    ("NamespaceAutoProvision", Known::Off),
    (
        "NamespaceLifecycle",
        Known::Here(|_| Box::new(NamespaceLifecycle)),
    ),
    ("NamespaceExists", Known::Off),
    ("LimitPodHardAntiAffinityTopology", Known::Off),
    (
        "LimitRanger",
        Known::Here(|_| Box::new(LimitRanger::default())),
    ),
    ("ServiceAccount", Known::Here(|_| Box::new(ServiceAccount))),
    ("NodeRestriction", Known::Off),
    (
        "TaintNodesByCondition",
        Known::Here(|_| Box::new(TaintNodesByCondition)),
    ),
    ("AlwaysPullImages", Known::Off),
    ("ImagePolicyWebhook", Known::Off),
    ("PodSecurity", Known::Later),
    ("PodNodeSelector", Known::Off),
    ("Priority", Known::Here(|_| Box::new(Priority::default()))),
    (
        "DefaultTolerationSeconds",
        Known::Here(|_| Box::new(DefaultTolerations)),
    ),
    ("PodTolerationRestriction", Known::Off),
    ("EventRateLimit", Known::Off),
    ("ExtendedResourceToleration", Known::Off),
    ("DefaultStorageClass", Known::Here(|_| Box::new(STORAGE))),
    (
        "StorageObjectInUseProtection",
        Known::Here(|_| Box::new(StorageProtection)),
    ),
    ("PodGroupProtection", Known::Later),
    ("OwnerReferencesPermissionEnforcement", Known::Off),
    (
        "PersistentVolumeClaimResize",
        Known::Here(|_| Box::new(VolumeResize)),
    ),
    ("RuntimeClass", Known::Here(|_| Box::new(RuntimeClass))),
    (
        "CertificateApproval",
        Known::Here(|_| Box::new(CertificateApproval)),
    ),
    (
        "CertificateSigning",
        Known::Here(|_| Box::new(CertificateSigning)),
    ),
    ("ClusterTrustBundleAttest", Known::Later),
    (
        "CertificateSubjectRestriction",
        Known::Here(|_| Box::new(CertificateSubjectRestriction)),
    ),
    ("DefaultIngressClass", Known::Here(|_| Box::new(INGRESS))),
    ("DenyServiceExternalIPs", Known::Off),
    ("PodTopologyLabels", Known::Later),
    ("PodGroupWorkloadExists", Known::Later),
    ("NodeDeclaredFeatureValidator", Known::Later),
    ("JobValidation", Known::Later),
    ("PodResizeValidator", Known::Later),
    (
        "MutatingAdmissionPolicy",
        Known::Here(|outside| Box::new(MutatingPolicies::new(outside))),
    ),
    (
        "MutatingAdmissionWebhook",
        Known::Here(|outside| Box::new(Webhooks::new(Flavor::Mutating, outside))),
    ),
    (
        "ValidatingAdmissionPolicy",
        Known::Here(|outside| Box::new(ValidatingPolicies::new(outside))),
    ),
    (
        "ValidatingAdmissionWebhook",
        Known::Here(|outside| Box::new(Webhooks::new(Flavor::Validating, outside))),
    ),
    (
        "ResourceQuota",
        Known::Here(|outside| Box::new(ResourceQuota::new(outside.limited.clone()))),
    ),
    ("AlwaysDeny", Known::Off),
];

/// Whether upstream has a plugin of this name.
pub(super) fn is_known(name: &str) -> bool {
    ORDER.iter().any(|(known, _)| *known == name)
}

/// What an operator wants, beside what is on by default.
#[derive(Debug, Default)]
pub struct Selection {
    disabled: Vec<String>,
    critical: Arc<CriticalResources>,
    limited: Arc<[Limited]>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("{flag}-admission-plugins plugin {name:?} is unknown")]
    Unknown { flag: &'static str, name: String },
    #[error("[{0}] in enable-admission-plugins and disable-admission-plugins overlapped")]
    Overlap(String),
    #[error("enable-admission-plugins plugin {0:?} is not available in rhumb")]
    NotHere(String),
}

impl Selection {
    /// Checks the names that flags gave.
    pub fn new(enable: &[String], disable: &[String]) -> Result<Selection, SelectionError> {
        for (flag, names) in [("enable", enable), ("disable", disable)] {
            for name in names {
                let known = ORDER.iter().find(|(known, _)| known == name);
                match known {
                    None => {
                        let name = name.clone();
                        return Err(SelectionError::Unknown { flag, name });
                    }
                    Some((_, Known::Off)) if flag == "enable" => {
                        return Err(SelectionError::NotHere(name.clone()));
                    }
                    Some(_) => {}
                }
            }
        }
        let mut both: Vec<&str> = enable
            .iter()
            .filter(|name| disable.contains(name))
            .map(String::as_str)
            .collect();
        both.sort_unstable();
        both.dedup();
        if !both.is_empty() {
            return Err(SelectionError::Overlap(both.join(" ")));
        }
        Ok(Selection {
            disabled: disable.to_vec(),
            ..Selection::default()
        })
    }

    /// With another list of what the cluster depends on than the built-in one.
    #[must_use]
    pub fn with_critical(mut self, critical: CriticalResources) -> Selection {
        self.critical = Arc::new(critical);
        self
    }

    /// With what may be consumed only where a quota covers it.
    #[must_use]
    pub fn with_limited(mut self, limited: Vec<Limited>) -> Selection {
        self.limited = limited.into();
        self
    }

    /// The plugins that are on. That nobody grants what they do not have is no plugin upstream, and always on. So is
    /// the warning to those who put a webhook in the way of what the cluster depends on.
    pub fn chain(&self) -> Chain {
        let outside = Outside::default().with_limited(self.limited.clone());
        let mut plugins: Vec<Box<dyn Plugin>> = ORDER
            .iter()
            .filter(|(name, _)| !self.disabled.iter().any(|disabled| disabled == name))
            .filter_map(|(_, known)| match known {
                Known::Here(make) => Some(make(&outside)),
                Known::Later | Known::Off => None,
            })
            .collect();
        plugins.push(Box::new(Escalation));
        plugins.push(Box::new(Critical::new(self.critical.clone())));
        Chain {
            plugins,
            counts: outside.counts,
            services: outside.services,
            critical: self.critical.clone(),
            limited: self.limited.clone(),
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
    fn names_are_checked_as_upstream_does() {
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
                "enable-admission-plugins plugin \"AlwaysDeny\" is not available in rhumb",
            ),
        ];
        for (enable, disable, want) in table {
            let got = Selection::new(&names(enable), &names(disable))
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert_eq!(got, want, "{enable} / {disable}");
        }
    }

    #[test]
    fn what_is_disabled_is_not_asked() {
        let all = Chain::default().plugins.len();
        let selection = Selection::new(&[], &names("Priority PodSecurity")).expect("known names");
        let chain = selection.chain();
        assert_eq!(chain.plugins.len(), all - 1);
        assert!(!format!("{chain:?}").contains("Priority"));
    }
}
