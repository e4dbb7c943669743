//! Expressions that do not compile are refused where they are written.

use rhumb_expressions::{Environment, Program, Variables, Want};
use rhumb_meta::field::{Error, ErrorList};

use crate::View;

/// Compiles the expressions of one policy, in their order.
#[derive(Debug)]
pub(super) struct Compiler {
    environment: Environment,
    variables: Variables,
}

impl Compiler {
    pub(super) fn validating(spec: &View<'_>) -> Compiler {
        Compiler::new(Environment::policy(spec.field("paramKind").exists()))
    }

    pub(super) fn mutating(spec: &View<'_>) -> Compiler {
        Compiler::new(Environment::mutation(spec.field("paramKind").exists()))
    }

    fn new(environment: Environment) -> Compiler {
        Compiler {
            environment,
            variables: Variables::new(),
        }
    }

    /// A variable, which all expressions after it may use.
    pub(super) fn declare(&mut self, name: &str, expression: &View<'_>, errors: &mut ErrorList) {
        let text = expression.str();
        let environment = &mut self.environment;
        if let Err(error) = self.variables.declare(environment, name, text) {
            errors.push(Error::invalid(expression.path(), text, error.to_string()));
        }
    }

    pub(super) fn check(&self, expression: &View<'_>, want: Want, errors: &mut ErrorList) {
        check(
            &self.environment,
            expression,
            expression.str(),
            want,
            errors,
        );
    }

    /// A message, which cannot ask who may do what.
    pub(super) fn check_message(&self, expression: &View<'_>, errors: &mut ErrorList) {
        let environment = self.environment.clone().without_authorizer();
        check(
            &environment,
            expression,
            expression.str(),
            Want::String,
            errors,
        );
    }

    /// The same without the space around it, as upstream shows some of them.
    pub(super) fn check_trimmed(&self, expression: &View<'_>, want: Want, errors: &mut ErrorList) {
        let text = expression.str().trim();
        check(&self.environment, expression, text, want, errors);
    }
}

/// A match condition of a webhook or a policy; only a policy can have parameters.
pub(super) fn check_condition(expression: &View<'_>, has_params: bool, errors: &mut ErrorList) {
    let environment = if has_params {
        Environment::match_conditions().with_params()
    } else {
        Environment::match_conditions()
    };
    let text = expression.str().trim();
    check(&environment, expression, text, Want::Bool, errors);
}

fn check(
    environment: &Environment,
    expression: &View<'_>,
    text: &str,
    want: Want,
    errors: &mut ErrorList,
) {
    if let Err(error) = Program::compile(environment, text, want) {
        errors.push(Error::invalid(expression.path(), text, error.to_string()));
    }
}
