//! A snapshot of all roles and bindings, arranged for the question what one user may do.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use imbl::{HashMap, OrdMap};
use rhumb_meta::gotext::quote;

use super::index::Entry;
use super::objects::{Binding, BindingGrant, Role, RoleRef, SubjectKey};
use super::{GROUP, Kind, PolicyRule};
use crate::authz::{Attributes, Authorizer, Decision, Grant};
use crate::user::{User, group};

/// All roles and bindings of one moment. Its maps share what did not change with the snapshots before it.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub(super) cluster: Scope,
    namespaces: HashMap<Arc<str>, Scope>,
}

/// The roles and bindings of one namespace, or of the cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) roles: OrdMap<Arc<str>, Arc<Role>>,
    bindings: HashMap<Arc<str>, Arc<Binding>>,
    users: HashMap<Arc<str>, Bindings>,
    groups: HashMap<Arc<str>, Bindings>,
}

/// The bindings of one subject by name, each with the place of the subject in it.
type Bindings = OrdMap<Arc<str>, (Arc<Binding>, usize)>;

/// The way from a user to rules: a binding that applies, and what its role holds.
pub(super) struct Applying<'a> {
    binding: &'a Arc<Binding>,
    subject: usize,
    rules: Result<&'a Arc<[PolicyRule]>, MissingRole<'a>>,
}

/// A binding's role that does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct MissingRole<'a>(pub(super) &'a RoleRef);

impl Policy {
    pub(super) fn set(&mut self, kind: Kind, namespace: &str, name: &str, entry: Option<Entry>) {
        if !kind.is_namespaced() {
            self.cluster.set(kind, name, entry);
            return;
        }
        let mut scope = self.namespaces.get(namespace).cloned().unwrap_or_default();
        scope.set(kind, name, entry);
        if scope.is_empty() {
            self.namespaces.remove(namespace);
        } else {
            self.namespaces.insert(namespace.into(), scope);
        }
    }

    /// Shows every binding that applies to the user in the namespace, cluster-wide ones first, until told to stop.
    ///
    /// A binding that applies in several ways, by two groups perhaps, is shown as often.
    pub(super) fn visit<'a, B>(
        &'a self,
        user: &User,
        namespace: &str,
        mut visitor: impl FnMut(Applying<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let local = match namespace {
            "" => None,
            namespace => self.namespaces.get(namespace),
        };
        for scope in std::iter::once(&self.cluster).chain(local) {
            // A ClusterRoleBinding cannot have a Role: there is none without a namespace.
            let is_local = local.is_some_and(|local| std::ptr::eq(local, scope));
            let by_user = scope.users.get(user.name.as_str());
            let by_group = |group: &String| scope.groups.get(group.as_str());
            for bindings in by_user
                .into_iter()
                .chain(user.groups.iter().filter_map(by_group))
            {
                for (binding, subject) in bindings.values() {
                    visitor(Applying {
                        binding,
                        subject: *subject,
                        rules: self.rules_of(&binding.role, is_local.then_some(scope)),
                    })?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn rules_of<'a>(
        &'a self,
        role: &'a RoleRef,
        local: Option<&'a Scope>,
    ) -> Result<&'a Arc<[PolicyRule]>, MissingRole<'a>> {
        let found = match role.kind.as_str() {
            "ClusterRole" => self.cluster.roles.get(role.name.as_str()),
            "Role" => local.and_then(|scope| scope.roles.get(role.name.as_str())),
            _ => None,
        };
        found.map(|role| &role.rules).ok_or(MissingRole(role))
    }

    /// The rules of the role that a binding in the namespace is for.
    pub(super) fn rules_of_reference(
        &self,
        role: &RoleRef,
        namespace: &str,
    ) -> Option<Arc<[PolicyRule]>> {
        self.rules_of(role, self.namespaces.get(namespace))
            .ok()
            .cloned()
    }

    /// All rules of the user in the namespace, and what is to say about roles that are missing.
    pub(super) fn rules_of_user(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Missing) {
        let mut seen = BTreeSet::new();
        let mut rules = Vec::new();
        let mut missing = Missing::default();
        let _: ControlFlow<()> = self.visit(user, namespace, |applying| {
            let binding = applying.binding;
            if seen.insert((Arc::clone(&binding.namespace), Arc::clone(&binding.name))) {
                match applying.rules {
                    Ok(more) => rules.extend(more.iter().cloned()),
                    Err(role) => missing.add(role),
                }
            }
            ControlFlow::Continue(())
        });
        (rules, missing)
    }
}

impl Authorizer for Policy {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_in(group::MASTERS) {
            return Decision::Allow(Grant::Masters);
        }
        let mut missing = Missing::default();
        let found = self.visit(attributes.user, attributes.namespace, |applying| {
            match applying.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return ControlFlow::Break(BindingGrant {
                        binding: Arc::clone(applying.binding),
                        subject: applying.subject,
                    });
                }
                Ok(_) => {}
                Err(role) => missing.add(role),
            }
            ControlFlow::Continue(())
        });
        match found {
            ControlFlow::Break(grant) => Decision::Allow(Grant::Binding(grant)),
            ControlFlow::Continue(()) => Decision::Deny(missing.reason()),
        }
    }
}

