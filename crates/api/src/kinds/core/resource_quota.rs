//! ResourceQuota.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::field::{BadValue, Error, ErrorList};
use serde::Serialize;

use crate::{Kind, Request, Rules, Scope, View, checks, resource_names};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "ResourceQuota",
        "resourcequotas",
        "io.k8s.api.core.v1.ResourceQuota",
    )
    .returns_deleted()
    .short(&["quota"])
    .status()
    .rules(QuotaRules)
}

#[derive(Debug)]
struct QuotaRules;

impl Rules for QuotaRules {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        let spec = object.field("spec");
        validate_amounts(&spec.field("hard"), errors);
        validate_scopes(&spec, errors);
        validate_selector(&spec, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
        let (spec, old) = (object.field("spec"), old.field("spec"));
        let scopes = spec.field("scopes");
        let set = |scopes: &View<'_>| -> BTreeSet<String> {
            scopes.items().map(|item| item.str().to_owned()).collect()
        };
        if set(&scopes) != set(&old.field("scopes")) {
            scopes.invalid(errors, checks::IMMUTABLE);
        }
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let status = object.field("status");
        validate_amounts(&status.field("hard"), errors);
        validate_amounts(&status.field("used"), errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        if old.is_some() {
            return;
        }
        let spec = object.field("spec");
        let hard = spec.field("hard");
        for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
            warnings.extend(request_above_limit(&hard, name));
        }
    }
}

fn request_above_limit(hard: &View<'_>, name: &str) -> Option<String> {
    let amount = |name: &str| resource_names::quantity(&hard.key(name));
    let mut request_name = format!("requests.{name}");
    if amount(&request_name).is_none() && matches!(name, "cpu" | "memory") {
        request_name = name.to_owned();
    }
    let limit_name = format!("limits.{name}");
    let (request, limit) = (amount(&request_name)?, amount(&limit_name)?);
    (request > limit).then(|| {
        format!(
            "ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"
        )
    })
}

fn validate_amounts(amounts: &View<'_>, errors: &mut ErrorList) {
    for (name, amount) in amounts.entries() {
        resource_names::validate_for_quota(name, &amount, errors);
        resource_names::validate_amount(name, &amount, errors);
    }
}

const COMPUTE: &[&str] = &[
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];

fn is_known_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

fn is_scope_for(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ if is_known_scope(scope) => resource == "pods" || COMPUTE.contains(&resource),
        _ => true,
    }
}

/// How many of the limits cannot be measured in a scope; each is an error of its own.
fn unfit_resources(hard: &View<'_>, scope: &str) -> usize {
    hard.entries()
        .filter(|(name, _)| {
            resource_names::is_standard_for_quota(name) && !is_scope_for(scope, name)
        })
        .count()
}

fn validate_scopes(spec: &View<'_>, errors: &mut ErrorList) {
    let (hard, scopes) = (spec.field("hard"), spec.field("scopes"));
    let mut seen = BTreeSet::new();
    for item in scopes.items() {
        let scope = item.str();
        if !is_known_scope(scope) {
            scopes.invalid(errors, "unsupported scope");
        }
        for _ in 0..unfit_resources(&hard, scope) {
            scopes.invalid(errors, "unsupported scope applied to resource");
        }
        seen.insert(scope.to_owned());
    }
    refuse_conflicts(&seen, &scopes, &scopes, errors);
}

fn refuse_conflicts(
    seen: &BTreeSet<String>,
    at: &View<'_>,
    scopes: &View<'_>,
    errors: &mut ErrorList,
) {
    for scope in ["BestEffort", "Terminating"] {
        if seen.contains(scope) && seen.contains(&format!("Not{scope}")) {
            let shown = scopes.bad_value();
            errors.push(Error::invalid(at.path(), shown, "conflicting scopes"));
        }
    }
}

/// As upstream, nothing says which expression it is that is wrong.
fn validate_selector(spec: &View<'_>, errors: &mut ErrorList) {
    let (hard, selector) = (spec.field("hard"), spec.field("scopeSelector"));
    let expressions = selector.field("matchExpressions");
    let mut seen = BTreeSet::new();
    for expression in expressions.items() {
        let name = expression.field("scopeName");
        let scope = name.str();
        let refuse = |field: &str, value: BadValue, detail: &str, errors: &mut ErrorList| {
            let field = expressions.field(field);
            errors.push(Error::invalid(field.path(), value, detail));
        };
        if !is_known_scope(scope) {
            refuse("scopeName", scope.into(), "unsupported scope", errors);
        }
        for _ in 0..unfit_resources(&hard, scope) {
            let detail = "unsupported scope applied to resource";
            errors.push(Error::invalid(
                expressions.path(),
                shown(&expressions),
                detail,
            ));
        }
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        let takes_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if is_known_scope(scope) && !takes_values && operator.str() != "Exists" {
            refuse("operator", operator.str().into(), ONLY_EXISTS, errors);
        }
        match operator.str() {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                expressions.field("values").required(errors, detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                refuse("values", values.bad_value(), detail, errors);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => refuse(
                "operator",
                other.into(),
                "not a valid selector operator",
                errors,
            ),
        }
        seen.insert(scope.to_owned());
    }
    refuse_conflicts(&seen, &expressions, &spec.field("scopes"), errors);
}

/// An expression as errors show it: under the names that upstream has inside.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Shown {
    scope_name: String,
    operator: String,
    values: Option<Vec<String>>,
}

