//! Feature gates: parsing of `--feature-gates` and every gate's state (upstream: `component-base/featuregate`).
//!
//! [`FeatureGates::parse`] reads the flag; [`FeatureGates::enabled`] answers for one [`Feature`]. The table of features
//! is in `table.rs`.

mod table;

use std::fmt;

use rhumb_meta::gotext;

pub use table::Feature;
use table::SPECS;

/// A feature's stage, default and lock, as upstream's `FeatureSpec`.
#[derive(Debug, Clone, Copy)]
pub struct FeatureSpec {
    pub feature: Feature,
    pub name: &'static str,
    pub stage: FeatureStage,
    pub default: bool,
    pub is_locked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureStage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

impl FeatureStage {
    /// The value of the `stage` metric label; empty for GA features.
    pub const fn as_str(self) -> &'static str {
        match self {
            FeatureStage::Alpha => "ALPHA",
            FeatureStage::Beta => "BETA",
            FeatureStage::Ga => "",
            FeatureStage::Deprecated => "DEPRECATED",
        }
    }
}

/// The features that rhumb implements. All other upstream features can be set, so that upstream's command lines work,
/// but setting them returns a warning that they have no effect.
const IMPLEMENTED_FEATURES: &[Feature] = &[
    Feature::AdmissionWebhookExclusionRules,
    Feature::CacherLabelIndex,
    Feature::CoordinatedLeaderElection,
    Feature::HPAScaleToZero,
    Feature::MaxUnavailableStatefulSet,
    Feature::CrossNamespaceVolumeDataSource,
    Feature::NamespaceDefaultLabelName,
    Feature::NetworkPolicyVersioning,
    Feature::PodAffinityNamespaceSelector,
    Feature::RelaxedServiceNameValidation,
    Feature::StrictIPCIDRValidation,
    Feature::VolumeLimitScaling,
];

const BITSET_WORDS: usize = SPECS.len().div_ceil(64);

/// The state of every feature gate of one server, as a bit set that is cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    enabled_bits: [u64; BITSET_WORDS],
}

/// Why a `--feature-gates` value is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeatureGateError {
    #[error("missing bool value for {0}")]
    MissingValue(String),
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {}: invalid syntax", gotext::quote(.value))]
    InvalidValue { name: String, value: String },
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    #[error("{0}")]
    Locked(LockedFeatureGates),
}

/// Features that were set to a value other than the one they are locked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedFeatureGates(Vec<Feature>);

impl fmt::Display for LockedFeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages: Vec<String> = self
            .0
            .iter()
            .map(|feature| locked_message(*feature))
            .collect();
        match messages.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

fn locked_message(feature: Feature) -> String {
    let FeatureSpec { name, default, .. } = feature.spec();
    format!(
        "cannot set feature gate {name} to {}, feature is locked to {default}",
        !default
    )
}

impl Feature {
    pub fn all() -> impl Iterator<Item = Feature> {
        SPECS.iter().map(|spec| spec.feature)
    }

    pub fn from_name(name: &str) -> Option<Feature> {
        let at = SPECS.binary_search_by(|spec| spec.name.cmp(name)).ok()?;
        Some(SPECS[at].feature)
    }

    /// The features that rhumb implements and that can be set, sorted by name.
    pub fn settable() -> impl Iterator<Item = Feature> {
        Feature::all()
            .filter(|feature| IMPLEMENTED_FEATURES.contains(feature) && !feature.spec().is_locked)
    }

    pub const fn spec(self) -> &'static FeatureSpec {
        &SPECS[self as usize]
    }

    const fn bit(self) -> (usize, u64) {
        (self as usize / 64, 1 << (self as usize % 64))
    }
}

impl Default for FeatureGates {
    fn default() -> Self {
        let mut gates = FeatureGates {
            enabled_bits: [0; BITSET_WORDS],
        };
        for spec in SPECS {
            gates.set(spec.feature, spec.default);
        }
        gates
    }
}

impl FeatureGates {
    /// Parses a setting such as `A=true,B=false,AllAlpha=true`; a single feature takes precedence over `AllAlpha` and
    /// `AllBeta`. Also returns warnings for the operator.
    pub fn parse(text: &str) -> Result<(FeatureGates, Vec<String>), FeatureGateError> {
        let mut gates = FeatureGates::default();
        let mut single: Vec<(Feature, bool)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = parse_setting(part)?;
            match (name, Feature::from_name(name)) {
                ("AllAlpha", _) => gates.set_stage(FeatureStage::Alpha, value),
                ("AllBeta", _) => gates.set_stage(FeatureStage::Beta, value),
                (_, Some(feature)) => single.push((feature, value)),
                (_, None) => return Err(FeatureGateError::Unknown(name.to_owned())),
            }
        }
        let locked: Vec<Feature> = single.iter().filter_map(conflicts_with_lock).collect();
        if !locked.is_empty() {
            return Err(FeatureGateError::Locked(LockedFeatureGates(locked)));
        }
        for &(feature, value) in &single {
            gates.set(feature, value);
        }
        let warnings = single.iter().filter_map(warning).collect();
        Ok((gates, warnings))
    }

    pub const fn enabled(&self, feature: Feature) -> bool {
        let (word, bit) = feature.bit();
        self.enabled_bits[word] & bit != 0
    }

    /// Returns a copy with one gate changed.
    pub fn with(mut self, feature: Feature, on: bool) -> FeatureGates {
        self.set(feature, on);
        self
    }

    fn set(&mut self, feature: Feature, on: bool) {
        let (word, bit) = feature.bit();
        if on {
            self.enabled_bits[word] |= bit;
        } else {
            self.enabled_bits[word] &= !bit;
        }
    }

    fn set_stage(&mut self, stage: FeatureStage, on: bool) {
        for spec in SPECS.iter().filter(|spec| spec.stage == stage) {
            self.set(spec.feature, on);
        }
    }
}

