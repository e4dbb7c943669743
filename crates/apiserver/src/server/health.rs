//! Whether the server is well.

use http::StatusCode;
use rhumb_meta::Status;

use crate::Api;
use crate::http::Reply;
use crate::request::Query;

/// One thing that can be wrong.
struct Check {
    name: &'static str,
    problem: Option<String>,
}

/// The answer to `/livez`, `/readyz`, `/healthz` and to one of their checks; `None` if there is no such check.
pub(super) fn answer(api: &Api, path: &str, query: &Query) -> Option<Reply> {
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let endpoint = parts.next()?;
    let checks = checks(api, endpoint)?;
    if let Some(wanted) = parts.next() {
        let check = checks.into_iter().find(|check| check.name == wanted)?;
        return Some(match check.problem {
            None => Reply::text(StatusCode::OK, "ok"),
            Some(problem) => Reply::status(&Status::internal_error(problem)),
        });
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    Some(report(
        endpoint,
        &checks,
        &excluded,
        query.get("verbose").is_some(),
    ))
}

fn checks(api: &Api, endpoint: &str) -> Option<Vec<Check>> {
    let health = api.hub.health();
    let store = Check {
        name: "store",
        problem: (!health.is_ready()).then(|| format!("the store cannot be followed: {health:?}")),
    };
    let shutdown = Check {
        name: "shutdown",
        problem: api
            .is_closing()
            .then(|| "process is shutting down".to_owned()),
    };
    let ping = Check {
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

fn report(endpoint: &str, checks: &[Check], excluded: &[&str], verbose: bool) -> Reply {
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
