//! Requests to the API server and the interpretation of their responses.

use super::*;

#[tokio::test]
async fn a_binding_carries_uid_and_resource_version() {
    let (server, requests) = fake_server(|_, _, _| ok_response(json!({})));
    assert_eq!(
        server.bind(&pod("7"), "8", "n1").await,
        BindingResult::Bound
    );
    let requests = requests.lock().unwrap();
    let [(method, end, body)] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    assert_eq!((method.as_str(), end.as_str()), ("POST", "binding"));
    assert_eq!(
        body["metadata"],
        json!({"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "8"})
    );
    assert_eq!(body["target"], json!({"kind": "Node", "name": "n1"}));
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_failed_binding_request_is_resolved() {
    type Responder = fn(&str, &str) -> FakeResponse;
    let table: [(&str, Responder, BindingResult, &[&str]); 10] = [
        (
            "refused",
            |_, _| status_response(403),
            BindingResult::Rejected("no".to_owned()),
            &["POST binding"],
        ),
        (
            "gone",
            |_, _| status_response(404),
            BindingResult::NotBound("no".to_owned()),
            &["POST binding"],
        ),
        (
            "sent twice by a proxy: conflicts with its own effect",
            |method, _| match method {
                "POST" => status_response(409),
                _ => pod_response("u", "8", "n1"),
            },
            BindingResult::Bound,
            &["POST binding", "GET p"],
        ),
        (
            "the pod has changed",
            |method, _| match method {
                "POST" => status_response(409),
                _ => pod_response("u", "8", ""),
            },
            BindingResult::NotBound("no".to_owned()),
            &["POST binding", "GET p"],
        ),
        (
            "lost, and the pod could be updated: it can have no effect any more",
            |_, end| match end {
                "binding" => status_response(500),
                _ => pod_response("u", "9", ""),
            },
            BindingResult::NotBound("no".to_owned()),
            &["POST binding", "PATCH status"],
        ),
        (
            "lost, and it took effect",
            |method, _| match method {
                "POST" => status_response(504),
                "PATCH" => status_response(409),
                _ => pod_response("u", "8", "n1"),
            },
            BindingResult::Bound,
            &["POST binding", "PATCH status", "GET p"],
        ),
        (
            "lost, and the pod was bound to another node",
            |method, _| match method {
                "POST" => status_response(504),
                "PATCH" => status_response(409),
                _ => pod_response("u", "8", "n2"),
            },
            BindingResult::NotBound("no".to_owned()),
            &["POST binding", "PATCH status", "GET p"],
        ),
        (
            "lost, and there is another pod of that name",
            |method, _| match method {
                "POST" => status_response(504),
                "PATCH" => status_response(409),
                _ => pod_response("v", "8", "n1"),
            },
            BindingResult::NotBound("no".to_owned()),
            &["POST binding", "PATCH status", "GET p"],
        ),
        (
            "lost, and the pod is gone",
            |method, _| match method {
                "POST" => status_response(504),
                _ => status_response(404),
            },
            BindingResult::NotBound("no".to_owned()),
            &["POST binding", "PATCH status"],
        ),
        (
            "no response",
            |method, _| match method {
                "POST" => None,
                _ => pod_response("u", "9", ""),
            },
            BindingResult::NotBound("request timed out".to_owned()),
            &["POST binding", "PATCH status"],
        ),
    ];
    for (what, respond, want, want_steps) in table {
        let (server, requests) = fake_server(move |method, end, _| respond(method, end));
        let bound = match server.bind(&pod("7"), "7", "n1").await {
            BindingResult::OutcomeUnknown(problem) => {
                server.resolve_binding(&pod("7"), "7", "n1", problem).await
            }
            bound => bound,
        };
        assert_eq!(bound, want, "{what}");
        assert_eq!(logged_requests(&requests), want_steps, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_response_is_retried() {
    let mut times = 0;
    let (server, requests) = fake_server(move |_, _, _| {
        times += 1;
        // Retries take longer than the timeout of a single request.
        if times < 40 {
            status_response(429)
        } else {
            ok_response(json!({}))
        }
    });
    assert_eq!(
        server.bind(&pod("7"), "7", "n1").await,
        BindingResult::Bound
    );
    assert_eq!(logged_requests(&requests), ["POST binding"; 40]);
}

#[tokio::test(start_paused = true)]
async fn persistent_429_responses_reject_the_binding() {
    let (server, _asked) = fake_server(|_, _, _| status_response(429));
    let pod = pod("7");
    let bound = timeout(Duration::from_secs(90), server.bind(&pod, "7", "n1"));
    assert_eq!(bound.await, Ok(BindingResult::Rejected("no".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_patch_without_effect_is_repeated() {
    let mut touches = 0;
    let (server, requests) = fake_server(move |_, _, _| {
        touches += 1;
        // The first patch is a no-op: same timestamp within the same second.
        pod_response("u", if touches == 1 { "7" } else { "8" }, "")
    });
    let key = pod("7").key;
    assert_eq!(server.bump_resource_version(&key, "u", "7").await, Ok(()));
    assert_eq!(logged_requests(&requests), ["PATCH status"; 2]);
    let body = &requests.lock().unwrap()[0].2;
    assert_eq!(
        body["metadata"],
        json!({"uid": "u", "resourceVersion": "7"})
    );
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_after_the_leadership_deadline() {
    let client = testing::fake_client_with(|_| panic!("no request expected"));
    let leadership = LeadershipDeadline::new(Instant::now(), Duration::from_secs(10));
    let server = LeaderClient::new(client, leadership);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(
        server.bind(&pod("7"), "7", "n").await,
        BindingResult::NotLeading
    );
    let sent = server.send(Method::GET, "/", "", &Value::Null).await;
    assert_eq!(sent, Err(RequestError::NotLeading));
}

#[tokio::test(start_paused = true)]
async fn exactly_the_pending_pods_are_fenced() {
    let waiting = |name: &str, scheduler: &str| {
        json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7"},
            "spec": {"schedulerName": scheduler},
        })
    };
    // The previous leader cannot have decided on a gated pod.
    let mut gated = waiting("e", "s");
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    let items = json!([
        waiting("a", "s"),
        waiting("b", "other"),
        waiting("c", "s"),
        waiting("d", "s"),
        gated,
    ]);
    let mut failures = 0;
    let (server, requests) = fake_server(move |method, end, body| match (method, end) {
        ("GET", "pods") => {
            ok_response(json!({"metadata": {"resourceVersion": "9"}, "items": items}))
        }
        ("PATCH", _) => match body["metadata"]["uid"].as_str() {
            Some("a") => pod_response("a", "10", ""),
            Some("c") => status_response(409),
            _ if failures < 2 => {
                failures += 1;
                status_response(500)
            }
            _ => status_response(404),
        },
        _ => None,
    });
    let schedulers = HashSet::from(["s".into()]);
    let unfenced = fence::fence_pending_pods(&server, &schedulers).await;
    assert_eq!(unfenced, Some(Vec::new()));
    let mut bumped: Vec<String> = requests
        .lock()
        .unwrap()
        .iter()
        .filter_map(|(_, _, body)| Some(body["metadata"]["uid"].as_str()?.to_owned()))
        .collect();
    bumped.sort();
    assert_eq!(bumped, ["a", "c", "d", "d", "d"]);
}

/// A policy may forbid updating one pod; that must not stop scheduling of the others.
#[tokio::test(start_paused = true)]
async fn a_pod_is_held_until_it_is_fenced() {
    let items = json!([
        {"metadata": {"name": "a", "namespace": "ns", "uid": "a", "resourceVersion": "7"},
         "spec": {"schedulerName": "s"}},
        {"metadata": {"name": "b", "namespace": "ns", "uid": "b", "resourceVersion": "7"},
         "spec": {"schedulerName": "s"}},
    ]);
    let mut refusals = 0;
    let (server, _asked) = fake_server(move |method, _, body| {
        if method == "GET" {
            return ok_response(json!({"metadata": {"resourceVersion": "9"}, "items": items}));
        }
        if body["metadata"]["uid"] == "b" && refusals < 5 {
            refusals += 1;
            return status_response(403);
        }
        pod_response("a", "10", "")
    });
    let schedulers = HashSet::from(["s".into()]);
    let held = fence::fence_pending_pods(&server, &schedulers)
        .await
        .unwrap();
    let names: Vec<&str> = held.iter().map(|pod| &*pod.key.name).collect();
    assert_eq!(names, ["b"]);
    let inbox = Arc::new(SchedulerInbox::new(0));
    fence::retry_fencing(server, inbox.clone(), held).await;
    let mut changes = Vec::new();
    inbox.take(&mut changes, Some(StdInstant::now()));
    assert!(
        matches!(changes.as_slice(), [SchedulerEvent::ReleasePod { uid }] if **uid == *"b"),
        "{changes:?}"
    );
}

/// A dead connection may go unnoticed.
#[tokio::test(start_paused = true)]
async fn a_list_request_is_repeated_after_a_timeout() {
    let mut times = 0;
    let (server, requests) = fake_server(move |_, _, _| {
        times += 1;
        if times == 1 {
            return None;
        }
        ok_response(json!({"metadata": {"resourceVersion": "9"}, "items": []}))
    });
    let schedulers = HashSet::new();
    let fenced = fence::fence_pending_pods(&server, &schedulers);
    let fenced = timeout(Duration::from_secs(60), fenced).await;
    assert_eq!(fenced, Ok(Some(Vec::new())));
    assert_eq!(logged_requests(&requests), ["GET pods"; 2]);
}

/// A victim that still exists has not freed its resources.
#[tokio::test(start_paused = true)]
async fn a_victim_is_preempted_only_when_its_deletion_is_accepted() {
    type Responder = fn(usize, &str) -> FakeResponse;
    let table: [(&str, Responder, bool, &[&str]); 5] = [
        (
            "already deleted",
            |_, _| status_response(404),
            true,
            &["PATCH status"],
        ),
        (
            "replaced by another pod of that name",
            |_, method| match method {
                "PATCH" => status_response(409),
                _ => pod_response("v", "9", "n1"),
            },
            true,
            &["PATCH status", "GET p"],
        ),
        (
            "one concurrent modification",
            |step, method| match (step, method) {
                (1, "PATCH") => status_response(409),
                _ => pod_response("u", "9", "n1"),
            },
            true,
            &["PATCH status", "GET p", "PATCH status", "DELETE p"],
        ),
        (
            "constant concurrent modifications",
            |_, method| match method {
                "PATCH" => status_response(409),
                _ => pod_response("u", "9", "n1"),
            },
            false,
            &[
                "PATCH status",
                "GET p",
                "PATCH status",
                "GET p",
                "PATCH status",
                "GET p",
            ],
        ),
        (
            "replaced by another pod after the condition was set",
            |_, method| match method {
                "DELETE" => status_response(409),
                "GET" => pod_response("v", "9", "n1"),
                _ => pod_response("u", "9", "n1"),
            },
            true,
            &["PATCH status", "DELETE p", "GET p"],
        ),
    ];
    for (what, respond, is_gone, want_steps) in table {
        let mut step = 0;
        let (server, requests) = fake_server(move |method, _, _| {
            step += 1;
            respond(step, method)
        });
        let evicted = server.preempt_pod(&pod("7"), "s").await;
        assert_eq!(evicted.is_ok(), is_gone, "{what}");
        assert_eq!(logged_requests(&requests), want_steps, "{what}");
    }
}
