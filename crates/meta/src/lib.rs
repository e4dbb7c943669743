//! What every part of rhumb speaks: names, resource versions, selectors, Status errors and the clock.
//!
//! Nothing here does I/O, waits, or knows a kind of objects. Where clients can see a text (an error message,
//! a selector printed back), it is upstream's text.

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
pub mod clock;
mod duration;
pub mod field;
pub mod fields;
mod file;
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
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use duration::parse_duration;
pub use file::{FileError, read_file};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use key::{ObjectKey, StoragePrefix};
pub use labels::LabelSelector;
pub use quantity::{Quantity, QuantityError};
pub use revision::Revision;
pub use status::{Status, StatusReason};
