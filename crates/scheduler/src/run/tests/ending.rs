//! The lease is given back only when nothing is under way.

use super::*;

fn running() -> (Running, oneshot::Sender<()>) {
    let (is_over, ended) = oneshot::channel();
    let running = Running {
        mailbox: Arc::new(Mailbox::new(0)),
        in_flight: Arc::default(),
        ended,
        _work: JoinSet::new(),
    };
    (running, is_over)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_settled_while_something_is_under_way() {
    type Step = fn(&InFlight);
    let table: [(&str, Step, Step); 3] = [
        ("a binding", InFlight::begin_binding, InFlight::end_binding),
        ("a write", InFlight::begin_write, InFlight::end_write),
        (
            "a binding of which nothing is known",
            |in_flight| {
                in_flight.begin_binding();
                in_flight.begin_settling();
            },
            InFlight::end_settling,
        ),
    ];
    for (what, begin, end) in table {
        let (running, _is_over) = running();
        begin(&running.in_flight);
        running.mailbox.stop_deciding();
        running.mailbox.take(&mut Vec::new(), None);
        assert!(!running.drain().await, "{what}");
        end(&running.in_flight);
        assert!(running.drain().await, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_settled_before_the_thread_knows() {
    let (running, _is_over) = running();
    // It may be deciding at this moment.
    running
        .mailbox
        .take(&mut Vec::new(), Some(StdInstant::now()));
    assert!(!running.drain().await);
    running.mailbox.take(&mut Vec::new(), None);
    assert!(running.drain().await);
}
