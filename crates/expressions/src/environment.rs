//! Which names an expression may use, and what is known of them.

use crate::check::structs::{self, Schema, Struct};
use crate::check::types::{CompositeKind, Type};
use crate::program::Program;
use rhumb_schema::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// What is there before an expression begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    Object,
    OldObject,
    Request,
    Params,
    NamespaceObject,
    Authorizer,
    RequestResource,
    Variables,
}

/// The names that expressions of one kind may use, with their types.
#[derive(Clone, Debug)]
pub struct Environment {
    object: Type,
    params: Option<Type>,
    /// The variables declared so far, where there can be any.
    variables: Option<Arc<Struct>>,
    request_resource: bool,
    authorizer: bool,
    patches: bool,
}

static REQUEST: LazyLock<Type> = LazyLock::new(structs::request);
static NAMESPACE: LazyLock<Type> = LazyLock::new(structs::namespace);
static AUTHORIZER: LazyLock<Type> = LazyLock::new(|| authorization("Authorizer"));
static RESOURCE_CHECK: LazyLock<Type> = LazyLock::new(|| authorization("ResourceCheck"));

fn no_variables() -> Arc<Struct> {
    Arc::new(Struct::declared("kubernetes.variables", BTreeMap::new()))
}

fn authorization(name: &str) -> Type {
    let name = format!("kubernetes.authorization.{name}");
    Type::Struct(Arc::new(Struct::without_fields(&name)))
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
            patches: false,
        }
    }

    /// For policies that validate: also `variables`, and `params` if the policy has a kind of them.
    pub fn policy(has_params: bool) -> Environment {
        Environment {
            params: has_params.then_some(Type::Dyn),
            variables: Some(no_variables()),
            ..Environment::match_conditions()
        }
    }

    /// For the mutations of policies: also `Object{...}`, `JSONPatch{...}` and `jsonpatch.escapeKey`.
    pub fn mutation(has_params: bool) -> Environment {
        Environment {
            patches: true,
            ..Environment::policy(has_params)
        }
    }

    /// The same without `authorizer`: messages cannot ask who may do what.
    pub fn without_authorizer(self) -> Environment {
        Environment {
            authorizer: false,
            ..self
        }
    }

    /// The same with `params`.
    pub fn with_params(self) -> Environment {
        Environment {
            params: Some(Type::Dyn),
            ..self
        }
    }

    /// For warnings about a policy: the types of `object` and `oldObject` are known, and that of `params` may be.
    /// Where they are not, anything goes.
    pub fn type_checking(
        object: Option<(Schema, TypeId)>,
        params: Option<Option<(Schema, TypeId)>>,
    ) -> Environment {
        let of = |known: Option<(Schema, TypeId)>| match known {
            Some((schema, id)) => structs::of_schema(&Arc::new(schema), id),
            None => Type::Dyn,
        };
        Environment {
            object: of(object),
            params: params.map(of),
            variables: Some(no_variables()),
            request_resource: false,
            authorizer: true,
            patches: false,
        }
    }

    /// Declares `variables.<name>`. One that does not compile can be named, and may be anything.
    pub(crate) fn declare(&mut self, name: &str, program: Option<&Program>) {
        let of = program.map_or(Type::Dyn, |program| storable(program.result_type()));
        let variables = self.variables.get_or_insert_with(no_variables);
        Arc::make_mut(variables).insert(name, of);
    }

    pub(crate) fn patches(&self) -> bool {
        self.patches
    }

    pub(crate) fn variable(&self, name: &str) -> Option<(Type, Root)> {
        Some(match name {
            "object" => (self.object.clone(), Root::Object),
            "oldObject" => (self.object.clone(), Root::OldObject),
            "request" => (REQUEST.clone(), Root::Request),
            "params" => (self.params.clone()?, Root::Params),
            "namespaceObject" => (NAMESPACE.clone(), Root::NamespaceObject),
            "authorizer" if self.authorizer => (AUTHORIZER.clone(), Root::Authorizer),
            "authorizer.requestResource" if self.authorizer && self.request_resource => {
                (RESOURCE_CHECK.clone(), Root::RequestResource)
            }
            "variables" => (Type::Struct(self.variables.clone()?), Root::Variables),
            _ => return None,
        })
    }
}

/// What of a variable's type is known to those who use it: upstream forgets all but plain types, lists and maps.
fn storable(of: &Type) -> Type {
    match of {
        Type::Composite(composite)
            if matches!(composite.kind, CompositeKind::List | CompositeKind::Map) =>
        {
            Type::composite(
                composite.kind,
                composite.parameters.iter().map(storable).collect(),
            )
        }
        Type::Composite(_) | Type::Opaque(_) | Type::Struct(_) | Type::Param(_) | Type::Error => {
            Type::Dyn
        }
        plain => plain.clone(),
    }
}
