//! A webhook that is asked about every config map that is made.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;

use super::Arguments;
use super::hook::{Flavor, is_stopped};
use super::hook_server::{Counts, Process, REFUSED};
use super::load::{Compared, Figure, TRIED, Work, Writers, config_map};
use crate::client::Connection;
use crate::servers::{Program, Server};

/// How long a server may take to notice a configuration.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What a webhook adds to a create, for one number of writers.
#[derive(Debug, Serialize)]
pub(super) struct Asked {
    pub(super) writers: usize,
    #[serde(flatten)]
    pub(super) compared: Compared,
}

/// All of one server and one webhook.
#[derive(Debug, Serialize)]
pub(super) struct Column {
    pub(super) server: String,
    /// Between the server and the webhook.
    pub(super) http: &'static str,
    /// What the webhook saw of it.
    pub(super) webhook: Counts,
    pub(super) figures: Vec<Asked>,
}

/// A server whose writers stay connected.
pub(super) struct Side<'a> {
    name: String,
    server: Server<'a>,
    connection: Connection,
}

impl<'a> Side<'a> {
    pub(super) async fn start(program: &'a Program) -> Result<Self> {
        eprintln!("{program}, a webhook");
        let server = Server::start(program).await?;
        let connection = server.endpoint.connect().await?;
        Ok(Self {
            name: program.to_string(),
            server,
            connection,
        })
    }

    /// Returns when the webhook is asked.
    async fn configure(&mut self, hook: &Process) -> Result<()> {
        let webhook = json!({
            "clientConfig": {
                "url": hook.url,
                "caBundle": STANDARD.encode(&hook.certificate),
            },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
            }],
        });
        let flavor = Flavor::Validating;
        flavor.add(&mut self.connection, "asked", webhook).await?;
        self.wait(true).await
    }

    /// Returns when the webhook is not asked any more.
    async fn clear(&mut self) -> Result<()> {
        Flavor::Validating.clear(&mut self.connection).await?;
        self.wait(false).await
    }

    async fn wait(&mut self, is_asked: bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let probe = config_map(REFUSED, 0);
            if is_stopped(&mut self.connection, TRIED, probe).await? == is_asked {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "{} does not notice a change of its webhooks",
                self.name
            );
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// The rounds of one number of writers on one server.
struct Rounds {
    writers: Writers,
    without: Vec<Figure>,
    /// For each webhook.
    with: Vec<Vec<Figure>>,
}

/// All rounds on one server, and what each webhook saw of them.
struct Record {
    rounds: Vec<Rounds>,
    seen: Vec<Counts>,
}

pub(super) async fn measure(
    arguments: &Arguments,
    sides: &mut [Side<'_>],
    hooks: &[Process],
) -> Result<Vec<Column>> {
    let mut records = Vec::new();
    for side in &*sides {
        records.push(Record::new(arguments, side, hooks.len()).await?);
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

impl Record {
    async fn new(arguments: &Arguments, side: &Side<'_>, hooks: usize) -> Result<Self> {
        let mut rounds = Vec::new();
        for &writers in &arguments.writers {
            rounds.push(Rounds {
                writers: Writers::connect(&side.server.endpoint, writers).await?,
                without: Vec::new(),
                with: vec![Vec::new(); hooks],
            });
        }
        let seen = vec![Counts::default(); hooks];
        Ok(Self { rounds, seen })
    }

    async fn round(
        &mut self,
        arguments: &Arguments,
        side: &mut Side<'_>,
        hooks: &[Process],
    ) -> Result<()> {
        let writes = arguments.writes;
        for rounds in &mut self.rounds {
            let turn = rounds.writers.turn(&side.server, Work::Create, writes);
            rounds.without.push(turn.await?);
        }
        for (at, hook) in hooks.iter().enumerate() {
            let before = hook.counts().await?;
            side.configure(hook).await?;
            for rounds in &mut self.rounds {
                let turn = rounds.writers.turn(&side.server, Work::Create, writes);
                rounds.with[at].push(turn.await?);
            }
            side.clear().await?;
            self.seen[at].add(before, hook.counts().await?);
        }
        Ok(())
    }

    fn column(&self, side: &Side<'_>, at: usize, hook: &Process) -> Column {
        let figures = self.rounds.iter().map(|rounds| Asked {
            writers: rounds.writers.count(),
            compared: Compared::of(&rounds.without, &rounds.with[at]),
        });
        Column {
            server: side.name.clone(),
            http: hook.http.as_str(),
            webhook: self.seen[at],
            figures: figures.collect(),
        }
    }
}

impl Counts {
    /// What came between two looks.
    fn add(&mut self, before: Counts, after: Counts) {
        self.connections += after.connections - before.connections;
        self.calls += after.calls - before.calls;
    }
}
