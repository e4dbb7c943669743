//! Requests, and what their answers are taken for.

use super::*;

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
    let table: [(&str, Say, Bound, &[&str]); 10] = [
        (
            "refused",
            |_, _| refused(403),
            Bound::Refused("no".to_owned()),
            &["POST binding"],
        ),
        (
            "gone",
            |_, _| refused(404),
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
        let bound = match server.bind(&pod("7"), "7", "n1").await {
            Bound::Unknown(problem) => server.settle(&pod("7"), "7", "n1", problem).await,
            bound => bound,
        };
        assert_eq!(bound, want, "{what}");
        assert_eq!(steps(&asked), want_steps, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_is_asked_again() {
    let mut times = 0;
    let (server, asked) = server(move |_, _, _| {
        times += 1;
        // Longer than a request may take that was let in.
        if times < 40 {
            refused(429)
        } else {
            ok(json!({}))
        }
    });
    assert_eq!(server.bind(&pod("7"), "7", "n1").await, Bound::Yes);
    assert_eq!(steps(&asked), ["POST binding"; 40]);
}

#[tokio::test(start_paused = true)]
async fn whoever_always_says_that_it_has_too_much_to_do_refuses() {
    let (server, _asked) = server(|_, _, _| refused(429));
    let pod = pod("7");
    let bound = timeout(Duration::from_secs(90), server.bind(&pod, "7", "n1"));
    assert_eq!(bound.await, Ok(Bound::Refused("no".to_owned())));
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
    // Nobody can have decided about it.
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
    let left = fence::fence(&server, &schedulers).await;
    assert_eq!(left, Some(Vec::new()));
    let mut touched: Vec<String> = asked
        .lock()
        .unwrap()
        .iter()
        .filter_map(|(_, _, body)| Some(body["metadata"]["uid"].as_str()?.to_owned()))
        .collect();
    touched.sort();
    assert_eq!(touched, ["a", "c", "d", "d", "d"]);
}

/// Some rule of the cluster may forbid to change one pod: that is no reason to schedule no other.
#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_fenced_is_held_until_it_can() {
    let items = json!([
        {"metadata": {"name": "a", "namespace": "ns", "uid": "a", "resourceVersion": "7"},
         "spec": {"schedulerName": "s"}},
        {"metadata": {"name": "b", "namespace": "ns", "uid": "b", "resourceVersion": "7"},
         "spec": {"schedulerName": "s"}},
    ]);
    let mut refusals = 0;
    let (server, _asked) = server(move |method, _, body| {
        if method == "GET" {
            return ok(json!({"metadata": {"resourceVersion": "9"}, "items": items}));
        }
        if body["metadata"]["uid"] == "b" && refusals < 5 {
            refusals += 1;
            return refused(403);
        }
        shown("a", "10", "")
    });
    let schedulers = HashSet::from(["s".into()]);
    let held = fence::fence(&server, &schedulers).await.unwrap();
    let names: Vec<&str> = held.iter().map(|pod| &*pod.key.name).collect();
    assert_eq!(names, ["b"]);
    let mailbox = Arc::new(Mailbox::new(0));
    fence::fence_beside(server, mailbox.clone(), held).await;
    let mut changes = Vec::new();
    mailbox.take(&mut changes, Some(StdInstant::now()));
    assert!(
        matches!(changes.as_slice(), [Change::Release { uid }] if **uid == *"b"),
        "{changes:?}"
    );
}

/// The connection may lead nowhere, without anybody being told.
#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_come_is_asked_for_again() {
    let mut times = 0;
    let (server, asked) = server(move |_, _, _| {
        times += 1;
        if times == 1 {
            return None;
        }
        ok(json!({"metadata": {"resourceVersion": "9"}, "items": []}))
    });
    let schedulers = HashSet::new();
    let fenced = fence::fence(&server, &schedulers);
    let fenced = timeout(Duration::from_secs(60), fenced).await;
    assert_eq!(fenced, Ok(Some(Vec::new())));
    assert_eq!(steps(&asked), ["GET pods"; 2]);
}

/// What is still there has not made room.
#[tokio::test(start_paused = true)]
async fn whoever_is_to_go_is_gone_only_when_it_is() {
    type Say = fn(usize, &str) -> Answer;
    let table: [(&str, Say, bool, &[&str]); 5] = [
        ("gone before", |_, _| refused(404), true, &["PATCH status"]),
        (
            "another of that name",
            |_, method| match method {
                "PATCH" => refused(409),
                _ => shown("v", "9", "n1"),
            },
            true,
            &["PATCH status", "GET p"],
        ),
        (
            "somebody wrote at the same time, once",
            |step, method| match (step, method) {
                (1, "PATCH") => refused(409),
                _ => shown("u", "9", "n1"),
            },
            true,
            &["PATCH status", "GET p", "PATCH status", "DELETE p"],
        ),
        (
            "somebody writes all the time",
            |_, method| match method {
                "PATCH" => refused(409),
                _ => shown("u", "9", "n1"),
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
            "another of that name since it said why",
            |_, method| match method {
                "DELETE" => refused(409),
                "GET" => shown("v", "9", "n1"),
                _ => shown("u", "9", "n1"),
            },
            true,
            &["PATCH status", "DELETE p", "GET p"],
        ),
    ];
    for (what, say, is_gone, want_steps) in table {
        let mut step = 0;
        let (server, asked) = server(move |method, _, _| {
            step += 1;
            say(step, method)
        });
        let evicted = server.evict(&pod("7"), "s").await;
        assert_eq!(evicted.is_ok(), is_gone, "{what}");
        assert_eq!(steps(&asked), want_steps, "{what}");
    }
}
