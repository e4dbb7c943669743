//! What a namespace may use: quotas, their scopes, and limit ranges.
//!
//! Pure: nothing here reads a cache, waits or asks for the time. A [`Meter`] says what an object counts for
//! ([`Charge`]); a [`Requirement`] says whether a quota looks at it; a [`Book`] adds up what a namespace uses and
//! judges whether there is room for more.

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
mod book;
mod charge;
mod limited;
mod meter;
mod quota;
mod ranges;
mod scope;

pub use amounts::{Amounts, Name};
pub use book::{Ask, Book, HoldId, Refusal, Verdict};
pub use charge::{Charge, Traits};
pub use limited::{Limited, LimitedForm};
pub use meter::Meter;
pub use quota::Quota;
pub use ranges::{LimitRange, Violations};
pub use scope::{Operator, Requirement, Scope};
