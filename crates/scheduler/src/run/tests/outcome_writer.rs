//! How scheduling outcomes are written to the server.

use super::*;

/// Starts a writer; returns its input channel, the inbox for results and its tasks.
fn writer(
    server: LeaderClient,
) -> (
    mpsc::UnboundedSender<FinishedCycle>,
    Arc<SchedulerInbox>,
    JoinSet<()>,
) {
    writer_with(server, Arc::default())
}

fn writer_with(
    server: LeaderClient,
    status_writes: Arc<PodStatusWrites>,
) -> (
    mpsc::UnboundedSender<FinishedCycle>,
    Arc<SchedulerInbox>,
    JoinSet<()>,
) {
    let inbox = Arc::new(SchedulerInbox::new(0));
    let in_flight = Arc::<InFlightWrites>::default();
    let metrics = Arc::<Metrics>::default();
    let event_recorder = SchedulingEventRecorder::start(
        server.clone(),
        "host".into(),
        in_flight.clone(),
        metrics.clone(),
    );
    // Normally the scheduling thread increments these counters.
    for _ in 0..100 {
        in_flight.begin_binding();
        in_flight.begin_write();
    }
    let writer = OutcomeWriter::new(
        server,
        inbox.clone(),
        status_writes,
        in_flight,
        metrics,
        event_recorder,
    );
    let (outcomes, to_write) = mpsc::unbounded_channel();
    let mut work = JoinSet::new();
    work.spawn(Arc::new(writer).run(to_write));
    (outcomes, inbox, work)
}

fn pending_outcome(message: &str, nominated: NominationUpdate) -> SchedulingOutcome {
    SchedulingOutcome::Unscheduled {
        pod: Arc::new(pod("7")),
        reason: PodScheduledReason::Unschedulable,
        message: message.to_owned(),
        nominated,
        victims: Vec::new(),
        attempts: 1,
    }
}

