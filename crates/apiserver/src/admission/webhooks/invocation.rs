//! Who is to be asked about a write.

use rhumb_admission::{Flavor, LabelSets, Names, ObjectLabels, Outcome};
use rhumb_api::Object;
use rhumb_meta::Status;
use rhumb_meta::labels::Labels;

use super::Webhooks;
use super::hooks::Hook;
use crate::admission::Attributes;
use crate::admission::namespaces::NamespaceLabels;

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
            Outcome::Seen(names) => Ok(Some(names)),
            Outcome::Failed(status) => Err(status),
            Outcome::Excluded { rule } => {
                self.count_excluded(attributes, hook, rule, left_out);
                Ok(None)
            }
            Outcome::NoRule | Outcome::OtherNamespace | Outcome::OtherObject => Ok(None),
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
