//! Who would see a write, and why others would not, without anybody being asked.
//!
//! What decides is what decides in the server: the criteria and conditions of each webhook, policy and binding. The
//! write is taken as it is: what mutating policies and webhooks would make of it is not known here.

mod policies;
#[cfg(test)]
mod tests;
mod verdict;

use std::time::{Duration, Instant};

use rhumb_expressions::{Budget, Input, Inputs, ResourceCheck, Scope};
use rhumb_meta::labels::Labels;
use serde::Serialize;
use serde_json::Value;

use crate::Object;
use crate::conditions::{Conditions, Met};
use crate::criteria::{Criteria, Outcome, Reading};
use crate::facts::{Facts, LabelSets, Names, ObjectLabels};
use crate::policy::{Head, PolicyFlavor};
use crate::review::{Request, UserInfo};
use crate::webhook::{FailurePolicy, Flavor, SideEffects, Webhook, webhooks_of};

pub use verdict::{Part, Verdict};

/// How long the conditions of one webhook or policy may take.
const CONDITIONS_TIME_MAX: Duration = Duration::from_secs(1);

/// A write to be explained.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    pub facts: Facts<'a>,
    /// None in a deletion and a connection.
    pub object: Option<&'a Object>,
    /// None in a creation.
    pub old: Option<&'a Object>,
    /// The namespace that it is in; of no meaning outside of namespaces.
    pub namespace: Option<&'a Object>,
    pub user: UserInfo<'a>,
    pub dry_run: bool,
}

/// The configurations of a cluster.
#[derive(Debug, Default)]
pub struct Configurations {
    mutating_policies: Vec<Object>,
    mutating_bindings: Vec<Object>,
    mutating_webhooks: Vec<Object>,
    validating_policies: Vec<Object>,
    validating_bindings: Vec<Object>,
    validating_webhooks: Vec<Object>,
}

/// When somebody is asked; in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Phase {
    MutatingPolicy,
    MutatingWebhook,
    ValidatingPolicy,
    ValidatingWebhook,
}

impl Phase {
    /// As people say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::MutatingPolicy => "mutating policy",
            Phase::MutatingWebhook => "mutating webhook",
            Phase::ValidatingPolicy => "validating policy",
            Phase::ValidatingWebhook => "validating webhook",
        }
    }
}

/// Somebody who might see the write. They are in the order in which they would be asked, though validating webhooks
/// are asked all at once.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Participant {
    pub phase: Phase,
    /// The name of the configuration, or of the policy.
    pub configuration: String,
    /// The name of the webhook or the binding; empty for a policy of which no binding counts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What the verdict leaves open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub failure_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// What a binding makes of a violation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

impl Configurations {
    /// Takes an object if it is a configuration; gives it back otherwise.
    pub fn add(&mut self, object: Object) -> Result<(), Object> {
        let kind = object.get("kind").and_then(Value::as_str);
        let list = match kind {
            Some("MutatingAdmissionPolicy") => &mut self.mutating_policies,
            Some("MutatingAdmissionPolicyBinding") => &mut self.mutating_bindings,
            Some("MutatingWebhookConfiguration") => &mut self.mutating_webhooks,
            Some("ValidatingAdmissionPolicy") => &mut self.validating_policies,
            Some("ValidatingAdmissionPolicyBinding") => &mut self.validating_bindings,
            Some("ValidatingWebhookConfiguration") => &mut self.validating_webhooks,
            _ => return Err(object),
        };
        list.push(object);
        list.sort_by(|one, other| name_of(one).cmp(name_of(other)));
        Ok(())
    }

    fn webhooks(&self, flavor: Flavor) -> &[Object] {
        match flavor {
            Flavor::Mutating => &self.mutating_webhooks,
            Flavor::Validating => &self.validating_webhooks,
        }
    }
}

/// All who might see a write, in the order in which they would be asked.
pub fn explain(
    write: &Write<'_>,
    configurations: &Configurations,
    reading: Reading,
) -> Vec<Participant> {
    let policies = |flavor| policies::explain(write, configurations, flavor, reading);
    let webhooks =
        |flavor| explain_webhooks(write, configurations.webhooks(flavor), flavor, reading);
    [
        policies(PolicyFlavor::Mutating),
        webhooks(Flavor::Mutating),
        policies(PolicyFlavor::Validating),
        webhooks(Flavor::Validating),
    ]
    .concat()
}

fn explain_webhooks(
    write: &Write<'_>,
    configurations: &[Object],
    flavor: Flavor,
    reading: Reading,
) -> Vec<Participant> {
    let mut all = Vec::new();
    for configuration in configurations {
        let forms = configuration.get("webhooks").unwrap_or(&Value::Null);
        let webhooks = webhooks_of(configuration, reading);
        for (at, webhook) in webhooks.iter().enumerate() {
            let Found { verdict, note } = write.verdict_of_webhook(webhook, &forms[at]);
            all.push(Participant {
                phase: match flavor {
                    Flavor::Mutating => Phase::MutatingWebhook,
                    Flavor::Validating => Phase::ValidatingWebhook,
                },
                configuration: webhook.configuration.to_string(),
                name: webhook.name.to_string(),
                verdict,
                note,
                failure_policy: failure_name(webhook.failure),
                timeout_seconds: Some(webhook.timeout.as_secs()),
                actions: Vec::new(),
            });
        }
    }
    all
}

