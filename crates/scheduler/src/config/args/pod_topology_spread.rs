//! Arguments of `PodTopologySpread`: default constraints for pods without `topologySpreadConstraints`.

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::labels::Selector;
use rhumb_meta::validation::qualified_name;

use super::v1::{RawPluginArgs, RawSpreadConstraint};
use crate::model::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};
use crate::plugins::pod_topology_spread::DefaultConstraints;

pub(super) fn read(
    args: &RawPluginArgs,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> DefaultConstraints {
    let constraints = args.default_constraints.as_deref().unwrap_or_default();
    let type_ = args
        .defaulting_type
        .as_deref()
        .filter(|type_| !type_.is_empty());
    let type_ = type_.unwrap_or("System");
    let type_path = path.child("defaultingType");
    match type_ {
        "System" if !constraints.is_empty() => errors.push(Error::invalid(
            &type_path,
            type_,
            "when .defaultConstraints are not empty",
        )),
        "System" | "List" => {}
        _ => errors.push(Error::not_supported(&type_path, type_, &["System", "List"])),
    }
    let path = path.child("defaultConstraints");
    for index in 0..constraints.len() {
        check_constraint(constraints, index, &path, errors);
    }
    if type_ == "System" {
        return DefaultConstraints::System;
    }
    let read = constraints.iter().enumerate();
    let read = read.filter_map(|(index, raw)| raw.read(&path.index(index), errors));
    DefaultConstraints::List(read.collect())
}

impl RawSpreadConstraint {
    fn read(&self, path: &Path<'_>, errors: &mut ErrorList) -> Option<TopologySpreadConstraint> {
        let mut policy =
            |name: &str, value: &Option<String>, default: NodeInclusionPolicy| match value
                .as_deref()
            {
                None => default,
                Some("Honor") => NodeInclusionPolicy::Honor,
                Some("Ignore") => NodeInclusionPolicy::Ignore,
                Some(value) => {
                    let supported = ["Honor", "Ignore"];
                    errors.push(Error::not_supported(&path.child(name), value, &supported));
                    default
                }
            };
        Some(TopologySpreadConstraint {
            node_affinity_policy: policy(
                "nodeAffinityPolicy",
                &self.node_affinity_policy,
                NodeInclusionPolicy::Honor,
            ),
            node_taints_policy: policy(
                "nodeTaintsPolicy",
                &self.node_taints_policy,
                NodeInclusionPolicy::Ignore,
            ),
            max_skew: self.max_skew,
            topology_key: self.topology_key.as_str().into(),
            // The selector is derived per pod from the services and controllers that select it.
            selector: Selector::nothing(),
            when_unsatisfiable: match self.when_unsatisfiable.as_str() {
                "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
                "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
                _ => return None,
            },
            min_domains: self.min_domains,
        })
    }
}

fn check_constraint(
    constraints: &[RawSpreadConstraint],
    index: usize,
    list: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (one, path) = (&constraints[index], list.index(index));
    if one.max_skew <= 0 {
        errors.push(Error::invalid(
            &path.child("maxSkew"),
            one.max_skew,
            "not in valid range (0, inf)",
        ));
    }
    let key_path = path.child("topologyKey");
    if one.topology_key.is_empty() {
        errors.push(Error::required(&key_path, "can not be empty"));
    } else {
        for problem in qualified_name(&one.topology_key) {
            errors.push(Error::invalid(
                &key_path,
                one.topology_key.as_str(),
                problem,
            ));
        }
    }
    let when_path = path.child("whenUnsatisfiable");
    match one.when_unsatisfiable.as_str() {
        "" => errors.push(Error::required(&when_path, "can not be empty")),
        "DoNotSchedule" | "ScheduleAnyway" => {}
        other => {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(Error::not_supported(&when_path, other, &supported));
        }
    }
    if one.label_selector.is_some() {
        errors.push(Error::forbidden(
            &path.child("labelSelector"),
            "constraint must not define a selector, as they deduced for each pod",
        ));
    }
    if one
        .match_label_keys
        .as_ref()
        .is_some_and(|keys| !keys.is_empty())
    {
        // Upstream accepts them, but they have no effect without a selector.
        errors.push(Error::forbidden(
            &path.child("matchLabelKeys"),
            "constraint must not define a selector, as they deduced for each pod",
        ));
    }
    let is_same = |other: &RawSpreadConstraint| {
        other.topology_key == one.topology_key && other.when_unsatisfiable == one.when_unsatisfiable
    };
    if constraints[..index].iter().any(is_same) {
        let shown = format!("{{{}, {}}}", one.topology_key, one.when_unsatisfiable);
        errors.push(Error::duplicate(&path, shown));
    }
}
