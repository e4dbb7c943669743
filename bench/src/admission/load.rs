//! Write load on config maps: operations, concurrent writers, and the comparison of rounds with and without webhooks.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{ApiConnection, ServerEndpoint};
use crate::servers::BenchServer;
use crate::stats::{Percentiles, median};

pub(super) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Collection path for dry-run creates.
pub(super) const CONFIG_MAPS_DRY_RUN: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

const UPDATED_NAME: &str = "updated";

/// Size of the payload of a config map.
const TEXT_BYTES: usize = 1000;

/// Unmeasured writes before each round, so that caches are filled.
const WARM_UP: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOperation {
    Create,
    Update,
    /// Dry-run create, which does not wait for the disk.
    Try,
}

impl WriteOperation {
    pub(super) const ALL: [WriteOperation; 3] = [
        WriteOperation::Create,
        WriteOperation::Update,
        WriteOperation::Try,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            WriteOperation::Create => "create",
            WriteOperation::Update => "update",
            WriteOperation::Try => "create, dry run",
        }
    }

    fn request(self, number: usize) -> (Method, String, Bytes) {
        let name = format!("map-{number:08}");
        match self {
            WriteOperation::Create => (Method::POST, CONFIG_MAPS.into(), config_map(&name, number)),
            WriteOperation::Try => (
                Method::POST,
                CONFIG_MAPS_DRY_RUN.into(),
                config_map(&name, number),
            ),
            WriteOperation::Update => {
                let path = format!("{CONFIG_MAPS}/{UPDATED_NAME}");
                (Method::PUT, path, config_map(UPDATED_NAME, number))
            }
        }
    }
}

pub(super) fn config_map(name: &str, number: usize) -> Bytes {
    let data = json!({"number": number.to_string(), "text": "v".repeat(TEXT_BYTES)});
    let metadata = json!({"name": name, "labels": {"app": "bench"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        .to_string()
        .into()
}

/// Median latency and CPU time of a write in one round.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct WriteCost {
    pub(super) p50_us: f64,
    /// CPU time of the server.
    pub(super) cpu_us: f64,
}

impl WriteCost {
    fn minus(self, other: WriteCost) -> WriteCost {
        WriteCost {
            p50_us: self.p50_us - other.p50_us,
            cpu_us: self.cpu_us - other.cpu_us,
        }
    }
}

/// Cost of one write operation without and with webhooks, over all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct WriteCostComparison {
    pub(super) without: WriteCost,
    pub(super) with: WriteCost,
    /// Median of the per-round differences.
    pub(super) added: WriteCost,
}

impl WriteCostComparison {
    /// Both slices must have the same length: one entry per round.
    pub(super) fn of(without: &[WriteCost], with: &[WriteCost]) -> WriteCostComparison {
        let pairs = with.iter().zip(without);
        let differences: Vec<WriteCost> =
            pairs.map(|(with, without)| with.minus(*without)).collect();
        WriteCostComparison {
            without: middle(without),
            with: middle(with),
            added: middle(&differences),
        }
    }
}

fn middle(figures: &[WriteCost]) -> WriteCost {
    let of = |value: fn(&WriteCost) -> f64| median(figures.iter().map(value).collect());
    WriteCost {
        p50_us: of(|figure| figure.p50_us),
        cpu_us: of(|figure| figure.cpu_us),
    }
}

/// Concurrent writers to one server, each with its own persistent connection.
pub(super) struct ConfigMapWriters {
    connections: Vec<ApiConnection>,
    /// Next object number; numbers are unique per server.
    next: usize,
}

impl ConfigMapWriters {
    pub(super) async fn connect(endpoint: &ServerEndpoint, count: usize) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(endpoint.connect().await?);
        }
        Ok(Self {
            connections,
            // Separate number range for each writer count on the same server.
            next: count << 24,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.connections.len()
    }

    /// Creates the object that updates are sent to.
    pub(super) async fn prepare_updates(&mut self) -> Result<()> {
        if let Some(connection) = self.connections.first_mut() {
            let map = config_map(UPDATED_NAME, 0);
            connection.execute(Method::POST, CONFIG_MAPS, map).await?;
        }
        Ok(())
    }

    /// Runs one round of `writes` writes over all connections.
    pub(super) async fn run_round(
        &mut self,
        server: &BenchServer<'_>,
        work: WriteOperation,
        writes: usize,
    ) -> Result<WriteCost> {
        self.write(work, WARM_UP).await?;
        let before = server.usage()?.cpu;
        let times = self.write(work, writes).await?;
        let used = server.usage()?.cpu.saturating_sub(before);
        Ok(WriteCost {
            cpu_us: used.as_secs_f64() * 1e6 / times.len() as f64,
            p50_us: Percentiles::of(times).p50_ms * 1e3,
        })
    }

    async fn write(&mut self, work: WriteOperation, writes: usize) -> Result<Vec<Duration>> {
        let each = writes.div_ceil(self.connections.len());
        let mut tasks = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let first = self.next;
            self.next += each;
            tasks.spawn(async move {
                let mut times = Vec::with_capacity(each);
                for number in first..first + each {
                    let (method, path, body) = work.request(number);
                    let started = Instant::now();
                    connection.execute(method, &path, body).await?;
                    times.push(started.elapsed());
                }
                anyhow::Ok((connection, times))
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let (connection, times) = ended??;
            self.connections.push(connection);
            all.extend(times);
        }
        Ok(all)
    }
}
