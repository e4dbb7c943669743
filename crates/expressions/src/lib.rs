//! CEL as admission uses it: expressions are compiled and checked once, and evaluated within limits.
//!
//! ```
//! use rhumb_expressions::{Budget, Environment, Input, Inputs, Program, Scope, Value, Want};
//!
//! let environment = Environment::policy(false);
//! let program = Program::compile(&environment, "object.spec.replicas <= 5", Want::Bool)?;
//!
//! let object = serde_json::json!({"spec": {"replicas": 3}});
//! let inputs = Inputs { object: Input::new(&object), ..Inputs::default() };
//! let mut scope = Scope::new(&inputs);
//! let mut budget = Budget::for_policy(None);
//! assert!(matches!(program.evaluate(&mut scope, &mut budget), Ok(Value::Bool(true))));
//! # Ok::<(), rhumb_expressions::CompileError>(())
//! ```
//!
//! What is compared with upstream: values, the texts of errors, types, and costs. Nothing here does I/O; the only
//! clock is the monotonic one, which is compared with the deadline of a [`Budget`].

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod authorizer;
mod check;
mod environment;
mod error;
mod inputs;
mod json;
mod library;
mod limits;
mod program;
mod run;
mod syntax;
mod value;

pub use authorizer::{Authorizer, Decision, Question, ResourceCheck, Subject, Target};
pub use check::structs::Schema;
pub use environment::Environment;
pub use error::{CompileError, EvaluationError};
pub use inputs::{Input, Inputs, Scope};
pub use json::NoJson;
pub use library::opaque::Opaque;
pub use limits::{
    Budget, COST_PER_EXPRESSION_MAX, COST_PER_MATCH_CONDITIONS_MAX, COST_PER_POLICY_MAX,
    MESSAGE_BYTES_MAX, TEXT_CHARACTERS_MAX,
};
pub use program::{Program, Variables, Want};
pub use syntax::words::is_identifier;
pub use value::{Key, List, Map, Object, Patch, Value};
