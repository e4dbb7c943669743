//! Shutdown: the lease is released only when no write is in flight.

use super::*;

fn running() -> (RunningScheduler, oneshot::Sender<()>) {
    let (exit_guard, ended) = oneshot::channel();
    let running = RunningScheduler {
        inbox: Arc::new(SchedulerInbox::new(0)),
        in_flight: Arc::default(),
        thread_exited: ended,
        _work: JoinSet::new(),
    };
    (running, exit_guard)
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_writes_in_flight() {
    type CounterChange = fn(&InFlightWrites);
    let table: [(&str, CounterChange, CounterChange); 3] = [
        (
            "a binding",
            InFlightWrites::begin_binding,
            InFlightWrites::end_binding,
        ),
        (
            "a write",
            InFlightWrites::begin_write,
            InFlightWrites::end_write,
        ),
        (
            "a binding of unknown outcome",
            |in_flight| {
                in_flight.begin_binding();
                in_flight.begin_resolving();
            },
            InFlightWrites::end_resolving,
        ),
    ];
    for (what, begin, end) in table {
        let (running, _exit_guard) = running();
        begin(&running.in_flight);
        running.inbox.stop_scheduling();
        running.inbox.take(&mut Vec::new(), None);
        assert!(!running.drain().await, "{what}");
        end(&running.in_flight);
        assert!(running.drain().await, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_scheduling_thread() {
    let (running, _exit_guard) = running();
    // The thread may be in a scheduling cycle.
    running.inbox.take(&mut Vec::new(), Some(StdInstant::now()));
    assert!(!running.drain().await);
    running.inbox.take(&mut Vec::new(), None);
    assert!(running.drain().await);
}
