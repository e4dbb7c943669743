//! Declares `ResourceQuota` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::field::{BadValue, Error, ErrorList};
use serde::Serialize;

use crate::feature_gates::Feature;
use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks, fields,
    resource_names,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "ResourceQuota",
        "resourcequotas",
        "io.k8s.api.core.v1.ResourceQuota",
    )
    .returns_deleted()
    .short_names(&["quota"])
    .status()
    .strategy(ResourceQuotaStrategy)
}

#[derive(Debug)]
struct ResourceQuotaStrategy;

impl ResourceStrategy for ResourceQuotaStrategy {
    /// Defaults the operator of the cross-namespace affinity scope to `Exists`, the only one it supports.
    fn apply_defaults(&self, object: &mut JsonObject) {
        for expression in fields::objects_mut(object, "spec.scopeSelector.matchExpressions") {
            if is_cross_namespace(fields::str(expression, "scopeName")) {
                fields::set_if_empty(expression, "operator", "Exists");
            }
        }
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(
            &object.field("spec"),
            AllowedQuotaScopes::from_gates(request),
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
            AllowedQuotaScopes::from_gates(request).or_used_by(&old),
            errors,
        );
        let scopes = spec.field("scopes");
        let set = |scopes: &FieldView<'_>| -> BTreeSet<String> {
            scopes
                .items()
                .map(|item| canonical_scope(item.str()).to_owned())
                .collect()
        };
        if set(&scopes) != set(&old.field("scopes")) {
            scopes.invalid(errors, checks::IMMUTABLE);
        }
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = object.field("status");
        validate_quantities(&status.field("hard"), errors);
        validate_quantities(&status.field("used"), errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
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

fn request_above_limit(hard: &FieldView<'_>, name: &str) -> Option<String> {
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

/// Scopes that a quota may name.
#[derive(Debug, Clone, Copy)]
struct AllowedQuotaScopes {
    cross_namespace: bool,
}

impl AllowedQuotaScopes {
    fn from_gates(request: &StrategyContext<'_>) -> AllowedQuotaScopes {
        let feature = Feature::PodAffinityNamespaceSelector;
        AllowedQuotaScopes {
            cross_namespace: request.gates.enabled(feature),
        }
    }

    /// Also allows the scope if the old quota uses it, so that it can be updated while the gate is disabled.
    fn or_used_by(self, old: &FieldView<'_>) -> AllowedQuotaScopes {
        let (scopes, selector) = (old.field("scopes"), old.field("scopeSelector"));
        let expressions = selector.field("matchExpressions");
        let is_kept = scopes.items().any(|scope| is_cross_namespace(scope.str()))
            || expressions
                .items()
                .any(|expression| is_cross_namespace(expression.text("scopeName")));
        AllowedQuotaScopes {
            cross_namespace: self.cross_namespace || is_kept,
        }
    }

    fn has(self, scope: &str) -> bool {
        is_known_scope(scope) && (self.cross_namespace || !is_cross_namespace(scope))
    }
}

fn validate_spec(spec: &FieldView<'_>, allowed: AllowedQuotaScopes, errors: &mut ErrorList) {
    validate_quantities(&spec.field("hard"), errors);
    validate_scopes(spec, allowed, errors);
    validate_selector(spec, allowed, errors);
}

fn validate_quantities(amounts: &FieldView<'_>, errors: &mut ErrorList) {
    for (name, amount) in amounts.entries() {
        resource_names::validate_for_quota(name, &amount, errors);
        resource_names::validate_amount(name, &amount, errors);
    }
}

const COMPUTE_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];

const CROSS_NAMESPACE_SCOPE: &str = "CrossNamespacePodAffinity";
/// Name of the same scope in the KEP. It is stored as written.
const CROSS_NAMESPACE_SCOPE_KEP_NAME: &str = "CrossNamespaceAffinity";

/// Returns whether this is the cross-namespace affinity scope, under either name.
fn is_cross_namespace(scope: &str) -> bool {
    canonical_scope(scope) == CROSS_NAMESPACE_SCOPE
}

/// Maps both names of the cross-namespace affinity scope to one.
fn canonical_scope(scope: &str) -> &str {
    match scope {
        CROSS_NAMESPACE_SCOPE_KEP_NAME => CROSS_NAMESPACE_SCOPE,
        other => other,
    }
}

fn is_known_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | CROSS_NAMESPACE_SCOPE
            | CROSS_NAMESPACE_SCOPE_KEP_NAME
    )
}

