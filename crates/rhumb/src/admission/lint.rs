//! `rhumb admission lint`: the webhooks that can stop a cluster, with a patch for each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rhumb_admission::compile::{EquivalentResourceSets, compile_webhook};
use rhumb_admission::critical_resources::{
    ClusterInventory, ClusterNamespace, CriticalResources, CriticalRule, Interception,
};
use rhumb_admission::{CriteriaFeatures, WebhookType, parse_webhooks};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::{self, ApiServerClient, GROUP};
use super::equivalents::BuiltInResources;
use crate::manifests::UnstructuredObject;
use crate::paged_list::list;

const NAMESPACE_SELECTOR: &str = "namespaceSelector";

#[derive(clap::Args, Debug)]
pub(crate) struct AdmissionLintCommand {
    /// Kubeconfig of the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// File with the resources that no webhook should intercept [default: a built-in list].
    #[arg(long, value_name = "FILE")]
    critical_resources_file: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text")]
    output: LintOutputFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LintOutputFormat {
    Text,
    Json,
}

/// A webhook that intercepts critical resources.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookLintFinding {
    /// `validatingwebhookconfigurations` or `mutatingwebhookconfigurations`.
    resource: &'static str,
    configuration: String,
    webhook: String,
    intercepts: Vec<InterceptedResource>,
    /// There were too many cases to check all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_incomplete: bool,
    /// The JSON patch of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Value>,
    /// Why there is no patch, or what it changes besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct InterceptedResource {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

/// Prints the findings, and returns whether there are any.
pub(super) async fn run(command: &AdmissionLintCommand) -> Result<bool> {
    let critical = match &command.critical_resources_file {
        None => CriticalResources::default(),
        Some(path) => {
            let what = || format!("--critical-resources-file {}", path.display());
            let text = std::fs::read_to_string(path).with_context(what)?;
            rhumb_admission_plugins::read_critical_resources(&text).with_context(what)?
        }
    };
    let server = cluster::connect(command.kubeconfig.as_deref()).await?;
    let findings = find(&server, &critical).await?;
    match command.output {
        LintOutputFormat::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
        LintOutputFormat::Text => print!("{}", text(&findings)),
    }
    Ok(!findings.is_empty())
}

async fn find(
    server: &ApiServerClient,
    critical: &CriticalResources,
) -> Result<Vec<WebhookLintFinding>> {
    let resources = BuiltInResources::new();
    let cluster = ClusterInventory {
        resources: resources.writable(),
        namespaces: namespaces(server).await?,
    };
    // Match conditions work on every server, so they are the remedy where it is not known.
    let has_exclusions = server.has_exclusions().await.unwrap_or(false);
    let options = CriteriaFeatures {
        exclusion_rules: has_exclusions,
    };
    let remedy = match has_exclusions {
        true => SuggestedPatch::ExclusionRules,
        false => SuggestedPatch::MatchConditions(resources.equivalent_sets()),
    };
    let mut findings = Vec::new();
    for webhook_type in [WebhookType::Mutating, WebhookType::Validating] {
        let resource = webhook_type.configurations_resource();
        let path = format!("/apis/{GROUP}/v1/{resource}");
        let configurations = server.get(&path).await?.unwrap_or(Value::Null);
        for configuration in configurations["items"].as_array().into_iter().flatten() {
            let Value::Object(configuration) = configuration else {
                continue;
            };
            let webhooks = parse_webhooks(configuration, options);
            let interceptions = critical.interceptions(&webhooks, &cluster);
            let found = interceptions
                .iter()
                .map(|interception| finding(resource, configuration, interception, &remedy));
            findings.extend(found);
        }
    }
    Ok(findings)
}

async fn namespaces(server: &ApiServerClient) -> Result<Vec<ClusterNamespace>> {
    #[derive(serde::Deserialize)]
    struct NamespaceObject {
        metadata: NamespaceMetadata,
    }
    #[derive(serde::Deserialize)]
    struct NamespaceMetadata {
        name: String,
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }
    let mut namespaces = Vec::new();
    let mut notes = Vec::new();
    list(&server.client, "/api/v1/namespaces", &mut notes, |json| {
        let NamespaceObject { metadata } = serde_json::from_slice(json)?;
        namespaces.push(ClusterNamespace {
            name: metadata.name,
            labels: metadata.labels,
        });
        Ok(())
    })
    .await?;
    for note in notes {
        eprintln!("note: {note}");
    }
    Ok(namespaces)
}

/// How a webhook is kept from critical resources.
enum SuggestedPatch {
    ExclusionRules,
    /// For servers without KEP-3693.
    MatchConditions(EquivalentResourceSets),
}

fn finding(
    resource: &'static str,
    configuration: &UnstructuredObject,
    interception: &Interception<'_>,
    remedy: &SuggestedPatch,
) -> WebhookLintFinding {
    let intercepts = interception.rules.iter().map(|rule| InterceptedResource {
        name: rule.name().to_owned(),
        reason: rule.reason().to_owned(),
    });
    let webhooks = configuration.get("webhooks").unwrap_or(&Value::Null);
    let patch = remedy.patch(&webhooks[interception.index], interception);
    let (patch, notes) = match patch {
        Ok((patch, notes)) => (patch, notes),
        Err(reason) => (None, vec![format!("no patch: {reason}")]),
    };
    WebhookLintFinding {
        resource,
        configuration: interception.webhook.configuration.to_string(),
        webhook: interception.webhook.name.to_string(),
        intercepts: intercepts.collect(),
        is_incomplete: !interception.is_complete,
        patch,
        notes,
    }
}

impl SuggestedPatch {
    /// The JSON patch that adds the missing exclusions to a webhook, and notes. The patch fails if the webhook is no longer
    /// at its position, or if what the patch replaces or depends on has changed.
    fn patch(
        &self,
        webhook: &Value,
        interception: &Interception<'_>,
    ) -> Result<(Option<Value>, Vec<String>)> {
        let missing: Vec<Value> = interception
            .rules
            .iter()
            .map(CriticalRule::json)
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        if missing.is_empty() {
            return Ok((None, Vec::new()));
        }
        let at = format!("/webhooks/{}", interception.index);
        // The value of an absent field is null.
        let test = |field: &str| json!({"op": "test", "path": format!("{at}/{field}"), "value": webhook[field]});
        let mut patch = vec![test("name")];
        let mut set = |field: &str, value: &Value| {
            patch.push(test(field));
            if field == NAMESPACE_SELECTOR {
                // The rules determine whether a selector may be moved here from an exclusion rule.
                patch.push(test("rules"));
            }
            patch.push(json!({"op": "add", "path": format!("{at}/{field}"), "value": value}));
        };
        let mut notes = Vec::new();
        match self {
            SuggestedPatch::ExclusionRules => {
                let own = webhook["excludeResourceRules"].as_array().cloned();
                let rules = [own.unwrap_or_default(), missing].concat();
                set("excludeResourceRules", &Value::Array(rules));
            }
            SuggestedPatch::MatchConditions(resources) => {
                let mut excluding = webhook.as_object().cloned().unwrap_or_default();
                excluding.insert("excludeResourceRules".to_owned(), Value::Array(missing));
                let compiled = compile_webhook(&excluding, resources)
                    .map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
                notes = compiled.notes;
                for field in [NAMESPACE_SELECTOR, "matchConditions"] {
                    let compiled = compiled.webhook.get(field).unwrap_or(&Value::Null);
                    if *compiled != webhook[field] {
                        set(field, compiled);
                    }
                }
            }
        }
        Ok((Some(Value::Array(patch)), notes))
    }
}

fn text(findings: &[WebhookLintFinding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!(
            "{}/{}: webhook {} with failurePolicy Fail can stop the cluster. It intercepts:\n",
            finding.resource, finding.configuration, finding.webhook
        ));
        for resource in &finding.intercepts {
            match &*resource.reason {
                "" => text.push_str(&format!("  - {}\n", resource.name)),
                reason => text.push_str(&format!("  - {} ({reason})\n", resource.name)),
            }
        }
        if finding.is_incomplete {
            text.push_str("  The check is incomplete: there are too many cases.\n");
        }
        for note in &finding.notes {
            text.push_str(&format!("  note: {note}\n"));
        }
        if let Some(patch) = &finding.patch {
            // The patch is quoted for a shell.
            let patch = patch.to_string().replace('\'', "'\\''");
            text.push_str(&format!(
                "\n  kubectl patch {} {} --type=json -p '{patch}'\n",
                finding.resource, finding.configuration
            ));
        }
        text.push('\n');
    }
    match findings.len() {
        0 => text.push_str("no webhook can stop the cluster\n"),
        1 => text.push_str("1 webhook can stop the cluster\n"),
        count => text.push_str(&format!("{count} webhooks can stop the cluster\n")),
    }
    text
}
