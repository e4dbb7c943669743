//! Policies in expressions, and the bindings that put them into force.

mod check;
mod mutating;
mod validating;

use std::sync::Arc;

use rhumb_expressions::{CompileError, Environment, Inputs, Program, Scope, Variables, Want};
use rhumb_meta::labels::Selector;
use serde_json::Value;

use crate::Object;
use crate::conditions::{Conditions, text_of};
use crate::criteria::{Criteria, Reading};
use crate::exclusion::read_selector;
use crate::webhook::{FailurePolicy, failure_policy};

pub use check::{Kinds, expression_warnings};
pub use mutating::{Change, MutatingPolicy};
pub use validating::{Annotation, Decision, ValidatingPolicy, Verdict};

/// Which kind of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyFlavor {
    Mutating,
    Validating,
}

impl PolicyFlavor {
    pub const fn kind(self) -> &'static str {
        match self {
            PolicyFlavor::Mutating => "MutatingAdmissionPolicy",
            PolicyFlavor::Validating => "ValidatingAdmissionPolicy",
        }
    }

    /// The resource of the policies.
    pub const fn plural(self) -> &'static str {
        match self {
            PolicyFlavor::Mutating => "mutatingadmissionpolicies",
            PolicyFlavor::Validating => "validatingadmissionpolicies",
        }
    }

    /// The resource of their bindings.
    pub const fn bindings(self) -> &'static str {
        match self {
            PolicyFlavor::Mutating => "mutatingadmissionpolicybindings",
            PolicyFlavor::Validating => "validatingadmissionpolicybindings",
        }
    }

    /// As metrics name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyFlavor::Mutating => "admit",
            PolicyFlavor::Validating => "validate",
        }
    }
}

/// The kind of the objects that a policy has as parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamKind {
    pub api_version: String,
    pub kind: String,
}

/// What both kinds of policies have.
#[derive(Debug)]
pub struct Head {
    pub name: Arc<str>,
    pub criteria: Criteria,
    pub failure: FailurePolicy,
    pub params: Option<ParamKind>,
    pub conditions: Conditions,
    variables: Variables,
}

impl Head {
    /// Reads the head, and gives the environment for what comes after it.
    fn read(
        policy: &Object,
        mut environment: Environment,
        reading: Reading,
    ) -> (Head, Environment) {
        let nothing = Value::Null;
        let spec = policy.get("spec").unwrap_or(&nothing);
        let params = &spec["paramKind"];
        let conditions = Conditions::compile(&spec["matchConditions"], &environment);
        let mut variables = Variables::new();
        for variable in items(&spec["variables"]) {
            let (name, text) = (text_of(&variable["name"]), text_of(&variable["expression"]));
            // One that does not compile harms only those who use it.
            let _ = variables.declare(&mut environment, name, text);
        }
        let head = Head {
            name: name_of(policy).into(),
            criteria: Criteria::of_policy(&spec["matchConstraints"], reading),
            failure: failure_policy(&spec["failurePolicy"]),
            params: params.is_object().then(|| ParamKind {
                api_version: text_of(&params["apiVersion"]).to_owned(),
                kind: text_of(&params["kind"]).to_owned(),
            }),
            conditions,
            variables,
        };
        (head, environment)
    }

    /// What its expressions see.
    pub fn scope<'a>(&'a self, inputs: &'a Inputs<'a>) -> Scope<'a> {
        Scope::new(inputs).with_variables(&self.variables)
    }
}

/// What puts a policy into force.
#[derive(Debug)]
pub struct Binding {
    pub name: Arc<str>,
    pub policy: String,
    /// `None` for all that the policy is about.
    pub criteria: Option<Criteria>,
    pub params: Option<ParamRef>,
    /// In the order given.
    pub actions: Vec<String>,
}

/// Which parameters.
#[derive(Debug)]
pub struct ParamRef {
    pub namespace: String,
    pub choice: ParamChoice,
    /// Whether it is an error that there are none.
    pub must_exist: bool,
}

#[derive(Debug)]
pub enum ParamChoice {
    Name(String),
    Selector(Result<Selector, String>),
    /// Neither is given.
    Nothing,
}

impl Binding {
    pub fn read(binding: &Object, reading: Reading) -> Binding {
        let nothing = Value::Null;
        let spec = binding.get("spec").unwrap_or(&nothing);
        let matching = &spec["matchResources"];
        Binding {
            name: name_of(binding).into(),
            policy: text_of(&spec["policyName"]).to_owned(),
            criteria: matching
                .is_object()
                .then(|| Criteria::of_binding(matching, reading)),
            params: param_ref(&spec["paramRef"]),
            actions: items(&spec["validationActions"])
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
    let choice = match text_of(&reference["name"]) {
        "" if selector.is_object() => ParamChoice::Selector(read_selector(selector)),
        "" => ParamChoice::Nothing,
        name => ParamChoice::Name(name.to_owned()),
    };
    Some(ParamRef {
        namespace: text_of(&reference["namespace"]).to_owned(),
        choice,
        must_exist: reference["parameterNotFoundAction"] == "Deny",
    })
}

fn compile(environment: &Environment, text: &str, want: Want) -> Result<Program, CompileError> {
    Program::compile(environment, text, want)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn name_of(object: &Object) -> &str {
    object
        .get("metadata")
        .and_then(|metadata| metadata["name"].as_str())
        .unwrap_or_default()
}
