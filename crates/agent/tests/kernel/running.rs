//! Whole agents, on real kernels and beside servers that say what a test wants.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use kube::Client;
use rhumb_agent::metrics::Metrics;
use rhumb_agent::nft;
use rhumb_agent::{Agent, Options};
use rhumb_client::testing::{Answer, connect, is_watch, list, ok, refused};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::namespace::{Namespace, is_root, table};

const NODE: &str = "node-1";
/// For a machine that is busy; nothing is waited for any longer than it takes.
const PATIENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(5);

/// What a kernel says that has no room for another chain that packets come to.
const NO_ROOM: &str =
    "the kernel refused the rules: Argument list too long in: add chain inet rhumb egress { type";
/// How many chains of that sort a kernel takes, and those of an agent among them.
const CHAINS_MAX: usize = 1024;
const CHAINS_OF_AGENT: usize = 2;

/// Others' chains of that sort.
fn crowd(numbers: std::ops::Range<usize>) -> String {
    let mut commands = "add table inet crowd\n".to_owned();
    for number in numbers {
        commands +=
            &format!("add chain inet crowd c{number} {{ type filter hook forward priority 0; }}\n");
    }
    commands
}

/// What a server has, and what it was told.
#[derive(Debug, Default)]
struct State {
    /// Kinds that are not listed yet, by the end of their path.
    hidden: Vec<&'static str>,
    pods: Vec<Value>,
    policies: Vec<Value>,
    nodes: Vec<Value>,
    /// What is told once to whoever watches policies.
    policy_events: Vec<Value>,
    /// Whoever watches policies while there is nothing to be told is sent away, and comes again.
    refuses_policy_watches: bool,
    has_report: bool,
    /// Reports are refused.
    is_broken: bool,
    reports: Vec<Value>,
    asked: Vec<String>,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

impl Server {
    fn new(change: impl FnOnce(&mut State)) -> Server {
        let server = Server::default();
        server.with(change);
        server
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn client(&self) -> Client {
        let server = self.clone();
        connect(move |request| server.with(|state| state.answer(request)))
    }

    fn reports(&self) -> Vec<Value> {
        self.with(|state| state.reports.clone())
    }
}

impl State {
    fn answer(&mut self, request: &Request<Vec<u8>>) -> Answer {
        let path = request.uri().path();
        let kind = path.rsplit('/').next().unwrap_or_default();
        let watch = if is_watch(request) { " watch" } else { "" };
        self.asked
            .push(format!("{} {path}{watch}", request.method()));
        if request.method() == "PUT" {
            let report: Value = serde_json::from_slice(request.body()).unwrap();
            if self.is_broken {
                return refused(500);
            }
            self.reports.push(report.clone());
            return ok(report);
        }
        if is_watch(request) {
            if kind != "networkpolicies" {
                return None;
            }
            // The answer is one event, after which it is watched anew.
            return match self.policy_events.pop() {
                Some(event) => ok(event),
                None if self.refuses_policy_watches => refused(503),
                None => None,
            };
        }
        if self.hidden.contains(&kind) {
            return refused(503);
        }
        match kind {
            "pods" => list(&self.pods),
            "networkpolicies" => list(&self.policies),
            "nodes" => list(&self.nodes),
            "networkpolicynodes" if self.has_report => {
                list(&[json!({"metadata": {"name": NODE, "uid": "r", "resourceVersion": "1"}})])
            }
            _ => list(&[]),
        }
    }
}

fn pod(name: &str, address: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"nodeName": NODE},
        "status": {"phase": "Running", "podIPs": [{"ip": address}]},
    })
}

fn policy(name: &str, generation: u32) -> Value {
    json!({
        "metadata": {
            "namespace": "a", "name": name, "uid": name, "resourceVersion": generation.to_string(), "generation": generation,
        },
        "spec": {"minVersion": "1.3", "podSelector": {}, "policyTypes": ["Ingress"]},
    })
}

