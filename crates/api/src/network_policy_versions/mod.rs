//! The minimum version of a network policy (KEP-2732): the features it uses, each with the release that introduced it.
//!
//! The API server sets `spec.minVersion` from [`FeatureCatalog::required_version`]; agents that enforce policies use
//! the catalog to decide whether they support a policy. `docs/network-policy-versions.md` has the rules, including
//! those for alpha features.

mod features;
mod version;

use std::borrow::Cow;

use rhumb_meta::field::Path;
use serde_json::Value;

pub use features::{BOTH_SELECTORS, EGRESS, IP_BLOCKS, IPV6, PORT_RANGES, SCTP};
pub use version::{ParsePolicyVersionError, PolicyVersion};

use crate::{FeatureGates, FieldView, feature_gates};

/// The version of the base features: ingress rules, pod or namespace selectors, TCP, UDP, named ports.
pub const BASE_VERSION: &str = "1.3";

/// Calls `found` with each field of a policy's spec that uses the feature.
pub type FeatureFieldVisitor = fn(spec: &FieldView<'_>, found: &mut dyn FnMut(&FieldView<'_>));

/// A feature of network policies, with the version that introduced it.
#[derive(Debug, Clone, Copy)]
pub struct NetworkPolicyFeature {
    pub name: &'static str,
    pub version: &'static str,
    /// The gate of an alpha feature; the server rejects the feature while the gate is off.
    pub gate: Option<feature_gates::Feature>,
    detect: FeatureFieldVisitor,
}

/// A feature that a policy uses, with the fields that use it.
#[derive(Debug, Clone)]
pub struct FeatureUse<'a> {
    pub feature: &'a NetworkPolicyFeature,
    /// Such as `spec.ingress[0].ports[0].endPort`; never empty.
    pub paths: Vec<String>,
}

impl FeatureUse<'_> {
    /// The first field that uses the feature.
    pub fn path(&self) -> &str {
        self.paths.first().map_or("spec", String::as_str)
    }
}

/// The minimum version of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinPolicyVersion {
    pub version: &'static str,
    /// The first field that requires it; `None` if the base version suffices.
    pub path: Option<String>,
}

/// All features that one program supports: an API server, or an agent that enforces policies.
#[derive(Debug, Clone)]
pub struct FeatureCatalog {
    /// Sorted by version.
    features: Cow<'static, [NetworkPolicyFeature]>,
}

/// Why a list of features is not a valid catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeatureCatalogError {
    #[error("{feature}: invalid version {version:?}: {source}")]
    InvalidVersion {
        feature: &'static str,
        version: &'static str,
        source: ParsePolicyVersionError,
    },
    #[error("{0} is alpha but has no feature gate")]
    AlphaWithoutGate(&'static str),
    #[error(
        "{0} has a feature gate but a released version; a gated feature needs an alpha version"
    )]
    GatedRelease(&'static str),
    #[error("{feature} has the alpha version {version}, but the latest version is {latest}")]
    StaleAlpha {
        feature: &'static str,
        version: &'static str,
        latest: &'static str,
    },
}

impl NetworkPolicyFeature {
    pub const fn new(
        name: &'static str,
        version: &'static str,
        detect: FeatureFieldVisitor,
    ) -> NetworkPolicyFeature {
        NetworkPolicyFeature {
            name,
            version,
            gate: None,
            detect,
        }
    }

    #[must_use]
    pub const fn gated(mut self, gate: feature_gates::Feature) -> NetworkPolicyFeature {
        self.gate = Some(gate);
        self
    }

    pub fn is_used(&self, spec: &Value) -> bool {
        self.first_use(spec).is_some()
    }

    fn first_use(&self, spec: &Value) -> Option<String> {
        let mut first = None;
        self.for_each_use(spec, |path| {
            first.get_or_insert_with(|| path.to_string());
        });
        first
    }

    fn for_each_use(&self, spec: &Value, mut found: impl FnMut(&Path<'_>)) {
        let spec = FieldView::at(Some(spec), Path::new("spec"));
        (self.detect)(&spec, &mut |field| found(field.path()));
    }

    pub fn is_enabled(&self, gates: &FeatureGates) -> bool {
        self.gate.is_none_or(|gate| gates.enabled(gate))
    }

    /// `None` if malformed, which [`FeatureCatalog::with_features`] rejects.
    fn parsed_version(&self) -> Option<PolicyVersion> {
        self.version.parse().ok()
    }
}

impl FeatureCatalog {
    pub const fn builtin() -> FeatureCatalog {
        FeatureCatalog {
            features: Cow::Borrowed(features::FEATURES),
        }
    }

