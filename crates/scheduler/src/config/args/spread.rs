//! How pods are spread that say nothing about it themselves.

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::labels::Selector;
use rhumb_meta::validation::qualified_name;

use super::form::{Args, Constraint};
use crate::model::{NodePolicy, SpreadConstraint, WhenUnsatisfiable};
use crate::plugins::pod_topology_spread::DefaultConstraints;

pub(super) fn read(args: &Args, path: &Path<'_>, errors: &mut ErrorList) -> DefaultConstraints {
    let constraints = args.default_constraints.as_deref().unwrap_or_default();
    let type_ = args
        .defaulting_type
        .as_deref()
        .filter(|said| !said.is_empty());
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
        check(constraints, index, &path, errors);
    }
    if type_ == "System" {
        return DefaultConstraints::System;
    }
    let read = constraints.iter().enumerate();
    let read = read.filter_map(|(index, one)| one.read(&path.index(index), errors));
    DefaultConstraints::List(read.collect())
}

impl Constraint {
    fn read(&self, path: &Path<'_>, errors: &mut ErrorList) -> Option<SpreadConstraint> {
        let mut policy =
            |name: &str, said: &Option<String>, default: NodePolicy| match said.as_deref() {
                None => default,
                Some("Honor") => NodePolicy::Honor,
                Some("Ignore") => NodePolicy::Ignore,
                Some(said) => {
                    let known = ["Honor", "Ignore"];
                    errors.push(Error::not_supported(&path.child(name), said, &known));
                    default
                }
            };
        Some(SpreadConstraint {
            node_affinity_policy: policy(
                "nodeAffinityPolicy",
                &self.node_affinity_policy,
                NodePolicy::Honor,
            ),
            node_taints_policy: policy(
                "nodeTaintsPolicy",
                &self.node_taints_policy,
                NodePolicy::Ignore,
            ),
            max_skew: self.max_skew,
            topology_key: self.topology_key.as_str().into(),
            // What picks the pod says which others count.
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

fn check(constraints: &[Constraint], index: usize, list: &Path<'_>, errors: &mut ErrorList) {
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
            let known = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(Error::not_supported(&when_path, other, &known));
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
        // Upstream takes them, and they have no effect without a selector.
        errors.push(Error::forbidden(
            &path.child("matchLabelKeys"),
            "constraint must not define a selector, as they deduced for each pod",
        ));
    }
    let is_same = |other: &Constraint| {
        other.topology_key == one.topology_key && other.when_unsatisfiable == one.when_unsatisfiable
    };
    if constraints[..index].iter().any(is_same) {
        let shown = format!("{{{}, {}}}", one.topology_key, one.when_unsatisfiable);
        errors.push(Error::duplicate(&path, shown));
    }
}
