//! Conformance suite of the `Store` trait: one named test per guarantee.
//!
//! A backend implements [`ConformanceBackend`] and calls [`suite!`] in an integration test, which then runs every case below on
//! its own store. Layers on top of a store that implement the same trait can use it too.

mod etcd_backend;
pub mod history;
pub mod model;
pub mod ranges;
pub mod restarts;
pub mod streams;
pub mod writes;

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_store::Store;

pub use etcd_backend::EtcdBackend;
pub use rhumb_seeded_rng::SeededRng;

/// Starts a backend for one test.
#[async_trait]
pub trait ConformanceBackend: Send + Sized {
    /// Starts an empty store.
    async fn start() -> Self;

    fn store(&self) -> Arc<dyn Store>;

    /// Closes the store and reopens it on the same data. The caller has dropped all references to the old one.
    async fn restart(&mut self);

    /// Whether change streams support progress requests; otherwise the backend must return `Unsupported`.
    fn supports_progress(&self) -> bool {
        true
    }
}

/// Generates one test per case for a backend.
#[macro_export]
macro_rules! suite {
    ($backend:ty) => {
        $crate::suite! { @cases $backend;
            writes::a_key_is_created_only_once,
            writes::an_update_requires_the_current_revision,
            writes::a_deletion_requires_the_current_revision,
            writes::a_conflict_returns_the_current_entry,
            writes::deleting_a_missing_key_has_no_effect,
            writes::the_creation_revision_is_kept_until_the_key_is_deleted,
            writes::revisions_increase_across_all_keys,
            writes::a_transaction_has_one_revision,
            writes::a_transaction_is_atomic,
            writes::a_check_guards_the_other_operations,
            writes::of_concurrent_updates_from_one_revision_one_succeeds,
            writes::concurrent_increments_are_never_lost,
            writes::invalid_transactions_are_rejected,
            writes::the_largest_transaction_succeeds,
            writes::values_round_trip_byte_for_byte,
            writes::a_value_too_large_is_rejected_without_effect,
            writes::a_cancelled_commit_is_applied_completely_or_not_at_all,
            ranges::a_range_is_ordered_and_limited_to_its_prefix,
            ranges::pages_visit_every_entry_once,
            ranges::a_page_knows_whether_more_follows,
            ranges::later_pages_ignore_later_writes,
            ranges::past_revisions_can_be_read,
            ranges::future_revisions_cannot_be_read,
            ranges::a_write_is_immediately_readable,
            streams::a_stream_delivers_future_changes,
            streams::a_stream_delivers_past_changes,
            streams::a_stream_is_limited_to_its_prefix,
            streams::a_transaction_arrives_as_a_whole,
            streams::creation_and_update_are_distinguishable,
            streams::a_stream_may_start_at_a_future_revision,
            streams::cancelling_next_loses_no_change,
            streams::all_streams_see_the_same_order,
            streams::a_slow_stream_misses_nothing,
            streams::a_stream_from_a_range_revision_has_no_gap,
            streams::requested_progress_is_reported,
            streams::large_past_transactions_arrive_as_a_whole,
            streams::progress_never_runs_ahead_of_the_store,
            history::compaction_keeps_current_entries,
            history::compacted_revisions_are_rejected,
            history::a_deletion_at_the_compacted_revision_is_not_lost,
            history::compacting_twice_is_harmless,
            history::future_revisions_cannot_be_compacted,
            history::a_stream_that_keeps_up_survives_compaction,
            history::a_stream_that_lags_behind_compaction_has_no_gap,
            history::a_running_stream_survives_compaction_or_reports_it,
            restarts::all_writes_survive_a_restart,
            restarts::revisions_continue_after_a_restart,
            restarts::a_stream_resumes_from_before_a_restart,
            restarts::compaction_holds_after_a_restart,
            model::random_histories_agree_with_a_model,
        }
    };
    (@cases $backend:ty; $($module:ident :: $case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let mut harness = <$backend as $crate::ConformanceBackend>::start().await;
                $crate::$module::$case(&mut harness).await;
            }
        )*
    };
}
