//! Serde types of `pluginConfig[].args` (`kubescheduler.config.k8s.io/v1`). One struct holds the fields of all plugins,
//! because `name` may follow `args` in the file; [`RawPluginArgs::check_plugin`] then rejects fields of other plugins.
//! The `Raw` prefix sets these types apart from the validated types in `model` and `plugins`.

use rhumb_meta::field::{Error, ErrorList, Path};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::config::API_VERSION;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::config) struct RawPluginArgs {
    api_version: Option<String>,
    kind: Option<String>,
    pub(super) min_candidate_nodes_percentage: Option<i32>,
    pub(super) min_candidate_nodes_absolute: Option<i32>,
    pub(super) hard_pod_affinity_weight: Option<i32>,
    pub(super) ignore_preferred_terms_of_existing_pods: Option<bool>,
    pub(super) added_affinity: Option<RawNodeAffinity>,
    pub(super) ignored_resources: Option<Vec<String>>,
    pub(super) ignored_resource_groups: Option<Vec<String>>,
    pub(super) scoring_strategy: Option<RawScoringStrategy>,
    pub(super) resources: Option<Vec<RawResourceSpec>>,
    pub(super) default_constraints: Option<Vec<RawSpreadConstraint>>,
    pub(super) defaulting_type: Option<String>,
    bind_timeout_seconds: Option<i64>,
    shape: Option<Vec<RawShapePoint>>,
    filter_timeout: Option<String>,
    binding_timeout: Option<String>,
}

impl RawPluginArgs {
    /// Checks that `kind` and `apiVersion` fit the plugin and that no field of another plugin is set.
    pub(super) fn check_plugin(&self, plugin: &str, path: &Path<'_>, errors: &mut ErrorList) {
        let kind = format!("{plugin}Args");
        let is_other = |given: &Option<String>, right: &str| {
            given.as_deref().is_some_and(|given| given != right)
        };
        if is_other(&self.api_version, API_VERSION) || is_other(&self.kind, &kind) {
            let text = |given: &Option<String>| given.clone().unwrap_or_default();
            errors.push(Error::invalid(
                &path.child("kind"),
                text(&self.kind),
                format!(
                    "args for plugin {plugin} must be {kind} of {API_VERSION}, got {}",
                    text(&self.api_version)
                ),
            ));
        }
        for (name, owner, is_set) in self.fields_by_plugin() {
            if is_set && owner != plugin {
                let detail = format!("unknown field of the args for plugin {plugin}");
                errors.push(Error::forbidden(&path.child(name), detail));
            }
        }
    }

    /// Each field with the plugin it belongs to, and whether it is set.
    fn fields_by_plugin(&self) -> [(&'static str, &'static str, bool); 15] {
        const FIT: &str = "NodeResourcesFit";
        const SPREAD: &str = "PodTopologySpread";
        [
            (
                "minCandidateNodesPercentage",
                "DefaultPreemption",
                self.min_candidate_nodes_percentage.is_some(),
            ),
            (
                "minCandidateNodesAbsolute",
                "DefaultPreemption",
                self.min_candidate_nodes_absolute.is_some(),
            ),
            (
                "hardPodAffinityWeight",
                "InterPodAffinity",
                self.hard_pod_affinity_weight.is_some(),
            ),
            (
                "ignorePreferredTermsOfExistingPods",
                "InterPodAffinity",
                self.ignore_preferred_terms_of_existing_pods.is_some(),
            ),
            (
                "addedAffinity",
                "NodeAffinity",
                self.added_affinity.is_some(),
            ),
            ("ignoredResources", FIT, self.ignored_resources.is_some()),
            (
                "ignoredResourceGroups",
                FIT,
                self.ignored_resource_groups.is_some(),
            ),
            ("scoringStrategy", FIT, self.scoring_strategy.is_some()),
            (
                "resources",
                "NodeResourcesBalancedAllocation",
                self.resources.is_some(),
            ),
            (
                "defaultConstraints",
                SPREAD,
                self.default_constraints.is_some(),
            ),
            ("defaultingType", SPREAD, self.defaulting_type.is_some()),
            (
                "bindTimeoutSeconds",
                "VolumeBinding",
                self.bind_timeout_seconds.is_some(),
            ),
            ("shape", "VolumeBinding", self.shape.is_some()),
            (
                "filterTimeout",
                "DynamicResources",
                self.filter_timeout.is_some(),
            ),
            (
                "bindingTimeout",
                "DynamicResources",
                self.binding_timeout.is_some(),
            ),
        ]
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<RawNodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: Option<Vec<RawPreferredSchedulingTerm>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawNodeSelector {
    pub(super) node_selector_terms: Option<Vec<RawNodeSelectorTerm>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPreferredSchedulingTerm {
    #[serde(default)]
    pub(super) weight: i32,
    pub(super) preference: Option<RawNodeSelectorTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawNodeSelectorTerm {
    pub(super) match_expressions: Option<Vec<RawNodeSelectorRequirement>>,
    pub(super) match_fields: Option<Vec<RawNodeSelectorRequirement>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawNodeSelectorRequirement {
    pub(super) key: String,
    pub(super) operator: String,
    pub(super) values: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawScoringStrategy {
    #[serde(rename = "type")]
    pub(super) type_: Option<String>,
    pub(super) resources: Option<Vec<RawResourceSpec>>,
    pub(super) requested_to_capacity_ratio: Option<RawRequestedToCapacityRatio>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawResourceSpec {
    pub(super) name: String,
    pub(super) weight: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRequestedToCapacityRatio {
    pub(super) shape: Option<Vec<RawShapePoint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawShapePoint {
    pub(super) utilization: i32,
    pub(super) score: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawSpreadConstraint {
    pub(super) max_skew: i32,
    pub(super) topology_key: String,
    pub(super) when_unsatisfiable: String,
    pub(super) label_selector: Option<IgnoredAny>,
    pub(super) min_domains: Option<i32>,
    pub(super) node_affinity_policy: Option<String>,
    pub(super) node_taints_policy: Option<String>,
    pub(super) match_label_keys: Option<Vec<String>>,
}
