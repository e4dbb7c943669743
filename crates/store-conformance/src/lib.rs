//! The promises of a store, one named test each.
//!
//! A backend implements [`Harness`] and calls [`suite!`] in an integration test; it then runs every case
//! below on a store of its own. Whatever stands on a store and offers the same trait can do the same.

pub mod history;
pub mod model;
mod random;
pub mod ranges;
pub mod restarts;
pub mod streams;
pub mod writes;

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_store::Store;

pub use random::Random;

/// Starts a backend for one test.
#[async_trait]
pub trait Harness: Send + Sized {
    /// An empty store.
    async fn start() -> Self;

    fn store(&self) -> Arc<dyn Store>;

    /// Ends the store and opens it again on the same data. Nobody holds the old one any more.
    async fn restart(&mut self);

    /// Whether streams can tell their progress; a backend that cannot answers `Unsupported`.
    fn tells_progress(&self) -> bool {
        true
    }
}

/// Makes a test of every case for one harness.
#[macro_export]
macro_rules! suite {
    ($harness:ty) => {
        $crate::suite! { @cases $harness;
            writes::a_key_is_created_only_once,
            writes::an_update_needs_the_revision_it_was_made_from,
            writes::a_deletion_needs_the_revision_it_was_made_from,
            writes::a_conflict_tells_what_is_there,
            writes::deleting_nothing_changes_nothing,
            writes::creation_stays_and_begins_anew_after_a_deletion,
            writes::revisions_grow_over_all_keys,
            writes::a_transaction_has_one_revision,
            writes::a_transaction_happens_as_a_whole_or_not_at_all,
            writes::a_check_guards_the_other_operations,
            writes::of_many_writers_with_one_revision_one_wins,
            writes::concurrent_increments_are_never_lost,
            writes::impossible_transactions_are_refused,
            writes::the_largest_transaction_goes_through,
            writes::values_come_back_byte_for_byte,
            writes::a_value_too_large_is_refused_and_harms_nothing,
            writes::a_caller_that_stops_waiting_leaves_nothing_half_done,
            ranges::a_range_is_ordered_and_keeps_to_its_prefix,
            ranges::pages_visit_every_entry_once,
            ranges::a_page_knows_whether_more_follows,
            ranges::later_pages_ignore_later_writes,
            ranges::the_past_can_be_read,
            ranges::the_future_cannot_be_read,
            ranges::a_write_is_read_at_once,
            streams::a_stream_tells_the_future,
            streams::a_stream_tells_the_past,
            streams::a_stream_keeps_to_its_prefix,
            streams::a_transaction_arrives_as_a_whole,
            streams::creation_and_update_can_be_told_apart,
            streams::a_stream_may_begin_in_the_future,
            streams::dropping_a_wait_loses_nothing,
            streams::all_streams_see_the_same_order,
            streams::a_slow_stream_misses_nothing,
            streams::a_range_and_a_stream_fit_together,
            streams::progress_is_told_when_asked_for,
            streams::large_transactions_of_the_past_arrive_as_a_whole,
            streams::progress_never_runs_ahead_of_the_store,
            history::compaction_keeps_current_entries,
            history::what_is_compacted_is_refused,
            history::a_deletion_at_the_compacted_revision_is_not_lost,
            history::compacting_twice_is_harmless,
            history::the_future_cannot_be_compacted,
            history::a_stream_that_keeps_up_survives_compaction,
            history::a_stream_that_lags_behind_compaction_has_no_gap,
            history::a_running_stream_survives_compaction_or_says_so,
            restarts::everything_written_is_there_after_a_restart,
            restarts::revisions_go_on_after_a_restart,
            restarts::a_stream_resumes_from_before_a_restart,
            restarts::compaction_holds_after_a_restart,
            model::random_histories_agree_with_a_model,
        }
    };
    (@cases $harness:ty; $($module:ident :: $case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let mut harness = <$harness as $crate::Harness>::start().await;
                $crate::$module::$case(&mut harness).await;
            }
        )*
    };
}
