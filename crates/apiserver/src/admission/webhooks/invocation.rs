//! Who is to be asked about a write.

use std::time::{Duration, Instant};

use rhumb_admission::{Flavor, LabelSets, Met, Names, ObjectLabels, Outcome};
use rhumb_api::Object;
use rhumb_expressions::{Budget, Scope};
use rhumb_meta::Status;
use rhumb_meta::labels::Labels;

use super::Webhooks;
use super::hooks::Hook;
use crate::admission::Attributes;
use crate::admission::namespaces::NamespaceLabels;
use crate::admission::seen::Sight;

/// How long the conditions of a webhook may take for one write.
const CONDITIONS_TIME_MAX: Duration = Duration::from_secs(1);

/// Whom exclusion rules left out, for the audit log.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Vec<String>);

impl Webhooks {
    /// Finds the labels of the namespace if any of the webhooks looks at them.
    pub(super) async fn namespace_labels(
        &self,
        attributes: &Attributes<'_>,
        hooks: &[Hook],
    ) -> NamespaceLabels {
        let are_needed = hooks
            .iter()
            .any(|hook| hook.webhook.criteria.needs_namespace());
        attributes.namespace_labels(are_needed).await
    }

    /// Under which names a webhook is to be asked; `None` if not at all.
    pub(super) fn invocation(
        &self,
        attributes: &Attributes<'_>,
        hook: &Hook,
        object: Option<&Object>,
        namespace: &NamespaceLabels,
        left_out: &mut LeftOut,
    ) -> Result<Option<Names>, Status> {
        let facts = attributes.facts(object)?;
        let namespace = namespace.view(object);
        let (new, old) = (object.map(ObjectLabels), attributes.old.map(ObjectLabels));
        let labels = LabelSets {
            namespace: match &namespace {
                Ok(view) => Ok(view),
                Err(status) => Err(*status),
            },
            object: new.as_ref().map(|labels| labels as &dyn Labels),
            old: old.as_ref().map(|labels| labels as &dyn Labels),
        };
        match hook.webhook.criteria.decide(&facts, &labels) {
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
        let excluded = matches!(judged.met, Met::No { .. });
        let counted = self.counted(attributes, hook);
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
        // The second round of changes is about the same write.
        if self.flavor == Flavor::Mutating && attributes.rounds.is_second() {
            return;
        }
        let call = attributes.call;
        let counted = self.counted(attributes, hook);
        let resource = &call.resource.group_resource;
        hook.exclusions
            .count(&self.outside.counts, counted, resource);
        if call.annotations.is_some() {
            let webhook = &hook.webhook;
            let (configuration, name) = (&webhook.configuration, &webhook.name);
            left_out.0.push(format!("{configuration}/{name}[{rule}]"));
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
