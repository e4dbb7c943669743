//! API machinery shared by all crates: group/version/kind names, object keys, resource versions, label and field
//! selectors, quantities, field errors, Status errors and the clock. Upstream: `k8s.io/apimachinery`.
//!
//! The crate does no I/O and knows no API kinds. Texts that clients see (error messages, printed selectors) are
//! upstream's.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod aggregate;
mod backoff;
pub mod clock;
mod config_file;
mod duration;
pub mod field;
pub mod fields;
pub mod go_url;
pub mod gotext;
pub mod gvk;
pub mod key;
pub mod labels;
pub mod quantity;
pub mod revision;
pub mod status;
#[cfg(test)]
mod testing;
pub mod validation;

pub use aggregate::aggregate;
pub use backoff::Backoff;
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use config_file::{ConfigFileError, read_file};
pub use duration::{DurationError, parse_duration, parse_nanoseconds};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use key::{ObjectKey, StoragePrefix};
pub use labels::LabelSelector;
pub use quantity::{Quantity, QuantityError};
pub use revision::Revision;
pub use status::{Status, StatusReason};
