//! ResourceQuota enforcement (upstream: the ResourceQuota admission plugin).
//!
//! Entry point: [`QuotaEnforcer::reserve`]. Each namespace with quotas has a [`NamespaceQuota`]: usage computed from
//! the caches plus reservations of writes in progress. A write reserves its usage before the commit and releases it
//! once the cache shows the object or the write has failed, so a crash leaves nothing to correct. Every commit carries
//! a precondition on the namespace's epoch key (`epoch.rs`), which fails if another server changed the quotas or took
//! over admission. A read of quotas brings their status up to date first (`status.rs`); otherwise the
//! resourcequota-controller, a client, writes it. What an object counts as is decided by the crate `quota`.
//!
//! [`NamespaceQuota`]: namespace_quota::NamespaceQuota

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod device_classes;
mod epoch;
mod metrics;
mod namespace_quota;
mod quota_enforcer;
mod reservation;
mod status;
mod template_check;
mod tracking;
mod usage_tracker;

pub use epoch::{EPOCHS_PATH, EpochSideEffects, QuotaEpochs};
pub use metrics::QuotaMetrics;
pub use namespace_quota::{CountedObject, QuotaGrant, QuotaRequest, ReservationError};
pub use quota_enforcer::{QuotaEnforcer, QuotaReadHook};
pub use reservation::QuotaReservation;
pub use tracking::spawn_tracking;
