//! Built-in kinds of API group `certificates.k8s.io`, one module each.

mod certificate_signing_request;
#[cfg(test)]
mod tests;
mod validation;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![certificate_signing_request::kind()]
}