fn is_scope_for(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ if is_known_scope(scope) => resource == "pods" || COMPUTE_RESOURCES.contains(&resource),
        _ => true,
    }
}

/// Counts the resources of `hard` that the scope does not support; each one is reported as an error.
fn count_unsupported_resources(hard: &FieldView<'_>, scope: &str) -> usize {
    hard.entries()
        .filter(|(name, _)| {
            resource_names::is_standard_for_quota(name) && !is_scope_for(scope, name)
        })
        .count()
}

fn validate_scopes(spec: &FieldView<'_>, allowed: AllowedQuotaScopes, errors: &mut ErrorList) {
    let (hard, scopes) = (spec.field("hard"), spec.field("scopes"));
    let mut seen = BTreeSet::new();
    for item in scopes.items() {
        let scope = item.str();
        if !allowed.has(scope) {
            scopes.invalid(errors, "unsupported scope");
        }
        for _ in 0..count_unsupported_resources(&hard, scope) {
            scopes.invalid(errors, "unsupported scope applied to resource");
        }
        seen.insert(scope.to_owned());
    }
    reject_conflicting_scopes(&seen, &scopes, &scopes, errors);
}

fn reject_conflicting_scopes(
    seen: &BTreeSet<String>,
    at: &FieldView<'_>,
    scopes: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    for scope in ["BestEffort", "Terminating"] {
        if seen.contains(scope) && seen.contains(&format!("Not{scope}")) {
            let shown = scopes.bad_value();
            errors.push(Error::invalid(at.path(), shown, "conflicting scopes"));
        }
    }
}

/// As upstream, errors do not name the index of the invalid expression.
fn validate_selector(spec: &FieldView<'_>, allowed: AllowedQuotaScopes, errors: &mut ErrorList) {
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
        if !allowed.has(scope) {
            refuse("scopeName", scope.into(), "unsupported scope", errors);
        }
        for _ in 0..count_unsupported_resources(&hard, scope) {
            let detail = "unsupported scope applied to resource";
            errors.push(Error::invalid(
                expressions.path(),
                scope_selector_bad_value(&expressions),
                detail,
            ));
        }
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        let takes_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if is_known_scope(scope) && !takes_values && operator.str() != "Exists" {
            refuse(
                "operator",
                operator.str().into(),
                EXISTS_OPERATOR_REQUIRED,
                errors,
            );
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
    reject_conflicting_scopes(&seen, &expressions, &spec.field("scopes"), errors);
}

/// Scope selector expression as rendered in errors, with upstream's Go field names.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ScopeExpressionBadValue {
    scope_name: String,
    operator: String,
    values: Option<Vec<String>>,
}

fn scope_selector_bad_value(expressions: &FieldView<'_>) -> BadValue {
    let shown: Vec<ScopeExpressionBadValue> = expressions
        .items()
        .map(|expression| {
            let values = expression.field("values");
            let texts = values.items().map(|value| value.str().to_owned()).collect();
            ScopeExpressionBadValue {
                scope_name: expression.field("scopeName").str().to_owned(),
                operator: expression.field("operator").str().to_owned(),
                values: values.exists().then_some(texts),
            }
        })
        .collect();
    BadValue::json(&BTreeMap::from([("MatchExpressions", shown)]))
}

const EXISTS_OPERATOR_REQUIRED: &str = concat!(
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ",
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
);

#[cfg(test)]
mod tests;
