//! The kinds of this group.

mod certificate_signing_request;
#[cfg(test)]
mod tests;
mod validation;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![certificate_signing_request::kind()]
}
