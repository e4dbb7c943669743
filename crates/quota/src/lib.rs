//! What a namespace may use: quotas, their scopes, and limit ranges.
//!
//! Pure: nothing here reads a cache, waits or asks for the time. A [`Meter`] says what an object counts for
//! ([`Charge`]); a [`Requirement`] says whether a quota looks at it.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod amounts;
mod charge;
mod limited;
mod meter;
mod ranges;
mod scope;

pub use amounts::{Amounts, Name};
pub use charge::{Charge, Traits};
pub use limited::{Limited, LimitedForm};
pub use meter::Meter;
pub use ranges::{LimitRange, Violations};
pub use scope::{Operator, Requirement, Scope};