fn shown(expressions: &View<'_>) -> BadValue {
    let shown: Vec<Shown> = expressions
        .items()
        .map(|expression| {
            let values = expression.field("values");
            let texts = values.items().map(|value| value.str().to_owned()).collect();
            Shown {
                scope_name: expression.field("scopeName").str().to_owned(),
                operator: expression.field("operator").str().to_owned(),
                values: values.exists().then_some(texts),
            }
        })
        .collect();
    BadValue::json(&BTreeMap::from([("MatchExpressions", shown)]))
}

const ONLY_EXISTS: &str = concat!(
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ",
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_status, check_update, kind, warnings};

    fn check(spec: Value, want: &[&str]) {
        check_create(&kind("", "ResourceQuota"), json!({"spec": spec}), want);
    }

    #[test]
    fn names_and_amounts_are_those_of_quota() {
        check(
            json!({"hard": {"cpu": "1", "pods": "3", "count/jobs.batch": "1", "requests.example.com/gpu": 2,
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi", "hugepages-2Mi": "2Mi"}}),
            &[],
        );
        check(
            json!({"hard": {"cpu": "-1", "pods": "500m", "storage": "1", "x": "1"}}),
            &[
                "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[pods]: Invalid value: \"500m\": must be an integer",
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
                "spec.hard[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
                "spec.hard[x]: Invalid value: \"x\": must be a standard resource for quota",
            ],
        );
    }

    #[test]
    fn scopes_fit_the_resources_and_each_other() {
        check(
            json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}),
            &[],
        );
        check(
            json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort", "Odd"]}),
            &[
                concat!(
                    "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: unsupported scope ",
                    "applied to resource"
                ),
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: unsupported scope",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: conflicting scopes",
            ],
        );
    }

    #[test]
    fn scope_selectors_are_checked() {
        let selector = |scope: &str, operator: &str, values: Value| {
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": scope, "operator": operator, "values": values}
            ]}})
        };
        check(selector("PriorityClass", "In", json!(["a"])), &[]);
        check(
            selector("CrossNamespacePodAffinity", "Exists", json!([])),
            &[],
        );
        let at = "spec.scopeSelector.matchExpressions";
        check(
            selector("PriorityClass", "In", json!([])),
            &[&format!(
                "{at}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for \
                 scope selector"
            )],
        );
        check(
            selector("BestEffort", "In", json!(["a"])),
            &[&format!(
                "{at}.operator: Invalid value: \"In\": {}",
                super::ONLY_EXISTS
            )],
        );
        check(
            selector("Odd", "Like", json!([])),
            &[
                &format!("{at}.scopeName: Invalid value: \"Odd\": unsupported scope"),
                &format!("{at}.operator: Invalid value: \"Like\": not a valid selector operator"),
            ],
        );
    }

    #[test]
    fn scopes_never_change() {
        check_update(
            &kind("", "ResourceQuota"),
            json!({"spec": {"scopes": ["BestEffort", "Terminating"]}}),
            json!({"spec": {"scopes": ["Terminating", "BestEffort"]}}),
            &[],
        );
        check_update(
            &kind("", "ResourceQuota"),
            json!({"spec": {"scopes": ["BestEffort"]}}),
            json!({"spec": {"scopes": ["Terminating"]}}),
            &["spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"],
        );
    }

    #[test]
    fn the_status_is_held_to_the_same() {
        check_status(
            &kind("", "ResourceQuota"),
            json!({}),
            json!({"status": {"hard": {"pods": "1"}, "used": {"pods": "-1"}}}),
            &["status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0"],
        );
    }

    #[test]
    fn requests_above_limits_are_warned_of() {
        let quota = json!({"spec": {"hard": {"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi",
            "limits.memory": "1Gi"}}});
        assert_eq!(
            warnings(&kind("", "ResourceQuota"), quota),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
    }
}