fn bind_outcome() -> SchedulingOutcome {
    SchedulingOutcome::Bind {
        pod: Arc::new(pod("7")),
        node: "n1".into(),
        attempts: 1,
        since_enqueued: Duration::ZERO,
        since_first_attempt: Duration::ZERO,
        evaluated_nodes: 1,
        feasible_nodes: 1,
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_status_is_written_once_and_binding_uses_the_written_version() {
    let mut version = 7;
    let (server, requests) = fake_server(move |method, end, _| match (method, end) {
        ("PATCH", "status") => {
            version += 1;
            pod_response("u", &version.to_string(), "")
        }
        _ => ok_response(json!({})),
    });
    let (outcomes, inbox, _work) = writer(server);
    let send = async |outcome: SchedulingOutcome| {
        let started = StdInstant::now();
        outcomes.send(FinishedCycle { outcome, started }).unwrap();
        sleep(Duration::from_secs(1)).await;
    };
    send(pending_outcome("a", NominationUpdate::Unchanged)).await;
    send(pending_outcome("a", NominationUpdate::Unchanged)).await;
    send(pending_outcome("b", NominationUpdate::Set("n9".into()))).await;
    send(pending_outcome("b", NominationUpdate::Set("n9".into()))).await;
    send(pending_outcome("b", NominationUpdate::Clear)).await;
    send(bind_outcome()).await;
    let requests = requests.lock().unwrap();
    let bodies = |end: &str| -> Vec<&Value> {
        let with_end = requests.iter().filter(|(_, requests, _)| requests == end);
        with_end.map(|(_, _, body)| body).collect()
    };
    let [first, second, third] = bodies("status")[..] else {
        panic!("{requests:?}");
    };
    let condition = &first["status"]["conditions"][0];
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], "a");
    assert!(condition["lastTransitionTime"].is_string());
    assert_eq!(first["metadata"]["resourceVersion"], "7");
    // The condition was False before: no transition.
    let condition = &second["status"]["conditions"][0];
    assert_eq!(condition["message"], "b");
    assert!(condition.get("lastTransitionTime").is_none());
    assert_eq!(second["status"]["nominatedNodeName"], "n9");
    assert_eq!(second["metadata"]["resourceVersion"], "8");
    assert_eq!(third["status"], json!({"nominatedNodeName": null}));
    let [binding] = bodies("binding")[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(binding["metadata"]["resourceVersion"], "10");
    let notes: Vec<&Value> = bodies("events")
        .iter()
        .map(|event| &event["note"])
        .collect();
    assert_eq!(notes, ["a", "b", "Successfully assigned ns/p to n1"]);
    let mut changes = Vec::new();
    inbox.take(&mut changes, Some(StdInstant::now()));
    assert!(
        matches!(changes.as_slice(), [SchedulerEvent::BindingSucceeded { uid }] if **uid == *"u"),
        "{changes:?}"
    );
}

/// Newer decisions arrive before the first is written: only the last is written.
#[tokio::test(start_paused = true)]
async fn superseded_statuses_are_not_written() {
    let (server, requests) = fake_server(|_, _, _| pod_response("u", "8", ""));
    let (outcomes, _inbox, _work) = writer(server);
    for message in ["a", "b", "c"] {
        let started = StdInstant::now();
        let outcome = pending_outcome(message, NominationUpdate::Unchanged);
        outcomes.send(FinishedCycle { outcome, started }).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    let requests = requests.lock().unwrap();
    let written: Vec<&str> = requests
        .iter()
        .filter(|(_, end, _)| end == "status")
        .filter_map(|(_, _, body)| body["status"]["conditions"][0]["message"].as_str())
        .collect();
    assert_eq!(written, ["c"]);
}

/// Another scheduler was faster: a bound pod must not be marked unschedulable.
#[tokio::test(start_paused = true)]
async fn the_status_of_a_bound_pod_is_not_written() {
    let (server, requests) = fake_server(|method, _, _| match method {
        "PATCH" => status_response(409),
        _ => pod_response("u", "8", "n2"),
    });
    let status_writes = Arc::<PodStatusWrites>::default();
    let (outcomes, _inbox, _work) = writer_with(server, status_writes.clone());
    let outcome = pending_outcome("a", NominationUpdate::Unchanged);
    let started = StdInstant::now();
    outcomes.send(FinishedCycle { outcome, started }).unwrap();
    sleep(Duration::from_secs(1)).await;
    // No FailedScheduling event either.
    assert_eq!(logged_requests(&requests), ["PATCH status", "GET p"]);
    assert_eq!(status_writes.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_binding_supersedes_earlier_statuses() {
    let (server, requests) = fake_server(|_, _, _| pod_response("u", "8", ""));
    let status_writes = Arc::<PodStatusWrites>::default();
    let (outcomes, _inbox, _work) = writer_with(server, status_writes.clone());
    for outcome in [
        pending_outcome("a", NominationUpdate::Unchanged),
        bind_outcome(),
    ] {
        let started = StdInstant::now();
        outcomes.send(FinishedCycle { outcome, started }).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(logged_requests(&requests), ["POST binding", "POST events"]);
    assert_eq!(status_writes.len(), 0);
}

/// The previous leader or the server already wrote the same status.
#[tokio::test(start_paused = true)]
async fn a_status_equal_to_the_servers_is_not_written() {
    let (server, requests) = fake_server(|_, _, _| pod_response("u", "8", ""));
    let status_writes = Arc::<PodStatusWrites>::default();
    let (outcomes, _inbox, _work) = writer_with(server, status_writes.clone());
    let waiting = Pod::from_json(
        br#"{"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2},
            "spec": {"schedulerName": "s"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "a",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#,
    );
    let waiting = Arc::new(waiting.unwrap());
    let send = async |message: &str| {
        let mut outcome = pending_outcome(message, NominationUpdate::Unchanged);
        if let SchedulingOutcome::Unscheduled { pod, .. } = &mut outcome {
            *pod = waiting.clone();
        }
        let started = StdInstant::now();
        outcomes.send(FinishedCycle { outcome, started }).unwrap();
        sleep(Duration::from_secs(1)).await;
    };
    send("a").await;
    assert_eq!(logged_requests(&requests), ["POST events"]);
    assert_eq!(status_writes.len(), 0);
    send("b").await;
    let requests = requests.lock().unwrap();
    let condition = &requests[1].2["status"]["conditions"][0];
    assert_eq!(condition["message"], "b");
    assert_eq!(condition["observedGeneration"], 2);
    // The condition was False before: no transition.
    assert!(condition.get("lastTransitionTime").is_none());
}

/// The nomination known from the watch is older than this process's own write.
#[tokio::test(start_paused = true)]
async fn a_cleared_nomination_can_be_written_again() {
    let mut version = 7;
    let (server, requests) = fake_server(move |_, _, _| {
        version += 1;
        pod_response("u", &version.to_string(), "")
    });
    let (outcomes, _inbox, _work) = writer(server);
    let nominated = Arc::new(Pod {
        nominated_node_name: Some("n1".into()),
        ..pod("7")
    });
    let there = || {
        let mut outcome = pending_outcome("a", NominationUpdate::Set("n1".into()));
        if let SchedulingOutcome::Unscheduled { pod, .. } = &mut outcome {
            *pod = nominated.clone();
        }
        outcome
    };
    let pod = nominated.clone();
    for outcome in [
        there(),
        SchedulingOutcome::NominationCleared { pod },
        there(),
    ] {
        let started = StdInstant::now();
        outcomes.send(FinishedCycle { outcome, started }).unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    let requests = requests.lock().unwrap();
    let statuses = requests.iter().filter(|(_, end, _)| end == "status");
    let written: Vec<Option<&Value>> = statuses
        .map(|(_, _, body)| body["status"].get("nominatedNodeName"))
        .collect();
    assert_eq!(written, [None, Some(&Value::Null), Some(&json!("n1"))]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_preemptions_are_bounded() {
    // No response, so that all started preemptions stay in flight.
    let (server, requests) = fake_server(|_, end, body| match body["metadata"]["uid"].as_str() {
        Some("u") => pod_response("u", "8", ""),
        _ if end == "events" => ok_response(json!({})),
        _ => None,
    });
    let (outcomes, _inbox, _work) = writer(server);
    let mut outcome = pending_outcome("a", NominationUpdate::Unchanged);
    if let SchedulingOutcome::Unscheduled { victims, .. } = &mut outcome {
        *victims = (0..40)
            .map(|number| {
                let mut victim = pod("5");
                victim.uid = number.to_string().into();
                Arc::new(victim)
            })
            .collect();
    }
    let started = StdInstant::now();
    outcomes.send(FinishedCycle { outcome, started }).unwrap();
    sleep(Duration::from_secs(1)).await;
    let started = logged_requests(&requests)
        .iter()
        .filter(|step| *step == "PATCH status")
        .count();
    assert_eq!(started, 1 + 16);
}

#[tokio::test(start_paused = true)]
async fn preempted_pods_get_a_condition_and_failures_are_reported() {
    let (server, requests) = fake_server(|method, end, _| match (method, end) {
        ("DELETE", "stays") => status_response(403),
        ("PATCH", _) => pod_response("u", "8", ""),
        _ => ok_response(json!({})),
    });
    let (outcomes, inbox, _work) = writer(server);
    let victim = |name: &str| {
        let mut victim = pod("5");
        victim.key.name = name.into();
        victim.uid = name.into();
        Arc::new(victim)
    };
    let mut outcome = pending_outcome("a", NominationUpdate::Set("n1".into()));
    if let SchedulingOutcome::Unscheduled { victims, .. } = &mut outcome {
        *victims = vec![victim("goes"), victim("stays")];
    }
    let started = StdInstant::now();
    outcomes.send(FinishedCycle { outcome, started }).unwrap();
    sleep(Duration::from_secs(1)).await;
    let requests = requests.lock().unwrap();
    let body = |wanted: (&str, &str), uid: &str| -> &Value {
        let mut all = requests.iter();
        let found = all.find(|(method, end, body)| {
            (method.as_str(), end.as_str()) == wanted && body.to_string().contains(uid)
        });
        &found
            .unwrap_or_else(|| panic!("{wanted:?} in {requests:?}"))
            .2
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
    inbox.take(&mut changes, Some(StdInstant::now()));
    assert!(
        matches!(changes.as_slice(), [SchedulerEvent::PreemptionFailed { uid }] if **uid == *"u"),
        "{changes:?}"
    );
}

/// A policy may forbid updating one pod forever; that must not stop scheduling of the others.
#[tokio::test(start_paused = true)]
async fn bindings_with_unknown_outcome_do_not_block_others() {
    let (server, _asked) = fake_server(|method, _, _| match method {
        "POST" => status_response(504),
        _ => status_response(403),
    });
    let inbox = Arc::new(SchedulerInbox::new(0));
    let in_flight = Arc::<InFlightWrites>::default();
    let metrics = Arc::<Metrics>::default();
    let event_recorder = SchedulingEventRecorder::start(
        server.clone(),
        "host".into(),
        in_flight.clone(),
        metrics.clone(),
    );
    let status_writes = Arc::default();
    let writer = OutcomeWriter::new(
        server,
        inbox,
        status_writes,
        in_flight.clone(),
        metrics,
        event_recorder,
    );
    let (outcomes, to_write) = mpsc::unbounded_channel();
    let mut work = JoinSet::new();
    work.spawn(Arc::new(writer).run(to_write));
    while in_flight.has_capacity() {
        in_flight.begin_binding();
        let started = StdInstant::now();
        let outcome = bind_outcome();
        outcomes.send(FinishedCycle { outcome, started }).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    assert!(in_flight.has_capacity());
    assert_eq!(in_flight.bindings(), 0);
    assert!(!in_flight.is_idle());
}