/// A verdict, and what people should know of it.
struct Found {
    verdict: Verdict,
    note: Option<String>,
}

impl From<Verdict> for Found {
    fn from(verdict: Verdict) -> Self {
        Found {
            verdict,
            note: None,
        }
    }
}

impl Write<'_> {
    fn verdict_of_webhook(&self, webhook: &Webhook, form: &Value) -> Found {
        if self.facts.is_exempt_from_webhooks() {
            return Verdict::Exempt.into();
        }
        let names = match self.seen(&webhook.criteria, form, Part::Webhook) {
            Ok(names) => names,
            Err(verdict) => return verdict.into(),
        };
        let met = self.judge(&webhook.conditions, None, &names, webhook.failure);
        let refuses = || {
            let refuses = self.dry_run && webhook.side_effects == SideEffects::Some;
            refuses.then_some(Verdict::RefusesDryRun)
        };
        Found {
            verdict: Verdict::of_conditions(met)
                .or_else(refuses)
                .unwrap_or_else(|| self.called(&names)),
            note: self.note_on(&webhook.conditions, &names),
        }
    }

    /// Objects are not converted here, so that conditions see another version than they will.
    fn note_on(&self, conditions: &Conditions, names: &Names) -> Option<String> {
        let asked = self.facts.asked;
        let is_other = !conditions.is_empty() && names != asked;
        is_other.then(|| {
            let (seen, asked) = (names.kind.group_version(), asked.kind.group_version());
            format!("its conditions are evaluated on the object in {asked}, though it would see it in {seen}")
        })
    }

    fn called(&self, names: &Names) -> Verdict {
        Verdict::Called {
            resource: (names != self.facts.asked).then(|| names.resource.to_string()),
        }
    }

    /// The names under which it is seen, or why it is not.
    fn seen(&self, criteria: &Criteria, form: &Value, by: Part) -> Result<Names, Verdict> {
        let namespace = match self.facts.has_namespace_in_object() {
            true => self.object,
            false => self.namespace,
        };
        let namespace = namespace.map(ObjectLabels);
        let (object, old) = (self.object.map(ObjectLabels), self.old.map(ObjectLabels));
        let labels = LabelSets {
            namespace: Ok(&namespace),
            object: object.as_ref().map(|labels| labels as &dyn Labels),
            old: old.as_ref().map(|labels| labels as &dyn Labels),
        };
        match criteria.decide(&self.facts, &labels) {
            Outcome::Seen(names) => Ok(names),
            Outcome::NoRule => Err(Verdict::NoRule { by }),
            Outcome::OtherNamespace => Err(Verdict::OtherNamespace { by }),
            Outcome::OtherObject => Err(Verdict::OtherObject { by }),
            Outcome::Failed(status) => Err(Verdict::Fails {
                error: status.message,
            }),
            Outcome::Excluded { rule } => Err(Verdict::Excluded {
                by,
                rule,
                excludes: form["excludeResourceRules"][rule].clone(),
            }),
        }
    }

    /// What conditions say; those of a policy may use its variables.
    pub(crate) fn judge(
        &self,
        conditions: &Conditions,
        head: Option<&Head>,
        names: &Names,
        failure: FailurePolicy,
    ) -> Met {
        if conditions.is_empty() {
            return Met::Yes;
        }
        let request = match self.request(names) {
            Ok(request) => request,
            Err(error) => return Met::Failed(error.to_string()),
        };
        // Only policies are shown the namespace, and a namespace is in none.
        let is_shown = head.is_some() && self.facts.is_namespaced();
        let namespace = self.namespace.filter(|_| is_shown);
        let [object, old, namespace] = [self.object, self.old, namespace]
            .map(|it| it.map(|object| Value::Object(object.clone())));
        let inputs = Inputs {
            object: Input::from(object.as_ref()),
            old_object: Input::from(old.as_ref()),
            request: Input::new(&request),
            namespace_object: Input::from(namespace.as_ref()),
            authorizer: None,
            request_resource: ResourceCheck::default(),
        };
        let mut scope = match head {
            Some(head) => head.scope(&inputs),
            None => Scope::new(&inputs),
        };
        let deadline = Instant::now() + CONDITIONS_TIME_MAX;
        let mut budget = Budget::for_match_conditions(Some(deadline));
        conditions.judge(&mut scope, &mut budget, failure).met
    }

    fn request(&self, names: &Names) -> serde_json::Result<Value> {
        let facts = &self.facts;
        Request {
            uid: "",
            seen: names,
            asked: facts.asked,
            subresource: facts.subresource,
            name: facts.name,
            namespace: facts.namespace,
            operation: facts.operation,
            user: self.user,
            object: None,
            old: None,
            dry_run: self.dry_run,
            options: None,
        }
        .to_value()
    }
}

const fn failure_name(policy: FailurePolicy) -> &'static str {
    match policy {
        FailurePolicy::Fail => "Fail",
        FailurePolicy::Ignore => "Ignore",
    }
}

fn name_of(object: &Object) -> &str {
    let metadata = object.get("metadata");
    metadata
        .and_then(|metadata| metadata["name"].as_str())
        .unwrap_or_default()
}
