//! Which policies are about a write, by which bindings, and with which parameters.

use std::sync::Arc;

use rhumb_admission::{Binding, Criteria, FailurePolicy, Names, Outcome};
use rhumb_api::Object;
use rhumb_meta::Status;

use super::hooks::{Headed, Hook, Hooks, Known};
use super::params::{self, Param};
use crate::admission::Attributes;
use crate::admission::counts::{Counted, Counts};
use crate::admission::exclusions::Exclusions;
use crate::admission::namespaces::NamespaceLabels;

/// A policy that is to be asked.
#[derive(Debug)]
pub(super) struct Invocation<P> {
    pub(super) policy: Arc<Known<P>>,
    pub(super) binding: Arc<Known<Binding>>,
    pub(super) names: Names,
    pub(super) params: Vec<Param>,
}

/// A policy that cannot be asked, and whose failure policy does not forgive that.
#[derive(Debug)]
pub(super) struct Misconfigured {
    pub(super) policy: Arc<str>,
    pub(super) binding: Option<Arc<str>>,
    pub(super) message: String,
    /// Whether it is an expression that failed, and not the configuration.
    pub(super) is_expression: bool,
}

/// All that are to be asked, in their order.
#[derive(Debug)]
pub(super) struct Invocations<P> {
    pub(super) all: Vec<Invocation<P>>,
    pub(super) misconfigured: Vec<Misconfigured>,
}

impl<P> Default for Invocations<P> {
    fn default() -> Self {
        Invocations {
            all: Vec::new(),
            misconfigured: Vec::new(),
        }
    }
}

/// Who decides for one write.
struct Matcher<'a> {
    attributes: &'a Attributes<'a>,
    object: Option<&'a Object>,
    namespace: NamespaceLabels,
    counts: &'a Counts,
    step: &'static str,
    excluded: Vec<String>,
}

impl<P: Headed> Hooks<P> {
    pub(super) async fn invocations(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        counts: &Counts,
    ) -> Result<Invocations<P>, Status> {
        let facts = attributes.facts(object)?;
        if attributes.call.is_own || facts.is_exempt_from_policies() {
            return Ok(Invocations::default());
        }
        let Some(hooks) = self.in_force(attributes) else {
            return Ok(Invocations::default());
        };
        let are_labels_needed = hooks.iter().any(needs_namespace);
        let mut matcher = Matcher {
            attributes,
            object,
            namespace: attributes.namespace_labels(are_labels_needed).await,
            counts,
            step: self.flavor.as_str(),
            excluded: Vec::new(),
        };
        let mut invocations = Invocations::default();
        for hook in hooks.iter() {
            matcher.add(hook, &mut invocations)?;
        }
        matcher.annotate(self.flavor.plural());
        Ok(invocations)
    }
}

fn needs_namespace<P: Headed>(hook: &Hook<P>) -> bool {
    let bindings = hook.bindings.iter();
    hook.policy.it.head().criteria.needs_namespace()
        || bindings
            .filter_map(|binding| binding.it.criteria.as_ref())
            .any(Criteria::needs_namespace)
}

impl Matcher<'_> {
    fn add<P: Headed>(
        &mut self,
        hook: &Hook<P>,
        invocations: &mut Invocations<P>,
    ) -> Result<(), Status> {
        let head = hook.policy.it.head();
        let mut misconfigured = |binding: Option<&Binding>, error: String| {
            if head.failure == FailurePolicy::Fail {
                let what = if binding.is_some() {
                    "binding"
                } else {
                    "policy"
                };
                invocations.misconfigured.push(Misconfigured {
                    policy: head.name.clone(),
                    binding: binding.map(|binding| binding.name.clone()),
                    message: format!("failed to configure {what}: {error}"),
                    is_expression: false,
                });
            }
        };
        let names = match self.sees(&head.criteria, &head.name, &hook.policy.exclusions)? {
            Ok(Some(names)) => names,
            Ok(None) => return Ok(()),
            Err(status) => {
                misconfigured(None, status.message);
                return Ok(());
            }
        };
        let api = self.attributes.call.api;
        let source = head.params.as_ref().map(|kind| params::source(api, kind));
        let source = match source.transpose() {
            Ok(source) => source,
            Err(error) => {
                misconfigured(None, error);
                return Ok(());
            }
        };
        for binding in &hook.bindings {
            if let Some(criteria) = &binding.it.criteria {
                match self.sees(criteria, &binding.it.name, &binding.exclusions)? {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    Err(status) => {
                        misconfigured(Some(&binding.it), status.message);
                        continue;
                    }
                }
            }
            let params = binding.it.params.as_ref();
            match params::collect(self.attributes, self.object, source, params) {
                Err(error) => misconfigured(Some(&binding.it), error),
                Ok(params) if params.is_empty() => {}
                Ok(params) => invocations.all.push(Invocation {
                    policy: hook.policy.clone(),
                    binding: binding.clone(),
                    names: names.clone(),
                    params,
                }),
            }
        }
        Ok(())
    }

    /// The outer error ends the request, the inner one is the policy's.
    fn sees(
        &mut self,
        criteria: &Criteria,
        name: &str,
        exclusions: &Exclusions,
    ) -> Result<Result<Option<Names>, Status>, Status> {
        let outcome = self
            .attributes
            .outcome(criteria, self.object, &self.namespace)?;
        Ok(match outcome {
            Outcome::Seen(names) => Ok(Some(names)),
            Outcome::Failed(status) => Err(status),
            Outcome::NoRule | Outcome::OtherNamespace | Outcome::OtherObject => Ok(None),
            Outcome::Excluded { rule } => {
                let counted = Counted {
                    name,
                    kind: "policy",
                    step: self.step,
                    operation: self.attributes.operation,
                };
                // The second round of changes is about the same write.
                if !self.attributes.rounds.is_second() {
                    let resource = &self.attributes.call.resource.group_resource;
                    exclusions.count(self.counts, counted, resource, 1);
                    if self.attributes.call.annotations.is_some() {
                        self.excluded.push(format!("{name}[{rule}]"));
                    }
                }
                Ok(None)
            }
        })
    }

    /// Tells the audit log which policies and bindings were left out, and by which rule.
    fn annotate(&self, plural: &str) {
        if !self.excluded.is_empty() {
            let key = format!("admission.rhumb/excluded-{plural}");
            self.attributes.call.annotate(key, self.excluded.join(","));
        }
    }
}
