//! Two candidates compete for one lease, on a paused clock.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

const TIMES: LeaseTimings = LeaseTimings {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

/// A fake API server with one Lease, whose responses can be delayed.
#[derive(Clone, Default)]
struct FakeLeaseServer(Arc<Mutex<FakeLeaseState>>);

/// The Lease, and the delay of responses.
#[derive(Default)]
struct FakeLeaseState {
    lease: Option<Value>,
    version: u64,
    /// Delay of the responses to candidate `one`.
    delay: Duration,
}

impl FakeLeaseServer {
    fn respond(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let error_response = |code: u16| {
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
            (code, status)
        };
        if *method == Method::GET {
            return state
                .lease
                .clone()
                .map_or(error_response(404), |lease| (200, lease));
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let current = state
            .lease
            .as_ref()
            .map(|lease| &lease["metadata"]["resourceVersion"]);
        let is_new = *method == Method::POST;
        if is_new != current.is_none()
            || (!is_new && current != Some(&lease["metadata"]["resourceVersion"]))
        {
            return error_response(409);
        }
        state.version += 1;
        lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.lease = Some(lease.clone());
        (200, lease)
    }

    fn client(&self, is_late: bool) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let delay = server.0.lock().unwrap().delay;
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await.unwrap();
                // The write is applied at once; only the response is delayed.
                let (code, body) = server.respond(&method, &body);
                if is_late {
                    sleep(delay).await;
                }
                let response = Response::builder().status(code);
                let response = response.body(Body::from(body.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn elector(&self, identity: &str) -> LeaderElector {
        let election = LeaderElectionConfig {
            identity: identity.to_owned(),
            namespace: "kube-system".to_owned(),
            name: "it".to_owned(),
            component: "it",
            timings: TIMES,
        };
        LeaderElector::new(self.client(identity == "one"), election)
    }

    fn set_delay(&self, delay: Duration) {
        self.0.lock().unwrap().delay = delay;
    }

    fn holder(&self) -> Value {
        let state = self.0.lock().unwrap();
        state
            .lease
            .as_ref()
            .map_or(Value::Null, |lease| lease["spec"]["holderIdentity"].clone())
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_taken_over() {
    let server = FakeLeaseServer::default();
    let (one, two) = (server.elector("one"), server.elector("two"));
    let begun = Instant::now();
    let first = one.acquire().await;
    // The Lease did not exist: it may have been deleted.
    assert_eq!(first.previous_holder, PreviousHolder::OtherOrUnknown);
    let second = two.acquire().await;
    assert_eq!(second.previous_holder, PreviousHolder::OtherOrUnknown);
    assert!(begun.elapsed() >= TIMES.lease_duration, "{begun:?}");
    assert_eq!(server.holder(), "two");
    assert!(!first.deadline.is_leader_at(Instant::now()));
    assert!(second.deadline.is_leader_at(Instant::now()));
    let lead = LeadershipDeadline::new(Instant::now(), TIMES.renew_deadline);
    assert_eq!(
        one.renew_until_lost(&lead).await,
        LeadershipLoss::HeldByOther
    );
    assert!(!lead.is_leader_at(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_is_kept_and_a_released_one_taken_at_once() {
    let server = FakeLeaseServer::default();
    let (one, two) = (server.elector("one"), server.elector("two"));
    let term = one.acquire().await;
    let both = async { tokio::join!(one.renew_until_lost(&term.deadline), two.acquire()) };
    assert!(timeout(Duration::from_secs(300), both).await.is_err());
    assert_eq!(server.holder(), "one");
    assert!(term.deadline.is_leader_at(Instant::now()));
    let begun = Instant::now();
    one.release().await;
    assert_eq!(
        two.acquire().await.previous_holder,
        PreviousHolder::Released
    );
    assert!(begun.elapsed() <= TIMES.retry_period, "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn the_same_identity_reacquires_at_once_after_a_crash() {
    let server = FakeLeaseServer::default();
    server.elector("one").acquire().await;
    let begun = Instant::now();
    let again = server.elector("one").acquire().await;
    assert_eq!(again.previous_holder, PreviousHolder::SameIdentity);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// However late the server responds, a leader stops before another can start.
#[tokio::test(start_paused = true)]
async fn a_leader_stops_before_another_starts() {
    for delay_ms in [1000, 2500, 4900, 5000, 7500, 9999, 10_000, 60_000] {
        let server = FakeLeaseServer::default();
        let (one, two) = (server.elector("one"), server.elector("two"));
        let term = one.acquire().await;
        let follow = async {
            two.acquire().await;
            Instant::now()
        };
        let lead = async {
            sleep(Duration::from_secs(3)).await;
            server.set_delay(Duration::from_millis(delay_ms));
            let lost = timeout(
                Duration::from_secs(120),
                one.renew_until_lost(&term.deadline),
            )
            .await;
            server.set_delay(Duration::ZERO);
            let stopped = Instant::now();
            assert_eq!(term.deadline.is_leader_at(stopped), lost.is_err());
            (lost, stopped)
        };
        let ((lost, stopped), began) = tokio::join!(lead, follow);
        if lost.is_ok() {
            assert!(stopped < began, "{delay_ms} ms: {:?}", stopped - began);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_lost() {
    let server = FakeLeaseServer::default();
    let one = server.elector("one");
    let term = one.acquire().await;
    server.0.lock().unwrap().lease = None;
    assert_eq!(
        one.renew_until_lost(&term.deadline).await,
        LeadershipLoss::HeldByOther
    );
}

/// The holder of a deleted Lease considers itself the leader until its next renewal.
#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_not_acquired_before_it_would_expire() {
    let server = FakeLeaseServer::default();
    let (one, two) = (server.elector("one"), server.elector("two"));
    let first = one.acquire().await;
    let delete = async {
        sleep(Duration::from_secs(3)).await;
        server.0.lock().unwrap().lease = None;
    };
    let keep = async {
        assert_eq!(
            one.renew_until_lost(&first.deadline).await,
            LeadershipLoss::HeldByOther
        );
        Instant::now()
    };
    let follow = async {
        let second = two.acquire().await;
        assert_eq!(second.previous_holder, PreviousHolder::OtherOrUnknown);
        Instant::now()
    };
    let ((), stopped, began) = tokio::join!(delete, keep, follow);
    assert!(stopped < began, "{:?}", stopped - began);
}

#[test]
fn lease_seconds_are_rounded_up() {
    for (millis, seconds) in [(15_000, 15), (15_900, 16), (500, 1), (1, 1), (0, 0)] {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
    }
    assert_eq!(whole_seconds(Duration::MAX), i32::MAX);
}

#[tokio::test(start_paused = true)]
async fn leadership_is_lost_at_the_renew_deadline() {
    let server = FakeLeaseServer::default();
    let one = server.elector("one");
    let term = one.acquire().await;
    let begun = Instant::now();
    server.set_delay(Duration::from_secs(3600));
    assert_eq!(
        one.renew_until_lost(&term.deadline).await,
        LeadershipLoss::RenewDeadline
    );
    assert!(begun.elapsed() <= TIMES.renew_deadline, "{begun:?}");
}

/// A suspended process runs no timers: after it resumes, only the check of the local deadline prevents writes.
#[tokio::test(start_paused = true)]
async fn a_suspended_process_is_not_the_leader_after_the_deadline() {
    let server = FakeLeaseServer::default();
    let one = server.elector("one");
    let term = one.acquire().await;
    assert!(term.deadline.is_leader_at(Instant::now()));
    tokio::time::advance(TIMES.renew_deadline).await;
    assert!(!term.deadline.is_leader_at(Instant::now()));
    // The lease is still its own and could be renewed, but its state may be stale: it has to acquire the lease again.
    assert_eq!(
        one.renew_until_lost(&term.deadline).await,
        LeadershipLoss::RenewDeadline
    );
    assert_eq!(
        one.acquire().await.previous_holder,
        PreviousHolder::SameIdentity
    );
}
