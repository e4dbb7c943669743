//! Turns of writes, and what they have in common over many rounds.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{Connection, Endpoint};
use crate::servers::Server;
use crate::stats::{Percentiles, median};

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What only wants to know whether it would be let in.
pub(super) const TRIED: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

const UPDATED: &str = "updated";

/// What a config map carries.
const TEXT_BYTES: usize = 1000;

/// Writes before each turn that do not count: what is kept from one write to the next is there afterwards.
const WARM_UP: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Create,
    Update,
    /// A creation that is not stored: nobody waits for a disk.
    Try,
}

impl Work {
    pub(super) const ALL: [Work; 3] = [Work::Create, Work::Update, Work::Try];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Work::Create => "create",
            Work::Update => "update",
            Work::Try => "create, dry run",
        }
    }

    fn request(self, number: usize) -> (Method, String, Bytes) {
        let name = format!("map-{number:08}");
        match self {
            Work::Create => (Method::POST, MAPS.into(), config_map(&name, number)),
            Work::Try => (Method::POST, TRIED.into(), config_map(&name, number)),
            Work::Update => {
                let path = format!("{MAPS}/{UPDATED}");
                (Method::PUT, path, config_map(UPDATED, number))
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

/// What a write took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Figure {
    pub(super) p50_us: f64,
    /// Of the server.
    pub(super) cpu_us: f64,
}

impl Figure {
    fn minus(self, other: Figure) -> Figure {
        Figure {
            p50_us: self.p50_us - other.p50_us,
            cpu_us: self.cpu_us - other.cpu_us,
        }
    }
}

/// One kind of write without and with something, over all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Compared {
    pub(super) without: Figure,
    pub(super) with: Figure,
    /// The median of what it was more in a round.
    pub(super) added: Figure,
}

impl Compared {
    /// Both have as many rounds.
    pub(super) fn of(without: &[Figure], with: &[Figure]) -> Compared {
        let pairs = with.iter().zip(without);
        let differences: Vec<Figure> = pairs.map(|(with, without)| with.minus(*without)).collect();
        Compared {
            without: middle(without),
            with: middle(with),
            added: middle(&differences),
        }
    }
}

fn middle(figures: &[Figure]) -> Figure {
    let of = |value: fn(&Figure) -> f64| median(figures.iter().map(value).collect());
    Figure {
        p50_us: of(|figure| figure.p50_us),
        cpu_us: of(|figure| figure.cpu_us),
    }
}

/// Those who write to one server, each over a connection that stays open.
pub(super) struct Writers {
    connections: Vec<Connection>,
    /// No two objects have the same number.
    next: usize,
}

impl Writers {
    pub(super) async fn connect(endpoint: &Endpoint, count: usize) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(endpoint.connect().await?);
        }
        Ok(Self {
            connections,
            // Others may write to the same server, in another number.
            next: count << 24,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.connections.len()
    }

    /// Makes the object that is updated.
    pub(super) async fn prepare_updates(&mut self) -> Result<()> {
        if let Some(connection) = self.connections.first_mut() {
            let map = config_map(UPDATED, 0);
            connection.ask(Method::POST, MAPS, map).await?;
        }
        Ok(())
    }

    /// All together do so much work.
    pub(super) async fn turn(
        &mut self,
        server: &Server<'_>,
        work: Work,
        writes: usize,
    ) -> Result<Figure> {
        self.write(work, WARM_UP).await?;
        let before = server.usage()?.cpu;
        let times = self.write(work, writes).await?;
        let used = server.usage()?.cpu.saturating_sub(before);
        Ok(Figure {
            cpu_us: used.as_secs_f64() * 1e6 / times.len() as f64,
            p50_us: Percentiles::of(times).p50_ms * 1e3,
        })
    }

    async fn write(&mut self, work: Work, writes: usize) -> Result<Vec<Duration>> {
        let each = writes.div_ceil(self.connections.len());
        let mut tasks = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let first = self.next;
            self.next += each;
            tasks.spawn(async move {
                let mut times = Vec::with_capacity(each);
                for number in first..first + each {
                    let (method, path, body) = work.request(number);
                    let begun = Instant::now();
                    connection.ask(method, &path, body).await?;
                    times.push(begun.elapsed());
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
