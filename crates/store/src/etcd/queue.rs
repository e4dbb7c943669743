//! What waits for the reader of a stream, bounded in number and in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::{Change, ChangeEvent, Error, Result};

/// How many events wait for a slow reader,
const EVENTS_MAX: usize = 64;
/// and of how many bytes. A larger one waits alone.
const BYTES_MAX: u32 = 8 * 1024 * 1024;

pub(super) fn queue() -> (Sender, Receiver) {
    let (events, received) = mpsc::channel(EVENTS_MAX);
    let room = Arc::new(Semaphore::new(BYTES_MAX as usize));
    (Sender { events, room }, Receiver(received))
}

/// An event, and the room that it takes.
type Waiting = (Result<ChangeEvent>, OwnedSemaphorePermit);

#[derive(Debug)]
pub(super) struct Sender {
    events: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

impl Sender {
    /// Waits for room, and loses nothing when given up half-way. Without a reader it does nothing.
    pub(super) async fn send_all(&self, events: &mut VecDeque<ChangeEvent>) {
        while let Some(next) = events.front() {
            let bytes = bytes_of(next);
            let Ok(room) = self.room.clone().acquire_many_owned(bytes).await else {
                return;
            };
            let Ok(place) = self.events.reserve().await else {
                return;
            };
            if let Some(event) = events.pop_front() {
                place.send((Ok(event), room));
            }
        }
    }

    /// The last thing that the reader is told.
    pub(super) async fn end(&self, error: Error) {
        if let Ok(room) = self.room.clone().acquire_many_owned(1).await {
            // Only a reader that is gone does not take it.
            let _ = self.events.send((Err(error), room)).await;
        }
    }
}

#[derive(Debug)]
pub(super) struct Receiver(mpsc::Receiver<Waiting>);

impl Receiver {
    pub(super) async fn next(&mut self) -> Result<ChangeEvent> {
        match self.0.recv().await {
            Some((event, _room)) => event,
            None => Err(Error::Closed),
        }
    }
}

fn bytes_of(event: &ChangeEvent) -> u32 {
    let bytes: usize = match event {
        ChangeEvent::Changes(set) => set.changes.iter().map(Change::size).sum(),
        ChangeEvent::Progress(_) => 0,
    };
    u32::try_from(bytes)
        .unwrap_or(BYTES_MAX)
        .clamp(1, BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChangeSet, Revision};

    fn event(revision: u64, bytes: usize) -> ChangeEvent {
        ChangeEvent::Changes(ChangeSet {
            revision: Revision::new(revision),
            changes: Arc::from([Change::Put {
                key: "/a".into(),
                value: vec![0; bytes].into(),
                created: Revision::new(1),
            }]),
        })
    }

    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes_and_nothing_is_lost() {
        let (sender, mut receiver) = queue();
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
            let ChangeEvent::Changes(set) = receiver.next().await.unwrap() else {
                panic!("a change");
            };
            assert_eq!(set.revision, Revision::new(taken));
        }
    }

    #[tokio::test]
    async fn what_waits_is_bounded_in_number() {
        let (sender, _receiver) = queue();
        let mut events: VecDeque<_> = (0..100).map(|at| event(at, 1)).collect();
        let sending = sender.send_all(&mut events);
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(20), sending).await;
        assert!(given_up.is_err());
        assert_eq!(events.len(), 100 - EVENTS_MAX);
    }
}
