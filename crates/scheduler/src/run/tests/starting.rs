//! Whoever leads is ready when it has seen all that there is.

use super::*;
use crate::engine::Settings;

#[test]
fn a_leader_is_ready_when_all_lists_are_in() {
    let health = Arc::<Health>::default();
    assert!(health.is_ready());
    let leading = health.starts();
    let mailbox = Arc::new(Mailbox::new(1));
    let (decided, _to_write) = mpsc::unbounded_channel();
    let core = Core {
        engine: Engine::new(Settings::new(Vec::new())),
        mailbox: mailbox.clone(),
        decided,
        in_flight: Arc::default(),
        metrics: Arc::default(),
        health: health.clone(),
    };
    let thread = std::thread::spawn(move || core.run());
    mailbox.wake();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!health.is_ready());
    mailbox.list_is_complete();
    let begun = StdInstant::now();
    while !health.is_ready() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    mailbox.close();
    thread.join().unwrap();
    drop(leading);
    // One that lost the lease waits for it again.
    drop(health.starts());
    assert!(health.is_ready());
}
