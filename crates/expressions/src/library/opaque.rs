//! Values that only functions can look into.

use super::formats::Format;
use super::semver::Semver;
use super::url::Url;
use crate::authorizer::{Decision, ResourceCheck, Subject};
use rhumb_meta::quantity::Quantity;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Opaque {
    Ip(IpAddr),
    /// An address and how many bits of it count.
    Cidr(IpAddr, u8),
    Url(Arc<Url>),
    Quantity(Arc<Quantity>),
    Semver(Arc<Semver>),
    Format(&'static Format),
    Authorizer(Arc<Subject>),
    PathCheck(Arc<(Arc<Subject>, String)>),
    GroupCheck(Arc<(Arc<Subject>, String)>),
    ResourceCheck(Arc<(Arc<Subject>, ResourceCheck)>),
    Decision(Arc<Decision>),
}

impl Opaque {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Opaque::Ip(_) => "net.IP",
            Opaque::Cidr(..) => "net.CIDR",
            Opaque::Url(_) => "kubernetes.URL",
            Opaque::Quantity(_) => "kubernetes.Quantity",
            Opaque::Semver(_) => "kubernetes.Semver",
            Opaque::Format(_) => "kubernetes.NamedFormat",
            Opaque::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Opaque::PathCheck(_) => "kubernetes.authorization.PathCheck",
            Opaque::GroupCheck(_) => "kubernetes.authorization.GroupCheck",
            Opaque::ResourceCheck(_) => "kubernetes.authorization.ResourceCheck",
            Opaque::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl Opaque {
    /// Values of the same type can be compared, but for questions to the authorizer and its answers.
    pub(crate) fn compares_with(&self, other: &Opaque) -> bool {
        let same = std::mem::discriminant(self) == std::mem::discriminant(other);
        same && !matches!(
            self,
            Opaque::Authorizer(_)
                | Opaque::PathCheck(_)
                | Opaque::GroupCheck(_)
                | Opaque::ResourceCheck(_)
                | Opaque::Decision(_)
        )
    }
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Opaque) -> bool {
        match (self, other) {
            (Opaque::Ip(left), Opaque::Ip(right)) => left == right,
            (Opaque::Cidr(left, bits), Opaque::Cidr(right, other_bits)) => {
                left == right && bits == other_bits
            }
            (Opaque::Url(left), Opaque::Url(right)) => left.text == right.text,
            (Opaque::Quantity(left), Opaque::Quantity(right)) => left == right,
            (Opaque::Semver(left), Opaque::Semver(right)) => left.cmp(right).is_eq(),
            (Opaque::Format(left), Opaque::Format(right)) => left.name == right.name,
            _ => false,
        }
    }
}
