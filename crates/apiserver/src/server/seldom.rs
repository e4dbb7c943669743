//! What a task waits for beside its work.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::coop::unconstrained;

/// A future that is asked only when it said that there is something new, and not whenever the task that waits for it has
/// something to do.
///
/// To ask costs a lock or two (of a timer, of a token that others cancel), and thousands of tasks would do that for every
/// event that they pass on. Only the future's own waker brings it to be asked again.
pub(super) struct Seldom<F> {
    future: F,
    bell: Option<Arc<Bell>>,
}

/// Rings for the task.
struct Bell {
    rang: AtomicBool,
    task: Waker,
}

impl<F: Future + Unpin> Seldom<F> {
    pub(super) fn new(future: F) -> Seldom<F> {
        Seldom { future, bell: None }
    }
}

impl Bell {
    fn new(task: &Waker) -> Arc<Bell> {
        Arc::new(Bell {
            rang: AtomicBool::new(true),
            task: task.clone(),
        })
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// The task sees the bell at its next turn, since whoever wakes one makes it see what was before; tokio's tasks do that
    /// also when they are awake already.
    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let known = self.bell.take();
        let bell = known.filter(|bell| bell.task.will_wake(context.waker()));
        let bell = bell.unwrap_or_else(|| Bell::new(context.waker()));
        let rang = bell.rang.load(Ordering::Relaxed) && bell.rang.swap(false, Ordering::Acquire);
        let bell = self.bell.insert(bell);
        if !rang {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(bell));
        // It gets its turn also beside work that leaves nothing of the task's budget.
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
    use crate::testing::never_resting;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A future that counts how often it is asked, and what makes it ready.
    fn counted(asked: &AtomicUsize) -> (oneshot::Sender<u8>, impl Future<Output = u8>) {
        let (sender, mut receiver) = oneshot::channel();
        let future = poll_fn(move |context| {
            asked.fetch_add(1, Ordering::Relaxed);
            let received = Pin::new(&mut receiver).poll(context);
            received.map(|received| received.expect("sent"))
        });
        (sender, future)
    }

    #[test]
    fn it_is_asked_when_it_has_something_new() {
        let asked = AtomicUsize::new(0);
        let (sender, future) = counted(&asked);
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let future = pin!(future);
        let mut seldom = Seldom::new(future);
        for _ in 0..5 {
            assert!(Pin::new(&mut seldom).poll(&mut context).is_pending());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        sender.send(7).expect("waited for");
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert_eq!(Pin::new(&mut seldom).poll(&mut context), Poll::Ready(7));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_happens_while_it_is_asked_is_not_missed() {
        let task = Arc::new(Task::default());
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
        let mut seldom = Seldom::new(future);
        let polls = [(); 3].map(|()| Pin::new(&mut seldom).poll(&mut context).is_ready());
        assert_eq!(polls, [false, false, true]);
        assert_eq!(task.0.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn it_has_its_turn_beside_work_that_never_rests() {
        let (sender, receiver) = oneshot::channel();
        sender.send(7).expect("waited for");
        let other = pin!(async {
            tokio::select! {
                received = receiver => received.ok(),
                () = std::future::pending() => None,
            }
        });
        let outcome = async {
            tokio::select! {
                biased;
                () = never_resting() => None,
                received = Seldom::new(other) => received,
            }
        };
        let outcome = tokio::time::timeout(Duration::from_secs(10), outcome).await;
        assert_eq!(outcome, Ok(Some(7)));
    }

    #[test]
    fn it_wakes_the_task_that_asked_last() {
        let asked = AtomicUsize::new(0);
        let (sender, future) = counted(&asked);
        let tasks = [Arc::new(Task::default()), Arc::new(Task::default())];
        let future = pin!(future);
        let mut seldom = Seldom::new(future);
        for task in &tasks {
            let waker = Waker::from(Arc::clone(task));
            let mut context = Context::from_waker(&waker);
            assert!(Pin::new(&mut seldom).poll(&mut context).is_pending());
        }
        sender.send(7).expect("waited for");
        let woken = tasks.map(|task| task.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
    }
}
