//! HorizontalPodAutoscaler.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::conversion;
use crate::gates::Feature;
use crate::kind::Conversion;
use crate::resource_names;
use crate::workloads::checks;
use crate::{Kind, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .category("all")
    .status()
    .also(
        "v1",
        "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
        Conversion {
            to_stored: conversion::to_v2,
            from_stored: conversion::from_v2,
        },
    )
    .rules(HorizontalPodAutoscaler)
}

const STABILIZATION_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

/// The sources of metrics, in the order in which the first is looked for.
const SOURCES: &[&str] = &[
    "object",
    "external",
    "pods",
    "resource",
    "containerResource",
];
const TYPES: &[&str] = &[
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];

#[derive(Debug)]
struct HorizontalPodAutoscaler;

/// How strictly references to other objects are checked.
#[derive(Debug, Clone, Copy)]
enum References {
    WithGroup,
    WithAnyGroup,
    Unchecked,
}

#[derive(Debug, Clone, Copy)]
struct Options {
    replicas_min: i64,
    target: References,
    objects: References,
}

impl Rules for HorizontalPodAutoscaler {
    fn validate_create(&self, object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
        let spec = object.field("spec");
        validate_spec(&spec, Options::of(&spec, None, request), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        validate_spec(&spec, Options::of(&spec, Some(&old), request), errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let counters = ["currentReplicas", "desiredReplicas"];
        checks::all_nonnegative(&object.field("status"), &counters, errors);
    }
}

impl Options {
    fn of(spec: &View<'_>, old: Option<&View<'_>>, request: &Request<'_>) -> Options {
        let had_none = old.is_some_and(|old| old.field("minReplicas").int() == Some(0));
        let may_have_none = had_none || request.gates.enabled(Feature::HPAScaleToZero);
        let target = spec.field("scaleTargetRef");
        let is_same_target = old.is_some_and(|old| {
            let old = old.field("scaleTargetRef");
            ["apiVersion", "kind"]
                .iter()
                .all(|name| target.field(name).str() == old.field(name).str())
        });
        Options {
            replicas_min: i64::from(!may_have_none),
            target: match target.field("kind").str() {
                _ if is_same_target => References::Unchecked,
                // The only kind without a group that can be scaled.
                "ReplicationController" => References::WithAnyGroup,
                _ => References::WithGroup,
            },
            objects: if old.is_some_and(has_wrong_object) {
                References::Unchecked
            } else {
                References::WithAnyGroup
            },
        }
    }
}

fn has_wrong_object(spec: &View<'_>) -> bool {
    spec.field("metrics").items().any(|metric| {
        let object = metric.field("object");
        let described = object.field("describedObject");
        let version = described.field("apiVersion");
        metric.field("type").str() == "Object"
            && object.exists()
            && version_problem(version.str(), References::WithAnyGroup).is_some()
    })
}

fn validate_spec(spec: &View<'_>, options: Options, errors: &mut ErrorList) {
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let min = options.replicas_min;
    if least.int().is_some_and(|value| value < min) {
        least.invalid(errors, format!("must be greater than or equal to {min}"));
    }
    let count = most.int().unwrap_or(0);
    if count == 0 {
        most.required(errors, "must be set and greater than 0");
    } else if count < 0 {
        most.invalid(errors, "must be greater than or equal to 1");
    }
    if least.int().is_some_and(|least| count < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(Error::invalid(most.path(), count, detail));
    }
    validate_reference(&spec.field("scaleTargetRef"), options.target, errors);
    validate_metrics(spec, options.objects, errors);
    let behavior = spec.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        validate_scaling(&behavior.field(direction), errors);
    }
}

fn validate_reference(reference: &View<'_>, strictness: References, errors: &mut ErrorList) {
    for name in ["kind", "name"] {
        let field = reference.field(name);
        if field.is_empty() {
            field.required(errors, "");
        } else {
            checks::problems(&field, validation::path_segment_name(field.str()), errors);
        }
    }
    let version = reference.field("apiVersion");
    if let Some(problem) = version_problem(version.str(), strictness) {
        checks::invalid_text(&version, errors, problem);
    }
}

fn version_problem(version: &str, strictness: References) -> Option<String> {
    let slashes = version.matches('/').count();
    match strictness {
        References::Unchecked => None,
        _ if slashes > 1 => Some(format!("unexpected GroupVersion string: {version}")),
        References::WithGroup if slashes == 0 || version.starts_with('/') => {
            Some("apiVersion must specify API group".to_owned())
        }
        _ => None,
    }
}

fn validate_metrics(spec: &View<'_>, references: References, errors: &mut ErrorList) {
    let metrics = spec.field("metrics");
    let mut can_scale_to_zero = false;
    for metric in metrics.items() {
        validate_metric(&metric, references, errors);
        can_scale_to_zero |= matches!(metric.field("type").str(), "Object" | "External");
    }
    if spec.field("minReplicas").int() == Some(0) && !can_scale_to_zero {
        metrics.forbidden(
            errors,
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
}

fn validate_metric(metric: &View<'_>, references: References, errors: &mut ErrorList) {
    let kind = metric.field("type");
    if kind.is_empty() {
        kind.required(errors, "must specify a metric source type");
    }
    let is_known = TYPES.contains(&kind.str());
    if !is_known {
        checks::not_supported_text(&kind, TYPES, errors);
    }
    let present: Vec<&str> = SOURCES
        .iter()
        .copied()
        .filter(|name| metric.field(name).exists())
        .collect();
    if let Some(first) = present.first() {
        validate_source(first, &metric.field(first), references, errors);
    }
    let expected = SOURCES
        .iter()
        .copied()
        .find(|name| name.eq_ignore_ascii_case(kind.str()) && is_known);
    match expected {
        Some(name) if !present.contains(&name) => {
            let detail = "must populate information for the given metric source";
            metric.field(name).required(errors, detail);
        }
        Some(_) => {}
        None => checks::not_supported_text(&kind, TYPES, errors),
    }
    if present.len() > 1 {
        for name in present.iter().filter(|name| Some(**name) != expected) {
            let detail = "must populate the given metric source only";
            metric.field(name).forbidden(errors, detail);
        }
    }
}

fn validate_source(name: &str, source: &View<'_>, references: References, errors: &mut ErrorList) {
    let target = source.field("target");
    match name {
        "object" => {
            validate_reference(&source.field("describedObject"), references, errors);
            validate_identifier(&source.field("metric"), errors);
        }
        "external" | "pods" => validate_identifier(&source.field("metric"), errors),
        _ => validate_resource(name, source, errors),
    }
    validate_target(&target, errors);
    validate_target_of(name, &target, errors);
}

fn validate_identifier(metric: &View<'_>, errors: &mut ErrorList) {
    let name = metric.field("name");
    if name.is_empty() {
        name.required(errors, "must specify a metric name");
    } else {
        checks::problems(&name, validation::path_segment_name(name.str()), errors);
    }
}

fn validate_resource(source_name: &str, source: &View<'_>, errors: &mut ErrorList) {
    let name = source.field("name");
    if name.is_empty() {
        name.required(errors, "must specify a resource name");
    } else if source_name == "containerResource" {
        resource_names::validate_for_container(name.str(), &name, errors);
    }
    if source_name != "containerResource" {
        return;
    }
    let container = source.field("container");
    if container.is_empty() {
        container.required(errors, "must specify a container");
    } else {
        checks::problems(
            &container,
            validation::dns1123_label(container.str()),
            errors,
        );
    }
}

fn validate_target(target: &View<'_>, errors: &mut ErrorList) {
    let kind = target.field("type");
    if kind.is_empty() {
        kind.required(errors, "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.str()) {
        let detail = "must be either Utilization, Value, or AverageValue";
        checks::invalid_text(&kind, errors, detail);
    }
    for name in ["value", "averageValue"] {
        let field = target.field(name);
        if resource_names::quantity(&field).is_some_and(|quantity| quantity.sign() != 1) {
            field.invalid(errors, "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.int().is_some_and(|value| value < 1) {
        utilization.invalid(errors, "must be greater than 0");
    }
}

/// What the target of each source must say, and what not together.
fn validate_target_of(source: &str, target: &View<'_>, errors: &mut ErrorList) {
    let value = target.field("value");
    let average = target.field("averageValue");
    let utilization = target.field("averageUtilization");
    match source {
        "object" if !value.exists() && !average.exists() => {
            average.required(errors, "must set either a target value or averageValue");
        }
        "external" if !value.exists() && !average.exists() => average.required(
            errors,
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value.exists() && average.exists() => value.forbidden(
            errors,
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average.exists() => {
            average.required(errors, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !utilization.exists() && !average.exists() => {
            utilization.required(
                errors,
                "must set either a target raw value or a target utilization",
            );
        }
        "resource" | "containerResource" if utilization.exists() && average.exists() => average
            .forbidden(
                errors,
                "may not set both a target raw value and a target utilization",
            ),
        _ => {}
    }
}

fn validate_scaling(rules: &View<'_>, errors: &mut ErrorList) {
    if !rules.exists() {
        return;
    }
    let window = rules.field("stabilizationWindowSeconds");
    if window.int().is_some_and(|seconds| seconds < 0) {
        window.invalid(errors, "must be greater than or equal to zero");
    }
    if window
        .int()
        .is_some_and(|seconds| seconds > STABILIZATION_SECONDS_MAX)
    {
        let detail = format!("must be less than or equal to {STABILIZATION_SECONDS_MAX}");
        window.invalid(errors, detail);
    }
    checks::one_of(
        &rules.field("selectPolicy"),
        &["Disabled", "Max", "Min"],
        errors,
    );
    let policies = rules.field("policies");
    if policies.is_empty() {
        policies.required(errors, "must specify at least one Policy");
    }
    for policy in policies.items() {
        validate_policy(&policy, errors);
    }
    let tolerance = rules.field("tolerance");
    if resource_names::quantity(&tolerance).is_some_and(|quantity| quantity.is_negative()) {
        tolerance.invalid(errors, "must be greater than or equal to 0");
    }
}

fn validate_policy(policy: &View<'_>, errors: &mut ErrorList) {
    let kind = policy.field("type");
    if !["Percent", "Pods"].contains(&kind.str()) {
        checks::not_supported_text(&kind, &["Percent", "Pods"], errors);
    }
    for name in ["value", "periodSeconds"] {
        let field = policy.field(name);
        let value = field.int().unwrap_or(0);
        if value <= 0 {
            errors.push(Error::invalid(
                field.path(),
                value,
                "must be greater than zero",
            ));
        }
    }
    let period = policy.field("periodSeconds");
    if period
        .int()
        .is_some_and(|seconds| seconds > PERIOD_SECONDS_MAX)
    {
        let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
        period.invalid(errors, detail);
    }
}
