//! Declares `PodDisruptionBudget` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/policy/validation`.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use serde::Serialize;
use serde_json::Value;

use crate::{
    FieldView, GenerationPolicy, Kind, NameRule, ResourceScope, ResourceStrategy, StrategyContext,
    checks, conditions, selectors,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "io.k8s.api.policy.v1.PodDisruptionBudget",
    )
    .short_names(&["pdb"])
    .names(NameRule::PathSegment)
    .allow_any_finalizer()
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .requires_resource_version()
    .status()
    .strategy(PodDisruptionBudgetStrategy)
}

#[derive(Debug)]
struct PodDisruptionBudgetStrategy;

impl ResourceStrategy for PodDisruptionBudgetStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), selectors::Options::default(), errors);
    }

    /// A selector that was stored with invalid label values may keep them.
    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let old = old.field("spec");
        let options = checks::selector_validation_options([&old.field("selector")]);
        validate_spec(&object.field("spec"), options, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = object.field("status");
        conditions::validate(&status.field("conditions"), errors);
        for name in [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ] {
            checks::not_negative(&status.field(name), errors);
        }
    }
}

/// Spec as rendered in errors, with upstream's Go field names.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BudgetSpecBadValue<'a> {
    min_available: Option<&'a Value>,
    selector: Option<&'a Value>,
    max_unavailable: Option<&'a Value>,
    unhealthy_pod_eviction_policy: Option<&'a Value>,
}

fn validate_spec(spec: &FieldView<'_>, options: selectors::Options, errors: &mut ErrorList) {
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    let (selector, policy) = (
        spec.field("selector"),
        spec.field("unhealthyPodEvictionPolicy"),
    );
    if least.exists() && most.exists() {
        let shown = BudgetSpecBadValue {
            min_available: least.value(),
            selector: selector.value(),
            max_unavailable: most.value(),
            unhealthy_pod_eviction_policy: policy.value(),
        };
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(Error::invalid(spec.path(), BadValue::json(&shown), detail));
    }
    for amount in [least, most] {
        checks::not_negative_or_percent(&amount, errors);
        checks::at_most_100_percent(&amount, errors);
    }
    selectors::validate_label_selector(&selector, options, errors);
    if policy.exists() {
        checks::one_of(&policy, &["AlwaysAllow", "IfHealthyBudget"], errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_status, kind};

    fn check(spec: Value, want: &[&str]) {
        let budget = kind("policy", "PodDisruptionBudget");
        check_create(&budget, json!({"spec": spec}), want);
    }

    #[test]
    fn min_available_and_max_unavailable_are_exclusive() {
        check(json!({"minAvailable": 1}), &[]);
        check(
            json!({"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}),
            &[],
        );
        check(
            json!({"minAvailable": 1, "maxUnavailable": "10%", "selector": {"matchLabels": {"a": "b"}}}),
            &[concat!(
                "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},",
                "\"MaxUnavailable\":\"10%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable ",
                "cannot be both set"
            )],
        );
    }

    #[test]
    fn min_available_and_max_unavailable_are_in_bounds() {
        check(
            json!({"minAvailable": -1}),
            &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
        );
        check(
            json!({"maxUnavailable": "101%", "unhealthyPodEvictionPolicy": "Odd"}),
            &[
                "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
                concat!(
                    "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Odd\": supported values: \"AlwaysAllow\", ",
                    "\"IfHealthyBudget\""
                ),
            ],
        );
        check(
            json!({"minAvailable": "half"}),
            &[concat!(
                "spec.minAvailable: Invalid value: \"half\": a valid percent string must be a numeric string followed ",
                "by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )],
        );
    }

    #[test]
    fn status_counts_and_conditions_are_validated() {
        check_status(
            &kind("policy", "PodDisruptionBudget"),
            json!({}),
            json!({"status": {"expectedPods": -1, "conditions": [{"type": "A", "status": "Odd",
                "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "-"}]}}),
            &[
                "status.conditions[0].status: Unsupported value: \"Odd\": supported values: \"False\", \"True\", \"Unknown\"",
                concat!(
                    "status.conditions[0].reason: Invalid value: \"-\": a condition reason must start with alphabetic ",
                    "character, optionally followed by a string of alphanumeric characters or '_,:', and must end ",
                    "with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or ",
                    "'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is ",
                    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
                ),
                "status.expectedPods: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
    }
}
