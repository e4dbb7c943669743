//! Reads the metrics of a running rhumb with the parser and the linter of Prometheus: `cargo xtask interop metrics`.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use rhumb_interop::client::{RawClient, RawRequest, RawResponse};
use rhumb_interop::servers;
use serde::Deserialize;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Histograms that have values after one watch event.
const WATCH_CACHE_HISTOGRAMS: [&str; 3] = [
    "apiserver_watch_cache_watch_dispatch_event_num_watchers",
    "apiserver_watch_cache_dispatch_event_num_watchers",
    "rhumb_watch_cache_dispatch_duration_seconds",
];

/// What the reader found, `interop/metrics/main.go`.
#[derive(Debug, Deserialize)]
struct MetricsReport {
    families: Vec<MetricFamily>,
    problems: Option<Vec<LintProblem>>,
}

#[derive(Debug, Deserialize)]
struct MetricFamily {
    name: String,
    r#type: String,
    series: Option<Vec<MetricSeries>>,
}

#[derive(Debug, Deserialize)]
struct MetricSeries {
    /// With the name of the metric under `__name__`.
    labels: BTreeMap<String, String>,
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LintProblem {
    metric: String,
    text: String,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("metrics: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let name = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "rhumb".to_owned());
    let server = servers::start(&name)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let metrics = runtime.block_on(metrics_after_an_event(&server.client()?))?;
    let report = read_metrics(&metrics)?;
    let problems: Vec<String> = report
        .problems
        .iter()
        .flatten()
        .map(|problem| format!("{}: {}", problem.metric, problem.text))
        .collect();
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    let mut histograms = 0;
    for family in report.families.iter().filter(|it| it.r#type == "histogram") {
        histograms += check_histogram(family).with_context(|| family.name.clone())?;
    }
    for name in WATCH_CACHE_HISTOGRAMS {
        let family = report.families.iter().find(|family| family.name == name);
        let has_values = family.is_some_and(|family| {
            let mut counts = family.series_named("_count");
            counts.any(|series| series.value != "0")
        });
        ensure!(has_values, "{name} has no values");
    }
    println!(
        "{} metric families, {histograms} histograms with a bucket +Inf",
        report.families.len()
    );
    Ok(())
}

/// The response of `/metrics` after a watcher got an event.
async fn metrics_after_an_event(client: &RawClient) -> Result<RawResponse> {
    let request = |method: &str, path: &str| RawRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        ..RawRequest::default()
    };
    let watch = RawRequest {
        lines: Some(1),
        ..request(
            "GET",
            &format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=20"),
        )
    };
    let create = RawRequest {
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: r#"{"metadata": {"name": "watched"}}"#.into(),
        ..request("POST", CONFIG_MAPS)
    };
    let (event, created) = tokio::join!(client.send(&watch), client.send(&create));
    ensure!(created?.status == 201, "the config map is not created");
    ensure!(!event?.body.is_empty(), "the watcher got no event");
    let metrics = client.send(&request("GET", "/metrics")).await?;
    ensure!(metrics.status == 200, "/metrics: {}", metrics.status);
    Ok(metrics)
}

fn read_metrics(response: &RawResponse) -> Result<MetricsReport> {
    let content_type = response.headers.get("content-type");
    let content_type = content_type.context("no content type")?.to_str()?;
    let mut reader = Command::new(servers::tool("RHUMB_TEST_METRICS_READER", "read-metrics")?)
        .arg(content_type)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The reader prints only after it has read everything.
    let mut input = reader.stdin.take().context("stdin is piped")?;
    input.write_all(&response.body)?;
    drop(input);
    let output = reader.wait_with_output()?;
    ensure!(output.status.success(), "the metrics cannot be read");
    Ok(serde_json::from_slice(&output.stdout)?)
}

impl MetricFamily {
    fn series_named(&self, suffix: &str) -> impl Iterator<Item = &MetricSeries> {
        let name = format!("{}{suffix}", self.name);
        let series = self.series.iter().flatten();
        series.filter(move |series| series.labels.get("__name__") == Some(&name))
    }
}

/// Checks that quantiles can be computed: each histogram has a bucket `+Inf` with all values. Returns their number.
fn check_histogram(family: &MetricFamily) -> Result<usize> {
    let by_labels = |suffix: &str, bound: Option<&str>| -> BTreeMap<_, _> {
        let series = family.series_named(suffix);
        let series = series.filter(|it| it.labels.get("le").map(String::as_str) == bound);
        let labelled = series.map(|series| {
            let mut labels = series.labels.clone();
            labels.retain(|name, _| name != "le" && name != "__name__");
            (labels, &*series.value)
        });
        labelled.collect()
    };
    let counts = by_labels("_count", None);
    ensure!(
        counts == by_labels("_bucket", Some("+Inf")),
        "a bucket +Inf is missing, or differs from the count"
    );
    ensure!(
        counts.keys().eq(by_labels("_sum", None).keys()),
        "a sum is missing"
    );
    Ok(counts.len())
}
