//! Readiness: a leader is ready once all lists are complete.

use super::*;
use crate::engine::SchedulerCoreSettings;

#[test]
fn a_leader_is_ready_when_all_lists_are_synced() {
    let health = Arc::<SchedulerHealth>::default();
    assert!(health.is_ready());
    let leading = health.begin_startup();
    let inbox = Arc::new(SchedulerInbox::new(1));
    let (outcomes, _receiver) = mpsc::unbounded_channel();
    let core = SchedulingLoop {
        engine: SchedulerCore::new(SchedulerCoreSettings::new(Vec::new())),
        inbox: inbox.clone(),
        outcomes,
        in_flight: Arc::default(),
        metrics: Arc::default(),
        health: health.clone(),
    };
    let thread = std::thread::spawn(move || core.run());
    inbox.wake();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!health.is_ready());
    inbox.list_synced();
    let started = StdInstant::now();
    while !health.is_ready() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    inbox.close();
    thread.join().unwrap();
    drop(leading);
    // After losing the lease it is a ready standby.
    drop(health.begin_startup());
    assert!(health.is_ready());
}
