//! The CEL environment: the variables an expression may use, and their types.

use crate::checker::struct_types::{self, StructType};
use crate::checker::types::{ParameterizedKind, Type};
use crate::program::Program;
use rhumb_schema::SchemaRef;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// A variable that the API server declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltinVariable {
    Object,
    OldObject,
    Request,
    Params,
    NamespaceObject,
    Authorizer,
    RequestResource,
    Variables,
}

/// The declared variables for one kind of expression, with their types. Upstream counterpart: `cel.Env`.
#[derive(Clone, Debug)]
pub struct Environment {
    object: Type,
    params: Option<Type>,
    /// The type of `variables`; `None` if the environment does not have it.
    variables: Option<Arc<StructType>>,
    request_resource: bool,
    authorizer: bool,
    mutation: bool,
}

static REQUEST: LazyLock<Type> = LazyLock::new(struct_types::admission_request_type);
static NAMESPACE: LazyLock<Type> = LazyLock::new(struct_types::namespace_object_type);
static AUTHORIZER: LazyLock<Type> = LazyLock::new(|| authorization_type("Authorizer"));
static RESOURCE_CHECK: LazyLock<Type> = LazyLock::new(|| authorization_type("ResourceCheck"));

fn empty_variables_type() -> Arc<StructType> {
    Arc::new(StructType::with_fields(
        "kubernetes.variables",
        BTreeMap::new(),
    ))
}

fn authorization_type(name: &str) -> Type {
    let name = format!("kubernetes.authorization.{name}");
    Type::Struct(Arc::new(StructType::without_fields(&name)))
}

impl Environment {
    /// For the match conditions of webhooks: `object`, `oldObject`, `request`, `namespaceObject` (which is null)
    /// and `authorizer`.
    pub fn match_conditions() -> Environment {
        Environment {
            object: Type::Dyn,
            params: None,
            variables: None,
            request_resource: true,
            authorizer: true,
            mutation: false,
        }
    }

    /// For validating policies: also `variables`, and `params` if the policy has a paramKind.
    pub fn policy(has_params: bool) -> Environment {
        Environment {
            params: has_params.then_some(Type::Dyn),
            variables: Some(empty_variables_type()),
            ..Environment::match_conditions()
        }
    }

    /// For mutating policies: also `Object{...}`, `JSONPatch{...}` and `jsonpatch.escapeKey`.
    pub fn mutation(has_params: bool) -> Environment {
        Environment {
            mutation: true,
            ..Environment::policy(has_params)
        }
    }

    /// Without `authorizer`, which message expressions do not have.
    pub fn without_authorizer(self) -> Environment {
        Environment {
            authorizer: false,
            ..self
        }
    }

    /// With `params`, of type dyn.
    pub fn with_params(self) -> Environment {
        Environment {
            params: Some(Type::Dyn),
            ..self
        }
    }

    /// For the type checking of a policy (`status.typeChecking`). `object` and `oldObject`, and `params` if declared,
    /// have the type of the schema, or dyn without one.
    pub fn type_checking(
        object: Option<SchemaRef>,
        params: Option<Option<SchemaRef>>,
    ) -> Environment {
        let object_type = |schema: Option<SchemaRef>| match schema {
            Some(schema) => struct_types::object_type(schema),
            None => Type::Dyn,
        };
        Environment {
            object: object_type(object),
            params: params.map(object_type),
            variables: Some(empty_variables_type()),
            request_resource: false,
            authorizer: true,
            mutation: false,
        }
    }

    /// Declares `variables.<name>`. A variable that does not compile is declared as dyn.
    pub(crate) fn declare(&mut self, name: &str, program: Option<&Program>) {
        let ty = program.map_or(Type::Dyn, |program| {
            declared_variable_type(program.result_type())
        });
        let variables = self.variables.get_or_insert_with(empty_variables_type);
        Arc::make_mut(variables).insert(name, ty);
    }

    pub(crate) fn is_mutation(&self) -> bool {
        self.mutation
    }

    pub(crate) fn variable(&self, name: &str) -> Option<(Type, BuiltinVariable)> {
        Some(match name {
            "object" => (self.object.clone(), BuiltinVariable::Object),
            "oldObject" => (self.object.clone(), BuiltinVariable::OldObject),
            "request" => (REQUEST.clone(), BuiltinVariable::Request),
            "params" => (self.params.clone()?, BuiltinVariable::Params),
            "namespaceObject" => (NAMESPACE.clone(), BuiltinVariable::NamespaceObject),
            "authorizer" if self.authorizer => (AUTHORIZER.clone(), BuiltinVariable::Authorizer),
            "authorizer.requestResource" if self.authorizer && self.request_resource => {
                (RESOURCE_CHECK.clone(), BuiltinVariable::RequestResource)
            }
            "variables" => (
                Type::Struct(self.variables.clone()?),
                BuiltinVariable::Variables,
            ),
            _ => return None,
        })
    }
}

/// The declared type of a composited variable: upstream keeps only simple types, lists and maps, the rest is dyn.
fn declared_variable_type(ty: &Type) -> Type {
    match ty {
        Type::Parameterized(parameterized)
            if matches!(
                parameterized.kind,
                ParameterizedKind::List | ParameterizedKind::Map
            ) =>
        {
            Type::parameterized(
                parameterized.kind,
                parameterized
                    .parameters
                    .iter()
                    .map(declared_variable_type)
                    .collect(),
            )
        }
        Type::Parameterized(_)
        | Type::Opaque(_)
        | Type::Struct(_)
        | Type::Param(_)
        | Type::Error => Type::Dyn,
        simple => simple.clone(),
    }
}