fn node() -> Value {
    json!({
        "metadata": {"name": NODE, "uid": "node-uid", "resourceVersion": "1"},
        "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
    })
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    metrics: Arc<Metrics>,
}

impl Running {
    async fn start(server: &Server, namespace: &Namespace) -> Running {
        Running::inspecting(server, namespace, Duration::from_millis(50)).await
    }

    async fn inspecting(
        server: &Server,
        namespace: &Namespace,
        inspect_every: Duration,
    ) -> Running {
        let metrics = Arc::<Metrics>::default();
        let options = Options {
            node: NODE.to_owned(),
            agent: "test".to_owned(),
            versions: vec!["1.3".to_owned(), "1.8".to_owned()],
            table: table(),
            hold_unknown_pods: true,
            inspect_every,
            metrics: metrics.clone(),
        };
        let client = server.client();
        let connection = namespace.inside(nft::Connection::open_and_listen);
        let agent = Agent::prepare(options, connection, &client).await.unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(agent.run(client, stop.clone()));
        Running {
            stop,
            task,
            metrics,
        }
    }

    /// How often the rules of somebody else were found.
    fn repairs(&self) -> u32 {
        let text = self.metrics.text().unwrap();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("rhumb_agent_repairs_total "));
        count.unwrap().parse().unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task)
            .await
            .expect("it ends")
            .unwrap();
    }
}

async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waited = timeout(PATIENCE, async {
        while !is_so().await {
            sleep(TICK).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: in vain"));
}

fn is_well(report: &Value) -> bool {
    report.get("problem").is_none()
}

async fn until_reports(server: &Server, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let last = || server.with(|state| state.reports.last().cloned());
    until(what, async || last().is_some_and(|report| is_so(&report))).await;
    last().unwrap()
}

#[tokio::test]
async fn nothing_is_written_before_all_has_been_seen_and_nothing_is_reported_before_it_is_written()
{
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.hidden = vec!["networkpolicies"];
        state.pods = vec![pod("p", "10.1.0.2")];
        state.policies = vec![policy("q", 3)];
        state.nodes = vec![node()];
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    // All others have been listed, and policies asked for in vain.
    let missing = Some("not seen yet: network policies".to_owned());
    until("lists", async || agent.metrics.missing() == missing).await;
    let refused = "GET /apis/networking.k8s.io/v1/networkpolicies".to_owned();
    until("policies", async || {
        server.with(|state| state.asked.contains(&refused))
    })
    .await;
    assert_eq!(namespace.ask(&["list", "tables"]), "");
    // What was told of the kernel before it began anew is taken back, and no more is told.
    let report = until_reports(&server, "that there are no rules", |_| true).await;
    assert_eq!(report["applied"], json!([]));
    let problem = "the agent has been started, and the kernel has no rules yet";
    assert_eq!(report["problem"], problem);
    assert_eq!(server.reports().len(), 1);
    server.with(|state| state.hidden.clear());
    let report = until_reports(&server, "a report", is_well).await;
    assert_eq!(agent.metrics.missing(), None);
    let expected = json!({
        "apiVersion": "networking.rhumb.dev/v1alpha1",
        "kind": "NetworkPolicyNode",
        "metadata": {
            "name": NODE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "node-uid"}],
        },
        "agent": "test",
        "versions": ["1.3", "1.8"],
        "unimplemented": report["unimplemented"],
        "applied": [{"namespace": "a", "name": "q", "uid": "q", "generation": 3}],
    });
    assert_eq!(report, expected);
    let rules = namespace.rules().join("\n");
    for part in ["10.1.0.2", "g1-in", "\"len\":24"] {
        assert!(rules.contains(part), "{part}\n{rules}");
    }
    agent.end().await;
    assert_eq!(namespace.rules().join("\n"), rules);
}

