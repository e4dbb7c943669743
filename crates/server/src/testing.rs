//! Helpers for tests.

use tokio::task::coop;

/// A future that always uses up the coop budget of its task, so that nothing else in the task gets any.
pub(crate) async fn exhaust_coop_budget() {
    loop {
        tokio::task::yield_now().await;
        while coop::has_budget_remaining() {
            coop::consume_budget().await;
        }
    }
}
