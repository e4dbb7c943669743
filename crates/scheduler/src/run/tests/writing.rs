//! What was decided, as it is written.

use super::*;

/// A writer, and what it was asked to write.
fn writer(server: Server) -> (mpsc::UnboundedSender<Decided>, Arc<Mailbox>, JoinSet<()>) {
    writer_with(server, Arc::default())
}

fn writer_with(
    server: Server,
    lanes: Arc<Lanes>,
) -> (mpsc::UnboundedSender<Decided>, Arc<Mailbox>, JoinSet<()>) {
    let mailbox = Arc::new(Mailbox::new(0));
    let in_flight = Arc::<InFlight>::default();
    let metrics = Arc::<Metrics>::default();
    let teller = Teller::start(server.clone(), in_flight.clone(), metrics.clone());
    // Nobody counts down what the thread that decides did not count up.
    for _ in 0..100 {
        in_flight.begin_binding();
        in_flight.begin_write();
    }
    let writer = Writer::new(server, mailbox.clone(), lanes, in_flight, metrics, teller);
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
        tried_for: Duration::ZERO,
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
        matches!(changes.as_slice(), [Change::Bound { uid }] if **uid == *"u"),
        "{changes:?}"
    );
}

/// Before a decision can be written, newer ones come: only the last of them counts then.
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
    assert_eq!(written, ["c"]);
}

/// The one who decided elsewhere was faster: a pod with a node is not said to have none.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_a_node_is_left_alone() {
    let (server, asked) = server(|method, _, _| match method {
        "PATCH" => refused(409),
        _ => shown("u", "8", "n2"),
    });
    let lanes = Arc::<Lanes>::default();
    let (decided, _mailbox, _work) = writer_with(server, lanes.clone());
    let outcome = waits("a", Nominated::Unchanged);
    let begun = StdInstant::now();
    decided.send(Decided { outcome, begun }).unwrap();
    sleep(Duration::from_secs(1)).await;
    // Nor is anybody told that it found no node.
    assert_eq!(steps(&asked), ["PATCH status", "GET p"]);
    assert_eq!(lanes.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_binding_outdates_what_was_decided_before() {
    let (server, asked) = server(|_, _, _| shown("u", "8", ""));
    let lanes = Arc::<Lanes>::default();
    let (decided, _mailbox, _work) = writer_with(server, lanes.clone());
    for outcome in [waits("a", Nominated::Unchanged), binds()] {
        let begun = StdInstant::now();
        decided.send(Decided { outcome, begun }).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(steps(&asked), ["POST binding", "POST events"]);
    assert_eq!(lanes.len(), 0);
}

/// Whoever led before wrote the same, or the server did.
#[tokio::test(start_paused = true)]
async fn what_the_server_says_already_is_not_written_again() {
    let (server, asked) = server(|_, _, _| shown("u", "8", ""));
    let lanes = Arc::<Lanes>::default();
    let (decided, _mailbox, _work) = writer_with(server, lanes.clone());
    let waiting = Pod::from_json(
        br#"{"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2},
            "spec": {"schedulerName": "s"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "a",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#,
    );
    let waiting = Arc::new(waiting.unwrap());
    let say = async |message: &str| {
        let mut outcome = waits(message, Nominated::Unchanged);
        if let Outcome::Pending { pod, .. } = &mut outcome {
            *pod = waiting.clone();
        }
        let begun = StdInstant::now();
        decided.send(Decided { outcome, begun }).unwrap();
        sleep(Duration::from_secs(1)).await;
    };
    say("a").await;
    assert!(steps(&asked).is_empty());
    assert_eq!(lanes.len(), 0);
    say("b").await;
    let asked = asked.lock().unwrap();
    let condition = &asked[0].2["status"]["conditions"][0];
    assert_eq!(condition["message"], "b");
    assert_eq!(condition["observedGeneration"], 2);
    // It has not been scheduled since then.
    assert!(condition.get("lastTransitionTime").is_none());
}

/// What the watch says of a nomination is older than what this process did about it.
#[tokio::test(start_paused = true)]
async fn a_nomination_that_was_taken_back_is_made_again() {
    let mut version = 7;
    let (server, asked) = server(move |_, _, _| {
        version += 1;
        shown("u", &version.to_string(), "")
    });
    let (decided, _mailbox, _work) = writer(server);
    let nominated = Arc::new(Pod {
        nominated_node_name: Some("n1".into()),
        ..pod("7")
    });
    let there = || {
        let mut outcome = waits("a", Nominated::Node("n1".into()));
        if let Outcome::Pending { pod, .. } = &mut outcome {
            *pod = nominated.clone();
        }
        outcome
    };
    let pod = nominated.clone();
    for outcome in [there(), Outcome::Displaced { pod }, there()] {
        let begun = StdInstant::now();
        decided.send(Decided { outcome, begun }).unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    let asked = asked.lock().unwrap();
    let statuses = asked.iter().filter(|(_, end, _)| end == "status");
    let written: Vec<Option<&Value>> = statuses
        .map(|(_, _, body)| body["status"].get("nominatedNodeName"))
        .collect();
    assert_eq!(written, [None, Some(&Value::Null), Some(&json!("n1"))]);
}

#[tokio::test(start_paused = true)]
async fn many_make_room_at_a_time_and_not_too_many() {
    // Nobody answers, so that all stay who began.
    let (server, asked) = server(|_, end, body| match body["metadata"]["uid"].as_str() {
        Some("u") => shown("u", "8", ""),
        _ if end == "events" => ok(json!({})),
        _ => None,
    });
    let (decided, _mailbox, _work) = writer(server);
    let mut outcome = waits("a", Nominated::Unchanged);
    if let Outcome::Pending { victims, .. } = &mut outcome {
        *victims = (0..40)
            .map(|number| {
                let mut victim = pod("5");
                victim.uid = number.to_string().into();
                Arc::new(victim)
            })
            .collect();
    }
    let begun = StdInstant::now();
    decided.send(Decided { outcome, begun }).unwrap();
    sleep(Duration::from_secs(1)).await;
    let begun = steps(&asked)
        .iter()
        .filter(|step| *step == "PATCH status")
        .count();
    assert_eq!(begun, 1 + 16);
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
        matches!(changes.as_slice(), [Change::NotEvicted { uid }] if **uid == *"u"),
        "{changes:?}"
    );
}

/// Some rule of the cluster may forbid for ever to change one pod: that is no reason to schedule no other.
#[tokio::test(start_paused = true)]
async fn bindings_of_which_nothing_can_be_known_hold_up_no_others() {
    let (server, _asked) = server(|method, _, _| match method {
        "POST" => refused(504),
        _ => refused(403),
    });
    let mailbox = Arc::new(Mailbox::new(0));
    let in_flight = Arc::<InFlight>::default();
    let metrics = Arc::<Metrics>::default();
    let teller = Teller::start(server.clone(), in_flight.clone(), metrics.clone());
    let lanes = Arc::default();
    let writer = Writer::new(server, mailbox, lanes, in_flight.clone(), metrics, teller);
    let (decided, to_write) = mpsc::unbounded_channel();
    let mut work = JoinSet::new();
    work.spawn(Arc::new(writer).run(to_write));
    while in_flight.has_room() {
        in_flight.begin_binding();
        let begun = StdInstant::now();
        let outcome = binds();
        decided.send(Decided { outcome, begun }).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    assert!(in_flight.has_room());
    assert_eq!(in_flight.bindings(), 0);
    assert!(!in_flight.is_settled());
}
