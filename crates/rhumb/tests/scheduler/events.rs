//! The events that the scheduler writes, as clients of both event APIs see them.

use k8s_openapi::api::core::v1::{Event as CoreEvent, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::json;

use crate::cluster::{anti_affinity_to_app, make_node, make_pod, placed, pod};
use crate::program::{FEW_CONTROLLERS, poll_until};
use crate::support::TestServer;

/// Waits for an event about a pod that satisfies a condition.
pub(crate) async fn event_about(
    client: &Client,
    pod: &str,
    reason: &str,
    condition: impl Fn(&Event) -> bool,
) -> Event {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let selector = format!("regarding.name={pod},reason={reason}");
    poll_until(&format!("event {reason} about {pod}"), async || {
        let all = events.list(&ListParams::default().fields(&selector)).await;
        all.ok()?.into_iter().find(|event| condition(event))
    })
    .await
}

#[tokio::test]
async fn events_have_an_action_and_repeated_failures_are_a_series() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS, "--scheduler"]);
    let client = server.client_for_pods().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make_node(&client, "n1", "4").await;
    for name in ["a", "b"] {
        make_pod(&pods, &pod(name, "x", json!({}))).await;
        assert_eq!(placed(&pods, name).await, "n1");
    }
    let scheduled = event_about(&client, "a", "Scheduled", |_| true).await;
    let text = Option::as_deref;
    assert_eq!(text(&scheduled.action), Some("Binding"));
    assert_eq!(text(&scheduled.type_), Some("Normal"));
    let note = "Successfully assigned default/a to n1";
    assert_eq!(text(&scheduled.note), Some(note));
    let controller = text(&scheduled.reporting_controller);
    assert_eq!(controller, Some("default-scheduler"));
    let instance = text(&scheduled.reporting_instance).expect("an instance");
    assert!(instance.starts_with("default-scheduler-"), "{instance}");
    assert!(scheduled.event_time.is_some());
    assert_eq!(scheduled.series, None);

    // The deletion may help, so the pod is tried again, and is rejected for the same reason.
    make_pod(&pods, &pod("c", "x", anti_affinity_to_app("x"))).await;
    let failed = event_about(&client, "c", "FailedScheduling", |_| true).await;
    assert_eq!(text(&failed.action), Some("Scheduling"));
    assert_eq!(text(&failed.type_), Some("Warning"));
    let now = DeleteParams::default().grace_period(0);
    pods.delete("a", &now).await.expect("a deletion");
    let repeated = event_about(&client, "c", "FailedScheduling", |event| {
        event.series.is_some()
    })
    .await;
    assert_eq!(repeated.metadata.uid, failed.metadata.uid);
    assert_eq!(repeated.series.map(|series| series.count), Some(2));

    // `kubectl describe` reads the core API.
    let core: Api<CoreEvent> = Api::default_namespaced(client.clone());
    let name = failed.metadata.name.expect("a name");
    let shown = core.get(&name).await.expect("an event");
    assert_eq!(shown.message, failed.note);
    let component = text(&shown.reporting_component);
    assert_eq!(component, Some("default-scheduler"));
    assert_eq!(shown.involved_object.name.as_deref(), Some("c"));
    assert_eq!(shown.series.and_then(|series| series.count), Some(2));
}
