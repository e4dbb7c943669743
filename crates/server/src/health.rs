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
#[derive(Debug, Clone)]
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
        let checks = self.run(state, endpoint).await?;
        if let Some(check_name) = parts.next() {
            let check = checks.into_iter().find(|check| check.name == check_name)?;
            return Some(match check.problem {
                None => Reply::text(StatusCode::OK, "ok"),
                Some(problem) => Reply::status(&Status::internal_error(problem)),
            });
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let verbose = query.get("verbose").is_some();
        Some(render_report(endpoint, &checks, &excluded, verbose))
    }

    async fn run(&self, state: &ServerState, endpoint: &str) -> Option<Vec<HealthCheckResult>> {
        let check = |name, problem| HealthCheckResult { name, problem };
        if !matches!(endpoint, "livez" | "readyz" | "healthz") {
            return None;
        }
        let store = self.probe_store(state).await;
        let caches = self.cache_problem(state, store.revision);
        let mut checks = vec![check("ping", None), check("store", store.problem)];
        // Restarting a server whose caches lag would make it lag more.
        if endpoint != "livez" {
            checks.push(check("caches", caches));
        }
        if endpoint == "readyz" {
            let is_shutting_down = state.registry.is_shutting_down();
            let problem = is_shutting_down.then(|| "process is shutting down".to_owned());
            checks.push(check("shutdown", problem));
        }
        Some(checks)
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

    fn cache_problem(&self, state: &ServerState, stored: Option<Revision>) -> Option<String> {
        let manager = &state.registry.cache_manager;
        let health = manager.health();
        if !health.is_ready() {
            return Some(format!("the watch on the store is not healthy: {health:?}"));
        }
        let applied = manager.applied_revision();
        let mut unapplied = self.unapplied.lock();
        if unapplied.is_some_and(|(_, revision)| applied >= revision) {
            *unapplied = None;
        }
        if let (None, Some(stored)) = (&*unapplied, stored.filter(|stored| *stored > applied)) {
            *unapplied = Some((Instant::now(), stored));
        }
        let (since, revision) = (*unapplied)?;
        (since.elapsed() > CACHE_LAG_MAX).then(|| {
            format!(
                "the caches are at revision {applied} and have not applied revision {revision} for {} s",
                since.elapsed().as_secs()
            )
        })
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

fn render_report(
    endpoint: &str,
    checks: &[HealthCheckResult],
    excluded: &[&str],
    verbose: bool,
) -> Reply {
    let mut text = String::new();
    let mut failed = false;
    for check in checks {
        let line = if excluded.contains(&check.name) {
            format!("[+]{} excluded: ok\n", check.name)
        } else if check.problem.is_none() {
            format!("[+]{} ok\n", check.name)
        } else {
            failed = true;
            format!("[-]{} failed: reason withheld\n", check.name)
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
