//! Those who put a webhook in the way of what the cluster depends on are told so. Nothing is changed, nothing refused.

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_admission::critical::{Cluster, CriticalResources, Known, Namespace};
use rhumb_admission::{Flavor, Reading, webhooks_of};
use rhumb_api::gates::Feature;
use rhumb_api::kinds::exclusion_rule_problems;
use rhumb_api::{Object, Subresource, SubresourceKind, Verb};
use rhumb_cache::Entry;
use rhumb_meta::{FileError, Status};

use super::{Attributes, Operation, Plugin, Step};
use crate::resources::Registry;

/// The group of the configurations of webhooks.
const CONFIGURATIONS: &str = "admissionregistration.k8s.io";

/// How many namespaces are looked at beside those that rules name.
const NAMESPACES_MAX: usize = 1_000;

/// Reads a file of critical resources. What it has to say must be good as an exclusion rule too.
pub fn read_critical_resources(text: &str) -> Result<CriticalResources, FileError> {
    let critical = CriticalResources::parse(text)?;
    for rule in critical.rules() {
        let fields: Object = serde_json::from_str(rule.json()).unwrap_or_default();
        let problems = exclusion_rule_problems(&fields);
        if !problems.is_empty() {
            let place = (rule.line(), 0);
            return Err(FileError::at(place, problems.to_string()));
        }
    }
    Ok(critical)
}

/// A rule that means nothing of what is served is likely a slip, but may be about what is still to come.
pub(super) fn tell_of_idle_rules(critical: &CriticalResources, registry: &Registry) {
    let resources = known(registry);
    for rule in critical.rules() {
        if !rule.is_about_any(&resources) {
            tracing::warn!(
                "the critical resources have a rule about nothing that this server serves: {:?}",
                rule.name()
            );
        }
    }
}

#[derive(Debug)]
pub(super) struct Critical(Arc<CriticalResources>);

impl Critical {
    pub(super) fn new(critical: Arc<CriticalResources>) -> Critical {
        Critical(critical)
    }

    /// The namespaces that rules name, and some of the others.
    fn namespaces(&self, registry: &Registry) -> Vec<Namespace> {
        let namespaces = registry.find("", "namespaces");
        let Some(storage) = namespaces.and_then(|resource| resource.storage.as_ref()) else {
            return Vec::new();
        };
        let snapshot = storage.cache.snapshot();
        let all = snapshot.range(None, None).enumerate();
        all.filter(|(at, entry)| *at < NAMESPACES_MAX || self.0.names_namespace(entry.key().name()))
            .map(|(_, entry)| namespace(entry))
            .collect()
    }
}

#[async_trait]
impl Plugin for Critical {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && attributes.call.resource.kind.group == CONFIGURATIONS
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        let is_configuration = [Flavor::Mutating, Flavor::Validating]
            .iter()
            .any(|flavor| attributes.is_about(CONFIGURATIONS, flavor.plural()));
        let (true, Some(object)) = (is_write && is_configuration, object) else {
            return Ok(());
        };
        let api = attributes.call.api;
        let exclusions = api.gates.enabled(Feature::AdmissionWebhookExclusionRules);
        let webhooks = webhooks_of(object, Reading { exclusions });
        let cluster = Cluster {
            resources: known(&api.registry),
            namespaces: self.namespaces(&api.registry),
        };
        for warning in self.0.advice(&webhooks, &cluster, exclusions) {
            attributes.call.warn(warning);
        }
        Ok(())
    }
}

fn namespace(entry: &Entry) -> Namespace {
    let labels = entry.labels().iter();
    Namespace {
        name: entry.key().name().to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
    }
}

/// Everything that can be written, in all versions.
fn known(registry: &Registry) -> Vec<Known<'_>> {
    let mut all = Vec::new();
    for resource in registry.iter() {
        let kind = &resource.kind;
        let own = ("", operations(kind.verbs, None));
        let below = kind
            .subresources
            .iter()
            .map(|it| (it.name, operations(it.verbs, Some(it))));
        for (subresource, operations) in std::iter::once(own).chain(below) {
            for version in &resource.versions {
                if let Some(asked) = resource.asked(version, subresource) {
                    all.push(Known {
                        names: &asked.names,
                        equivalents: &asked.equivalents,
                        subresource,
                        is_namespaced: kind.is_namespaced(),
                        operations: operations.clone(),
                    });
                }
            }
        }
    }
    all
}

/// What admission makes of verbs. What only a node can answer is a connection, but for its log, which is only read.
fn operations(verbs: &[Verb], subresource: Option<&Subresource>) -> Vec<Operation> {
    let connects = |it: &Subresource| it.kind == SubresourceKind::Node && it.name != "log";
    if subresource.is_some_and(connects) {
        return vec![Operation::Connect];
    }
    let has = |some: &[Verb]| verbs.iter().any(|verb| some.contains(verb));
    [
        (Operation::Create, &[Verb::Create][..]),
        (Operation::Update, &[Verb::Update, Verb::Patch]),
        (Operation::Delete, &[Verb::Delete, Verb::DeleteCollection]),
    ]
    .into_iter()
    .filter(|(_, by)| has(by))
    .map(|(operation, _)| operation)
    .collect()
}
