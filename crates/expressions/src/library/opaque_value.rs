//! Values of opaque types, which expressions use through functions only.

use super::named_formats::NamedFormat;
use super::semver::Semver;
use super::url::Url;
use crate::authorizer::{AuthorizationDecision, AuthorizationSubject, ResourceCheck};
use rhumb_meta::quantity::Quantity;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum OpaqueValue {
    Ip(IpAddr),
    /// An address and the prefix length.
    Cidr(IpAddr, u8),
    Url(Arc<Url>),
    Quantity(Arc<Quantity>),
    Semver(Arc<Semver>),
    NamedFormat(&'static NamedFormat),
    Authorizer(Arc<AuthorizationSubject>),
    PathCheck(Arc<(Arc<AuthorizationSubject>, String)>),
    GroupCheck(Arc<(Arc<AuthorizationSubject>, String)>),
    ResourceCheck(Arc<(Arc<AuthorizationSubject>, ResourceCheck)>),
    Decision(Arc<AuthorizationDecision>),
}

impl OpaqueValue {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            OpaqueValue::Ip(_) => "net.IP",
            OpaqueValue::Cidr(..) => "net.CIDR",
            OpaqueValue::Url(_) => "kubernetes.URL",
            OpaqueValue::Quantity(_) => "kubernetes.Quantity",
            OpaqueValue::Semver(_) => "kubernetes.Semver",
            OpaqueValue::NamedFormat(_) => "kubernetes.NamedFormat",
            OpaqueValue::Authorizer(_) => "kubernetes.authorization.Authorizer",
            OpaqueValue::PathCheck(_) => "kubernetes.authorization.PathCheck",
            OpaqueValue::GroupCheck(_) => "kubernetes.authorization.GroupCheck",
            OpaqueValue::ResourceCheck(_) => "kubernetes.authorization.ResourceCheck",
            OpaqueValue::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl OpaqueValue {
    /// Whether `==` has an overload: the same type, but not an authorization type.
    pub(crate) fn is_comparable_with(&self, other: &OpaqueValue) -> bool {
        let same_type = std::mem::discriminant(self) == std::mem::discriminant(other);
        same_type
            && !matches!(
                self,
                OpaqueValue::Authorizer(_)
                    | OpaqueValue::PathCheck(_)
                    | OpaqueValue::GroupCheck(_)
                    | OpaqueValue::ResourceCheck(_)
                    | OpaqueValue::Decision(_)
            )
    }
}

impl PartialEq for OpaqueValue {
    fn eq(&self, other: &OpaqueValue) -> bool {
        match (self, other) {
            (OpaqueValue::Ip(left), OpaqueValue::Ip(right)) => left == right,
            (OpaqueValue::Cidr(left, bits), OpaqueValue::Cidr(right, other_bits)) => {
                left == right && bits == other_bits
            }
            (OpaqueValue::Url(left), OpaqueValue::Url(right)) => left.text == right.text,
            (OpaqueValue::Quantity(left), OpaqueValue::Quantity(right)) => left == right,
            (OpaqueValue::Semver(left), OpaqueValue::Semver(right)) => left.cmp(right).is_eq(),
            (OpaqueValue::NamedFormat(left), OpaqueValue::NamedFormat(right)) => {
                left.name == right.name
            }
            _ => false,
        }
    }
}
