//! Decodes node affinity, pod affinity and topology spread constraints.

use std::sync::Arc;

use rhumb_api::partial_decode::{BorrowedStr, or_default};
use rhumb_meta::labels::{LabelSelector, Operator, Requirement, Selector};
use serde::Deserialize;

use super::common::decode_selector;
use crate::model::{
    Labels, NodeInclusionPolicy, NodeNameOperator, NodeNameRequirement, NodeSelectorTerm,
    PodAffinity, PodAffinityTerm, PodMatcher, TermNamespaces, TopologySpreadConstraint,
    WeightedPodAffinityTerm, WhenUnsatisfiable,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireAffinity<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) node_affinity: WireNodeAffinity<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) pod_affinity: WirePodAffinity<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) pod_anti_affinity: WirePodAffinity<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireNodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<WireNodeSelector<'a>>,
    #[serde(
        borrow,
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub(super) preferred: Vec<WirePreferredSchedulingTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireNodeSelector<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) node_selector_terms: Vec<WireNodeSelectorTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePreferredSchedulingTerm<'a> {
    weight: i32,
    #[serde(borrow, deserialize_with = "or_default")]
    preference: WireNodeSelectorTerm<'a>,
}

impl WirePreferredSchedulingTerm<'_> {
    pub(super) fn decode(&self) -> Option<(NodeSelectorTerm, i32)> {
        Some((self.preference.decode()?, self.weight)).filter(|(_, weight)| *weight != 0)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireNodeSelectorTerm<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    match_expressions: Vec<WireNodeSelectorRequirement<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    match_fields: Vec<WireNodeSelectorRequirement<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNodeSelectorRequirement<'a> {
    #[serde(borrow)]
    key: BorrowedStr<'a>,
    #[serde(borrow)]
    operator: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    values: Vec<BorrowedStr<'a>>,
}

impl WireNodeSelectorTerm<'_> {
    /// `None` if the term matches no node, because it is empty or invalid.
    pub(super) fn decode(&self) -> Option<NodeSelectorTerm> {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return None;
        }
        let requirements = self.match_expressions.iter();
        let requirements: Vec<Requirement> = requirements
            .map(WireNodeSelectorRequirement::decode_label)
            .collect::<Option<_>>()?;
        Some(NodeSelectorTerm {
            labels: (!requirements.is_empty()).then(|| Selector::new(requirements)),
            fields: self
                .match_fields
                .iter()
                .map(WireNodeSelectorRequirement::decode_field)
                .collect::<Option<_>>()?,
        })
    }
}

impl WireNodeSelectorRequirement<'_> {
    fn decode_label(&self) -> Option<Requirement> {
        let operator = match &*self.operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::GreaterThan,
            "Lt" => Operator::LessThan,
            _ => return None,
        };
        let values: Vec<&str> = self.values.iter().map(|value| &**value).collect();
        Requirement::new(&self.key, operator, &values).ok()
    }

    fn decode_field(&self) -> Option<NodeNameRequirement> {
        let operator = match &*self.operator {
            "In" => NodeNameOperator::In,
            "NotIn" => NodeNameOperator::NotIn,
            _ => return None,
        };
        match self.values.as_slice() {
            [name] if &*self.key == "metadata.name" => Some(NodeNameRequirement {
                name: (**name).into(),
                operator,
            }),
            _ => None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePodAffinity<'a> {
    #[serde(
        borrow,
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    required: Vec<WirePodAffinityTerm<'a>>,
    #[serde(
        borrow,
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    preferred: Vec<WireWeightedPodAffinityTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireWeightedPodAffinityTerm<'a> {
    weight: i32,
    #[serde(borrow, deserialize_with = "or_default")]
    pod_affinity_term: WirePodAffinityTerm<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePodAffinityTerm<'a> {
    label_selector: Option<LabelSelector>,
    #[serde(borrow, deserialize_with = "or_default")]
    namespaces: Vec<BorrowedStr<'a>>,
    namespace_selector: Option<LabelSelector>,
    #[serde(borrow)]
    topology_key: BorrowedStr<'a>,
}

impl WirePodAffinity<'_> {
    pub(super) fn decode(&self, namespace: &str) -> PodAffinity {
        let preferred = self.preferred.iter();
        PodAffinity {
            required: self
                .required
                .iter()
                .map(|term| term.decode(namespace))
                .collect(),
            preferred: preferred
                .filter(|preferred| preferred.weight != 0)
                .map(|preferred| WeightedPodAffinityTerm {
                    term: preferred.pod_affinity_term.decode(namespace),
                    weight: preferred.weight,
                })
                .collect(),
        }
    }
}

impl WirePodAffinityTerm<'_> {
    /// Without `namespaces` and `namespaceSelector`, the term means the namespace of the pod.
    fn decode(&self, namespace: &str) -> PodAffinityTerm {
        let namespaces = match &self.namespace_selector {
            None if self.namespaces.is_empty() => TermNamespaces::only(namespace),
            namespace_selector => TermNamespaces::new(
                self.namespaces.iter().map(|name| (**name).into()),
                namespace_selector
                    .as_ref()
                    .map(|labels| decode_selector(Some(labels))),
            ),
        };
        PodAffinityTerm {
            matcher: Arc::new(PodMatcher {
                selector: decode_selector(self.label_selector.as_ref()),
                namespaces,
                skips_terminating: false,
            }),
            topology_key: (*self.topology_key).into(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireTopologySpreadConstraint<'a> {
    max_skew: i32,
    #[serde(borrow)]
    topology_key: BorrowedStr<'a>,
    #[serde(borrow)]
    when_unsatisfiable: BorrowedStr<'a>,
    label_selector: Option<LabelSelector>,
    min_domains: Option<i32>,
    #[serde(borrow)]
    node_affinity_policy: BorrowedStr<'a>,
    #[serde(borrow)]
    node_taints_policy: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    match_label_keys: Vec<BorrowedStr<'a>>,
}

impl WireTopologySpreadConstraint<'_> {
    pub(super) fn decode(&self, labels: &Labels) -> TopologySpreadConstraint {
        let selector = decode_selector(self.label_selector.as_ref());
        let by_keys = self
            .match_label_keys
            .iter()
            .filter_map(|key| Requirement::new(key, Operator::In, &[labels.get(key)?]).ok());
        TopologySpreadConstraint {
            max_skew: self.max_skew,
            topology_key: (*self.topology_key).into(),
            when_unsatisfiable: match &*self.when_unsatisfiable {
                "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
                _ => WhenUnsatisfiable::DoNotSchedule,
            },
            selector: selector.and(by_keys),
            min_domains: self.min_domains,
            node_affinity_policy: match &*self.node_affinity_policy {
                "Ignore" => NodeInclusionPolicy::Ignore,
                _ => NodeInclusionPolicy::Honor,
            },
            node_taints_policy: match &*self.node_taints_policy {
                "Honor" => NodeInclusionPolicy::Honor,
                _ => NodeInclusionPolicy::Ignore,
            },
        }
    }
}
