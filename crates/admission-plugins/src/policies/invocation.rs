//! Finds the policies that match a request, by which bindings and with which parameters (upstream: `policyDispatcher`,
//! `PolicyInvocation`).

use std::sync::Arc;

use rhumb_admission::{FailurePolicy, MatchCriteria, MatchOutcome, PolicyBinding, ResourceAndKind};
use rhumb_api::JsonObject;
use rhumb_meta::Status;

use super::params::{self, PolicyParam};
use super::policy_source::{AdmissionPolicy, ParsedPolicyObject, PolicyHook, PolicySource};
use crate::exclusion_counters::ExclusionCounters;
use crate::metrics::{AdmissionMetrics, ExclusionSubject};
use crate::namespace_labels::{NamespaceLabelSource, match_criteria, namespace_labels};
use rhumb_registry::RequestOrigin;
use rhumb_registry::admission::AdmissionAttributes;

/// A policy to evaluate, with the binding and parameters to use.
#[derive(Debug)]
pub(super) struct PolicyInvocation<P> {
    pub(super) policy: Arc<ParsedPolicyObject<P>>,
    pub(super) binding: Arc<ParsedPolicyObject<PolicyBinding>>,
    pub(super) names: ResourceAndKind,
    pub(super) params: Vec<PolicyParam>,
}

/// A policy that could not be evaluated and whose failure policy is `Fail`.
#[derive(Debug)]
pub(super) struct FailClosedPolicy {
    pub(super) policy: Arc<str>,
    pub(super) binding: Option<Arc<str>>,
    pub(super) message: String,
    /// Whether an expression failed, rather than the configuration.
    pub(super) is_expression: bool,
}

/// All policies to evaluate, in order, and those that failed already.
#[derive(Debug)]
pub(super) struct PolicyInvocations<P> {
    pub(super) all: Vec<PolicyInvocation<P>>,
    pub(super) failures: Vec<FailClosedPolicy>,
}

impl<P> Default for PolicyInvocations<P> {
    fn default() -> Self {
        PolicyInvocations {
            all: Vec::new(),
            failures: Vec::new(),
        }
    }
}

/// Matches policies and bindings against one request.
struct PolicyInvocationCollector<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    object: Option<&'a JsonObject>,
    namespace: NamespaceLabelSource,
    metrics: &'a AdmissionMetrics,
    step: &'static str,
    excluded: Vec<String>,
}

impl<P: AdmissionPolicy> PolicySource<P> {
    pub(super) async fn invocations(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
        metrics: &AdmissionMetrics,
    ) -> Result<PolicyInvocations<P>, Status> {
        let request = attributes.request_attributes(object)?;
        if attributes.context.origin == RequestOrigin::Server || request.is_exempt_from_policies() {
            return Ok(PolicyInvocations::default());
        }
        let Some(hooks) = self.hooks(attributes) else {
            return Ok(PolicyInvocations::default());
        };
        let are_labels_needed = hooks.iter().any(needs_namespace_labels);
        let mut matcher = PolicyInvocationCollector {
            attributes,
            object,
            namespace: namespace_labels(attributes, are_labels_needed).await,
            metrics,
            step: self.policy_type.metric_label(),
            excluded: Vec::new(),
        };
        let mut invocations = PolicyInvocations::default();
        for hook in hooks.iter() {
            matcher.add(hook, &mut invocations)?;
        }
        matcher.annotate_excluded(self.policy_type.policies_resource());
        Ok(invocations)
    }
}

fn needs_namespace_labels<P: AdmissionPolicy>(hook: &PolicyHook<P>) -> bool {
    let bindings = hook.bindings.iter();
    hook.policy
        .value
        .spec()
        .match_criteria
        .needs_namespace_labels()
        || bindings
            .filter_map(|binding| binding.value.match_criteria.as_ref())
            .any(MatchCriteria::needs_namespace_labels)
}

