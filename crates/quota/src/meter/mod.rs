//! What objects of a resource count for.

mod counts;
mod pods;
mod resource_claims;
mod services;
mod volume_claims;

#[cfg(test)]
mod tests;

use rhumb_api::Object;

use crate::{Amounts, Charge, Name};

/// Knows what the objects of one resource use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    how: How,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum How {
    Pods,
    Services,
    VolumeClaims,
    ResourceClaims,
    /// One by one, under these names.
    Counts(Vec<Name>),
}

/// Resources that are not stored, and events, which nobody has ever limited.
const IGNORED: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

impl Meter {
    /// How the objects of a resource are measured; `None` for those that no quota looks at.
    pub fn of(group: &str, plural: &str) -> Option<Meter> {
        if IGNORED.contains(&(group, plural)) {
            return None;
        }
        let how = match (group, plural) {
            ("", "pods") => How::Pods,
            ("", "services") => How::Services,
            ("", "persistentvolumeclaims") => How::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => How::ResourceClaims,
            _ => How::Counts(counts::names(group, plural)),
        };
        Some(Meter { how })
    }

    /// Whether a quota for this name is one for these objects.
    pub fn covers(&self, name: &str) -> bool {
        match &self.how {
            How::Pods => pods::covers(name),
            How::Services => services::covers(name),
            How::VolumeClaims => volume_claims::covers(name),
            How::ResourceClaims => resource_claims::covers(name),
            How::Counts(names) => names.iter().any(|count| count == name),
        }
    }

    /// What an object counts for. The schema has refused what is none of these objects; if something else comes
    /// here, it counts as one that has nothing.
    pub fn measure(&self, object: &Object) -> Charge {
        match &self.how {
            How::Pods => pods::measure(object),
            How::Services => services::measure(object),
            How::VolumeClaims => volume_claims::measure(object),
            How::ResourceClaims => resource_claims::measure(object),
            How::Counts(names) => counts::measure(names),
        }
    }

    /// The same of an object in JSON, without making a tree of it.
    pub fn measure_json(&self, json: &[u8]) -> Result<Charge, serde_json::Error> {
        match &self.how {
            How::Pods => pods::measure_json(json),
            How::Services => services::measure_json(json),
            How::VolumeClaims => volume_claims::measure_json(json),
            How::ResourceClaims => resource_claims::measure_json(json),
            How::Counts(names) => Ok(counts::measure(names)),
        }
    }

    /// What is said of an object that must name amounts for these resources and does not.
    pub fn missing(&self, required: &Amounts, object: &Object) -> Option<String> {
        match &self.how {
            How::Pods => pods::missing(required, object),
            _ => None,
        }
    }

    /// Whether an update of an object, or of this part of it, may cost more than before.
    pub fn minds_update(&self, subresource: &str, old: &Object, new: &Object) -> bool {
        match (&self.how, subresource) {
            (How::Pods, _) => pods::minds_update(subresource, old, new),
            (How::VolumeClaims, "status") => volume_claims::minds_status(old, new),
            (How::Services | How::VolumeClaims | How::ResourceClaims, "") => true,
            _ => false,
        }
    }
}
