//! The events that are written for scheduling outcomes.

use k8s_openapi::jiff::Timestamp;

use super::super::recorded_event::RecordedEvent;
use super::*;

fn recorder(server: LeaderClient) -> SchedulingEventRecorder {
    SchedulingEventRecorder::start(server, "host".into(), Arc::default(), Arc::default())
}

fn failure(message: &str) -> RecordedEvent {
    RecordedEvent::Failed {
        pod: Arc::new(pod("7")),
        message: message.to_owned(),
    }
}

fn event_json(event: &RecordedEvent) -> Value {
    json!(event.to_event("host", Timestamp::UNIX_EPOCH))
}

#[test]
fn events_have_upstreams_fields() {
    let preemptor = Arc::new(Pod {
        uid: "v".into(),
        ..pod("9")
    });
    let victim = Arc::new(Pod {
        node_name: Some("n1".into()),
        ..pod("7")
    });
    let reference = |uid: &str, version: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p",
            "uid": uid, "resourceVersion": version,
        })
    };
    let event = |more: Value| {
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "p.0", "namespace": "ns"},
            "eventTime": "1970-01-01T00:00:00.000000Z",
            "reportingController": "s", "reportingInstance": "s-host",
            "regarding": reference("u", "7"),
        });
        let fields = event.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        event
    };
    let table = [
        (
            RecordedEvent::Scheduled {
                pod: Arc::new(pod("7")),
                node: "n1".into(),
            },
            json!({
                "type": "Normal", "reason": "Scheduled", "action": "Binding",
                "note": "Successfully assigned ns/p to n1",
            }),
        ),
        (
            failure("m"),
            json!({
                "type": "Warning", "reason": "FailedScheduling", "action": "Scheduling", "note": "m",
            }),
        ),
        (
            RecordedEvent::Preempted {
                victim,
                by: preemptor,
            },
            json!({
                "type": "Normal", "reason": "Preempted", "action": "Preempting",
                "note": "Preempted by pod v on node n1", "related": reference("v", "9"),
            }),
        ),
    ];
    for (recorded, want) in table {
        assert_eq!(event_json(&recorded), event(want));
    }
}

/// The server rejects longer notes and instances.
#[test]
fn long_notes_and_instances_are_truncated() {
    let note = |message: &str| event_json(&failure(message))["note"].clone();
    assert_eq!(note(&"a".repeat(1024)), "a".repeat(1024));
    assert_eq!(note(&"a".repeat(1025)), "a".repeat(1020) + " ...");
    assert_eq!(note(&"ä".repeat(1000)), "ä".repeat(510) + " ...");
    let event = failure("m").to_event(&"h".repeat(200), Timestamp::UNIX_EPOCH);
    assert_eq!(event.reporting_instance.unwrap().len(), 128);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_failure_is_one_event_with_a_series() {
    let (server, requests) = fake_server(|_, _, _| ok_response(json!({})));
    let recorder = recorder(server);
    for _ in 0..3 {
        recorder.record(failure("m"));
    }
    sleep(Duration::from_secs(1)).await;
    let requests = requests.lock().unwrap();
    let [(post, _, event), (patch, name, series)] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!((post.as_str(), patch.as_str()), ("POST", "PATCH"));
    assert_eq!(event["metadata"]["name"], name.as_str());
    assert_eq!(series["series"]["count"], 2);
    assert!(series["series"]["lastObservedTime"].is_string());
}

/// It has expired on the server, or could not be created.
#[tokio::test(start_paused = true)]
async fn a_missing_event_is_created_with_its_series() {
    let (server, requests) = fake_server(|method, _, _| match method {
        "PATCH" => status_response(404),
        _ => ok_response(json!({})),
    });
    let recorder = recorder(server);
    recorder.record(failure("m"));
    recorder.record(failure("m"));
    sleep(Duration::from_secs(1)).await;
    let requests = requests.lock().unwrap();
    let [first, _, third] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(third.1, "events");
    assert_eq!(third.2["metadata"], first.2["metadata"]);
    assert_eq!(third.2["series"]["count"], 2);
}
