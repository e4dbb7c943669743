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

/// All of one server.
#[derive(Debug, Serialize)]
pub(super) struct Column {
    pub(super) server: String,
    /// What the webhook saw of it.
    pub(super) webhook: Counts,
    pub(super) figures: Vec<Asked>,
}

/// A server whose writers stay connected.
pub(super) struct Side<'a> {
    name: String,
    server: Server<'a>,
    connection: Connection,
    hook: &'a Process,
}

impl<'a> Side<'a> {
    pub(super) async fn start(program: &'a Program, hook: &'a Process) -> Result<Self> {
        eprintln!("{program}, a webhook");
        let server = Server::start(program).await?;
        let connection = server.endpoint.connect().await?;
        Ok(Self {
            name: program.to_string(),
            server,
            connection,
            hook,
        })
    }

    /// Returns when the webhook is asked.
    async fn configure(&mut self) -> Result<()> {
        let webhook = json!({
            "clientConfig": {
                "url": self.hook.url,
                "caBundle": STANDARD.encode(&self.hook.certificate),
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
    with: Vec<Figure>,
}

pub(super) async fn measure(
    arguments: &Arguments,
    sides: &mut [Side<'_>],
    hook: &Process,
) -> Result<Vec<Column>> {
    let mut all = Vec::new();
    for side in &*sides {
        let mut of_side = Vec::new();
        for &writers in &arguments.writers {
            of_side.push(Rounds {
                writers: Writers::connect(&side.server.endpoint, writers).await?,
                without: Vec::new(),
                with: Vec::new(),
            });
        }
        all.push((Counts::default(), of_side));
    }
    for _ in 0..arguments.rounds {
        for (side, (seen, rounds)) in sides.iter_mut().zip(&mut all) {
            for rounds in &mut *rounds {
                let work = Work::Create;
                let figure = rounds.writers.turn(&side.server, work, arguments.writes);
                rounds.without.push(figure.await?);
            }
            let before = hook.counts().await?;
            side.configure().await?;
            for rounds in &mut *rounds {
                let work = Work::Create;
                let figure = rounds.writers.turn(&side.server, work, arguments.writes);
                rounds.with.push(figure.await?);
            }
            side.clear().await?;
            seen.add(before, hook.counts().await?);
        }
    }
    let columns = sides.iter().zip(all).map(|(side, (webhook, rounds))| {
        let figures = arguments.writers.iter().zip(rounds);
        Column {
            server: side.name.clone(),
            webhook,
            figures: figures
                .map(|(&writers, rounds)| Asked {
                    writers,
                    compared: Compared::of(&rounds.without, &rounds.with),
                })
                .collect(),
        }
    });
    Ok(columns.collect())
}

impl Counts {
    /// What came between two looks.
    fn add(&mut self, before: Counts, after: Counts) {
        self.connections += after.connections - before.connections;
        self.http1_calls += after.http1_calls - before.http1_calls;
        self.http2_calls += after.http2_calls - before.http2_calls;
    }
}
