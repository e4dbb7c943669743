//! Affinity to nodes and pods, and spreading, as JSON has them.

use std::sync::Arc;

use rhumb_api::partial::{Text, or_default};
use rhumb_meta::labels::{LabelSelector, Operator, Requirement, Selector};
use serde::Deserialize;

use super::parts::selector;
use crate::model::{
    Labels, NamespaceRule, NodeMatch, NodePolicy, NodeRequirement, NodeTerm, Picker, PodAffinity,
    SpreadConstraint, Term, WeightedTerm, WhenUnsatisfiable,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireAffinity<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) node_affinity: WireNodeAffinity<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) pod_affinity: WireTerms<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) pod_anti_affinity: WireTerms<'a>,
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
    pub(super) preferred: Vec<WirePreferredNodes<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireNodeSelector<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) node_selector_terms: Vec<WireNodeTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePreferredNodes<'a> {
    weight: i32,
    #[serde(borrow, deserialize_with = "or_default")]
    preference: WireNodeTerm<'a>,
}

impl WirePreferredNodes<'_> {
    pub(super) fn read(&self) -> Option<(NodeTerm, i32)> {
        Some((self.preference.read()?, self.weight)).filter(|(_, weight)| *weight != 0)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireNodeTerm<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    match_expressions: Vec<WireRequirement<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    match_fields: Vec<WireRequirement<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireRequirement<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    values: Vec<Text<'a>>,
}

impl WireNodeTerm<'_> {
    /// `None` if it matches no node: it is empty, or the server should not have let it in.
    pub(super) fn read(&self) -> Option<NodeTerm> {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return None;
        }
        let requirements = self.match_expressions.iter();
        let requirements: Vec<Requirement> = requirements
            .map(WireRequirement::of_labels)
            .collect::<Option<_>>()?;
        Some(NodeTerm {
            labels: (!requirements.is_empty()).then(|| Selector::new(requirements)),
            fields: self
                .match_fields
                .iter()
                .map(WireRequirement::of_fields)
                .collect::<Option<_>>()?,
        })
    }
}

impl WireRequirement<'_> {
    fn of_labels(&self) -> Option<Requirement> {
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

    fn of_fields(&self) -> Option<NodeRequirement> {
        let wanted = match &*self.operator {
            "In" => NodeMatch::Is,
            "NotIn" => NodeMatch::IsNot,
            _ => return None,
        };
        match self.values.as_slice() {
            [name] if &*self.key == "metadata.name" => Some(NodeRequirement {
                name: (**name).into(),
                wanted,
            }),
            _ => None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireTerms<'a> {
    #[serde(
        borrow,
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    required: Vec<WireTerm<'a>>,
    #[serde(
        borrow,
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    preferred: Vec<WireWeightedTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireWeightedTerm<'a> {
    weight: i32,
    #[serde(borrow, deserialize_with = "or_default")]
    pod_affinity_term: WireTerm<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireTerm<'a> {
    label_selector: Option<LabelSelector>,
    #[serde(borrow, deserialize_with = "or_default")]
    namespaces: Vec<Text<'a>>,
    namespace_selector: Option<LabelSelector>,
    #[serde(borrow)]
    topology_key: Text<'a>,
}

impl WireTerms<'_> {
    pub(super) fn read(&self, namespace: &str) -> PodAffinity {
        let preferred = self.preferred.iter();
        PodAffinity {
            required: self
                .required
                .iter()
                .map(|term| term.read(namespace))
                .collect(),
            preferred: preferred
                .filter(|preferred| preferred.weight != 0)
                .map(|preferred| WeightedTerm {
                    term: preferred.pod_affinity_term.read(namespace),
                    weight: preferred.weight,
                })
                .collect(),
        }
    }
}

impl WireTerm<'_> {
    /// The namespace of the pod is meant where nothing is said about namespaces, and only there.
    fn read(&self, namespace: &str) -> Term {
        let namespaces = match &self.namespace_selector {
            None if self.namespaces.is_empty() => NamespaceRule::only(namespace),
            namespace_selector => NamespaceRule::new(
                self.namespaces.iter().map(|name| (**name).into()),
                namespace_selector
                    .as_ref()
                    .map(|picked| selector(Some(picked))),
            ),
        };
        Term {
            picker: Arc::new(Picker {
                selector: selector(self.label_selector.as_ref()),
                namespaces,
                skips_terminating: false,
            }),
            topology_key: (*self.topology_key).into(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireSpread<'a> {
    max_skew: i32,
    #[serde(borrow)]
    topology_key: Text<'a>,
    #[serde(borrow)]
    when_unsatisfiable: Text<'a>,
    label_selector: Option<LabelSelector>,
    min_domains: Option<i32>,
    #[serde(borrow)]
    node_affinity_policy: Text<'a>,
    #[serde(borrow)]
    node_taints_policy: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    match_label_keys: Vec<Text<'a>>,
}

impl WireSpread<'_> {
    pub(super) fn read(&self, labels: &Labels) -> SpreadConstraint {
        let selector = selector(self.label_selector.as_ref());
        let by_keys = self
            .match_label_keys
            .iter()
            .filter_map(|key| Requirement::new(key, Operator::In, &[labels.get(key)?]).ok());
        SpreadConstraint {
            max_skew: self.max_skew,
            topology_key: (*self.topology_key).into(),
            when_unsatisfiable: match &*self.when_unsatisfiable {
                "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
                _ => WhenUnsatisfiable::DoNotSchedule,
            },
            selector: selector.and(by_keys),
            min_domains: self.min_domains,
            node_affinity_policy: match &*self.node_affinity_policy {
                "Ignore" => NodePolicy::Ignore,
                _ => NodePolicy::Honor,
            },
            node_taints_policy: match &*self.node_taints_policy {
                "Honor" => NodePolicy::Honor,
                _ => NodePolicy::Ignore,
            },
        }
    }
}
