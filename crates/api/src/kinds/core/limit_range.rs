//! Declares `LimitRange` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::{Quantity, validation};

use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks, fields,
    resource_names,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "LimitRange",
        "limitranges",
        "io.k8s.api.core.v1.LimitRange",
    )
    .short_names(&["limits"])
    .creates_on_update()
    .strategy(LimitRangeStrategy)
}

#[derive(Debug)]
struct LimitRangeStrategy;

impl ResourceStrategy for LimitRangeStrategy {
    /// As upstream, an object without a name gets its uid as name.
    fn prepare_create(&self, object: &mut JsonObject, _: &StrategyContext<'_>) {
        let uid = fields::text(object, "metadata.uid");
        if !uid.is_empty() {
            fields::set_if_empty(object, "metadata.name", uid);
        }
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        let limits = spec.field("limits");
        let mut types = BTreeSet::new();
        for limit in limits.items() {
            let kind = limit.field("type");
            validate_type(&kind, errors);
            if !types.insert(kind.str().to_owned()) {
                errors.push(Error::duplicate(kind.path(), kind.str()));
            }
            validate_limit(&limit, kind.str(), errors);
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
    }
}

fn validate_type(kind: &FieldView<'_>, errors: &mut ErrorList) {
    let found = validation::qualified_name(kind.str());
    let is_standard = matches!(kind.str(), "Pod" | "Container" | "PersistentVolumeClaim");
    if found.is_empty() && !kind.str().contains('/') && !is_standard {
        let detail = "must be a standard limit type or fully qualified";
        checks::invalid_text(kind, errors, detail);
    }
    for problem in found {
        errors.push(Error::invalid(
            kind.path(),
            BadValue::json(kind.str()),
            problem,
        ));
    }
}

/// The quantities of one resource in one limit.
#[derive(Default)]
struct LimitRangeQuantities {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

fn validate_limit(limit: &FieldView<'_>, kind: &str, errors: &mut ErrorList) {
    let mut amounts: BTreeMap<String, LimitRangeQuantities> = BTreeMap::new();
    let mut read = |field: &FieldView<'_>,
                    slot: fn(&mut LimitRangeQuantities) -> &mut Option<Quantity>,
                    errors: &mut ErrorList| {
        for (name, amount) in field.entries() {
            validate_name(kind, name, &amount, errors);
            *slot(amounts.entry(name.to_owned()).or_default()) = resource_names::quantity(&amount);
        }
    };
    read(&limit.field("max"), |amounts| &mut amounts.max, errors);
    read(&limit.field("min"), |amounts| &mut amounts.min, errors);
    let (default, request) = (limit.field("default"), limit.field("defaultRequest"));
    if kind == "Pod" {
        for field in [&default, &request] {
            if !field.is_empty() {
                field.forbidden(errors, "may not be specified when `type` is 'Pod'");
            }
        }
    } else {
        read(&default, |amounts| &mut amounts.default, errors);
        read(&request, |amounts| &mut amounts.request, errors);
    }
    let has_storage = |name| limit.field(name).key("storage").exists();
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        limit.field("limits").required(errors, detail);
    }
    let ratio = limit.field("maxLimitRequestRatio");
    read(&ratio, |amounts| &mut amounts.ratio, errors);
    for (name, amounts) in &amounts {
        validate_order(limit, name, amounts, errors);
        validate_ratio(limit, name, amounts, errors);
        validate_overcommit(limit, name, amounts, errors);
    }
}

fn validate_name(kind: &str, name: &str, at: &FieldView<'_>, errors: &mut ErrorList) {
    if matches!(kind, "Pod" | "Container") {
        resource_names::validate_for_container(name, at, errors);
    } else {
        resource_names::validate(name, at, errors);
    }
}

fn reject_quantity(
    limit: &FieldView<'_>,
    field: &str,
    name: &str,
    shown: &Quantity,
    detail: String,
    errors: &mut ErrorList,
) {
    let parent: Path<'_> = limit.path().child(field);
    errors.push(Error::invalid(&parent.key(name), shown.to_string(), detail));
}

fn validate_order(
    limit: &FieldView<'_>,
    name: &str,
    amounts: &LimitRangeQuantities,
    errors: &mut ErrorList,
) {
    let LimitRangeQuantities {
        min,
        max,
        default,
        request,
        ..
    } = amounts;
    // The first must not be greater than the second. As upstream, the reported value is not always that of the
    // reported field.
    let rules = [
        ("min", min, "min value", max, "max value", min),
        (
            "defaultRequest",
            min,
            "min value",
            request,
            "default request value",
            request,
        ),
        (
            "defaultRequest",
            request,
            "default request value",
            max,
            "max value",
            request,
        ),
        (
            "defaultRequest",
            request,
            "default request value",
            default,
            "default limit value",
            request,
        ),
        ("default", min, "min value", default, "default value", min),
        ("default", default, "default value", max, "max value", max),
    ];
    for (field, low, low_text, high, high_text, shown) in rules {
        if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
            && low > high
        {
            let detail = format!("{low_text} {low} is greater than {high_text} {high}");
            reject_quantity(limit, field, name, shown, detail, errors);
        }
    }
}

/// Up to this value, quantities are compared in milli-units.
const MILLI_COMPARISON_MAX: i64 = i64::MAX / 1000;

fn validate_ratio(
    limit: &FieldView<'_>,
    name: &str,
    amounts: &LimitRangeQuantities,
    errors: &mut ErrorList,
) {
    let Some(ratio) = &amounts.ratio else {
        return;
    };
    let field = "maxLimitRequestRatio";
    if ratio.milli_value() < 1000 {
        let detail = format!("ratio {ratio} is less than 1");
        reject_quantity(limit, field, name, ratio, detail, errors);
    }
    let (Some(min), Some(max)) = (&amounts.min, &amounts.max) else {
        return;
    };
    let in_milli = [ratio, min, max]
        .iter()
        .all(|amount| amount.value() < MILLI_COMPARISON_MAX);
    let (value, most) = if in_milli {
        (
            ratio.milli_value() as f64 / 1000.0,
            max.milli_value() as f64 / min.milli_value() as f64,
        )
    } else {
        (
            ratio.value() as f64,
            max.value() as f64 / min.value() as f64,
        )
    };
    if value > most {
        let detail = format!("ratio {ratio} is greater than max/min = {most:.6}");
        reject_quantity(limit, field, name, ratio, detail, errors);
    }
}

/// Requires equal default request and limit of resources that cannot be overcommitted.
fn validate_overcommit(
    limit: &FieldView<'_>,
    name: &str,
    amounts: &LimitRangeQuantities,
    errors: &mut ErrorList,
) {
    if let (Some(default), Some(request)) = (&amounts.default, &amounts.request)
        && !resource_names::is_overcommit_allowed(name)
        && default != request
    {
        let detail = format!(
            "default value {default} must equal to defaultRequest value {request} in {name}"
        );
        reject_quantity(limit, "defaultRequest", name, request, detail, errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, create, kind};
    use crate::{FeatureGates, fields};

    fn check(limits: Value, want: &[&str]) {
        let object = json!({"spec": {"limits": limits}});
        check_create(&kind("", "LimitRange"), object, want);
    }

    #[test]
    fn limit_types_and_resource_names_are_validated() {
        check(
            json!([{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]),
            &[],
        );
        check(
            json!([{"type": "Odd"}, {"type": "Pod", "max": {"storage": "1"}, "default": {"cpu": "1"}},
                {"type": "Pod"}, {"type": "PersistentVolumeClaim"}]),
            &[
                "spec.limits[0].type: Invalid value: \"Odd\": must be a standard limit type or fully qualified",
                concat!(
                    "spec.limits[1].max[storage]: Invalid value: \"storage\": must be a standard resource for ",
                    "containers"
                ),
                "spec.limits[1].default: Forbidden: may not be specified when `type` is 'Pod'",
                "spec.limits[2].type: Duplicate value: \"Pod\"",
                concat!(
                    "spec.limits[3].limits: Required value: either minimum or maximum storage value is required, but ",
                    "neither was provided"
                ),
            ],
        );
    }

    #[test]
    fn empty_name_is_replaced_by_the_uid() {
        let (kind, gates) = (kind("", "LimitRange"), FeatureGates::default());
        for (name, want) in [("", "an-uid"), ("own", "own")] {
            let object = json!({"metadata": {"name": name, "uid": "an-uid"}});
            let (object, errors) = create(&kind, object, &gates);
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(fields::str(&object, "metadata.name"), want);
        }
    }

    #[test]
    fn min_default_and_max_are_ordered() {
        check(
            json!([{"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"},
                "default": {"cpu": "2500m"}, "defaultRequest": {"cpu": "1"}}]),
            &[
                "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 2",
                concat!(
                    "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 3 is greater than default ",
                    "request value 1"
                ),
                concat!(
                    "spec.limits[0].default[cpu]: Invalid value: \"3\": min value 3 is greater than default value ",
                    "2500m"
                ),
                concat!(
                    "spec.limits[0].default[cpu]: Invalid value: \"2\": default value 2500m is greater than max value ",
                    "2"
                ),
            ],
        );
    }

    #[test]
    fn limit_request_ratio_is_validated() {
        check(
            json!([{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"},
                "maxLimitRequestRatio": {"cpu": "10", "memory": "500m"}}]),
            &[
                concat!(
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"10\": ratio 10 is greater than ",
                    "max/min = 2.000000"
                ),
                "spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: \"500m\": ratio 500m is less than 1",
            ],
        );
    }

    #[test]
    fn extended_resource_default_equals_default_request() {
        let limit = json!([{"type": "Container", "default": {"example.com/gpu": "2"},
            "defaultRequest": {"example.com/gpu": "1"}}]);
        let want = concat!(
            "spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: \"1\": default value 2 must equal to ",
            "defaultRequest value 1 in example.com/gpu"
        );
        check(limit, &[want]);
    }
}