#[tokio::test]
async fn a_change_reaches_the_kernel_and_then_the_report() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.pods = vec![pod("p", "10.1.0.2")];
        state.refuses_policy_watches = true;
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    let report = until_reports(&server, "a report", is_well).await;
    assert_eq!(report["applied"], json!([]));
    assert!(report["metadata"].get("ownerReferences").is_none());
    let event = json!({"type": "ADDED", "object": policy("q", 1)});
    server.with(|state| state.policy_events.push(event));
    let has_policy = |report: &Value| report["applied"][0]["name"] == "q";
    until_reports(&server, "the policy", has_policy).await;
    let shown = namespace.listing();
    assert!(shown.contains("comment \"a/q\""), "{shown}");
    let text = agent.metrics.text().unwrap();
    for line in [
        "rhumb_agent_event_to_kernel_seconds_count 1",
        "rhumb_agent_policies 1",
        "rhumb_agent_sync_failures_total 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    agent.end().await;
}

#[tokio::test]
async fn rules_that_somebody_else_flushes_are_back_soon() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.pods = vec![pod("p", "10.1.0.2")];
        state.policies = vec![policy("q", 1)];
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    until_reports(&server, "a report", is_well).await;
    let told = server.reports().len();
    let rules = namespace.rules();
    assert_eq!(agent.repairs(), 0);
    for (count, deed) in [(1, "flush ruleset"), (2, "flush table inet rhumb")] {
        namespace.ask(&[deed]);
        until("repaired", async || agent.repairs() == count).await;
        until("all rules", async || {
            let tables = namespace.ask(&["list", "tables"]);
            tables.contains("rhumb") && namespace.rules() == rules
        })
        .await;
    }
    // It is not told as long as it happens once, and what is enforced stays.
    let contested = "somebody else changes or removes the rules of this agent again and again";
    until_reports(&server, "peace", is_well).await;
    for report in &server.reports()[told..] {
        assert!(
            is_well(report) || report["problem"] == contested,
            "{report}"
        );
        assert_eq!(report["applied"][0]["name"], "q");
    }
    agent.end().await;
}

#[tokio::test]
async fn what_others_change_is_changed_back_at_once() {
    if !is_root() {
        return;
    }
    for deed in [
        "delete element inet rhumb known4 { 10.1.0.2 }",
        "delete element inet rhumb ingress4 { 10.1.0.2 }",
        "add element inet rhumb known4 { 10.1.0.77 }",
        "insert rule inet rhumb judge-in accept",
        "flush chain inet rhumb g1-in",
        "add chain inet rhumb strange",
        "flush ruleset",
    ] {
        let namespace = Namespace::new();
        let server = Server::new(|state| {
            state.pods = vec![pod("p", "10.1.0.2")];
            state.policies = vec![policy("q", 1)];
            state.nodes = vec![node()];
            state.has_report = true;
        });
        // It is not looked for.
        let agent = Running::inspecting(&server, &namespace, PATIENCE * 10).await;
        until_reports(&server, "a report", is_well).await;
        let rules = namespace.rules();
        // What others do elsewhere is theirs, and so is a table of the same name in another family.
        namespace.tell(
            "add table inet others; add chain inet others c; add rule inet others c accept\n\
             add table ip rhumb; add chain ip rhumb c; delete table ip rhumb",
        );
        namespace.ask(&[deed]);
        until(deed, async || agent.repairs() == 1).await;
        until(deed, async || {
            let tables = namespace.ask(&["list", "tables"]);
            tables.contains("rhumb") && namespace.rules() == rules
        })
        .await;
        // Who does it again is answered by the next inspection.
        namespace.ask(&[deed]);
        sleep(TICK * 20).await;
        assert_eq!(agent.repairs(), 1, "{deed}");
        agent.end().await;
    }
}

#[tokio::test]
async fn one_who_goes_on_changing_elements_is_answered_and_told_of() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.pods = vec![pod("p", "10.1.0.2")];
        state.policies = vec![policy("q", 1)];
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    until_reports(&server, "a report", is_well).await;
    let rules = namespace.rules();
    let contested = |report: &Value| {
        let problem = report["problem"].as_str();
        problem.is_some_and(|problem| problem.contains("again and again"))
    };
    let is_told = || server.with(|state| state.reports.last().is_some_and(contested));
    until("contested", async || {
        namespace.try_to_tell("delete element inet rhumb ingress4 { 10.1.0.2 }");
        is_told()
    })
    .await;
    until_reports(&server, "peace", is_well).await;
    until("all rules", async || namespace.rules() == rules).await;
    agent.end().await;
}