fn conflicts_with_lock(&(feature, value): &(Feature, bool)) -> Option<Feature> {
    let spec = feature.spec();
    (spec.is_locked && spec.default != value).then_some(feature)
}

fn warning(&(feature, value): &(Feature, bool)) -> Option<String> {
    let spec = feature.spec();
    let name = spec.name;
    if !IMPLEMENTED_FEATURES.contains(&feature) {
        return Some(format!("feature gate {name}={value} has no effect here"));
    }
    let stage = match spec.stage {
        FeatureStage::Ga => "GA",
        FeatureStage::Deprecated => "deprecated",
        FeatureStage::Alpha | FeatureStage::Beta => return None,
    };
    Some(format!(
        "setting {stage} feature gate {name}={value}. It will be removed in a future release."
    ))
}

fn parse_setting(part: &str) -> Result<(&str, bool), FeatureGateError> {
    let Some((name, value)) = part.split_once('=') else {
        return Err(FeatureGateError::MissingValue(part.trim().to_owned()));
    };
    let (name, value) = (name.trim(), value.trim());
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok((name, true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok((name, false)),
        _ => Err(FeatureGateError::InvalidValue {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_table_is_sorted_with_stages() {
        assert!(SPECS.is_sorted_by(|a, b| a.name < b.name));
        for spec in SPECS {
            assert_eq!(spec.feature.spec().name, spec.name);
            assert_eq!(Feature::from_name(spec.name), Some(spec.feature));
            assert_eq!(FeatureGates::default().enabled(spec.feature), spec.default);
        }
    }

    #[test]
    fn rhumb_features_are_enabled_by_default() {
        let (gates, _) = FeatureGates::parse("").expect("an empty setting is valid");
        for feature in [
            Feature::CacherLabelIndex,
            Feature::AdmissionWebhookExclusionRules,
            Feature::NamespaceDefaultLabelName,
            Feature::PodAffinityNamespaceSelector,
            Feature::NetworkPolicyVersioning,
        ] {
            assert!(gates.enabled(feature), "{feature:?}");
            let off = format!("{}=false", feature.spec().name);
            let (gates, _) = FeatureGates::parse(&off).expect("the feature can be disabled");
            assert!(!gates.enabled(feature), "{feature:?}");
        }
    }

    #[test]
    fn explicit_feature_overrides_its_stage() {
        let alpha = Feature::HPAScaleToZero;
        let beta = Feature::CacherLabelIndex;
        let table = [
            ("AllAlpha=true", true, true),
            ("HPAScaleToZero=false,AllAlpha=true", false, true),
            ("AllAlpha=true, HPAScaleToZero=0", false, true),
            ("AllBeta=F,", false, false),
            ("AllBeta=false,CacherLabelIndex=t", false, true),
        ];
        for (text, want_alpha, want_beta) in table {
            let (gates, _) = FeatureGates::parse(text).expect(text);
            assert_eq!(gates.enabled(alpha), want_alpha, "{text}");
            assert_eq!(gates.enabled(beta), want_beta, "{text}");
        }
    }

    #[test]
    fn invalid_settings_have_upstreams_texts() {
        let table = [
            ("Nothing=true", "unrecognized feature gate: Nothing"),
            ("WatchList", "missing bool value for WatchList"),
            (
                "WatchList=yes",
                "invalid value of WatchList=yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax",
            ),
            (
                "NodeSwap=false",
                "cannot set feature gate NodeSwap to false, feature is locked to true",
            ),
            (
                "NodeSwap=false,WinDSR=false",
                concat!(
                    "[cannot set feature gate NodeSwap to false, feature is locked to true, ",
                    "cannot set feature gate WinDSR to false, feature is locked to true]"
                ),
            ),
        ];
        for (text, want) in table {
            let error = FeatureGates::parse(text).expect_err(text);
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn settings_without_effect_cause_a_warning() {
        let table: [(&str, &[&str]); 3] = [
            ("CacherLabelIndex=false", &[]),
            (
                "WinDSR=true",
                &["feature gate WinDSR=true has no effect here"],
            ),
            (
                "NamespaceDefaultLabelName=false",
                &[
                    "setting GA feature gate NamespaceDefaultLabelName=false. It will be removed in a future release.",
                ],
            ),
        ];
        for (text, want) in table {
            let (_, warnings) = FeatureGates::parse(text).expect(text);
            assert_eq!(warnings, want, "{text}");
        }
    }
}
