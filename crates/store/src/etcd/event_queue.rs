//! The event queue between an etcd watch and the reader of a change stream, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::{ChangeStreamEvent, Error, KeyChange, Result};

/// The maximum number of queued events.
const EVENTS_MAX: usize = 64;
/// The maximum total size of queued events. A larger event is queued alone.
const BYTES_MAX: u32 = 8 * 1024 * 1024;

pub(super) fn event_queue() -> (EventQueueSender, EventQueueReceiver) {
    let (events, received) = mpsc::channel(EVENTS_MAX);
    let permits = Arc::new(Semaphore::new(BYTES_MAX as usize));
    (
        EventQueueSender {
            events,
            byte_permits: permits,
        },
        EventQueueReceiver(received),
    )
}

/// An event, and the permit for its bytes.
type QueuedEvent = (Result<ChangeStreamEvent>, OwnedSemaphorePermit);

#[derive(Debug)]
pub(super) struct EventQueueSender {
    events: mpsc::Sender<QueuedEvent>,
    byte_permits: Arc<Semaphore>,
}

impl EventQueueSender {
    /// Sends all events, waiting for space. Cancel-safe: unsent events stay in `events`. Does nothing without a reader.
    pub(super) async fn send_all(&self, events: &mut VecDeque<ChangeStreamEvent>) {
        while let Some(next) = events.front() {
            let bytes = bytes_of(next);
            let Ok(permits) = self.byte_permits.clone().acquire_many_owned(bytes).await else {
                return;
            };
            let Ok(place) = self.events.reserve().await else {
                return;
            };
            if let Some(event) = events.pop_front() {
                place.send((Ok(event), permits));
            }
        }
    }

    /// Sends the error that ends the stream.
    pub(super) async fn end(&self, error: Error) {
        if let Ok(permits) = self.byte_permits.clone().acquire_many_owned(1).await {
            // Fails only if the reader is gone.
            let _ = self.events.send((Err(error), permits)).await;
        }
    }
}

#[derive(Debug)]
pub(super) struct EventQueueReceiver(mpsc::Receiver<QueuedEvent>);

impl EventQueueReceiver {
    pub(super) async fn next(&mut self) -> Result<ChangeStreamEvent> {
        match self.0.recv().await {
            Some((event, _room)) => event,
            None => Err(Error::Closed),
        }
    }
}

fn bytes_of(event: &ChangeStreamEvent) -> u32 {
    let bytes: usize = match event {
        ChangeStreamEvent::Changes(set) => set.changes.iter().map(KeyChange::size).sum(),
        ChangeStreamEvent::Progress(_) => 0,
    };
    u32::try_from(bytes)
        .unwrap_or(BYTES_MAX)
        .clamp(1, BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChangeSet, Revision};

    fn event(revision: u64, bytes: usize) -> ChangeStreamEvent {
        ChangeStreamEvent::Changes(ChangeSet {
            revision: Revision::new(revision),
            changes: Arc::from([KeyChange::Put {
                key: "/a".into(),
                value: vec![0; bytes].into(),
                created: Revision::new(1),
            }]),
        })
    }

    #[tokio::test]
    async fn queued_events_are_bounded_in_bytes_without_loss() {
        let (sender, mut receiver) = event_queue();
        let sizes = [3_000_000, 3_000_000, 3_000_000, 20_000_000, 1];
        let mut events: VecDeque<_> = (0..)
            .zip(sizes)
            .map(|(at, bytes)| event(at, bytes))
            .collect();
        for (taken, left) in [(0, 3), (1, 2), (2, 2), (3, 1), (4, 0)] {
            let sending = sender.send_all(&mut events);
            let given_up = tokio::time::timeout(std::time::Duration::from_millis(20), sending);
            let _ = given_up.await;
            assert_eq!(events.len(), left, "{taken} taken");
            let ChangeStreamEvent::Changes(set) = receiver.next().await.unwrap() else {
                panic!("expected a change event");
            };
            assert_eq!(set.revision, Revision::new(taken));
        }
    }

    #[tokio::test]
    async fn queued_events_are_bounded_in_number() {
        let (sender, _receiver) = event_queue();
        let mut events: VecDeque<_> = (0..100).map(|at| event(at, 1)).collect();
        let sending = sender.send_all(&mut events);
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(20), sending).await;
        assert!(given_up.is_err());
        assert_eq!(events.len(), 100 - EVENTS_MAX);
    }
}
