//! Arguments as they are written. All plugins share one form, since a file may say what plugin they are for after them;
//! then it is checked that none is another plugin's.

use rhumb_meta::field::{Error, ErrorList, Path};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::config::API_VERSION;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::config) struct Args {
    api_version: Option<String>,
    kind: Option<String>,
    pub(super) min_candidate_nodes_percentage: Option<i32>,
    pub(super) min_candidate_nodes_absolute: Option<i32>,
    pub(super) hard_pod_affinity_weight: Option<i32>,
    pub(super) ignore_preferred_terms_of_existing_pods: Option<bool>,
    pub(super) added_affinity: Option<NodeAffinity>,
    pub(super) ignored_resources: Option<Vec<String>>,
    pub(super) ignored_resource_groups: Option<Vec<String>>,
    pub(super) scoring_strategy: Option<ScoringStrategy>,
    pub(super) resources: Option<Vec<ResourceSpec>>,
    pub(super) default_constraints: Option<Vec<Constraint>>,
    pub(super) defaulting_type: Option<String>,
    bind_timeout_seconds: Option<i64>,
    shape: Option<Vec<Point>>,
    filter_timeout: Option<String>,
    binding_timeout: Option<String>,
}

impl Args {
    /// That they are of the kind that the plugin has, and that nothing in them is for another.
    pub(super) fn check(&self, plugin: &str, path: &Path<'_>, errors: &mut ErrorList) {
        let kind = format!("{plugin}Args");
        let is_other =
            |said: &Option<String>, right: &str| said.as_deref().is_some_and(|said| said != right);
        if is_other(&self.api_version, API_VERSION) || is_other(&self.kind, &kind) {
            let text = |said: &Option<String>| said.clone().unwrap_or_default();
            errors.push(Error::invalid(
                &path.child("kind"),
                text(&self.kind),
                format!(
                    "args for plugin {plugin} must be {kind} of {API_VERSION}, got {}",
                    text(&self.api_version)
                ),
            ));
        }
        for (name, owner, is_said) in self.fields() {
            if is_said && owner != plugin {
                let detail = format!("unknown field of the args for plugin {plugin}");
                errors.push(Error::forbidden(&path.child(name), detail));
            }
        }
    }

    /// Each field with the plugin that it is for, and whether it is there.
    fn fields(&self) -> [(&'static str, &'static str, bool); 15] {
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
pub(super) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: Option<Vec<Preferred>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeSelector {
    pub(super) node_selector_terms: Option<Vec<Term>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Preferred {
    #[serde(default)]
    pub(super) weight: i32,
    pub(super) preference: Option<Term>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Term {
    pub(super) match_expressions: Option<Vec<Requirement>>,
    pub(super) match_fields: Option<Vec<Requirement>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: String,
    pub(super) values: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScoringStrategy {
    #[serde(rename = "type")]
    pub(super) type_: Option<String>,
    pub(super) resources: Option<Vec<ResourceSpec>>,
    pub(super) requested_to_capacity_ratio: Option<Ratio>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ResourceSpec {
    pub(super) name: String,
    pub(super) weight: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ratio {
    pub(super) shape: Option<Vec<Point>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Point {
    pub(super) utilization: i32,
    pub(super) score: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Constraint {
    pub(super) max_skew: i32,
    pub(super) topology_key: String,
    pub(super) when_unsatisfiable: String,
    pub(super) label_selector: Option<IgnoredAny>,
    pub(super) min_domains: Option<i32>,
    pub(super) node_affinity_policy: Option<String>,
    pub(super) node_taints_policy: Option<String>,
    pub(super) match_label_keys: Option<Vec<String>>,
}
