//! Declares `HorizontalPodAutoscaler` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/autoscaling/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::v1_conversion;
use crate::feature_gates::Feature;
use crate::kind::VersionConversion;
use crate::resource_names;
use crate::validation_helpers::checks;
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    )
    .short_names(&["hpa"])
    .category("all")
    .status()
    .also_served_in(
        "v1",
        "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
        VersionConversion {
            to_stored: v1_conversion::to_v2,
            from_stored: v1_conversion::from_v2,
        },
    )
    .strategy(HorizontalPodAutoscalerStrategy)
}

const STABILIZATION_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

/// Metric sources, in the order in which upstream looks for the first one.
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
struct HorizontalPodAutoscalerStrategy;

/// How strictly the `apiVersion` of an object reference is validated.
#[derive(Debug, Clone, Copy)]
enum ReferenceApiVersionCheck {
    GroupRequired,
    GroupOptional,
    Unchecked,
}

#[derive(Debug, Clone, Copy)]
struct HpaValidationOptions {
    min_replicas_floor: i64,
    target_check: ReferenceApiVersionCheck,
    object_metric_check: ReferenceApiVersionCheck,
}

impl ResourceStrategy for HorizontalPodAutoscalerStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        validate_spec(
            &spec,
            HpaValidationOptions::for_write(&spec, None, request),
            errors,
        );
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        validate_spec(
            &spec,
            HpaValidationOptions::for_write(&spec, Some(&old), request),
            errors,
        );
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let counters = ["currentReplicas", "desiredReplicas"];
        checks::all_nonnegative(&object.field("status"), &counters, errors);
    }
}

impl HpaValidationOptions {
    fn for_write(
        spec: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        request: &StrategyContext<'_>,
    ) -> HpaValidationOptions {
        let had_none = old.is_some_and(|old| old.field("minReplicas").int() == Some(0));
        let may_have_none = had_none || request.gates.enabled(Feature::HPAScaleToZero);
        let target = spec.field("scaleTargetRef");
        let is_same_target = old.is_some_and(|old| {
            let old = old.field("scaleTargetRef");
            ["apiVersion", "kind"]
                .iter()
                .all(|name| target.field(name).str() == old.field(name).str())
        });
        HpaValidationOptions {
            min_replicas_floor: i64::from(!may_have_none),
            target_check: match target.field("kind").str() {
                _ if is_same_target => ReferenceApiVersionCheck::Unchecked,
                // The only scalable kind of the core group.
                "ReplicationController" => ReferenceApiVersionCheck::GroupOptional,
                _ => ReferenceApiVersionCheck::GroupRequired,
            },
            object_metric_check: if old.is_some_and(has_invalid_object_metric) {
                ReferenceApiVersionCheck::Unchecked
            } else {
                ReferenceApiVersionCheck::GroupOptional
            },
        }
    }
}

fn has_invalid_object_metric(spec: &FieldView<'_>) -> bool {
    spec.field("metrics").items().any(|metric| {
        let object = metric.field("object");
        let described = object.field("describedObject");
        let version = described.field("apiVersion");
        metric.field("type").str() == "Object"
            && object.exists()
            && version_problem(version.str(), ReferenceApiVersionCheck::GroupOptional).is_some()
    })
}

fn validate_spec(spec: &FieldView<'_>, options: HpaValidationOptions, errors: &mut ErrorList) {
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let min = options.min_replicas_floor;
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
    validate_reference(&spec.field("scaleTargetRef"), options.target_check, errors);
    validate_metrics(spec, options.object_metric_check, errors);
    let behavior = spec.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        validate_scaling(&behavior.field(direction), errors);
    }
}

fn validate_reference(
    reference: &FieldView<'_>,
    strictness: ReferenceApiVersionCheck,
    errors: &mut ErrorList,
) {
    for name in ["kind", "name"] {
        let field = reference.field(name);
        if field.is_empty() {
            field.required(errors, "");
        } else {
            checks::push_problems(&field, validation::path_segment_name(field.str()), errors);
        }
    }
    let version = reference.field("apiVersion");
    if let Some(problem) = version_problem(version.str(), strictness) {
        checks::invalid_text(&version, errors, problem);
    }
}

fn version_problem(version: &str, strictness: ReferenceApiVersionCheck) -> Option<String> {
    let slashes = version.matches('/').count();
    match strictness {
        ReferenceApiVersionCheck::Unchecked => None,
        _ if slashes > 1 => Some(format!("unexpected GroupVersion string: {version}")),
        ReferenceApiVersionCheck::GroupRequired if slashes == 0 || version.starts_with('/') => {
            Some("apiVersion must specify API group".to_owned())
        }
        _ => None,
    }
}

fn validate_metrics(
    spec: &FieldView<'_>,
    references: ReferenceApiVersionCheck,
    errors: &mut ErrorList,
) {
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

fn validate_metric(
    metric: &FieldView<'_>,
    references: ReferenceApiVersionCheck,
    errors: &mut ErrorList,
) {
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

fn validate_source(
    name: &str,
    source: &FieldView<'_>,
    references: ReferenceApiVersionCheck,
    errors: &mut ErrorList,
) {
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
    validate_target_for_source(name, &target, errors);
}

fn validate_identifier(metric: &FieldView<'_>, errors: &mut ErrorList) {
    let name = metric.field("name");
    if name.is_empty() {
        name.required(errors, "must specify a metric name");
    } else {
        checks::push_problems(&name, validation::path_segment_name(name.str()), errors);
    }
}

fn validate_resource(source_name: &str, source: &FieldView<'_>, errors: &mut ErrorList) {
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
        checks::push_problems(
            &container,
            validation::dns1123_label(container.str()),
            errors,
        );
    }
}

fn validate_target(target: &FieldView<'_>, errors: &mut ErrorList) {
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

/// Validates which values the target of each source requires, and which exclude each other.
fn validate_target_for_source(source: &str, target: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_scaling(rules: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_policy(policy: &FieldView<'_>, errors: &mut ErrorList) {
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
