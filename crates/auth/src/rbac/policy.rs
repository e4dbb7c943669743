//! RbacPolicy: an immutable snapshot of all roles and bindings, indexed by subject. Implements [`Authorizer`].
//!
//! Upstream: `RBACAuthorizer` and `DefaultRuleResolver`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use imbl::{HashMap, OrdMap};
use rhumb_meta::gotext::quote;

use super::index::RbacEntry;
use super::objects::{AllowingBinding, IndexedBinding, IndexedRole, RoleRef, SubjectKey};
use super::{GROUP, PolicyRule, RbacKind};
use crate::authz::{AllowReason, Attributes, Authorizer, Decision};
use crate::user::{User, group};

/// A snapshot of all roles and bindings. Its persistent maps share unchanged parts with earlier snapshots.
#[derive(Debug, Clone, Default)]
pub struct RbacPolicy {
    pub(super) cluster: PolicyScope,
    namespaces: HashMap<Arc<str>, PolicyScope>,
}

/// The roles and bindings of one namespace, or the cluster-scoped ones.
#[derive(Debug, Clone, Default)]
pub(super) struct PolicyScope {
    pub(super) roles: OrdMap<Arc<str>, Arc<IndexedRole>>,
    bindings: HashMap<Arc<str>, Arc<IndexedBinding>>,
    users: HashMap<Arc<str>, BindingsByName>,
    groups: HashMap<Arc<str>, BindingsByName>,
}

/// The bindings of one subject by binding name, each with the index of the subject in the binding.
type BindingsByName = OrdMap<Arc<str>, (Arc<IndexedBinding>, usize)>;

/// A binding that applies to a user, and the rules of its role.
pub(super) struct ApplicableBinding<'a> {
    binding: &'a Arc<IndexedBinding>,
    subject: usize,
    rules: Result<&'a Arc<[PolicyRule]>, MissingRole<'a>>,
}

/// A reference to a role that does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct MissingRole<'a>(pub(super) &'a RoleRef);

impl RbacPolicy {
    pub(super) fn set(
        &mut self,
        kind: RbacKind,
        namespace: &str,
        name: &str,
        entry: Option<RbacEntry>,
    ) {
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

    /// Visits every binding that applies to the user in the namespace, ClusterRoleBindings first, until the visitor
    /// breaks.
    ///
    /// A binding with several matching subjects, such as two groups of the user, is visited once for each.
    pub(super) fn visit<'a, B>(
        &'a self,
        user: &User,
        namespace: &str,
        mut visitor: impl FnMut(ApplicableBinding<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let local = match namespace {
            "" => None,
            namespace => self.namespaces.get(namespace),
        };
        for scope in std::iter::once(&self.cluster).chain(local) {
            // A ClusterRoleBinding cannot refer to a Role, because Roles are namespaced.
            let is_local = local.is_some_and(|local| std::ptr::eq(local, scope));
            let by_user = scope.users.get(user.name.as_str());
            let by_group = |group: &String| scope.groups.get(group.as_str());
            for bindings in by_user
                .into_iter()
                .chain(user.groups.iter().filter_map(by_group))
            {
                for (binding, subject) in bindings.values() {
                    visitor(ApplicableBinding {
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
        local: Option<&'a PolicyScope>,
    ) -> Result<&'a Arc<[PolicyRule]>, MissingRole<'a>> {
        let found = match role.kind.as_str() {
            "ClusterRole" => self.cluster.roles.get(role.name.as_str()),
            "Role" => local.and_then(|scope| scope.roles.get(role.name.as_str())),
            _ => None,
        };
        found.map(|role| &role.rules).ok_or(MissingRole(role))
    }

    /// The rules of the role that a binding in the namespace refers to.
    pub(super) fn rules_of_reference(
        &self,
        role: &RoleRef,
        namespace: &str,
    ) -> Option<Arc<[PolicyRule]>> {
        self.rules_of(role, self.namespaces.get(namespace))
            .ok()
            .cloned()
    }

    /// All rules of the user in the namespace, and the missing roles of its bindings.
    pub(super) fn rules_of_user(
        &self,
        user: &User,
        namespace: &str,
    ) -> (Vec<PolicyRule>, MissingRoleMessages) {
        let mut seen = BTreeSet::new();
        let mut rules = Vec::new();
        let mut missing = MissingRoleMessages::default();
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

impl Authorizer for RbacPolicy {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_in(group::MASTERS) {
            return Decision::Allow(AllowReason::Masters);
        }
        let mut missing = MissingRoleMessages::default();
        let found = self.visit(attributes.user, attributes.namespace, |applying| {
            match applying.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return ControlFlow::Break(AllowingBinding {
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
            ControlFlow::Break(grant) => Decision::Allow(AllowReason::Binding(grant)),
            ControlFlow::Continue(()) => Decision::Deny(missing.reason()),
        }
    }
}

/// Messages about bindings whose roles do not exist.
#[derive(Debug, Default)]
pub(super) struct MissingRoleMessages(BTreeSet<String>);

impl MissingRoleMessages {
    fn add(&mut self, MissingRole(role): MissingRole<'_>) {
        self.0.insert(missing_role(role));
    }

    /// All messages as one text; empty if no role is missing.
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

impl PolicyScope {
    fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.bindings.is_empty()
    }

    fn set(&mut self, kind: RbacKind, name: &str, entry: Option<RbacEntry>) {
        match (kind, entry) {
            (_, Some(RbacEntry::Role(role))) => {
                self.roles.insert(name.into(), Arc::new(role));
            }
            (_, Some(RbacEntry::Binding(binding))) => {
                self.remove_binding(name);
                self.add_binding(Arc::new(binding));
            }
            (RbacKind::ClusterRole | RbacKind::Role, None) => {
                self.roles.remove(name);
            }
            (RbacKind::ClusterRoleBinding | RbacKind::RoleBinding, None) => {
                self.remove_binding(name);
            }
        }
    }

    fn add_binding(&mut self, binding: Arc<IndexedBinding>) {
        // In reverse order, so that the first subject with a key wins.
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

    fn subjects(&mut self, key: SubjectKey) -> (&mut HashMap<Arc<str>, BindingsByName>, Arc<str>) {
        match key {
            SubjectKey::User(name) => (&mut self.users, name),
            SubjectKey::Group(name) => (&mut self.groups, name),
        }
    }
}
