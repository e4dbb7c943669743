//! What is asked of a server that answers as a test says.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant as StdInstant;

use http::{Method, Request};
use rhumb_client::testing::{self, Answer, ok, refused};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::requests::{Bound, Failure};
use super::writer::Decided;
use super::*;
use crate::engine::{Nominated, Outcome, Reason};
use crate::model::{Pod, PodKey};

/// What was asked: the method, the end of the path, and the body.
type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

fn server(
    mut answer: impl FnMut(&str, &str, &Value) -> Answer + Send + 'static,
) -> (Server, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let answer = Mutex::new(move |request: &Request<Vec<u8>>| {
        let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let end = request.uri().path().rsplit('/').next().unwrap_or_default();
        let method = request.method().as_str();
        noted
            .lock()
            .unwrap()
            .push((method.to_owned(), end.to_owned(), body.clone()));
        answer(method, end, &body)
    });
    let client = testing::connect(move |request| (answer.lock().unwrap())(request));
    (Server::new(client, Lead::unasked()), asked)
}

/// The methods and ends of paths.
fn steps(asked: &Asked) -> Vec<String> {
    let asked = asked.lock().unwrap();
    asked
        .iter()
        .map(|(method, end, _)| format!("{method} {end}"))
        .collect()
}

fn pod(version: &str) -> Pod {
    Pod {
        key: PodKey {
            namespace: "ns".into(),
            name: "p".into(),
        },
        uid: "u".into(),
        resource_version: version.into(),
        scheduler_name: "s".into(),
        ..Pod::default()
    }
}

/// A pod of this uid and version, on a node or on none.
fn shown(uid: &str, version: &str, node: &str) -> Answer {
    ok(json!({
        "metadata": {"name": "p", "uid": uid, "resourceVersion": version},
        "spec": {"nodeName": node},
    }))
}

