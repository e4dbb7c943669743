//! ResourceQuota.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::field::{BadValue, Error, ErrorList};
use serde::Serialize;

use crate::gates::Feature;
use crate::{Kind, Object, Request, Rules, Scope, View, checks, fields, resource_names};

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
    /// Of cross-namespace affinity there is nothing to ask but whether a pod has it, so that needs no operator.
    fn default(&self, object: &mut Object) {
        for expression in fields::objects_mut(object, "spec.scopeSelector.matchExpressions") {
            if is_cross_namespace(fields::str(expression, "scopeName")) {
                fields::fill(expression, "operator", "Exists");
            }
        }
    }

    fn validate_create(&self, object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
        validate_spec(&object.field("spec"), Allowed::by(request), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        validate_spec(&spec, Allowed::by(request).or_kept(&old), errors);
        let scopes = spec.field("scopes");
        let set = |scopes: &View<'_>| -> BTreeSet<String> {
            scopes
                .items()
                .map(|item| canonical(item.str()).to_owned())
                .collect()
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

/// Which scopes may be named.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    cross_namespace: bool,
}

impl Allowed {
    fn by(request: &Request<'_>) -> Allowed {
        let feature = Feature::PodAffinityNamespaceSelector;
        Allowed {
            cross_namespace: request.gates.enabled(feature),
        }
    }

    /// A quota that was written while the gate was on can be changed without losing its scope.
    fn or_kept(self, old: &View<'_>) -> Allowed {
        let (scopes, selector) = (old.field("scopes"), old.field("scopeSelector"));
        let expressions = selector.field("matchExpressions");
        let is_kept = scopes.items().any(|scope| is_cross_namespace(scope.str()))
            || expressions
                .items()
                .any(|expression| is_cross_namespace(expression.text("scopeName")));
        Allowed {
            cross_namespace: self.cross_namespace || is_kept,
        }
    }

    fn has(self, scope: &str) -> bool {
        is_known_scope(scope) && (self.cross_namespace || !is_cross_namespace(scope))
    }
}

fn validate_spec(spec: &View<'_>, allowed: Allowed, errors: &mut ErrorList) {
    validate_amounts(&spec.field("hard"), errors);
    validate_scopes(spec, allowed, errors);
    validate_selector(spec, allowed, errors);
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

const CROSS_NAMESPACE: &str = "CrossNamespacePodAffinity";
/// The same scope as the proposal calls it. It is stored as it was written.
const CROSS_NAMESPACE_OF_PROPOSAL: &str = "CrossNamespaceAffinity";

/// Whether it is the scope of pods with affinity to pods of other namespaces, by either name.
fn is_cross_namespace(scope: &str) -> bool {
    canonical(scope) == CROSS_NAMESPACE
}

/// One name for each scope.
fn canonical(scope: &str) -> &str {
    match scope {
        CROSS_NAMESPACE_OF_PROPOSAL => CROSS_NAMESPACE,
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
            | CROSS_NAMESPACE
            | CROSS_NAMESPACE_OF_PROPOSAL
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

fn validate_scopes(spec: &View<'_>, allowed: Allowed, errors: &mut ErrorList) {
    let (hard, scopes) = (spec.field("hard"), spec.field("scopes"));
    let mut seen = BTreeSet::new();
    for item in scopes.items() {
        let scope = item.str();
        if !allowed.has(scope) {
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
fn validate_selector(spec: &View<'_>, allowed: Allowed, errors: &mut ErrorList) {
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
mod tests;
