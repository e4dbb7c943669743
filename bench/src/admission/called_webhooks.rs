//! Cost of a validating webhook that is called for every config map create.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;

use super::AdmissionBenchArguments;
use super::load::{
    CONFIG_MAPS_DRY_RUN, ConfigMapWriters, WriteCost, WriteCostComparison, WriteOperation,
    config_map,
};
use super::webhook_config::{WebhookType, is_stopped};
use super::webhook_server::{REJECTED_NAME, WebhookCallCounts, WebhookServerProcess};
use crate::client::ApiConnection;
use crate::servers::{BenchServer, ServerProgram};

/// Time limit for a configuration to take effect.
const PROPAGATION_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What a called webhook adds to a create, for one number of writers.
#[derive(Debug, Serialize)]
pub(super) struct WebhookCallCost {
    pub(super) writers: usize,
    #[serde(flatten)]
    pub(super) compared: WriteCostComparison,
}

/// Results of one server with one webhook.
#[derive(Debug, Serialize)]
pub(super) struct CalledWebhookResults {
    pub(super) server: String,
    /// HTTP version between server and webhook.
    pub(super) http: &'static str,
    /// Connections and calls that the webhook counted.
    pub(super) webhook: WebhookCallCounts,
    pub(super) figures: Vec<WebhookCallCost>,
}

/// Server under test, with the connection that configures its webhooks.
pub(super) struct WebhookTestServer<'a> {
    name: String,
    server: BenchServer<'a>,
    connection: ApiConnection,
}

impl<'a> WebhookTestServer<'a> {
    pub(super) async fn start(program: &'a ServerProgram) -> Result<Self> {
        eprintln!("{program}, a webhook");
        let server = BenchServer::start(program).await?;
        let connection = server.endpoint.connect().await?;
        Ok(Self {
            name: program.to_string(),
            server,
            connection,
        })
    }

    /// Configures the webhook and waits until it is called.
    async fn configure(&mut self, hook: &WebhookServerProcess) -> Result<()> {
        let webhook = json!({
            "clientConfig": {
                "url": hook.url,
                "caBundle": STANDARD.encode(&hook.certificate),
            },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
            }],
        });
        let webhook_type = WebhookType::Validating;
        webhook_type
            .add(&mut self.connection, "asked", webhook)
            .await?;
        self.wait(true).await
    }

    /// Deletes the configurations and waits until the webhook is no longer called.
    async fn clear(&mut self) -> Result<()> {
        WebhookType::Validating.clear(&mut self.connection).await?;
        self.wait(false).await
    }

    async fn wait(&mut self, is_asked: bool) -> Result<()> {
        let started = Instant::now();
        loop {
            let probe = config_map(REJECTED_NAME, 0);
            if is_stopped(&mut self.connection, CONFIG_MAPS_DRY_RUN, probe).await? == is_asked {
                return Ok(());
            }
            ensure!(
                started.elapsed() < PROPAGATION_TIMEOUT,
                "timed out waiting for {} to apply a webhook configuration change",
                self.name
            );
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Rounds of one number of writers on one server.
struct WriterCountRounds {
    writers: ConfigMapWriters,
    without: Vec<WriteCost>,
    /// One list of rounds for each webhook.
    with: Vec<Vec<WriteCost>>,
}

/// All rounds on one server, and the call counts of each webhook.
struct ServerWebhookRounds {
    rounds: Vec<WriterCountRounds>,
    seen: Vec<WebhookCallCounts>,
}

pub(super) async fn measure(
    arguments: &AdmissionBenchArguments,
    sides: &mut [WebhookTestServer<'_>],
    hooks: &[WebhookServerProcess],
) -> Result<Vec<CalledWebhookResults>> {
    let mut records = Vec::new();
    for side in &*sides {
        records.push(ServerWebhookRounds::new(arguments, side, hooks.len()).await?);
    }
    for _ in 0..arguments.rounds {
        for (side, record) in sides.iter_mut().zip(&mut records) {
            record.round(arguments, side, hooks).await?;
        }
    }
    let mut columns = Vec::new();
    for (at, hook) in hooks.iter().enumerate() {
        for (side, record) in sides.iter().zip(&records) {
            columns.push(record.column(side, at, hook));
        }
    }
    Ok(columns)
}

impl ServerWebhookRounds {
    async fn new(
        arguments: &AdmissionBenchArguments,
        side: &WebhookTestServer<'_>,
        hooks: usize,
    ) -> Result<Self> {
        let mut rounds = Vec::new();
        for &writers in &arguments.writers {
            rounds.push(WriterCountRounds {
                writers: ConfigMapWriters::connect(&side.server.endpoint, writers).await?,
                without: Vec::new(),
                with: vec![Vec::new(); hooks],
            });
        }
        let seen = vec![WebhookCallCounts::default(); hooks];
        Ok(Self { rounds, seen })
    }

    async fn round(
        &mut self,
        arguments: &AdmissionBenchArguments,
        side: &mut WebhookTestServer<'_>,
        hooks: &[WebhookServerProcess],
    ) -> Result<()> {
        let writes = arguments.writes;
        for rounds in &mut self.rounds {
            let turn = rounds
                .writers
                .run_round(&side.server, WriteOperation::Create, writes);
            rounds.without.push(turn.await?);
        }
        for (at, hook) in hooks.iter().enumerate() {
            let before = hook.counts().await?;
            side.configure(hook).await?;
            for rounds in &mut self.rounds {
                let turn = rounds
                    .writers
                    .run_round(&side.server, WriteOperation::Create, writes);
                rounds.with[at].push(turn.await?);
            }
            side.clear().await?;
            self.seen[at].add(before, hook.counts().await?);
        }
        Ok(())
    }

    fn column(
        &self,
        side: &WebhookTestServer<'_>,
        at: usize,
        hook: &WebhookServerProcess,
    ) -> CalledWebhookResults {
        let figures = self.rounds.iter().map(|rounds| WebhookCallCost {
            writers: rounds.writers.count(),
            compared: WriteCostComparison::of(&rounds.without, &rounds.with[at]),
        });
        CalledWebhookResults {
            server: side.name.clone(),
            http: hook.http.as_str(),
            webhook: self.seen[at],
            figures: figures.collect(),
        }
    }
}

impl WebhookCallCounts {
    /// Adds the difference between two readings.
    fn add(&mut self, before: WebhookCallCounts, after: WebhookCallCounts) {
        self.connections += after.connections - before.connections;
        self.calls += after.calls - before.calls;
    }
}
