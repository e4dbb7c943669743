//! Compiles the CEL expressions of webhooks and admission policies during validation.

use rhumb_expressions::{CompositedVariables, Environment, Program, ReturnTypes};
use rhumb_meta::field::{Error, ErrorList};

use crate::FieldView;

/// Compiles the expressions of one policy in order, so that later ones see the declared variables.
#[derive(Debug)]
pub(super) struct PolicyExpressionCompiler {
    environment: Environment,
    variables: CompositedVariables,
}

impl PolicyExpressionCompiler {
    pub(super) fn for_validating_policy(spec: &FieldView<'_>) -> PolicyExpressionCompiler {
        PolicyExpressionCompiler::new(Environment::policy(spec.field("paramKind").exists()))
    }

    pub(super) fn for_mutating_policy(spec: &FieldView<'_>) -> PolicyExpressionCompiler {
        PolicyExpressionCompiler::new(Environment::mutation(spec.field("paramKind").exists()))
    }

    fn new(environment: Environment) -> PolicyExpressionCompiler {
        PolicyExpressionCompiler {
            environment,
            variables: CompositedVariables::new(),
        }
    }

    /// Declares a variable, which all later expressions may use.
    pub(super) fn declare_variable(
        &mut self,
        name: &str,
        expression: &FieldView<'_>,
        errors: &mut ErrorList,
    ) {
        let text = expression.str();
        let environment = &mut self.environment;
        if let Err(error) = self.variables.declare(environment, name, text) {
            errors.push(Error::invalid(expression.path(), text, error.to_string()));
        }
    }

    pub(super) fn check(
        &self,
        expression: &FieldView<'_>,
        return_types: ReturnTypes,
        errors: &mut ErrorList,
    ) {
        check_expression(
            &self.environment,
            expression,
            expression.str(),
            return_types,
            errors,
        );
    }

    /// Checks a message expression, which must not use the authorizer.
    pub(super) fn check_message(&self, expression: &FieldView<'_>, errors: &mut ErrorList) {
        let environment = self.environment.clone().without_authorizer();
        check_expression(
            &environment,
            expression,
            expression.str(),
            ReturnTypes::String,
            errors,
        );
    }

    /// Like `check`, with surrounding whitespace trimmed in errors, as upstream does for some fields.
    pub(super) fn check_trimmed(
        &self,
        expression: &FieldView<'_>,
        return_types: ReturnTypes,
        errors: &mut ErrorList,
    ) {
        let text = expression.str().trim();
        check_expression(&self.environment, expression, text, return_types, errors);
    }
}

/// Checks a match condition of a webhook or a policy; only a policy can have parameters.
pub(super) fn check_match_condition(
    expression: &FieldView<'_>,
    has_params: bool,
    errors: &mut ErrorList,
) {
    let environment = if has_params {
        Environment::match_conditions().with_params()
    } else {
        Environment::match_conditions()
    };
    let text = expression.str().trim();
    check_expression(&environment, expression, text, ReturnTypes::Bool, errors);
}

fn check_expression(
    environment: &Environment,
    expression: &FieldView<'_>,
    text: &str,
    return_types: ReturnTypes,
    errors: &mut ErrorList,
) {
    if let Err(error) = Program::compile(environment, text, return_types) {
        errors.push(Error::invalid(expression.path(), text, error.to_string()));
    }
}
