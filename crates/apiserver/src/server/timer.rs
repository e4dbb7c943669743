//! A timer that one request after the other uses.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep};

/// The timer of the last request on a connection, kept for the next one.
///
/// All timers are under one lock. To make one and to take it away needs that lock twice; to put one off needs it not at
/// all. It belongs to the runtime that it was first used in.
#[derive(Debug, Default)]
pub struct SpareTimer(Mutex<Option<Pin<Box<Sleep>>>>);

impl SpareTimer {
    /// What comes of the future, unless it takes longer than this.
    pub(super) async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut timer = None;
        let outcome = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let timer = timer.get_or_insert_with(|| self.set(limit));
            // Time passes also for a future that always has something to do.
            pin!(unconstrained(timer)).poll(context).map(|()| None)
        });
        let outcome = outcome.await;
        if timer.is_some() {
            *self.spare() = timer;
        }
        outcome
    }

    fn set(&self, limit: Duration) -> Pin<Box<Sleep>> {
        let deadline = Instant::now() + limit;
        match self.spare().take() {
            Some(mut timer) => {
                timer.as_mut().reset(deadline);
                timer
            }
            None => Box::pin(tokio::time::sleep_until(deadline)),
        }
    }

    fn spare(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::testing::never_resting;

    const LIMIT: Duration = Duration::from_secs(60);

    /// How long it takes until the time is over.
    async fn wait_in_vain(timer: &SpareTimer) -> Duration {
        let begun = Instant::now();
        assert_eq!(timer.within(LIMIT, pending::<()>()).await, None);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn each_has_the_whole_time_however_the_last_one_ended() {
        let timer = SpareTimer::default();
        let slow = async {
            tokio::time::sleep(LIMIT / 2).await;
            7
        };
        assert_eq!(timer.within(LIMIT, slow).await, Some(7));
        assert!(timer.spare().is_some(), "it is kept for the next");
        for _ in 0..3 {
            assert!(wait_in_vain(&timer).await >= LIMIT);
        }
        tokio::time::sleep(LIMIT * 2).await;
        assert!(wait_in_vain(&timer).await >= LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_ready_needs_no_timer() {
        let timer = SpareTimer::default();
        assert_eq!(timer.within(LIMIT, ready(7)).await, Some(7));
        assert!(timer.spare().is_none());
        wait_in_vain(&timer).await;
        assert_eq!(timer.within(LIMIT, ready(7)).await, Some(7));
        assert!(timer.spare().is_some(), "it stays where it is");
    }

    #[tokio::test(start_paused = true)]
    async fn several_at_once_have_each_their_own_time() {
        let timer = SpareTimer::default();
        let later = async {
            tokio::time::sleep(LIMIT / 2).await;
            wait_in_vain(&timer).await
        };
        let (first, second) = tokio::join!(wait_in_vain(&timer), later);
        assert_eq!((first.as_secs(), second.as_secs()), (60, 60));
    }

    #[tokio::test]
    async fn time_passes_for_what_never_rests() {
        let timer = SpareTimer::default();
        let outcome = timer.within(Duration::from_millis(20), never_resting());
        let outcome = tokio::time::timeout(Duration::from_secs(10), outcome).await;
        assert_eq!(outcome, Ok(None::<()>));
    }
}
