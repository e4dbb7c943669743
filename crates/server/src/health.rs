//! Health endpoints: `/livez`, `/readyz`, `/healthz` and their individual checks (upstream: `server/healthz`).
//!
//! Entry point: [`HealthChecks::serve`]. Checks: `ping`; `store`, whether the store can commit (an etcd without a quorum
//! cannot); `caches`, whether the caches follow the store; `shutdown`.

use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use rhumb_handlers::ServerState;
use rhumb_handlers::http::Reply;
use rhumb_handlers::request::QueryParameters;
use rhumb_meta::{Revision, Status};
use tokio::time::{Instant, timeout};

/// How long the store may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the result of asking an etcd is reused: anonymous clients may send health checks.
const STORE_CHECK_REUSED: Duration = Duration::from_secs(1);

/// How long a check waits for the caches.
const CACHE_WAIT: Duration = Duration::from_millis(500);

/// How long the caches may stay behind a revision of the store.
const CACHE_LAG_MAX: Duration = Duration::from_secs(10);

/// Runs the checks, and keeps what they compare with.
#[derive(Debug, Default)]
pub(super) struct HealthChecks {
    /// The last result for a store that is reached over the network. Locked while it is asked, so that concurrent checks
    /// cause one request.
    store: tokio::sync::Mutex<Option<(Instant, StoreProbe)>>,
    /// The oldest observed revision of the store that the caches have not applied.
    unapplied: Mutex<Option<(Instant, Revision)>>,
}

/// What the store answered.
#[derive(Debug, Clone, Default)]
struct StoreProbe {
    problem: Option<String>,
    revision: Option<Revision>,
}

/// Result of one named check.
struct HealthCheckResult {
    name: &'static str,
    problem: Option<String>,
}

impl HealthChecks {
    /// Serves a health endpoint or one of its checks; `None` if the check does not exist.
    pub(super) async fn serve(
        &self,
        state: &ServerState,
        path: &str,
        query: &QueryParameters,
    ) -> Option<Reply> {
        let mut parts = path.trim_matches('/').splitn(2, '/');
        let endpoint = parts.next()?;
        let names = check_names(endpoint)?;
        if let Some(wanted) = parts.next() {
            let name = names.iter().find(|name| **name == wanted)?;
            let checks = self.run(state, &[name]).await;
            return checks.into_iter().next().map(|check| match check.problem {
                None => Reply::text(StatusCode::OK, "ok"),
                Some(problem) => Reply::status(&Status::internal_error(problem)),
            });
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let included = names.iter().filter(|name| !excluded.contains(name));
        let included: Vec<&str> = included.copied().collect();
        let checks = self.run(state, &included).await;
        let verbose = query.get("verbose").is_some();
        Some(render_report(endpoint, names, &checks, verbose))
    }

    /// Runs checks. The store is asked only for those that need it.
    async fn run(&self, state: &ServerState, names: &[&'static str]) -> Vec<HealthCheckResult> {
        let needs_store = names.iter().any(|name| matches!(*name, "store" | "caches"));
        let store = match needs_store {
            true => self.probe_store(state).await,
            false => StoreProbe::default(),
        };
        let mut checks = Vec::new();
        for name in names {
            let problem = match *name {
                "store" => store.problem.clone(),
                "caches" => self.cache_problem(state, store.revision).await,
                "shutdown" if state.registry.is_shutting_down() => {
                    Some("process is shutting down".to_owned())
                }
                _ => None,
            };
            checks.push(HealthCheckResult { name, problem });
        }
        checks
    }

    async fn probe_store(&self, state: &ServerState) -> StoreProbe {
        if !state.registry.store.is_shared() {
            return ask_store(state).await;
        }
        let mut last = self.store.lock().await;
        if let Some((asked_at, probe)) = &*last
            && asked_at.elapsed() < STORE_CHECK_REUSED
        {
            return probe.clone();
        }
        let probe = ask_store(state).await;
        *last = Some((Instant::now(), probe.clone()));
        probe
    }

    async fn cache_problem(&self, state: &ServerState, stored: Option<Revision>) -> Option<String> {
        let manager = &state.registry.cache_manager;
        let health = manager.health();
        if !health.is_ready() {
            return Some(format!("the watch on the store is not healthy: {health:?}"));
        }
        let stored = stored?;
        // On a shared etcd the revision may be of a key that no cache has. Waiting requests progress, so that the caches
        // learn that they are up to date.
        let deadline = Instant::now() + CACHE_WAIT;
        if manager.wait_for_revision(stored, deadline).await.is_ok() {
            *self.unapplied.lock() = None;
            return None;
        }
        let applied = manager.applied_revision();
        let mut unapplied = self.unapplied.lock();
        let (since, revision) = match *unapplied {
            Some((since, revision)) if applied < revision => (since, revision),
            _ => *unapplied.insert((Instant::now(), stored)),
        };
        (since.elapsed() > CACHE_LAG_MAX).then(|| {
            format!(
                "the caches are at revision {applied} and have not applied revision {revision} for {} s",
                since.elapsed().as_secs()
            )
        })
    }
}

/// The checks of an endpoint; `None` if it is not one.
fn check_names(endpoint: &str) -> Option<&'static [&'static str]> {
    match endpoint {
        // Restarting a server whose caches lag would make it lag more.
        "livez" => Some(&["ping", "store"]),
        "healthz" => Some(&["ping", "store", "caches"]),
        "readyz" => Some(&["ping", "store", "caches", "shutdown"]),
        _ => None,
    }
}

async fn ask_store(state: &ServerState) -> StoreProbe {
    let store = &state.registry.store;
    let asked = timeout(STORE_TIMEOUT, async {
        store.check_writable().await?;
        store.revision().await
    });
    let result = match asked.await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "the store did not answer within {} s",
            STORE_TIMEOUT.as_secs()
        )),
    };
    StoreProbe {
        revision: result.as_ref().ok().copied(),
        problem: result.err(),
    }
}

/// The report of all checks; those that were not run are excluded.
fn render_report(
    endpoint: &str,
    names: &[&str],
    checks: &[HealthCheckResult],
    verbose: bool,
) -> Reply {
    let mut text = String::new();
    let mut failed = false;
    for name in names {
        let line = match checks.iter().find(|check| check.name == *name) {
            None => format!("[+]{name} excluded: ok\n"),
            Some(check) if check.problem.is_none() => format!("[+]{name} ok\n"),
            Some(_) => {
                failed = true;
                format!("[-]{name} failed: reason withheld\n")
            }
        };
        text.push_str(&line);
    }
    if failed {
        text.push_str(&format!("{endpoint} check failed\n"));
        return Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    if !verbose {
        return Reply::text(StatusCode::OK, "ok");
    }
    text.push_str(&format!("{endpoint} check passed\n"));
    Reply::text(StatusCode::OK, text)
}
