//! Delays commit responses until the gating stream, if there is one, has processed the changes.
//!
//! The cache in front of the store wants a commit to return only when the cache shows the write. If the store responded
//! earlier, every writer would be woken twice: once by the store and once by the cache.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rhumb_meta::Revision;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::Result;

/// After this time responses are sent although the reader has not processed the changes: the write is durable.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// The caller that waits for the result of a commit.
#[derive(Debug)]
pub(super) struct CommitResponder {
    pub(super) reply: oneshot::Sender<Result<Revision>>,
    /// The share of the commit queue, released with the response.
    pub(super) queue_permit: OwnedSemaphorePermit,
}

impl CommitResponder {
    pub(super) fn respond(self, result: Result<Revision>) {
        drop(self.queue_permit);
        // The caller may have dropped its future; the transaction is committed anyway.
        let _ = self.reply.send(result);
    }
}

/// The result of a commit, with the caller to send it to.
#[derive(Debug)]
pub(super) struct CommitResponse {
    pub(super) result: Result<Revision>,
    pub(super) waiter: CommitResponder,
}

impl CommitResponse {
    pub(super) fn send(self) {
        self.waiter.respond(self.result);
    }
}

/// Holds commit responses back until the reader of the gating stream has processed their changes.
#[derive(Debug, Default)]
pub(super) struct CommitAckGate {
    state: Mutex<AckGateState>,
}

#[derive(Debug, Default)]
struct AckGateState {
    /// The number of the current gating stream.
    gating_stream: Option<u64>,
    /// How many gating streams have been registered so far.
    streams_registered: u64,
    /// The revision up to which the reader of the gating stream has processed changes.
    acknowledged: Revision,
    /// The reader has exceeded the timeout; responses do not wait for it until it asks for the next event.
    is_stalled: bool,
    /// Deferred responses with their revision and start time, in revision order.
    deferred: VecDeque<(Revision, Instant, CommitResponse)>,
}

impl AckGateState {
    fn release(&mut self, due: impl Fn(Revision, Instant) -> bool) {
        while let Some((.., answer)) = self
            .deferred
            .pop_front_if(|(revision, since, _)| due(*revision, *since))
        {
            answer.send();
        }
    }

    fn release_overdue(&mut self, now: Instant) {
        let overdue = |since: Instant| now.duration_since(since) >= ACK_TIMEOUT;
        if self
            .deferred
            .front()
            .is_some_and(|(_, since, _)| overdue(*since))
        {
            self.is_stalled = true;
            self.release(|_, _| true);
        }
    }
}

