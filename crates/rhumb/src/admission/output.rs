//! Formats an admission explanation as a table or as JSON.

use rhumb_admission::explain::{AdmissionParticipant, ExplainedWrite};
use serde::Serialize;

use crate::text_table::aligned;

#[derive(Debug, Serialize)]
pub(super) struct AdmissionExplanation {
    pub(super) request: ExplainedRequest,
    pub(super) participants: Vec<AdmissionParticipant>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExplainedRequest {
    operation: rhumb_admission::Operation,
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    user: String,
    /// All objects of a collection are deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_collection: bool,
    dry_run: bool,
}

impl ExplainedRequest {
    pub(super) fn new(write: &ExplainedWrite<'_>, is_collection: bool) -> ExplainedRequest {
        let facts = &write.attributes;
        ExplainedRequest {
            operation: facts.operation,
            resource: resource(facts.requested),
            subresource: facts.subresource.to_owned(),
            namespace: facts.namespace.to_owned(),
            name: facts.name.to_owned(),
            user: write.user.username.to_owned(),
            is_collection,
            dry_run: write.dry_run,
        }
    }

    fn description(&self) -> String {
        let mut text = format!("{} {}", self.operation.as_str(), self.resource);
        if !self.subresource.is_empty() {
            text.push_str(&format!("/{}", self.subresource));
        }
        if !self.name.is_empty() {
            text.push_str(&format!(" {}", self.name));
        }
        if !self.namespace.is_empty() {
            text.push_str(&format!(" in {}", self.namespace));
        }
        text.push_str(&format!(", by {}", self.user));
        if self.is_collection {
            text.push_str(", as a deletion of a collection");
        }
        if self.dry_run {
            text.push_str(", as a dry run");
        }
        text
    }
}

/// `pods`, `deployments.apps`
fn resource(names: &rhumb_admission::ResourceAndKind) -> String {
    let resource = &names.resource;
    match &*resource.group {
        "" => resource.resource.to_string(),
        group => format!("{}.{group}", resource.resource),
    }
}

const TABLE_HEADER: [&str; 7] = [
    "ORDER",
    "PHASE",
    "CONFIGURATION",
    "WEBHOOK OR BINDING",
    "ON FAILURE",
    "TIMEOUT",
    "VERDICT",
];

impl AdmissionExplanation {
    pub(super) fn json(&self) -> serde_json::Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("{}\n", self.request.description());
        if !self.participants.is_empty() {
            text.push('\n');
            text.push_str(&aligned(&self.rows()));
            text.push('\n');
        }
        let called = self.participants.iter().filter(|it| it.verdict.is_called());
        text.push_str(&match (called.count(), self.participants.len()) {
            (_, 0) => "there are no webhooks and no policies\n".to_owned(),
            (called, all) => format!("{called} of {all} called\n"),
        });
        let mut participants = self.participants.iter();
        if let Some(rejecting) = participants.find(|it| it.verdict.rejects()) {
            text.push_str(&format!(
                "the request is rejected by {}; later phases are not reached\n",
                shown_name(rejecting)
            ));
        }
        for participant in &self.participants {
            if let Some(note) = &participant.note {
                text.push_str(&format!("note: {}: {note}\n", shown_name(participant)));
            }
        }
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text
    }

    fn rows(&self) -> Vec<[String; 7]> {
        let mut order = 0;
        let row = |participant: &AdmissionParticipant| {
            // A rejection has a place in the order, although nothing is called.
            let is_in_order = participant.verdict.is_called() || participant.verdict.rejects();
            order += usize::from(is_in_order);
            let dash = || "-".to_owned();
            let or_dash = |text: &str| match text {
                "" => dash(),
                text => text.to_owned(),
            };
            [
                if is_in_order {
                    order.to_string()
                } else {
                    dash()
                },
                participant.phase.as_str().to_owned(),
                participant.configuration.clone(),
                or_dash(&participant.name),
                or_dash(participant.failure_policy),
                participant
                    .timeout_seconds
                    .map_or_else(dash, |seconds| format!("{seconds}s")),
                verdict(participant),
            ]
        };
        let head = TABLE_HEADER.map(str::to_owned);
        let rows: Vec<[String; 7]> = self.participants.iter().map(row).collect();
        std::iter::once(head).chain(rows).collect()
    }
}

fn shown_name(participant: &AdmissionParticipant) -> String {
    match (&*participant.configuration, &*participant.name) {
        (configuration, "") => configuration.to_owned(),
        (configuration, name) => format!("{configuration}/{name}"),
    }
}

/// The verdict, with the validation actions of a binding.
fn verdict(participant: &AdmissionParticipant) -> String {
    let verdict = participant.verdict.to_string();
    match (&participant.actions[..], participant.verdict.is_called()) {
        ([_, ..], true) => format!("{verdict} ({})", participant.actions.join(", ")),
        _ => verdict,
    }
}
