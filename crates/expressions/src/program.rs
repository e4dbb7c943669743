//! An expression that is ready to be evaluated.

use crate::check::types::Type;
use crate::environment::Environment;
use crate::error::{CompileError, EvaluationError};
use crate::inputs::Scope;
use crate::limits::Budget;
use crate::run::{Machine, Plan};
use crate::syntax::issue::{self, Issue};
use crate::value::Value;
use crate::{check, run, syntax};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an expression must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Anything,
    Bool,
    String,
    StringOrNull,
    /// An apply configuration.
    Object,
    /// A list of patch operations.
    Patches,
}

/// A compiled expression. It can be shared between threads and evaluated any number of times.
#[derive(Clone, Debug)]
pub struct Program {
    text: Arc<str>,
    plan: Arc<Plan>,
    result: Type,
}

impl Program {
    /// Compiles an expression, or says what is wrong with it as upstream does: `compilation failed: ERROR: ...`,
    /// or `must evaluate to bool but got int`.
    pub fn compile(
        environment: &Environment,
        text: &str,
        want: Want,
    ) -> Result<Program, CompileError> {
        let failed = |issues: Vec<Issue>| {
            let shown = issue::show(text, &issues);
            CompileError::new(format!("compilation failed: {shown}"))
        };
        let parsed = syntax::parse(text).map_err(failed)?;
        let (checked, result) = check::check(environment, &parsed).map_err(failed)?;
        want.check(&result)?;
        let plan = run::plan(&parsed.root, &checked).map_err(|problem| {
            CompileError::new(format!("program instantiation failed: {problem}"))
        })?;
        Ok(Program {
            text: text.into(),
            plan: Arc::new(plan),
            result,
        })
    }

    /// What a type checker would say about the expression: the issues without the words before them, as upstream
    /// has them in the status of a policy.
    pub fn type_check(environment: &Environment, text: &str) -> Result<(), CompileError> {
        let failed = |issues: Vec<Issue>| CompileError::new(issue::show(text, &issues));
        let parsed = syntax::parse(text).map_err(failed)?;
        check::check(environment, &parsed).map_err(failed)?;
        Ok(())
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn result_type(&self) -> &Type {
        &self.result
    }

    /// The value for these inputs. The cost is taken from the budget, also when it fails.
    ///
    /// The texts of errors are those of CEL; upstream shows them as `expression '<text>' resulted in error: <error>`.
    /// After [`EvaluationError::OutOfBudget`] no other expression of the policy should be evaluated.
    pub fn evaluate(
        &self,
        scope: &mut Scope<'_>,
        budget: &mut Budget,
    ) -> Result<Value, EvaluationError> {
        let outer = budget.begin();
        let result = Machine::new(&self.plan, scope, budget).run();
        // What variables cost comes on top, and has been paid for where they were evaluated.
        budget.finish(outer)?;
        result
    }
}

impl Want {
    fn names(self) -> &'static [&'static str] {
        match self {
            Want::Anything => &[],
            Want::Bool => &["bool"],
            Want::String => &["string"],
            Want::StringOrNull => &["string", "null_type"],
            Want::Object => &["Object"],
            Want::Patches => &["list(JSONPatch)"],
        }
    }

    fn check(self, result: &Type) -> Result<(), CompileError> {
        let got = result.declared_name();
        let text = match self.names() {
            [] => return Ok(()),
            names if names.contains(&got.as_str()) => return Ok(()),
            [name] => format!("must evaluate to {name} but got {got}"),
            names => format!(
                "must evaluate to one of [{}] but got {got}",
                names.join(" ")
            ),
        };
        Err(CompileError::new(text))
    }
}

/// The variables of a policy, in the order in which they were declared: each may use those before it.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    programs: BTreeMap<Arc<str>, Result<Program, CompileError>>,
}

impl Variables {
    pub fn new() -> Variables {
        Variables::default()
    }

    /// Compiles a variable and declares it in the environment, for all that is compiled after it.
    ///
    /// One that does not compile is declared as well: an expression that never reaches it is not harmed.
    pub fn declare(
        &mut self,
        environment: &mut Environment,
        name: &str,
        text: &str,
    ) -> Result<(), CompileError> {
        let compiled = Program::compile(environment, text, Want::Anything);
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