impl CommitAckGate {
    fn state(&self) -> MutexGuard<'_, AckGateState> {
        self.state.lock()
    }

    /// Registers a gating stream, replacing the current one. Returns its number.
    pub(super) fn register_stream(&self) -> u64 {
        let mut state = self.state();
        state.release(|_, _| true);
        state.streams_registered += 1;
        state.gating_stream = Some(state.streams_registered);
        state.acknowledged = Revision::ZERO;
        state.is_stalled = false;
        state.streams_registered
    }

    /// Notes that the reader of this stream has processed everything up to `revision`.
    pub(super) fn acknowledge(&self, number: u64, revision: Revision) {
        let mut state = self.state();
        if state.gating_stream == Some(number) && state.acknowledged < revision {
            state.acknowledged = revision;
            state.is_stalled = false;
            state.release(|written, _| written <= revision);
        }
    }

    /// Unregisters a gating stream.
    pub(super) fn unregister_stream(&self, number: u64) {
        let mut state = self.state();
        if state.gating_stream == Some(number) {
            state.gating_stream = None;
            state.release(|_, _| true);
        }
    }

    /// Sends all deferred responses and stops gating until another stream registers.
    pub(super) fn disable(&self) {
        let mut state = self.state();
        state.gating_stream = None;
        state.release(|_, _| true);
    }

    /// Defers the responses whose changes the gating reader has not processed yet, and returns the others, which the
    /// caller must send. Must be called before the reader can see the changes.
    pub(super) fn defer(&self, responses: Vec<CommitResponse>) -> Vec<CommitResponse> {
        let mut state = self.state();
        if state.gating_stream.is_none() {
            return responses;
        }
        let now = Instant::now();
        state.release_overdue(now);
        if state.is_stalled {
            return responses;
        }
        let mut due = Vec::new();
        for answer in responses {
            match answer.result {
                Ok(revision) if revision > state.acknowledged => {
                    state.deferred.push_back((revision, now, answer));
                }
                _ => due.push(answer),
            }
        }
        due
    }

    /// Sends all deferred responses if the oldest has exceeded the timeout.
    pub(super) fn release_overdue(&self) {
        self.state().release_overdue(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;
    use tokio::sync::oneshot::Receiver;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::Error;

    fn answer(result: Result<Revision>) -> (CommitResponse, Receiver<Result<Revision>>) {
        let (reply, answered) = oneshot::channel();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned();
        let permit = permit.expect("acquire permit");
        let writer = CommitResponder {
            reply,
            queue_permit: permit,
        };
        (
            CommitResponse {
                result,
                waiter: writer,
            },
            answered,
        )
    }

    /// Passes a response to the gate and returns the receiver of its result.
    fn hold(gate: &CommitAckGate, revision: u64) -> Receiver<Result<Revision>> {
        let (answer, answered) = answer(Ok(Revision::new(revision)));
        gate.defer(vec![answer])
            .into_iter()
            .for_each(CommitResponse::send);
        answered
    }

    fn is_sent(answered: &mut Receiver<Result<Revision>>) -> bool {
        answered.try_recv().is_ok()
    }

    #[test]
    fn without_a_gating_stream_responses_are_immediate() {
        let gate = CommitAckGate::default();
        assert!(is_sent(&mut hold(&gate, 5)));
        let number = gate.register_stream();
        gate.unregister_stream(number);
        assert!(is_sent(&mut hold(&gate, 6)));
    }

    #[test]
    fn a_response_is_sent_when_the_reader_has_processed_its_revision() {
        let gate = CommitAckGate::default();
        let number = gate.register_stream();
        let (mut fifth, mut sixth) = (hold(&gate, 5), hold(&gate, 6));
        gate.acknowledge(number, Revision::new(4));
        assert!(!is_sent(&mut fifth));
        gate.acknowledge(number, Revision::new(5));
        assert!(is_sent(&mut fifth) && !is_sent(&mut sixth));
        gate.acknowledge(number, Revision::new(9));
        assert!(is_sent(&mut sixth));
        assert!(is_sent(&mut hold(&gate, 9)), "already processed");
    }

    #[test]
    fn a_failed_commit_is_answered_immediately() {
        let gate = CommitAckGate::default();
        gate.register_stream();
        let (rejected, mut answered) = answer(Err(Error::Closed));
        gate.defer(vec![rejected])
            .into_iter()
            .for_each(CommitResponse::send);
        assert!(matches!(answered.try_recv(), Ok(Err(Error::Closed))));
    }

    #[test]
    fn responses_are_released_when_the_gating_stream_ends_or_is_replaced() {
        let gate = CommitAckGate::default();
        let first = gate.register_stream();
        let mut held = hold(&gate, 5);
        let second = gate.register_stream();
        assert!(is_sent(&mut held));
        let mut held = hold(&gate, 6);
        gate.acknowledge(first, Revision::new(6));
        gate.unregister_stream(first);
        assert!(!is_sent(&mut held), "the first stream was replaced");
        gate.unregister_stream(second);
        assert!(is_sent(&mut held));
    }

    #[test]
    fn responses_are_released_after_the_ack_timeout() {
        let gate = CommitAckGate::default();
        gate.register_stream();
        let mut held = hold(&gate, 5);
        gate.release_overdue();
        assert_eq!(held.try_recv().map(|_| ()), Err(TryRecvError::Empty));
        let long_ago = Instant::now().checked_sub(ACK_TIMEOUT);
        gate.state().deferred[0].1 = long_ago.expect("uptime exceeds the timeout");
        gate.release_overdue();
        assert!(is_sent(&mut held));
    }
}