/// What is to say about bindings whose roles are missing.
#[derive(Debug, Default)]
pub(super) struct Missing(BTreeSet<String>);

impl Missing {
    fn add(&mut self, MissingRole(role): MissingRole<'_>) {
        self.0.insert(missing_role(role));
    }

    /// All of it as one text; empty when nothing is missing.
    pub(super) fn text(&self) -> String {
        match self.0.len() {
            0 | 1 => self.0.first().cloned().unwrap_or_default(),
            _ => {
                let all: Vec<&str> = self.0.iter().map(String::as_str).collect();
                format!("[{}]", all.join(", "))
            }
        }
    }

    fn reason(&self) -> String {
        match self.0.is_empty() {
            true => String::new(),
            false => format!("RBAC: {}", self.text()),
        }
    }
}

fn missing_role(role: &RoleRef) -> String {
    let resource = match role.kind.as_str() {
        "Role" => "role",
        "ClusterRole" => "clusterrole",
        kind => return format!("unsupported role reference kind: {}", quote(kind)),
    };
    format!("{resource}.{GROUP} {} not found", quote(&role.name))
}

impl Scope {
    fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.bindings.is_empty()
    }

    fn set(&mut self, kind: Kind, name: &str, entry: Option<Entry>) {
        match (kind, entry) {
            (_, Some(Entry::Role(role))) => {
                self.roles.insert(name.into(), Arc::new(role));
            }
            (_, Some(Entry::Binding(binding))) => {
                self.remove_binding(name);
                self.add_binding(Arc::new(binding));
            }
            (Kind::ClusterRole | Kind::Role, None) => {
                self.roles.remove(name);
            }
            (Kind::ClusterRoleBinding | Kind::RoleBinding, None) => self.remove_binding(name),
        }
    }

    fn add_binding(&mut self, binding: Arc<Binding>) {
        // From the last to the first, so that the first subject with a key is the one that is kept.
        for (key, at) in binding.keys().into_iter().rev() {
            let (subjects, key) = self.subjects(key);
            let mut bindings = subjects.get(&key).cloned().unwrap_or_default();
            bindings.insert(Arc::clone(&binding.name), (Arc::clone(&binding), at));
            subjects.insert(key, bindings);
        }
        self.bindings.insert(Arc::clone(&binding.name), binding);
    }

    fn remove_binding(&mut self, name: &str) {
        let Some(binding) = self.bindings.remove(name) else {
            return;
        };
        for (key, _) in binding.keys() {
            let (subjects, key) = self.subjects(key);
            let Some(mut bindings) = subjects.remove(&key) else {
                continue;
            };
            bindings.remove(name);
            if !bindings.is_empty() {
                subjects.insert(key, bindings);
            }
        }
    }

    fn subjects(&mut self, key: SubjectKey) -> (&mut HashMap<Arc<str>, Bindings>, Arc<str>) {
        match key {
            SubjectKey::User(name) => (&mut self.users, name),
            SubjectKey::Group(name) => (&mut self.groups, name),
        }
    }
}
