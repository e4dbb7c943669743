//! A request timeout whose tokio timer is reused by all requests of a connection.

use parking_lot::{Mutex, MutexGuard};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep};

/// Keeps the timer of the last request on a connection for the next one.
///
/// tokio's timers share a lock: registering and removing one takes it twice, extending a registered one does not take
/// it at all. The timer belongs to the runtime in which it was first used.
#[derive(Debug, Default)]
pub struct ReusableTimer(Mutex<Option<Pin<Box<Sleep>>>>);

impl ReusableTimer {
    /// The output of the future; `None` if it takes longer than `limit`.
    pub(super) async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut timer = None;
        let outcome = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let timer = timer.get_or_insert_with(|| self.arm(limit));
            // Without a coop budget, so that the timeout also applies to a future that never yields to others.
            pin!(unconstrained(timer)).poll(context).map(|()| None)
        });
        let outcome = outcome.await;
        if timer.is_some() {
            *self.lock_spare() = timer;
        }
        outcome
    }

    fn arm(&self, limit: Duration) -> Pin<Box<Sleep>> {
        let deadline = Instant::now() + limit;
        match self.lock_spare().take() {
            Some(mut timer) => {
                timer.as_mut().reset(deadline);
                timer
            }
            None => Box::pin(tokio::time::sleep_until(deadline)),
        }
    }

    fn lock_spare(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::testing::exhaust_coop_budget;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Waits for the timeout of a future that never completes; returns how long that took.
    async fn wait_for_timeout(timer: &ReusableTimer) -> Duration {
        let begun = Instant::now();
        assert_eq!(timer.timeout(LIMIT, pending::<()>()).await, None);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn each_has_the_whole_time_however_the_last_one_ended() {
        let timer = ReusableTimer::default();
        let slow = async {
            tokio::time::sleep(LIMIT / 2).await;
            7
        };
        assert_eq!(timer.timeout(LIMIT, slow).await, Some(7));
        assert!(
            timer.lock_spare().is_some(),
            "the timer is kept for the next request"
        );
        for _ in 0..3 {
            assert!(wait_for_timeout(&timer).await >= LIMIT);
        }
        tokio::time::sleep(LIMIT * 2).await;
        assert!(wait_for_timeout(&timer).await >= LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_ready_needs_no_timer() {
        let timer = ReusableTimer::default();
        assert_eq!(timer.timeout(LIMIT, ready(7)).await, Some(7));
        assert!(timer.lock_spare().is_none());
        wait_for_timeout(&timer).await;
        assert_eq!(timer.timeout(LIMIT, ready(7)).await, Some(7));
        assert!(
            timer.lock_spare().is_some(),
            "the spare timer is not consumed"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn several_at_once_have_each_their_own_time() {
        let timer = ReusableTimer::default();
        let later = async {
            tokio::time::sleep(LIMIT / 2).await;
            wait_for_timeout(&timer).await
        };
        let (first, second) = tokio::join!(wait_for_timeout(&timer), later);
        assert_eq!((first.as_secs(), second.as_secs()), (60, 60));
    }

    #[tokio::test]
    async fn time_passes_for_what_never_rests() {
        let timer = ReusableTimer::default();
        let outcome = timer.timeout(Duration::from_millis(20), exhaust_coop_budget());
        let outcome = tokio::time::timeout(Duration::from_secs(10), outcome).await;
        assert_eq!(outcome, Ok(None::<()>));
    }
}