impl PolicyInvocationCollector<'_> {
    fn add<P: AdmissionPolicy>(
        &mut self,
        hook: &PolicyHook<P>,
        invocations: &mut PolicyInvocations<P>,
    ) -> Result<(), Status> {
        let spec = hook.policy.value.spec();
        let mut misconfigured = |binding: Option<&PolicyBinding>, error: String| {
            if spec.failure_policy == FailurePolicy::Fail {
                let failed_part = if binding.is_some() {
                    "binding"
                } else {
                    "policy"
                };
                invocations.failures.push(FailClosedPolicy {
                    policy: spec.name.clone(),
                    binding: binding.map(|binding| binding.name.clone()),
                    message: format!("failed to configure {failed_part}: {error}"),
                    is_expression: false,
                });
            }
        };
        let names = match self.matches(
            &spec.match_criteria,
            &spec.name,
            &hook.policy.exclusion_counters,
        )? {
            Ok(Some(names)) => names,
            Ok(None) => return Ok(()),
            Err(status) => {
                misconfigured(None, status.message);
                return Ok(());
            }
        };
        let resources = self.attributes.context.resources;
        let source = spec
            .param_kind
            .as_ref()
            .map(|kind| params::find_param_source(resources, kind));
        let source = match source.transpose() {
            Ok(source) => source,
            Err(error) => {
                misconfigured(None, error);
                return Ok(());
            }
        };
        for binding in &hook.bindings {
            if let Some(criteria) = &binding.value.match_criteria {
                match self.matches(criteria, &binding.value.name, &binding.exclusion_counters)? {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    Err(status) => {
                        misconfigured(Some(&binding.value), status.message);
                        continue;
                    }
                }
            }
            let params = binding.value.param_ref.as_ref();
            match params::collect_params(self.attributes, self.object, source, params) {
                Err(error) => misconfigured(Some(&binding.value), error),
                Ok(params) if params.is_empty() => {}
                Ok(params) => invocations.all.push(PolicyInvocation {
                    policy: hook.policy.clone(),
                    binding: binding.clone(),
                    names: names.clone(),
                    params,
                }),
            }
        }
        Ok(())
    }

    /// The resource and kind as which the criteria match, if they do. The outer error fails the request, the inner one
    /// is subject to the failure policy.
    fn matches(
        &mut self,
        criteria: &MatchCriteria,
        name: &str,
        exclusions: &ExclusionCounters,
    ) -> Result<Result<Option<ResourceAndKind>, Status>, Status> {
        let outcome = match_criteria(self.attributes, criteria, self.object, &self.namespace)?;
        Ok(match outcome {
            MatchOutcome::Matched(names) => Ok(Some(names)),
            MatchOutcome::Failed(status) => Err(status),
            MatchOutcome::NoRule
            | MatchOutcome::NamespaceNotSelected
            | MatchOutcome::ObjectNotSelected => Ok(None),
            MatchOutcome::Excluded { rule } => {
                let subject = ExclusionSubject {
                    configuration: "",
                    name,
                    kind: "policy",
                    step: self.step,
                    operation: self.attributes.operation,
                    rule,
                };
                // Reinvocation concerns the same request: do not count it twice.
                if !self.attributes.reinvocation.is_reinvocation() {
                    let resource = &self.attributes.context.resource.group_resource;
                    exclusions.increment(self.metrics, subject, resource, 1);
                    if self.attributes.context.audit_annotations.is_some() {
                        self.excluded.push(format!("{name}[{rule}]"));
                    }
                }
                Ok(None)
            }
        })
    }

    /// Adds an audit annotation that lists the excluded policies and bindings, each with the index of the exclusion
    /// rule.
    fn annotate_excluded(&self, plural: &str) {
        if !self.excluded.is_empty() {
            let key = format!("admission.rhumb/excluded-{plural}");
            self.attributes
                .context
                .annotate(key, self.excluded.join(","));
        }
    }
}
