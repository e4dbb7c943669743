//! Arguments of `NodeResourcesFit` and `NodeResourcesBalancedAllocation`: ignored resources, scoring strategy, weights.

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::validation::qualified_name;

use super::v1::{RawPluginArgs, RawResourceSpec, RawScoringStrategy, RawShapePoint};
use crate::plugins::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use crate::plugins::node_resources_fit::{
    NodeResourcesFit, ResourceSpec, ScoringStrategy, ShapePoint,
};

const STRATEGIES: [&str; 3] = [
    "LeastAllocated",
    "MostAllocated",
    "RequestedToCapacityRatio",
];

pub(super) fn read_fit(
    args: &RawPluginArgs,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> NodeResourcesFit {
    let ignored = args.ignored_resources.as_deref().unwrap_or_default();
    let groups = args.ignored_resource_groups.as_deref().unwrap_or_default();
    check_names(ignored, &path.child("ignoredResources"), errors);
    let groups_path = path.child("ignoredResourceGroups");
    for (index, group) in groups.iter().enumerate() {
        if group.contains('/') {
            let path = groups_path.index(index);
            let detail = "resource group name can't contain '/'";
            errors.push(Error::invalid(&path, group.as_str(), detail));
        }
    }
    check_names(groups, &groups_path, errors);
    let set = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    let mut read = NodeResourcesFit {
        ignored_resources: set(ignored),
        ignored_resource_groups: set(groups),
        ..NodeResourcesFit::default()
    };
    if let Some(form) = &args.scoring_strategy {
        let path = path.child("scoringStrategy");
        read.strategy = read_strategy(form, &path, errors);
        read.resources = resource_weights(form.resources.as_deref().unwrap_or_default());
        check_weights(&read.resources, &path.child("resources"), errors);
    }
    read
}

fn read_strategy(
    form: &RawScoringStrategy,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> ScoringStrategy {
    let type_ = form.type_.as_deref().unwrap_or_default();
    let ratio_path = path.child("requestedToCapacityRatio");
    let ratio = form.requested_to_capacity_ratio.as_ref();
    if type_ != "RequestedToCapacityRatio" && ratio.is_some() {
        let detail = "must be nil when type is not RequestedToCapacityRatio";
        errors.push(Error::forbidden(&ratio_path, detail));
    }
    match (type_, ratio) {
        ("LeastAllocated", _) => ScoringStrategy::LeastAllocated,
        ("MostAllocated", _) => ScoringStrategy::MostAllocated,
        ("RequestedToCapacityRatio", Some(ratio)) => {
            let shape = ratio.shape.as_deref().unwrap_or_default();
            check_shape(shape, &ratio_path.child("shape"), errors);
            ScoringStrategy::RequestedToCapacityRatio(shape.iter().map(shape_point).collect())
        }
        ("RequestedToCapacityRatio", None) => {
            let detail = "must be specified when type is RequestedToCapacityRatio";
            errors.push(Error::required(&ratio_path, detail));
            ScoringStrategy::LeastAllocated
        }
        _ => {
            errors.push(Error::not_supported(
                &path.child("type"),
                type_,
                &STRATEGIES,
            ));
            ScoringStrategy::LeastAllocated
        }
    }
}

fn shape_point(point: &RawShapePoint) -> ShapePoint {
    ShapePoint {
        utilization: i64::from(point.utilization),
        score: i64::from(point.score),
    }
}

pub(super) fn read_balanced_allocation(
    args: &RawPluginArgs,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> NodeResourcesBalancedAllocation {
    let path = path.child("resources");
    let resources = resource_weights(args.resources.as_deref().unwrap_or_default());
    for (index, ResourceSpec { name, weight }) in resources.iter().enumerate() {
        let path = path.index(index);
        if resources[..index].iter().any(|other| other.name == *name) {
            errors.push(Error::duplicate(&path.child("name"), &**name));
        }
        if *weight != 1 {
            errors.push(Error::invalid(&path.child("weight"), *weight, "must be 1"));
        }
    }
    NodeResourcesBalancedAllocation { resources }
}

/// Defaults to CPU and memory; a missing weight is 1.
fn resource_weights(specs: &[RawResourceSpec]) -> Vec<ResourceSpec> {
    let weight = |name: &str, weight: i64| ResourceSpec {
        name: name.into(),
        weight: if weight == 0 { 1 } else { weight },
    };
    if specs.is_empty() {
        return ResourceSpec::cpu_and_memory();
    }
    let specs = specs.iter();
    specs.map(|spec| weight(&spec.name, spec.weight)).collect()
}

fn check_names(names: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, name) in names.iter().enumerate() {
        for problem in qualified_name(name) {
            errors.push(Error::invalid(&path.index(index), name.as_str(), problem));
        }
    }
}

fn check_weights(resources: &[ResourceSpec], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, ResourceSpec { name, weight }) in resources.iter().enumerate() {
        if !(1..=100).contains(weight) {
            errors.push(Error::invalid(
                &path.index(index).child("weight"),
                *weight,
                format!("resource weight of {name} not in valid range (0, 100]"),
            ));
        }
    }
}

fn check_shape(shape: &[RawShapePoint], path: &Path<'_>, errors: &mut ErrorList) {
    if shape.is_empty() {
        errors.push(Error::required(
            path,
            "at least one point must be specified",
        ));
    }
    let is_sorted = |pair: &[RawShapePoint]| pair[0].utilization < pair[1].utilization;
    if let Some(index) = shape.windows(2).position(|pair| !is_sorted(pair)) {
        errors.push(Error::invalid(
            &path.index(index + 1).child("utilization"),
            shape[index + 1].utilization,
            "values must be sorted in increasing order",
        ));
    }
    for (index, point) in shape.iter().enumerate() {
        let path = path.index(index);
        let mut check = |name: &str, value: i32, max: i32| {
            if !(0..=max).contains(&value) {
                let detail = format!("not in valid range [0, {max}]");
                errors.push(Error::invalid(&path.child(name), value, detail));
            }
        };
        check("utilization", point.utilization, 100);
        check("score", point.score, 10);
    }
}
