//! MutatingAdmissionPolicy, ValidatingAdmissionPolicy and their bindings, parsed and compiled.

mod check;
mod mutating;
mod validating;

use std::sync::Arc;

use rhumb_expressions::{
    Activation, CompileError, CompositedVariables, Environment, Program, RequestInputs, ReturnTypes,
};
use rhumb_meta::labels::Selector;
use serde_json::Value;

use crate::Object;
use crate::exclusion_rule::parse_selector;
use crate::match_conditions::{MatchConditions, str_or_empty};
use crate::match_criteria::{CriteriaFeatures, MatchCriteria};
use crate::webhook::{FailurePolicy, parse_failure_policy};

pub use check::{SchemaResolver, expression_warnings};
pub use mutating::{EvaluatedMutation, MutatingPolicy};
pub use validating::{
    PolicyAuditAnnotation, PolicyDecision, PolicyValidationResult, ValidatingPolicy,
};

/// Mutating or validating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyType {
    Mutating,
    Validating,
}

impl PolicyType {
    pub const fn kind(self) -> &'static str {
        match self {
            PolicyType::Mutating => "MutatingAdmissionPolicy",
            PolicyType::Validating => "ValidatingAdmissionPolicy",
        }
    }

    /// The plural resource name of the policies.
    pub const fn policies_resource(self) -> &'static str {
        match self {
            PolicyType::Mutating => "mutatingadmissionpolicies",
            PolicyType::Validating => "validatingadmissionpolicies",
        }
    }

    /// The plural resource name of the bindings.
    pub const fn bindings_resource(self) -> &'static str {
        match self {
            PolicyType::Mutating => "mutatingadmissionpolicybindings",
            PolicyType::Validating => "validatingadmissionpolicybindings",
        }
    }

    /// The `type` label in metrics.
    pub const fn metric_label(self) -> &'static str {
        match self {
            PolicyType::Mutating => "admit",
            PolicyType::Validating => "validate",
        }
    }
}

/// `spec.paramKind`: the kind of a policy's parameter objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamKind {
    pub api_version: String,
    pub kind: String,
}

/// The part of the spec that mutating and validating policies have in common.
#[derive(Debug)]
pub struct CommonPolicySpec {
    pub name: Arc<str>,
    pub match_criteria: MatchCriteria,
    pub failure_policy: FailurePolicy,
    pub param_kind: Option<ParamKind>,
    pub match_conditions: MatchConditions,
    variables: CompositedVariables,
}

impl CommonPolicySpec {
    /// Parses the common spec, and returns the environment that the policy's other expressions are compiled in: the
    /// given one plus the policy's variables.
    fn parse(
        policy: &Object,
        mut environment: Environment,
        reading: CriteriaFeatures,
    ) -> (CommonPolicySpec, Environment) {
        let nothing = Value::Null;
        let spec = policy.get("spec").unwrap_or(&nothing);
        let params = &spec["paramKind"];
        let conditions = MatchConditions::compile(&spec["matchConditions"], &environment);
        let mut variables = CompositedVariables::new();
        for variable in array_items(&spec["variables"]) {
            let (name, text) = (
                str_or_empty(&variable["name"]),
                str_or_empty(&variable["expression"]),
            );
            // A variable that does not compile fails only the expressions that use it.
            let _ = variables.declare(&mut environment, name, text);
        }
        let head = CommonPolicySpec {
            name: name_of(policy).into(),
            match_criteria: MatchCriteria::of_policy(&spec["matchConstraints"], reading),
            failure_policy: parse_failure_policy(&spec["failurePolicy"]),
            param_kind: params.is_object().then(|| ParamKind {
                api_version: str_or_empty(&params["apiVersion"]).to_owned(),
                kind: str_or_empty(&params["kind"]).to_owned(),
            }),
            match_conditions: conditions,
            variables,
        };
        (head, environment)
    }

    /// The activation for its expressions.
    pub fn activation<'a>(&'a self, inputs: &'a RequestInputs<'a>) -> Activation<'a> {
        Activation::new(inputs).with_variables(&self.variables)
    }
}

/// A policy binding: puts a policy into force.
#[derive(Debug)]
pub struct PolicyBinding {
    pub name: Arc<str>,
    pub policy_name: String,
    /// `matchResources`; `None` for all requests that the policy matches.
    pub match_criteria: Option<MatchCriteria>,
    pub param_ref: Option<ParamRef>,
    /// `validationActions`, in the order given.
    pub validation_actions: Vec<String>,
}

/// `spec.paramRef`: which parameter objects a binding uses.
#[derive(Debug)]
pub struct ParamRef {
    pub namespace: String,
    pub selection: ParamSelection,
    /// Whether `parameterNotFoundAction` is `Deny`.
    pub deny_if_not_found: bool,
}

/// How a `paramRef` selects its objects.
#[derive(Debug)]
pub enum ParamSelection {
    Name(String),
    Selector(Result<Selector, String>),
    /// Neither a name nor a selector is given.
    Unspecified,
}

impl PolicyBinding {
    pub fn parse(binding: &Object, reading: CriteriaFeatures) -> PolicyBinding {
        let nothing = Value::Null;
        let spec = binding.get("spec").unwrap_or(&nothing);
        let matching = &spec["matchResources"];
        PolicyBinding {
            name: name_of(binding).into(),
            policy_name: str_or_empty(&spec["policyName"]).to_owned(),
            match_criteria: matching
                .is_object()
                .then(|| MatchCriteria::of_binding(matching, reading)),
            param_ref: param_ref(&spec["paramRef"]),
            validation_actions: array_items(&spec["validationActions"])
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        }
    }
}

fn param_ref(reference: &Value) -> Option<ParamRef> {
    if !reference.is_object() {
        return None;
    }
    let selector = &reference["selector"];
    let choice = match str_or_empty(&reference["name"]) {
        "" if selector.is_object() => ParamSelection::Selector(parse_selector(selector)),
        "" => ParamSelection::Unspecified,
        name => ParamSelection::Name(name.to_owned()),
    };
    Some(ParamRef {
        namespace: str_or_empty(&reference["namespace"]).to_owned(),
        selection: choice,
        deny_if_not_found: reference["parameterNotFoundAction"] == "Deny",
    })
}

fn compile(
    environment: &Environment,
    text: &str,
    return_types: ReturnTypes,
) -> Result<Program, CompileError> {
    Program::compile(environment, text, return_types)
}

fn array_items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn name_of(object: &Object) -> &str {
    object
        .get("metadata")
        .and_then(|metadata| metadata["name"].as_str())
        .unwrap_or_default()
}
