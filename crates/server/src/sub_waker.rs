//! Polls a rarely ready future only when its own waker fired, as `FuturesUnordered` does with its futures.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::coop::unconstrained;

/// Wraps a future with a waker of its own and polls it only after that waker fired, not whenever its task is polled.
///
/// Polling timers and cancellation tokens takes locks; without this, thousands of connections would do that for every
/// event that they forward.
pub(super) struct PollOnWake<F> {
    future: F,
    waker: Option<Arc<SubWaker>>,
}

/// Remembers that the inner future was woken, and wakes the task.
struct SubWaker {
    is_woken: AtomicBool,
    task: Waker,
}

impl<F: Future + Unpin> PollOnWake<F> {
    pub(super) fn new(future: F) -> PollOnWake<F> {
        PollOnWake {
            future,
            waker: None,
        }
    }
}

impl SubWaker {
    fn new(task: &Waker) -> Arc<SubWaker> {
        Arc::new(SubWaker {
            is_woken: AtomicBool::new(true),
            task: task.clone(),
        })
    }
}

impl Wake for SubWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// The task observes `is_woken` at its next poll: waking synchronizes with that poll, for tokio's tasks also when
    /// they are already awake.
    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> Future for PollOnWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let known = self.waker.take();
        let bell = known.filter(|bell| bell.task.will_wake(context.waker()));
        let bell = bell.unwrap_or_else(|| SubWaker::new(context.waker()));
        let rang =
            bell.is_woken.load(Ordering::Relaxed) && bell.is_woken.swap(false, Ordering::Acquire);
        let bell = self.waker.insert(bell);
        if !rang {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(bell));
        // Without a coop budget, so that it is polled even if other work has used up the task's budget.
        let mut future = unconstrained(&mut self.future);
        Pin::new(&mut future).poll(&mut Context::from_waker(&waker))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::testing::exhaust_coop_budget;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A future that counts its polls, and the sender that completes it.
    fn counted_future(asked: &AtomicUsize) -> (oneshot::Sender<u8>, impl Future<Output = u8>) {
        let (sender, mut receiver) = oneshot::channel();
        let future = poll_fn(move |context| {
            asked.fetch_add(1, Ordering::Relaxed);
            let received = Pin::new(&mut receiver).poll(context);
            received.map(|received| received.expect("value was sent"))
        });
        (sender, future)
    }

    #[test]
    fn it_is_asked_when_it_has_something_new() {
        let asked = AtomicUsize::new(0);
        let (sender, future) = counted_future(&asked);
        let task = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let future = pin!(future);
        let mut seldom = PollOnWake::new(future);
        for _ in 0..5 {
            assert!(Pin::new(&mut seldom).poll(&mut context).is_pending());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        sender.send(7).expect("receiver is alive");
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert_eq!(Pin::new(&mut seldom).poll(&mut context), Poll::Ready(7));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_happens_while_it_is_asked_is_not_missed() {
        let task = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let mut asked = 0;
        let future = pin!(poll_fn(|context| {
            asked += 1;
            context.waker().wake_by_ref();
            match asked {
                3 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        let mut seldom = PollOnWake::new(future);
        let polls = [(); 3].map(|()| Pin::new(&mut seldom).poll(&mut context).is_ready());
        assert_eq!(polls, [false, false, true]);
        assert_eq!(task.0.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn it_has_its_turn_beside_work_that_never_rests() {
        let (sender, receiver) = oneshot::channel();
        sender.send(7).expect("receiver is alive");
        let other = pin!(async {
            tokio::select! {
                received = receiver => received.ok(),
                () = std::future::pending() => None,
            }
        });
        let outcome = async {
            tokio::select! {
                biased;
                () = exhaust_coop_budget() => None,
                received = PollOnWake::new(other) => received,
            }
        };
        let outcome = tokio::time::timeout(Duration::from_secs(10), outcome).await;
        assert_eq!(outcome, Ok(Some(7)));
    }

    #[test]
    fn it_wakes_the_task_that_asked_last() {
        let asked = AtomicUsize::new(0);
        let (sender, future) = counted_future(&asked);
        let tasks = [
            Arc::new(CountingWaker::default()),
            Arc::new(CountingWaker::default()),
        ];
        let future = pin!(future);
        let mut seldom = PollOnWake::new(future);
        for task in &tasks {
            let waker = Waker::from(Arc::clone(task));
            let mut context = Context::from_waker(&waker);
            assert!(Pin::new(&mut seldom).poll(&mut context).is_pending());
        }
        sender.send(7).expect("receiver is alive");
        let woken = tasks.map(|task| task.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
    }
}
