//! Many webhooks that want to see everything, and exclude what is written: nobody is asked.

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use super::Arguments;
use super::hook::{Flavor, is_stopped};
use super::load::{Compared, Figure, Work, Writers};
use crate::client::Connection;
use crate::servers::Server;
use crate::store::free_port;

/// A write that no rule excludes.
const ELSEWHERE: &str = "/api/v1/namespaces/kube-system/secrets?dryRun=All";

/// Webhooks of one flavor, and what they add to one kind of write.
#[derive(Debug, Serialize)]
pub(super) struct Excluded {
    pub(super) flavor: Flavor,
    pub(super) work: &'static str,
    #[serde(flatten)]
    pub(super) compared: Compared,
}

/// The rounds of one kind of write: with nobody, and with webhooks of each flavor.
#[derive(Default)]
struct Rounds {
    without: Vec<Figure>,
    with: [Vec<Figure>; 2],
}

const FLAVORS: [Flavor; 2] = [Flavor::Validating, Flavor::Mutating];

pub(super) async fn measure(arguments: &Arguments, server: &Server<'_>) -> Result<Vec<Excluded>> {
    let nobody = format!("https://127.0.0.1:{}/", free_port()?);
    let mut connection = server.endpoint.connect().await?;
    let mut writers = Writers::connect(&server.endpoint, 1).await?;
    writers.prepare_updates().await?;
    let mut rounds: [Rounds; Work::ALL.len()] = Default::default();
    for _ in 0..arguments.rounds {
        for (work, rounds) in Work::ALL.into_iter().zip(&mut rounds) {
            let figure = writers.turn(server, work, arguments.writes).await?;
            rounds.without.push(figure);
        }
        for (at, flavor) in FLAVORS.into_iter().enumerate() {
            configure(&mut connection, flavor, arguments.configurations, &nobody).await?;
            for (work, rounds) in Work::ALL.into_iter().zip(&mut rounds) {
                let figure = writers.turn(server, work, arguments.writes).await?;
                rounds.with[at].push(figure);
            }
            flavor.clear(&mut connection).await?;
        }
    }
    let mut all = Vec::new();
    for (at, flavor) in FLAVORS.into_iter().enumerate() {
        for (work, rounds) in Work::ALL.into_iter().zip(&rounds) {
            all.push(Excluded {
                flavor,
                work: work.name(),
                compared: Compared::of(&rounds.without, &rounds.with[at]),
            });
        }
    }
    Ok(all)
}

async fn configure(
    connection: &mut Connection,
    flavor: Flavor,
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
        flavor.add(connection, &name, webhook).await?;
    }
    let secret = json!({"metadata": {"name": "probe"}}).to_string();
    let is_there = is_stopped(connection, ELSEWHERE, secret.into()).await?;
    ensure!(
        is_there || count == 0,
        "webhooks that nobody answers for let a write pass"
    );
    Ok(())
}

/// All exclude config maps in `default`, each in its own way.
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