#[tokio::test]
async fn a_kernel_that_takes_no_rules_is_told_of_and_tried_again() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.pods = vec![pod("p", "10.1.0.2")];
        state.policies = vec![policy("q", 1)];
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    until_reports(&server, "applied", |report| {
        report["applied"][0]["name"] == "q"
    })
    .await;
    let rules = namespace.rules();
    // There is no room for a second table of the agent beside the first, which somebody spoils.
    let others = CHAINS_MAX - CHAINS_OF_AGENT;
    namespace.tell(&crowd(0..others));
    namespace.ask(&["flush chain inet rhumb judge-in"]);
    let has_problem = |report: &Value| {
        let problem = report["problem"].as_str();
        problem.is_some_and(|problem| problem.starts_with(NO_ROOM))
    };
    let report = until_reports(&server, "the problem", has_problem).await;
    assert_eq!(report["applied"][0]["name"], "q");
    // And then none at all. The agent may be faster than whoever takes its place.
    let take_away = || {
        namespace.ask(&["add table inet rhumb; delete table inet rhumb"]);
        namespace.try_to_tell(&crowd(others..CHAINS_MAX))
    };
    until("no room", async || take_away()).await;
    let report = until_reports(&server, "no rules", |report| report["applied"] == json!([])).await;
    assert!(has_problem(&report), "{report}");
    namespace.ask(&["delete table inet crowd"]);
    let report = until_reports(&server, "no problem", is_well).await;
    assert_eq!(report["applied"][0]["name"], "q");
    assert_eq!(namespace.rules(), rules);
    agent.end().await;
}

#[tokio::test]
async fn a_report_that_somebody_deletes_is_written_again() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|_| {});
    let agent = Running::start(&server, &namespace).await;
    let well = || {
        let reports = server.reports().into_iter();
        reports.filter(is_well).collect::<Vec<Value>>()
    };
    until("two reports", async || well().len() >= 2).await;
    assert_eq!(well()[0], well()[1]);
    agent.end().await;
}

#[tokio::test]
async fn a_report_that_a_server_refuses_is_written_when_it_takes_it() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.is_broken = true;
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    let tries = |asked: &[String]| asked.iter().filter(|it| it.starts_with("PUT ")).count();
    until("tries", async || {
        server.with(|state| tries(&state.asked) >= 2)
    })
    .await;
    server.with(|state| state.is_broken = false);
    until_reports(&server, "a report", is_well).await;
    agent.end().await;
}

#[tokio::test]
async fn a_node_that_cannot_have_rules_is_told_of() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    namespace.tell(&crowd(0..CHAINS_MAX));
    let server = Server::default();
    for (connection, said) in [
        (
            Err(nft::Error::Connect(std::io::ErrorKind::Unsupported.into())),
            "the kernel cannot be told any rules: unsupported".to_owned(),
        ),
        (Ok(namespace.connection()), NO_ROOM.to_owned()),
    ] {
        let options = Options {
            node: NODE.to_owned(),
            agent: "test".to_owned(),
            versions: vec!["1.3".to_owned()],
            table: table(),
            hold_unknown_pods: true,
            inspect_every: Duration::from_secs(10),
            metrics: Arc::default(),
        };
        let error = Agent::prepare(options, connection, &server.client())
            .await
            .unwrap_err()
            .to_string();
        let said = format!("the kernel cannot have the rules that are needed: {said}");
        assert!(error.starts_with(&said), "{error}");
        let report = server.reports().pop().unwrap();
        assert_eq!(report["problem"], json!(error));
        assert_eq!(report["applied"], json!([]));
    }
}
