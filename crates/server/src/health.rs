//! Health endpoints: `/livez`, `/readyz`, `/healthz` and their individual checks (upstream: `server/healthz`).

use http::StatusCode;
use rhumb_meta::Status;

use rhumb_handlers::ServerState;
use rhumb_handlers::http::Reply;
use rhumb_handlers::request::QueryParameters;

/// Result of one named check.
struct HealthCheckResult {
    name: &'static str,
    problem: Option<String>,
}

/// Serves a health endpoint or one of its checks; `None` if the check does not exist.
pub(super) fn serve(state: &ServerState, path: &str, query: &QueryParameters) -> Option<Reply> {
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let endpoint = parts.next()?;
    let checks = run_checks(state, endpoint)?;
    if let Some(check_name) = parts.next() {
        let check = checks.into_iter().find(|check| check.name == check_name)?;
        return Some(match check.problem {
            None => Reply::text(StatusCode::OK, "ok"),
            Some(problem) => Reply::status(&Status::internal_error(problem)),
        });
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    Some(render_report(
        endpoint,
        &checks,
        &excluded,
        query.get("verbose").is_some(),
    ))
}

fn run_checks(state: &ServerState, endpoint: &str) -> Option<Vec<HealthCheckResult>> {
    let health = state.registry.cache_manager.health();
    let store = HealthCheckResult {
        name: "store",
        problem: (!health.is_ready())
            .then(|| format!("the watch on the store is not healthy: {health:?}")),
    };
    let shutdown = HealthCheckResult {
        name: "shutdown",
        problem: state
            .registry
            .is_shutting_down()
            .then(|| "process is shutting down".to_owned()),
    };
    let ping = HealthCheckResult {
        name: "ping",
        problem: None,
    };
    match endpoint {
        "livez" => Some(vec![ping]),
        "healthz" => Some(vec![ping, store]),
        "readyz" => Some(vec![ping, store, shutdown]),
        _ => None,
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
