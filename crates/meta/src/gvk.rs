//! Group, version, kind and resource names (upstream: `runtime/schema`).
//!
//! Names are `Cow<'static, str>`: those of built-in kinds come from static tables and need no allocation, those of
//! custom resources are owned.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

type CowStr = Cow<'static, str>;

/// The value of `apiVersion`: `v1` for the core group, `apps/v1` for another group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    pub group: CowStr,
    pub version: CowStr,
}

/// A kind, independent of the version.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    pub group: CowStr,
    pub kind: CowStr,
}

/// A kind in one version: `apiVersion` and `kind` of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    pub group: CowStr,
    pub version: CowStr,
    pub kind: CowStr,
}

/// A resource, independent of the version, as in RBAC rules and error messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    pub group: CowStr,
    pub resource: CowStr,
}

/// A resource in one version, as in a request path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    pub group: CowStr,
    pub version: CowStr,
    pub resource: CowStr,
}

/// Why a string is not an `apiVersion`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseGroupVersionError(String);

impl GroupVersion {
    pub fn new(group: impl Into<CowStr>, version: impl Into<CowStr>) -> Self {
        GroupVersion {
            group: group.into(),
            version: version.into(),
        }
    }

    pub const fn from_static(group: &'static str, version: &'static str) -> Self {
        GroupVersion {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.version.is_empty()
    }

    pub fn with_kind(&self, kind: impl Into<CowStr>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: kind.into(),
        }
    }

    pub fn with_resource(&self, resource: impl Into<CowStr>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    /// The empty string and `/` both mean "no group and no version", as upstream.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if version.contains('/') {
            return Err(ParseGroupVersionError(text.to_owned()));
        }
        Ok(GroupVersion::new(group.to_owned(), version.to_owned()))
    }
}

impl GroupKind {
    pub fn new(group: impl Into<CowStr>, kind: impl Into<CowStr>) -> Self {
        GroupKind {
            group: group.into(),
            kind: kind.into(),
        }
    }

    pub const fn from_static(group: &'static str, kind: &'static str) -> Self {
        GroupKind {
            group: Cow::Borrowed(group),
            kind: Cow::Borrowed(kind),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.kind.is_empty()
    }

    pub fn with_version(&self, version: impl Into<CowStr>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: version.into(),
            kind: self.kind.clone(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.kind, &self.group)
    }
}

impl GroupVersionKind {
    pub fn new(
        group: impl Into<CowStr>,
        version: impl Into<CowStr>,
        kind: impl Into<CowStr>,
    ) -> Self {
        GroupVersionKind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    pub const fn from_static(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
    ) -> Self {
        GroupVersionKind {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
        }
    }

    /// Parses `apiVersion` and `kind` of an object.
    pub fn from_type_meta(api_version: &str, kind: &str) -> Result<Self, ParseGroupVersionError> {
        Ok(api_version
            .parse::<GroupVersion>()?
            .with_kind(kind.to_owned()))
    }

    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.version.is_empty() && self.kind.is_empty()
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl GroupResource {
    pub fn new(group: impl Into<CowStr>, resource: impl Into<CowStr>) -> Self {
        GroupResource {
            group: group.into(),
            resource: resource.into(),
        }
    }

    pub const fn from_static(group: &'static str, resource: &'static str) -> Self {
        GroupResource {
            group: Cow::Borrowed(group),
            resource: Cow::Borrowed(resource),
        }
    }

    /// Parses `resource.group`; everything after the first dot is the group. Accepts every string.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource::new(group.to_owned(), resource.to_owned())
    }

    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }

    pub fn with_version(&self, version: impl Into<CowStr>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: version.into(),
            resource: self.resource.clone(),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.resource, &self.group)
    }
}

impl GroupVersionResource {
    pub fn new(
        group: impl Into<CowStr>,
        version: impl Into<CowStr>,
        resource: impl Into<CowStr>,
    ) -> Self {
        GroupVersionResource {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    pub const fn from_static(
        group: &'static str,
        version: &'static str,
        resource: &'static str,
    ) -> Self {
        GroupVersionResource {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            resource: Cow::Borrowed(resource),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.version.is_empty() && self.resource.is_empty()
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}, Resource={}",
            self.group, self.version, self.resource
        )
    }
}

fn write_dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_parsed_and_formatted_as_upstream() {
        let table = [
            ("", Ok(("", "")), ""),
            ("/", Ok(("", "")), ""),
            ("v1", Ok(("", "v1")), "v1"),
            ("apps/v1", Ok(("apps", "v1")), "apps/v1"),
            ("/v1", Ok(("", "v1")), "v1"),
            ("apps/", Ok(("apps", "")), "apps/"),
            ("a/b/c", Err("unexpected GroupVersion string: a/b/c"), ""),
            ("//", Err("unexpected GroupVersion string: //"), ""),
        ];
        for (input, want, printed) in table {
            match (input.parse::<GroupVersion>(), want) {
                (Ok(got), Ok((group, version))) => {
                    assert_eq!(got, GroupVersion::new(group, version));
                    assert_eq!(got.to_string(), printed);
                }
                (Err(got), Err(text)) => assert_eq!(got.to_string(), text),
                (got, want) => panic!("{input:?}: got {got:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn names_are_formatted_as_in_error_messages() {
        let pods = GroupVersionResource::from_static("", "v1", "pods");
        let deployments = GroupVersionResource::from_static("apps", "v1", "deployments");
        assert_eq!(pods.group_resource().to_string(), "pods");
        assert_eq!(deployments.group_resource().to_string(), "deployments.apps");
        assert_eq!(deployments.to_string(), "apps/v1, Resource=deployments");
        assert_eq!(
            GroupResource::parse("deployments.apps"),
            deployments.group_resource()
        );
        let kind = GroupVersionKind::from_type_meta("apps/v1", "Deployment").expect("valid");
        assert_eq!(kind.to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(kind.group_kind().to_string(), "Deployment.apps");
        assert_eq!(
            kind.group_version().with_resource("deployments"),
            deployments
        );
    }
}