#[tokio::test]
async fn a_binding_names_what_it_was_decided_on() {
    let (server, asked) = server(|_, _, _| ok(json!({})));
    assert_eq!(server.bind(&pod("7"), "8", "n1").await, Bound::Yes);
    let asked = asked.lock().unwrap();
    let [(method, end, body)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!((method.as_str(), end.as_str()), ("POST", "binding"));
    assert_eq!(
        body["metadata"],
        json!({"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "8"})
    );
    assert_eq!(body["target"], json!({"kind": "Node", "name": "n1"}));
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_binding_is_found_out() {
    type Say = fn(&str, &str) -> Answer;
    let table: [(&str, Say, Bound, &[&str]); 9] = [
        (
            "refused",
            |_, _| refused(403),
            Bound::No("no".to_owned()),
            &["POST binding"],
        ),
        (
            "sent twice by whatever lies between: its own effect is in its way",
            |method, _| match method {
                "POST" => refused(409),
                _ => shown("u", "8", "n1"),
            },
            Bound::Yes,
            &["POST binding", "GET p"],
        ),
        (
            "the pod has changed",
            |method, _| match method {
                "POST" => refused(409),
                _ => shown("u", "8", ""),
            },
            Bound::No("no".to_owned()),
            &["POST binding", "GET p"],
        ),
        (
            "lost, and the pod can be changed: it can have no effect any more",
            |_, end| match end {
                "binding" => refused(500),
                _ => shown("u", "9", ""),
            },
            Bound::No("no".to_owned()),
            &["POST binding", "PATCH status"],
        ),
        (
            "lost, and it took effect",
            |method, _| match method {
                "POST" => refused(504),
                "PATCH" => refused(409),
                _ => shown("u", "8", "n1"),
            },
            Bound::Yes,
            &["POST binding", "PATCH status", "GET p"],
        ),
        (
            "lost, and somebody else put the pod elsewhere",
            |method, _| match method {
                "POST" => refused(504),
                "PATCH" => refused(409),
                _ => shown("u", "8", "n2"),
            },
            Bound::No("no".to_owned()),
            &["POST binding", "PATCH status", "GET p"],
        ),
        (
            "lost, and there is another pod of that name",
            |method, _| match method {
                "POST" => refused(504),
                "PATCH" => refused(409),
                _ => shown("v", "8", "n1"),
            },
            Bound::No("no".to_owned()),
            &["POST binding", "PATCH status", "GET p"],
        ),
        (
            "lost, and the pod is gone",
            |method, _| match method {
                "POST" => refused(504),
                _ => refused(404),
            },
            Bound::No("no".to_owned()),
            &["POST binding", "PATCH status"],
        ),
        (
            "no answer at all",
            |method, _| match method {
                "POST" => None,
                _ => shown("u", "9", ""),
            },
            Bound::No("the server does not answer".to_owned()),
            &["POST binding", "PATCH status"],
        ),
    ];
    for (what, say, want, want_steps) in table {
        let (server, asked) = server(move |method, end, _| say(method, end));
        assert_eq!(server.bind(&pod("7"), "7", "n1").await, want, "{what}");
        assert_eq!(steps(&asked), want_steps, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_is_asked_again() {
    let mut times = 0;
    let (server, asked) = server(move |_, _, _| {
        times += 1;
        if times < 4 {
            refused(429)
        } else {
            ok(json!({}))
        }
    });
    assert_eq!(server.bind(&pod("7"), "7", "n1").await, Bound::Yes);
    assert_eq!(steps(&asked), ["POST binding"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_changes_nothing_is_made_again() {
    let mut touches = 0;
    let (server, asked) = server(move |_, _, _| {
        touches += 1;
        // In the same second the condition says the same.
        shown("u", if touches == 1 { "7" } else { "8" }, "")
    });
    let key = pod("7").key;
    assert_eq!(server.touch(&key, "u", "7").await, Ok(()));
    assert_eq!(steps(&asked), ["PATCH status"; 2]);
    let body = &asked.lock().unwrap()[0].2;
    assert_eq!(
        body["metadata"],
        json!({"uid": "u", "resourceVersion": "7"})
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_may_not_lead_sends_nothing() {
    let client = testing::connect(|_| panic!("nobody should ask"));
    let lead = Lead::new(Instant::now(), Duration::from_secs(10));
    let server = Server::new(client, lead);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(server.bind(&pod("7"), "7", "n").await, Bound::NotLeading);
    let sent = server.send(Method::GET, "/", "", &Value::Null).await;
    assert_eq!(sent, Err(Failure::NotLeading));
}

#[tokio::test(start_paused = true)]
async fn every_pod_that_waits_is_fenced_and_no_other() {
    let waiting = |name: &str, scheduler: &str| {
        json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7"},
            "spec": {"schedulerName": scheduler},
        })
    };
    let items = json!([
        waiting("a", "s"),
        waiting("b", "other"),
        waiting("c", "s"),
        waiting("d", "s")
    ]);
    let mut failures = 0;
    let (server, asked) = server(move |method, end, body| match (method, end) {
        ("GET", "pods") => ok(json!({"metadata": {"resourceVersion": "9"}, "items": items})),
        ("PATCH", _) => match body["metadata"]["uid"].as_str() {
            Some("a") => shown("a", "10", ""),
            Some("c") => refused(409),
            _ if failures < 2 => {
                failures += 1;
                refused(500)
            }
            _ => refused(404),
        },
        _ => None,
    });
    let schedulers = HashSet::from(["s".into()]);
    assert!(fence::fence(&server, &schedulers).await);
    let mut touched: Vec<String> = asked
        .lock()
        .unwrap()
        .iter()
        .filter_map(|(_, _, body)| Some(body["metadata"]["uid"].as_str()?.to_owned()))
        .collect();
    touched.sort();
    assert_eq!(touched, ["a", "c", "d", "d", "d"]);
}

/// A writer, and what it was asked to write.
fn writer(server: Server) -> (mpsc::UnboundedSender<Decided>, Arc<Mailbox>, JoinSet<()>) {
    let mailbox = Arc::new(Mailbox::new(0));
    let in_flight = Arc::<InFlight>::default();
    let metrics = Arc::<Metrics>::default();
    let teller = Teller::start(server.clone(), in_flight.clone(), metrics.clone());
    // Nobody counts down what the thread that decides did not count up.
    for _ in 0..100 {
        in_flight.begin_binding();
        in_flight.begin_write();
    }
    let writer = Writer::new(
        server,
        mailbox.clone(),
        Arc::default(),
        in_flight,
        metrics,
        teller,
    );
    let (decided, to_write) = mpsc::unbounded_channel();
    let mut work = JoinSet::new();
    work.spawn(Arc::new(writer).run(to_write));
    (decided, mailbox, work)
}

fn waits(message: &str, nominated: Nominated) -> Outcome {
    Outcome::Pending {
        pod: Arc::new(pod("7")),
        reason: Reason::Unschedulable,
        message: message.to_owned(),
        nominated,
        victims: Vec::new(),
        attempts: 1,
    }
}

fn binds() -> Outcome {
    Outcome::Bind {
        pod: Arc::new(pod("7")),
        node: "n1".into(),
        attempts: 1,
        waited: Duration::ZERO,
        looked_at: 1,
        possible: 1,
    }
}

#[tokio::test(start_paused = true)]
async fn why_a_pod_waits_is_written_once_and_the_binding_knows_the_version_it_made() {
    let mut version = 7;
    let (server, asked) = server(move |method, end, _| match (method, end) {
        ("PATCH", "status") => {
            version += 1;
            shown("u", &version.to_string(), "")
        }
        _ => ok(json!({})),
    });
    let (decided, mailbox, _work) = writer(server);
    let say = async |outcome: Outcome| {
        let begun = StdInstant::now();
        decided.send(Decided { outcome, begun }).unwrap();
        sleep(Duration::from_secs(1)).await;
    };
    say(waits("a", Nominated::Unchanged)).await;
    say(waits("a", Nominated::Unchanged)).await;
    say(waits("b", Nominated::Node("n9".into()))).await;
    say(waits("b", Nominated::Node("n9".into()))).await;
    say(waits("b", Nominated::Nowhere)).await;
    say(binds()).await;
    let asked = asked.lock().unwrap();
    let bodies = |end: &str| -> Vec<&Value> {
        let with_end = asked.iter().filter(|(_, asked, _)| asked == end);
        with_end.map(|(_, _, body)| body).collect()
    };
    let [first, second, third] = bodies("status")[..] else {
        panic!("{asked:?}");
    };
    let condition = &first["status"]["conditions"][0];
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], "a");
    assert!(condition["lastTransitionTime"].is_string());
    assert_eq!(first["metadata"]["resourceVersion"], "7");
    // It was not scheduled before either.
    let condition = &second["status"]["conditions"][0];
    assert_eq!(condition["message"], "b");
    assert!(condition.get("lastTransitionTime").is_none());
    assert_eq!(second["status"]["nominatedNodeName"], "n9");
    assert_eq!(second["metadata"]["resourceVersion"], "8");
    assert_eq!(third["status"], json!({"nominatedNodeName": null}));
    let [binding] = bodies("binding")[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(binding["metadata"]["resourceVersion"], "10");
    let reasons: Vec<&Value> = bodies("events")
        .iter()
        .map(|event| &event["reason"])
        .collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert_eq!(*reasons[3], "Scheduled");
    let mut changes = Vec::new();
    mailbox.take(&mut changes, Some(StdInstant::now()));
    assert!(
        matches!(changes.as_slice(), [crate::engine::Change::Bound { uid }] if **uid == *"u"),
        "{changes:?}"
    );
}

/// While one decision is being written, newer ones come: only the last of them counts then.
#[tokio::test(start_paused = true)]
async fn what_is_outdated_is_not_written() {
    let (server, asked) = server(|_, _, _| shown("u", "8", ""));
    let (decided, _mailbox, _work) = writer(server);
    for message in ["a", "b", "c"] {
        let begun = StdInstant::now();
        let outcome = waits(message, Nominated::Unchanged);
        decided.send(Decided { outcome, begun }).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    let asked = asked.lock().unwrap();
    let written: Vec<&str> = asked
        .iter()
        .filter(|(_, end, _)| end == "status")
        .filter_map(|(_, _, body)| body["status"]["conditions"][0]["message"].as_str())
        .collect();
    assert_eq!(written, ["a", "c"]);
}

/// The one who decided elsewhere was faster: a pod with a node is not said to have none.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_a_node_is_left_alone() {
    let (server, asked) = server(|method, _, _| match method {
        "PATCH" => refused(409),
        _ => shown("u", "8", "n2"),
    });
    let (decided, _mailbox, _work) = writer(server);
    let outcome = waits("a", Nominated::Unchanged);
    let begun = StdInstant::now();
    decided.send(Decided { outcome, begun }).unwrap();
    sleep(Duration::from_secs(1)).await;
    let steps = steps(&asked);
    assert_eq!(steps[..2], ["PATCH status", "GET p"]);
    assert!(!steps[2..].iter().any(|step| step == "PATCH status"));
}

#[tokio::test(start_paused = true)]
async fn those_who_make_room_say_why_and_whoever_cannot_is_told() {
    let (server, asked) = server(|method, end, _| match (method, end) {
        ("DELETE", "stays") => refused(403),
        ("PATCH", _) => shown("u", "8", ""),
        _ => ok(json!({})),
    });
    let (decided, mailbox, _work) = writer(server);
    let victim = |name: &str| {
        let mut victim = pod("5");
        victim.key.name = name.into();
        victim.uid = name.into();
        Arc::new(victim)
    };
    let mut outcome = waits("a", Nominated::Node("n1".into()));
    if let Outcome::Pending { victims, .. } = &mut outcome {
        *victims = vec![victim("goes"), victim("stays")];
    }
    let begun = StdInstant::now();
    decided.send(Decided { outcome, begun }).unwrap();
    sleep(Duration::from_secs(1)).await;
    let asked = asked.lock().unwrap();
    let body = |wanted: (&str, &str), uid: &str| -> &Value {
        let mut all = asked.iter();
        let found = all.find(|(method, end, body)| {
            (method.as_str(), end.as_str()) == wanted && body.to_string().contains(uid)
        });
        &found.unwrap_or_else(|| panic!("{wanted:?} in {asked:?}")).2
    };
    let condition = &body(("PATCH", "status"), "goes")["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "PreemptionByScheduler");
    assert_eq!(
        condition["message"],
        "s: preempting to accommodate a higher priority pod"
    );
    let deleted = body(("DELETE", "goes"), "goes");
    assert_eq!(deleted["preconditions"], json!({"uid": "goes"}));
    let mut changes = Vec::new();
    mailbox.take(&mut changes, Some(StdInstant::now()));
    assert!(
        matches!(changes.as_slice(), [crate::engine::Change::NotEvicted { uid }] if **uid == *"u"),
        "{changes:?}"
    );
}
