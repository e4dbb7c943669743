//! Who is to be asked about a write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_admission::{Flavor, Met, Names, Outcome};
use rhumb_api::Object;
use rhumb_expressions::{Budget, Scope};
use rhumb_meta::Status;

use super::Webhooks;
use super::hooks::{Hook, Hooks};
use super::plans::{Plan, Sort, Step};
use crate::admission::Attributes;
use crate::admission::counts::Counted;
use crate::admission::namespaces::NamespaceLabels;
use crate::admission::seen::Sight;

/// How long the conditions of a webhook may take for one write.
const CONDITIONS_TIME_MAX: Duration = Duration::from_millis(100);

/// Whom exclusion rules left out, for the audit log.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Vec<String>);

impl Webhooks {
    /// What is to be done about a write, as far as that does not depend on the object. Whom it leaves out is counted.
    pub(super) fn plan(
        &self,
        attributes: &Attributes<'_>,
        hooks: &Hooks,
        namespace: &NamespaceLabels,
    ) -> Result<Arc<Plan>, Status> {
        let facts = attributes.facts(None)?;
        let sort = Sort {
            operation: facts.operation,
            resource: &facts.asked.resource,
            subresource: facts.subresource,
            namespace: match facts.namespace {
                "" => "",
                namespace if hooks.tell_namespaces_apart => namespace,
                _ => "*",
            },
            labels: namespace.revision(),
        };
        if !namespace.is_lasting() {
            return self
                .make_plan(attributes, hooks, namespace, &sort)
                .map(Arc::new);
        }
        let counts = !self.is_second_round(attributes);
        if let Some(plan) = hooks.plans.get(&sort, counts) {
            return Ok(plan);
        }
        let plan = self.make_plan(attributes, hooks, namespace, &sort)?;
        let (plan, gone) = hooks.plans.keep(&sort, plan, counts);
        hooks.gather(&gone);
        Ok(plan)
    }

    fn make_plan(
        &self,
        attributes: &Attributes<'_>,
        hooks: &Hooks,
        namespace: &NamespaceLabels,
        sort: &Sort<'_>,
    ) -> Result<Plan, Status> {
        let mut steps = Vec::new();
        let mut excluded = Vec::new();
        for (number, hook) in hooks.all.iter().enumerate() {
            let criteria = &hook.webhook.criteria;
            if criteria.tells_objects_apart() || !namespace.is_lasting() {
                steps.push(Step::Decide(number));
                continue;
            }
            match attributes.outcome(criteria, None, namespace)? {
                Outcome::Seen(names) => steps.push(Step::Ask(number, names)),
                Outcome::Excluded { rule } => excluded.push((number, rule)),
                Outcome::Failed(_) => steps.push(Step::Decide(number)),
                Outcome::NoRule | Outcome::OtherNamespace | Outcome::OtherObject => {}
            }
        }
        Ok(Plan::new(sort, steps, excluded))
    }

    /// Notes for the audit log whom the plan left out.
    pub(super) fn note_left_out(
        &self,
        attributes: &Attributes<'_>,
        hooks: &Hooks,
        plan: &Plan,
        left_out: &mut LeftOut,
    ) {
        if attributes.call.annotations.is_some() && !self.is_second_round(attributes) {
            for &(number, rule) in &plan.excluded {
                left_out
                    .0
                    .extend(hooks.all.get(number).map(|hook| noted(hook, rule)));
            }
        }
    }

    /// The second round of changes is about the same write.
    fn is_second_round(&self, attributes: &Attributes<'_>) -> bool {
        self.flavor == Flavor::Mutating && attributes.rounds.is_second()
    }

    /// Under which names the webhook of a step is to be asked; `None` if not at all.
    pub(super) fn step(
        &self,
        attributes: &Attributes<'_>,
        (hook, step): (&Hook, &Step),
        object: Option<&Object>,
        namespace: &NamespaceLabels,
        left_out: &mut LeftOut,
    ) -> Result<Option<Names>, Status> {
        match step {
            Step::Ask(_, names) => {
                let holds = self.conditions_hold(attributes, hook, names, object)?;
                Ok(holds.then(|| names.clone()))
            }
            Step::Decide(_) => self.invocation(attributes, hook, object, namespace, left_out),
        }
    }

    /// Under which names a webhook is to be asked; `None` if not at all.
    fn invocation(
        &self,
        attributes: &Attributes<'_>,
        hook: &Hook,
        object: Option<&Object>,
        namespace: &NamespaceLabels,
        left_out: &mut LeftOut,
    ) -> Result<Option<Names>, Status> {
        match attributes.outcome(&hook.webhook.criteria, object, namespace)? {
            Outcome::Seen(names) => {
                let holds = self.conditions_hold(attributes, hook, &names, object)?;
                Ok(holds.then_some(names))
            }
            Outcome::Failed(status) => Err(status),
            Outcome::Excluded { rule } => {
                self.count_excluded(attributes, hook, rule, left_out);
                Ok(None)
            }
            Outcome::NoRule | Outcome::OtherNamespace | Outcome::OtherObject => Ok(None),
        }
    }

    /// Whether the match conditions of a webhook let it see the write.
    fn conditions_hold(
        &self,
        attributes: &Attributes<'_>,
        hook: &Hook,
        names: &Names,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        let webhook = &hook.webhook;
        if webhook.conditions.is_empty() {
            return Ok(true);
        }
        let begun = Instant::now();
        let sight = Sight::new(attributes, names, object, None)?;
        let inputs = sight.inputs();
        let mut budget = Budget::for_match_conditions(Some(begun + CONDITIONS_TIME_MAX));
        let mut scope = Scope::new(&inputs);
        let judged = webhook
            .conditions
            .judge(&mut scope, &mut budget, webhook.failure);
        let excluded = matches!(judged.met, Met::No { .. } | Met::Ignored);
        let counted = Counted {
            step: match self.flavor {
                Flavor::Mutating => "admit",
                Flavor::Validating => "validate",
            },
            ..self.counted(attributes, hook)
        };
        let counts = &self.outside.counts;
        counts.conditions(counted, begun.elapsed(), judged.errors, excluded);
        match judged.met {
            Met::Yes => Ok(true),
            Met::No { .. } | Met::Ignored => Ok(false),
            Met::Failed(error) => {
                let resource = &attributes.call.resource.group_resource;
                let name = attributes.facts(object)?.name;
                Err(Status::forbidden(resource, name, error))
            }
        }
    }

    fn count_excluded(
        &self,
        attributes: &Attributes<'_>,
        hook: &Hook,
        rule: usize,
        left_out: &mut LeftOut,
    ) {
        if self.is_second_round(attributes) {
            return;
        }
        let call = attributes.call;
        let counted = self.counted(attributes, hook);
        let resource = &call.resource.group_resource;
        hook.exclusions
            .count(&self.outside.counts, counted, resource, 1);
        if call.annotations.is_some() {
            left_out.0.push(noted(hook, rule));
        }
    }

    /// Tells the audit log who was left out, and by which rule.
    pub(super) fn annotate_left_out(&self, attributes: &Attributes<'_>, left_out: &LeftOut) {
        if left_out.0.is_empty() {
            return;
        }
        let key = match self.flavor {
            Flavor::Mutating => "admission.rhumb/excluded-mutating-webhooks",
            Flavor::Validating => "admission.rhumb/excluded-validating-webhooks",
        };
        attributes.call.annotate(key, left_out.0.join(","));
    }
}

fn noted(hook: &Hook, rule: usize) -> String {
    let webhook = &hook.webhook;
    format!("{}/{}[{rule}]", webhook.configuration, webhook.name)
}
