//! Answers to writers wait for the stream that leads, if there is one.
//!
//! Whoever keeps a copy of the store wants its writers to be answered when the copy shows what they wrote. Were they
//! answered before, each would be woken twice, and would have to be waited for in a second place.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_meta::Revision;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::Result;

/// A reader that takes longer is not waited for: what was written is durable.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who waits for the outcome of a transaction.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) reply: oneshot::Sender<Result<Revision>>,
    /// Its share of the queue, given back when it is answered.
    pub(super) permit: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) fn tell(self, result: Result<Revision>) {
        drop(self.permit);
        // A caller that gave up waiting does not undo its transaction.
        let _ = self.reply.send(result);
    }
}

/// What a writer will be told.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) result: Result<Revision>,
    pub(super) writer: Writer,
}

impl Answer {
    pub(super) fn send(self) {
        self.writer.tell(self.result);
    }
}

#[derive(Debug, Default)]
pub(super) struct Leader {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    leading: Option<u64>,
    /// How many streams have led so far.
    count: u64,
    /// How far the reader of the leading stream is.
    dealt_with: Revision,
    /// It has been waited for in vain, and is not until it asks for more.
    hangs: bool,
    /// In the order of their revisions.
    held: VecDeque<(Revision, Instant, Answer)>,
}

impl State {
    fn release(&mut self, due: impl Fn(Revision, Instant) -> bool) {
        while let Some((.., answer)) = self
            .held
            .pop_front_if(|(revision, since, _)| due(*revision, *since))
        {
            answer.send();
        }
    }

    fn lose_patience(&mut self, now: Instant) {
        let overdue = |since: Instant| now.duration_since(since) >= PATIENCE;
        if self
            .held
            .front()
            .is_some_and(|(_, since, _)| overdue(*since))
        {
            self.hangs = true;
            self.release(|_, _| true);
        }
    }
}

impl Leader {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream begins to lead, in place of another that did. Answers its number.
    pub(super) fn take_lead(&self) -> u64 {
        let mut state = self.state();
        state.release(|_, _| true);
        state.count += 1;
        state.leading = Some(state.count);
        state.dealt_with = Revision::ZERO;
        state.hangs = false;
        state.count
    }

    /// The reader of this stream has dealt with everything up to here.
    pub(super) fn has_dealt_with(&self, number: u64, revision: Revision) {
        let mut state = self.state();
        if state.leading == Some(number) && state.dealt_with < revision {
            state.dealt_with = revision;
            state.hangs = false;
            state.release(|written, _| written <= revision);
        }
    }

    /// This stream leads no longer.
    pub(super) fn give_up(&self, number: u64) {
        let mut state = self.state();
        if state.leading == Some(number) {
            state.leading = None;
            state.release(|_, _| true);
        }
    }

    /// From now on nobody is waited for, until another stream takes the lead.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.leading = None;
        state.release(|_, _| true);
    }

    /// Holds those of the answers back that the reader of the leading stream has not dealt with; the others are to be
    /// sent. To be called before the reader can see what they answer.
    pub(super) fn hold(&self, answers: Vec<Answer>) -> Vec<Answer> {
        let mut state = self.state();
        if state.leading.is_none() {
            return answers;
        }
        let now = Instant::now();
        state.lose_patience(now);
        if state.hangs {
            return answers;
        }
        let mut due = Vec::new();
        for answer in answers {
            match answer.result {
                Ok(revision) if revision > state.dealt_with => {
                    state.held.push_back((revision, now, answer));
                }
                _ => due.push(answer),
            }
        }
        due
    }

    /// Sends what has waited for too long.
    pub(super) fn lose_patience(&self) {
        self.state().lose_patience(Instant::now());
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

    fn answer(result: Result<Revision>) -> (Answer, Receiver<Result<Revision>>) {
        let (reply, answered) = oneshot::channel();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned();
        let permit = permit.expect("a permit");
        let writer = Writer { reply, permit };
        (Answer { result, writer }, answered)
    }

    /// Hands an answer in, and tells whether it was sent at once.
    fn hold(leader: &Leader, revision: u64) -> Receiver<Result<Revision>> {
        let (answer, answered) = answer(Ok(Revision::new(revision)));
        leader.hold(vec![answer]).into_iter().for_each(Answer::send);
        answered
    }

    fn is_sent(answered: &mut Receiver<Result<Revision>>) -> bool {
        answered.try_recv().is_ok()
    }

    #[test]
    fn without_a_leader_nobody_waits() {
        let leader = Leader::default();
        assert!(is_sent(&mut hold(&leader, 5)));
        let number = leader.take_lead();
        leader.give_up(number);
        assert!(is_sent(&mut hold(&leader, 6)));
    }

    #[test]
    fn an_answer_comes_when_the_reader_has_dealt_with_it() {
        let leader = Leader::default();
        let number = leader.take_lead();
        let (mut fifth, mut sixth) = (hold(&leader, 5), hold(&leader, 6));
        leader.has_dealt_with(number, Revision::new(4));
        assert!(!is_sent(&mut fifth));
        leader.has_dealt_with(number, Revision::new(5));
        assert!(is_sent(&mut fifth) && !is_sent(&mut sixth));
        leader.has_dealt_with(number, Revision::new(9));
        assert!(is_sent(&mut sixth));
        assert!(is_sent(&mut hold(&leader, 9)), "it is there already");
    }

    #[test]
    fn a_refusal_waits_for_nobody() {
        let leader = Leader::default();
        leader.take_lead();
        let (refusal, mut answered) = answer(Err(Error::Closed));
        leader
            .hold(vec![refusal])
            .into_iter()
            .for_each(Answer::send);
        assert!(matches!(answered.try_recv(), Ok(Err(Error::Closed))));
    }

    #[test]
    fn answers_go_when_the_leader_goes_or_another_one_comes() {
        let leader = Leader::default();
        let first = leader.take_lead();
        let mut held = hold(&leader, 5);
        let second = leader.take_lead();
        assert!(is_sent(&mut held));
        let mut held = hold(&leader, 6);
        leader.has_dealt_with(first, Revision::new(6));
        leader.give_up(first);
        assert!(!is_sent(&mut held), "the first leads no longer");
        leader.give_up(second);
        assert!(is_sent(&mut held));
    }

    #[test]
    fn a_reader_that_hangs_is_not_waited_for() {
        let leader = Leader::default();
        leader.take_lead();
        let mut held = hold(&leader, 5);
        leader.lose_patience();
        assert_eq!(held.try_recv().map(|_| ()), Err(TryRecvError::Empty));
        let long_ago = Instant::now().checked_sub(PATIENCE);
        leader.state().held[0].1 = long_ago.expect("the machine has run for so long");
        leader.lose_patience();
        assert!(is_sent(&mut held));
    }
}
