//! CEL for admission: expressions are compiled and checked once, and evaluated within limits.
//!
//! The entry points are [`Environment`] (which variables exist), [`Program::compile`] and [`Program::evaluate`]. The
//! modules follow cel-go's packages: `parser`, `ast`, `checker`, `interpreter`, and `library` for the functions.
//!
//! ```
//! use rhumb_expressions::{
//!     Activation, Environment, EvaluationBudget, JsonInput, Program, RequestInputs, ReturnTypes, Value,
//! };
//!
//! let environment = Environment::policy(false);
//! let program = Program::compile(&environment, "object.spec.replicas <= 5", ReturnTypes::Bool)?;
//!
//! let object = serde_json::json!({"spec": {"replicas": 3}});
//! let inputs = RequestInputs { object: JsonInput::new(&object), ..RequestInputs::default() };
//! let mut activation = Activation::new(&inputs);
//! let mut budget = EvaluationBudget::for_policy(None);
//! assert!(matches!(program.evaluate(&mut activation, &mut budget), Ok(Value::Bool(true))));
//! # Ok::<(), rhumb_expressions::CompileError>(())
//! ```
//!
//! Values, error messages, types and costs are upstream's. The crate does no I/O; it reads the monotonic clock to check
//! the deadline of an [`EvaluationBudget`].

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod activation;
mod ast;
mod authorizer;
mod checker;
mod compile_issue;
mod environment;
mod error;
mod identifiers;
mod interpreter;
mod json;
mod library;
mod limits;
mod parser;
mod program;
mod value;

pub use activation::{Activation, JsonInput, RequestInputs};
pub use authorizer::{
    AuthorizationCheck, AuthorizationDecision, AuthorizationSubject, AuthorizationTarget,
    PermissionChecker, ResourceCheck,
};
pub use environment::Environment;
pub use error::{CompileError, EvaluationError};
pub use identifiers::is_identifier;
pub use json::JsonConversionError;
pub use library::opaque_value::OpaqueValue;
pub use limits::{
    COST_PER_EXPRESSION_MAX, COST_PER_MATCH_CONDITIONS_MAX, COST_PER_POLICY_MAX,
    EXPRESSION_CODE_POINTS_MAX, EvaluationBudget, MESSAGE_BYTES_MAX,
};
pub use program::{CompositedVariables, Program, ReturnTypes};
pub use value::{JsonPatchValue, ListValue, MapKey, MapValue, ObjectValue, Value};
