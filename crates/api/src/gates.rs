//! Feature gates: what is on, what is off, and what an operator may change.

mod table;

use std::fmt;

use rhumb_meta::gotext;

pub use table::Feature;
use table::SPECS;

/// What is known of a feature.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub feature: Feature,
    pub name: &'static str,
    pub stage: Stage,
    pub default: bool,
    pub is_locked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

impl Stage {
    /// As metrics name it; that of a stable feature is empty.
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Ga => "",
            Stage::Deprecated => "DEPRECATED",
        }
    }
}

/// The features that change something here. All others of upstream may be set, so that its command lines work,
/// but the operator is told that nothing follows from it.
const WITH_EFFECT: &[Feature] = &[
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

const WORDS: usize = SPECS.len().div_ceil(64);

/// The state of every feature gate of one server: a few words of bits, so that a copy costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    on: [u64; WORDS],
}

/// Why a setting of feature gates is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    #[error("missing bool value for {0}")]
    MissingValue(String),
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {}: invalid syntax", gotext::quote(.value))]
    InvalidValue { name: String, value: String },
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    #[error("{0}")]
    Locked(LockedGates),
}

/// Features that were to be set to what they cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedGates(Vec<Feature>);

impl fmt::Display for LockedGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages: Vec<String> = self.0.iter().map(|feature| refusal(*feature)).collect();
        match messages.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

fn refusal(feature: Feature) -> String {
    let Spec { name, default, .. } = feature.spec();
    format!(
        "cannot set feature gate {name} to {}, feature is locked to {default}",
        !default
    )
}

impl Feature {
    pub fn all() -> impl Iterator<Item = Feature> {
        SPECS.iter().map(|spec| spec.feature)
    }

    pub fn named(name: &str) -> Option<Feature> {
        let at = SPECS.binary_search_by(|spec| spec.name.cmp(name)).ok()?;
        Some(SPECS[at].feature)
    }

    pub const fn spec(self) -> &'static Spec {
        &SPECS[self as usize]
    }

    const fn bit(self) -> (usize, u64) {
        (self as usize / 64, 1 << (self as usize % 64))
    }
}

impl Default for Gates {
    fn default() -> Self {
        let mut gates = Gates { on: [0; WORDS] };
        for spec in SPECS {
            gates.set(spec.feature, spec.default);
        }
        gates
    }
}

impl Gates {
    /// Reads a setting such as `A=true,B=false,AllAlpha=true`; what is said of a single feature goes before what
    /// is said of a whole stage. Beside the gates, what the operator should know about the setting.
    pub fn parse(text: &str) -> Result<(Gates, Vec<String>), GatesError> {
        let mut gates = Gates::default();
        let mut single: Vec<(Feature, bool)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = read_setting(part)?;
            match (name, Feature::named(name)) {
                ("AllAlpha", _) => gates.set_stage(Stage::Alpha, value),
                ("AllBeta", _) => gates.set_stage(Stage::Beta, value),
                (_, Some(feature)) => single.push((feature, value)),
                (_, None) => return Err(GatesError::Unknown(name.to_owned())),
            }
        }
        let locked: Vec<Feature> = single.iter().filter_map(locked_otherwise).collect();
        if !locked.is_empty() {
            return Err(GatesError::Locked(LockedGates(locked)));
        }
        for &(feature, value) in &single {
            gates.set(feature, value);
        }
        let warnings = single.iter().filter_map(warning).collect();
        Ok((gates, warnings))
    }

    pub const fn enabled(&self, feature: Feature) -> bool {
        let (word, bit) = feature.bit();
        self.on[word] & bit != 0
    }

    /// The same gates with one of them changed.
    pub fn with(mut self, feature: Feature, on: bool) -> Gates {
        self.set(feature, on);
        self
    }

    fn set(&mut self, feature: Feature, on: bool) {
        let (word, bit) = feature.bit();
        if on {
            self.on[word] |= bit;
        } else {
            self.on[word] &= !bit;
        }
    }

    fn set_stage(&mut self, stage: Stage, on: bool) {
        for spec in SPECS.iter().filter(|spec| spec.stage == stage) {
            self.set(spec.feature, on);
        }
    }
}

fn locked_otherwise(&(feature, value): &(Feature, bool)) -> Option<Feature> {
    let spec = feature.spec();
    (spec.is_locked && spec.default != value).then_some(feature)
}

fn warning(&(feature, value): &(Feature, bool)) -> Option<String> {
    let spec = feature.spec();
    let name = spec.name;
    if !WITH_EFFECT.contains(&feature) {
        return Some(format!("feature gate {name}={value} has no effect here"));
    }
    let stage = match spec.stage {
        Stage::Ga => "GA",
        Stage::Deprecated => "deprecated",
        Stage::Alpha | Stage::Beta => return None,
    };
    Some(format!(
        "setting {stage} feature gate {name}={value}. It will be removed in a future release."
    ))
}

fn read_setting(part: &str) -> Result<(&str, bool), GatesError> {
    let Some((name, value)) = part.split_once('=') else {
        return Err(GatesError::MissingValue(part.trim().to_owned()));
    };
    let (name, value) = (name.trim(), value.trim());
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok((name, true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok((name, false)),
        _ => Err(GatesError::InvalidValue {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_says_where_each_feature_is() {
        assert!(SPECS.is_sorted_by(|a, b| a.name < b.name));
        for spec in SPECS {
            assert_eq!(spec.feature.spec().name, spec.name);
            assert_eq!(Feature::named(spec.name), Some(spec.feature));
            assert_eq!(Gates::default().enabled(spec.feature), spec.default);
        }
    }

    #[test]
    fn our_own_features_are_on() {
        let (gates, _) = Gates::parse("").expect("nothing is set");
        for feature in [
            Feature::CacherLabelIndex,
            Feature::AdmissionWebhookExclusionRules,
            Feature::NamespaceDefaultLabelName,
            Feature::PodAffinityNamespaceSelector,
            Feature::NetworkPolicyVersioning,
        ] {
            assert!(gates.enabled(feature), "{feature:?}");
            let off = format!("{}=false", feature.spec().name);
            let (gates, _) = Gates::parse(&off).expect("may be turned off");
            assert!(!gates.enabled(feature), "{feature:?}");
        }
    }

    #[test]
    fn a_single_feature_goes_before_its_stage() {
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
            let (gates, _) = Gates::parse(text).expect(text);
            assert_eq!(gates.enabled(alpha), want_alpha, "{text}");
            assert_eq!(gates.enabled(beta), want_beta, "{text}");
        }
    }

    #[test]
    fn settings_are_refused_with_upstreams_words() {
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
            let error = Gates::parse(text).expect_err(text);
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn what_changes_nothing_is_said() {
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
            let (_, warnings) = Gates::parse(text).expect(text);
            assert_eq!(warnings, want, "{text}");
        }
    }
}
