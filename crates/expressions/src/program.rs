//! Compiled expressions, and the composited variables of policies.

use crate::activation::Activation;
use crate::checker::types::Type;
use crate::compile_issue::{self, CompileIssue};
use crate::environment::Environment;
use crate::error::{CompileError, EvaluationError};
use crate::interpreter::{self, Interpreter, ProgramPlan};
use crate::limits::EvaluationBudget;
use crate::value::Value;
use crate::{checker, parser};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result types that an expression may have (upstream: `ExpressionAccessor.ReturnTypes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnTypes {
    Any,
    Bool,
    String,
    StringOrNull,
    /// An apply configuration.
    Object,
    /// A list of patch operations.
    JsonPatchList,
}

/// A compiled expression (`cel.Program`). It can be shared between threads and evaluated any number of times.
#[derive(Clone, Debug)]
pub struct Program {
    text: Arc<str>,
    plan: Arc<ProgramPlan>,
    result: Type,
}

impl Program {
    /// Compiles an expression. Errors have upstream's messages: `compilation failed: ERROR: ...`,
    /// or `must evaluate to bool but got int`.
    pub fn compile(
        environment: &Environment,
        text: &str,
        return_types: ReturnTypes,
    ) -> Result<Program, CompileError> {
        let compile_failed = |issues: Vec<CompileIssue>| {
            let displayed = compile_issue::display_issues(text, &issues);
            CompileError::new(format!("compilation failed: {displayed}"))
        };
        let ast = parser::parse(text).map_err(compile_failed)?;
        let (info, result) = checker::check(environment, &ast).map_err(compile_failed)?;
        return_types.check(&result)?;
        let plan = interpreter::plan(&ast.root, &info)
            .map_err(|error| CompileError::new(format!("program instantiation failed: {error}")))?;
        Ok(Program {
            text: text.into(),
            plan: Arc::new(plan),
            result,
        })
    }

    /// Type-checks an expression. The error lists the issues without a prefix, as upstream has them in the status of a
    /// policy.
    pub fn type_check(environment: &Environment, text: &str) -> Result<(), CompileError> {
        let compile_failed = |issues: Vec<CompileIssue>| {
            CompileError::new(compile_issue::display_issues(text, &issues))
        };
        let ast = parser::parse(text).map_err(compile_failed)?;
        checker::check(environment, &ast).map_err(compile_failed)?;
        Ok(())
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn result_type(&self) -> &Type {
        &self.result
    }

    /// Evaluates the expression. The cost is deducted from the budget, also on failure.
    ///
    /// Errors have CEL's messages; upstream displays them as `expression '<text>' resulted in error: <error>`.
    /// After [`EvaluationError::OutOfBudget`] no other expression of the policy should be evaluated.
    pub fn evaluate(
        &self,
        activation: &mut Activation<'_>,
        budget: &mut EvaluationBudget,
    ) -> Result<Value, EvaluationError> {
        let outer = budget.begin_expression();
        let result = Interpreter::new(&self.plan, activation, budget).run();
        // The cost of composited variables has been deducted by their own evaluation.
        budget.end_expression(outer)?;
        result
    }
}

impl ReturnTypes {
    fn type_names(self) -> &'static [&'static str] {
        match self {
            ReturnTypes::Any => &[],
            ReturnTypes::Bool => &["bool"],
            ReturnTypes::String => &["string"],
            ReturnTypes::StringOrNull => &["string", "null_type"],
            ReturnTypes::Object => &["Object"],
            ReturnTypes::JsonPatchList => &["list(JSONPatch)"],
        }
    }

    fn check(self, result: &Type) -> Result<(), CompileError> {
        let actual = result.declared_name();
        let text = match self.type_names() {
            [] => return Ok(()),
            type_names if type_names.contains(&actual.as_str()) => return Ok(()),
            [name] => format!("must evaluate to {name} but got {actual}"),
            type_names => format!(
                "must evaluate to one of [{}] but got {actual}",
                type_names.join(" ")
            ),
        };
        Err(CompileError::new(text))
    }
}

/// The variables of a policy (upstream: `CompositedCompiler`); each may use those declared before it.
#[derive(Clone, Debug, Default)]
pub struct CompositedVariables {
    programs: BTreeMap<Arc<str>, Result<Program, CompileError>>,
}

impl CompositedVariables {
    pub fn new() -> CompositedVariables {
        CompositedVariables::default()
    }

    /// Compiles a variable and declares it in the environment for the expressions compiled later.
    ///
    /// A variable that does not compile is declared too, and fails only when an expression evaluates it.
    pub fn declare(
        &mut self,
        environment: &mut Environment,
        name: &str,
        text: &str,
    ) -> Result<(), CompileError> {
        let compiled = Program::compile(environment, text, ReturnTypes::Any);
        environment.declare(name, compiled.as_ref().ok());
        let result = match &compiled {
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        };
        self.programs.insert(name.into(), compiled);
        result
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Result<Program, CompileError>> {
        self.programs.get(name)
    }
}
