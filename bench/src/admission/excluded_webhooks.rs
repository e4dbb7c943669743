//! Cost of many webhooks whose rules match everything but whose exclusions skip the measured writes: none is called.

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use super::AdmissionBenchArguments;
use super::load::{ConfigMapWriters, WriteCost, WriteCostComparison, WriteOperation};
use super::webhook_config::{WebhookType, is_stopped};
use crate::client::ApiConnection;
use crate::servers::BenchServer;
use crate::store::free_port;

/// Dry-run create that no exclusion covers, to check that the webhooks are in effect.
const NON_EXCLUDED_PATH: &str = "/api/v1/namespaces/kube-system/secrets?dryRun=All";

/// What excluded webhooks of one type add to one write operation.
#[derive(Debug, Serialize)]
pub(super) struct ExcludedWebhookCost {
    #[serde(rename = "flavor")]
    pub(super) webhook_type: WebhookType,
    pub(super) work: &'static str,
    #[serde(flatten)]
    pub(super) compared: WriteCostComparison,
}

/// Rounds of one write operation: without webhooks, and with webhooks of each type.
#[derive(Default)]
struct ExclusionRounds {
    without: Vec<WriteCost>,
    with: [Vec<WriteCost>; 2],
}

const FLAVORS: [WebhookType; 2] = [WebhookType::Validating, WebhookType::Mutating];

pub(super) async fn measure(
    arguments: &AdmissionBenchArguments,
    server: &BenchServer<'_>,
) -> Result<Vec<ExcludedWebhookCost>> {
    let nobody = format!("https://127.0.0.1:{}/", free_port()?);
    let mut connection = server.endpoint.connect().await?;
    let mut writers = ConfigMapWriters::connect(&server.endpoint, 1).await?;
    writers.prepare_updates().await?;
    let mut rounds: [ExclusionRounds; WriteOperation::ALL.len()] = Default::default();
    for _ in 0..arguments.rounds {
        for (work, rounds) in WriteOperation::ALL.into_iter().zip(&mut rounds) {
            let figure = writers.run_round(server, work, arguments.writes).await?;
            rounds.without.push(figure);
        }
        for (at, webhook_type) in FLAVORS.into_iter().enumerate() {
            configure(
                &mut connection,
                webhook_type,
                arguments.configurations,
                &nobody,
            )
            .await?;
            for (work, rounds) in WriteOperation::ALL.into_iter().zip(&mut rounds) {
                let figure = writers.run_round(server, work, arguments.writes).await?;
                rounds.with[at].push(figure);
            }
            webhook_type.clear(&mut connection).await?;
        }
    }
    let mut all = Vec::new();
    for (at, webhook_type) in FLAVORS.into_iter().enumerate() {
        for (work, rounds) in WriteOperation::ALL.into_iter().zip(&rounds) {
            all.push(ExcludedWebhookCost {
                webhook_type,
                work: work.name(),
                compared: WriteCostComparison::of(&rounds.without, &rounds.with[at]),
            });
        }
    }
    Ok(all)
}

async fn configure(
    connection: &mut ApiConnection,
    webhook_type: WebhookType,
    count: usize,
    nobody: &str,
) -> Result<()> {
    let everything = json!({
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
    });
    for number in 0..count {
        let webhook = json!({
            "clientConfig": {"url": nobody},
            "rules": [everything],
            "excludeResourceRules": [exclusion(number)],
        });
        let name = format!("excluding-{number:04}");
        webhook_type.add(connection, &name, webhook).await?;
    }
    let secret = json!({"metadata": {"name": "probe"}}).to_string();
    let is_there = is_stopped(connection, NON_EXCLUDED_PATH, secret.into()).await?;
    ensure!(
        is_there || count == 0,
        "a write passed although its webhooks have no server and failurePolicy Fail"
    );
    Ok(())
}

/// One of three exclusions that cover config maps in `default`: by resource, by namespace, by namespace selector.
fn exclusion(number: usize) -> Value {
    match number % 3 {
        0 => json!({"apiGroups": [""], "resources": ["configmaps"]}),
        1 => json!({"namespaces": ["default"]}),
        _ => {
            let labels = json!({"kubernetes.io/metadata.name": "default"});
            json!({"namespaceSelector": {"matchLabels": labels}})
        }
    }
}
