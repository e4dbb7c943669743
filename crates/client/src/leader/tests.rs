//! Two processes and one lease, on a paused clock.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

const TIMES: Times = Times {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

/// A server that has one lease, answers late, or not at all.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    /// How late the answers to process `one` are.
    delay: Duration,
}

impl Server {
    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let refused = |code: u16| {
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
            (code, status)
        };
        if *method == Method::GET {
            return state
                .lease
                .clone()
                .map_or(refused(404), |lease| (200, lease));
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
            return refused(409);
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
                // The write happens, and its answer comes late.
                let (code, body) = server.answer(&method, &body);
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

    fn process(&self, identity: &str) -> Leadership {
        let election = Election {
            identity: identity.to_owned(),
            namespace: "kube-system".to_owned(),
            name: "it".to_owned(),
            led: "it",
            times: TIMES,
        };
        Leadership::new(self.client(identity == "one"), election)
    }

    fn delay(&self, delay: Duration) {
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
async fn a_leader_that_is_silent_is_followed_after_its_time() {
    let server = Server::default();
    let (one, two) = (server.process("one"), server.process("two"));
    let begun = Instant::now();
    let first = one.acquire().await;
    // There was none: perhaps because somebody deleted it.
    assert_eq!(first.before, Before::Anothers);
    let second = two.acquire().await;
    assert_eq!(second.before, Before::Anothers);
    assert!(begun.elapsed() >= TIMES.lease_duration, "{begun:?}");
    assert_eq!(server.holder(), "two");
    assert!(!first.lead.is_sure(Instant::now()));
    assert!(second.lead.is_sure(Instant::now()));
    let lead = Lead::new(Instant::now(), TIMES.renew_deadline);
    assert_eq!(one.keep(&lead).await, Lost::ToAnother);
    assert!(!lead.is_sure(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_renews_stays_and_one_that_gives_up_is_followed_at_once() {
    let server = Server::default();
    let (one, two) = (server.process("one"), server.process("two"));
    let term = one.acquire().await;
    let both = async { tokio::join!(one.keep(&term.lead), two.acquire()) };
    assert!(timeout(Duration::from_secs(300), both).await.is_err());
    assert_eq!(server.holder(), "one");
    assert!(term.lead.is_sure(Instant::now()));
    let begun = Instant::now();
    one.release().await;
    assert_eq!(two.acquire().await.before, Before::Nobodys);
    assert!(begun.elapsed() <= TIMES.retry_period, "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn the_same_process_goes_on_at_once_after_a_crash() {
    let server = Server::default();
    server.process("one").acquire().await;
    let begun = Instant::now();
    let again = server.process("one").acquire().await;
    assert_eq!(again.before, Before::Ours);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// Whatever the server does with its answers, a leader has stopped before another can begin.
#[tokio::test(start_paused = true)]
async fn a_leader_stops_before_another_begins() {
    for delay_ms in [1000, 2500, 4900, 5000, 7500, 9999, 10_000, 60_000] {
        let server = Server::default();
        let (one, two) = (server.process("one"), server.process("two"));
        let term = one.acquire().await;
        let follow = async {
            two.acquire().await;
            Instant::now()
        };
        let lead = async {
            sleep(Duration::from_secs(3)).await;
            server.delay(Duration::from_millis(delay_ms));
            let lost = timeout(Duration::from_secs(120), one.keep(&term.lead)).await;
            server.delay(Duration::ZERO);
            let stopped = Instant::now();
            assert_eq!(term.lead.is_sure(stopped), lost.is_err());
            (lost, stopped)
        };
        let ((lost, stopped), began) = tokio::join!(lead, follow);
        if lost.is_ok() {
            assert!(stopped < began, "{delay_ms} ms: {:?}", stopped - began);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_lost() {
    let server = Server::default();
    let one = server.process("one");
    let term = one.acquire().await;
    server.0.lock().unwrap().lease = None;
    assert_eq!(one.keep(&term.lead).await, Lost::ToAnother);
}

/// Whoever had it is sure of it until it asks again.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_not_taken_before_its_time() {
    let server = Server::default();
    let (one, two) = (server.process("one"), server.process("two"));
    let first = one.acquire().await;
    let delete = async {
        sleep(Duration::from_secs(3)).await;
        server.0.lock().unwrap().lease = None;
    };
    let keep = async {
        assert_eq!(one.keep(&first.lead).await, Lost::ToAnother);
        Instant::now()
    };
    let follow = async {
        let second = two.acquire().await;
        assert_eq!(second.before, Before::Anothers);
        Instant::now()
    };
    let ((), stopped, began) = tokio::join!(delete, keep, follow);
    assert!(stopped < began, "{:?}", stopped - began);
}

#[test]
fn a_lease_says_no_less_than_it_lasts() {
    for (millis, seconds) in [(15_000, 15), (15_900, 16), (500, 1), (1, 1), (0, 0)] {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
    }
    assert_eq!(whole_seconds(Duration::MAX), i32::MAX);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_takes_the_lead_away_in_time() {
    let server = Server::default();
    let one = server.process("one");
    let term = one.acquire().await;
    let begun = Instant::now();
    server.delay(Duration::from_secs(3600));
    assert_eq!(one.keep(&term.lead).await, Lost::ByTime);
    assert!(begun.elapsed() <= TIMES.renew_deadline, "{begun:?}");
}

/// Nothing runs while a process is stopped: its own clock tells it first that its time is over.
#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_knows_that_it_may_not_lead() {
    let server = Server::default();
    let one = server.process("one");
    let term = one.acquire().await;
    assert!(term.lead.is_sure(Instant::now()));
    tokio::time::advance(TIMES.renew_deadline).await;
    assert!(!term.lead.is_sure(Instant::now()));
    // It could renew the lease, which is still its own, but what it knows is too old to go on with.
    assert_eq!(one.keep(&term.lead).await, Lost::ByTime);
    assert_eq!(one.acquire().await.before, Before::Ours);
}