    /// The built-in features plus `others`.
    pub fn with_features(
        others: &[NetworkPolicyFeature],
    ) -> Result<FeatureCatalog, FeatureCatalogError> {
        let mut features = [features::FEATURES, others].concat();
        features.sort_by_key(NetworkPolicyFeature::parsed_version);
        let catalog = FeatureCatalog {
            features: features.into(),
        };
        catalog.validate()?;
        Ok(catalog)
    }

    /// Checks that versions identify feature sets unambiguously. A version implies all features of earlier versions, so
    /// all alpha features must share the latest version.
    fn validate(&self) -> Result<(), FeatureCatalogError> {
        let latest = self
            .features
            .last()
            .map_or(BASE_VERSION, |last| last.version);
        for feature in &*self.features {
            let (name, version) = (feature.name, feature.version);
            let parsed = version.parse::<PolicyVersion>();
            let parsed = parsed.map_err(|source| FeatureCatalogError::InvalidVersion {
                feature: name,
                version,
                source,
            })?;
            match (parsed.alpha.is_some(), feature.gate.is_some()) {
                (true, false) => return Err(FeatureCatalogError::AlphaWithoutGate(name)),
                (false, true) => return Err(FeatureCatalogError::GatedRelease(name)),
                (true, true) if version != latest => {
                    return Err(FeatureCatalogError::StaleAlpha {
                        feature: name,
                        version,
                        latest,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// All versions in order, without duplicates.
    pub fn versions(&self) -> Vec<&'static str> {
        self.versions_where(|_| true)
    }

    /// The versions that a server with these feature gates accepts in `minVersion`.
    pub fn enabled_versions(&self, gates: &FeatureGates) -> Vec<&'static str> {
        self.versions_where(|feature| feature.is_enabled(gates))
    }

    fn versions_where(
        &self,
        is_included: impl Fn(&NetworkPolicyFeature) -> bool,
    ) -> Vec<&'static str> {
        let included = self.features.iter().filter(|feature| is_included(feature));
        let mut versions = vec![BASE_VERSION];
        versions.extend(included.map(|feature| feature.version));
        versions.dedup();
        versions
    }

    /// Whether policies with this `minVersion` are supported. Of an alpha only the exact revision is, because another
    /// revision may give the same fields another meaning.
    pub fn supports(&self, version: &str) -> bool {
        version == BASE_VERSION || self.features.iter().any(|known| known.version == version)
    }

    /// The minimum version of a policy with this spec.
    pub fn required_version(&self, spec: &Value) -> MinPolicyVersion {
        let newest_first = self.features.iter().rev();
        let mut used = newest_first.filter_map(|feature| {
            let path = feature.first_use(spec)?;
            Some(MinPolicyVersion {
                version: feature.version,
                path: Some(path),
            })
        });
        used.next().unwrap_or(MinPolicyVersion {
            version: BASE_VERSION,
            path: None,
        })
    }

    /// All features that a policy uses, sorted by version.
    pub fn features_used(&self, spec: &Value) -> Vec<FeatureUse<'_>> {
        let uses = self.features.iter().filter_map(|feature| {
            let mut paths = Vec::new();
            feature.for_each_use(spec, |path| paths.push(path.to_string()));
            (!paths.is_empty()).then_some(FeatureUse { feature, paths })
        });
        uses.collect()
    }

    /// The features that a policy uses which are newer than this version.
    pub fn features_newer_than(&self, version: PolicyVersion, spec: &Value) -> Vec<FeatureUse<'_>> {
        let mut uses = self.features_used(spec);
        uses.retain(|used| used.feature.parsed_version() > Some(version));
        uses
    }
}

/// The minimum version by the built-in catalog, for policies of servers that do not set `minVersion`.
pub fn builtin_required_version(spec: &Value) -> &'static str {
    FeatureCatalog::builtin().required_version(spec).version
}

#[cfg(test)]
mod tests;
