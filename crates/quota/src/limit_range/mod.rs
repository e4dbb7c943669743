//! LimitRanges: default requests and limits of containers, and bounds on containers, pods and volume claims (upstream:
//! the LimitRanger admission plugin).

mod bounds;
mod defaults;
#[cfg(test)]
mod tests;

use std::fmt;

use rhumb_api::partial_decode::ResourceList;
use rhumb_api::pods::partial_pod::{PartialPod, PartialResourceRequirements, PodResourcesOptions};
use rhumb_api::{JsonObject, fields};
use rhumb_meta::{QuantityError, aggregate};
use serde::Deserialize;

use bounds::LimitBounds;
use defaults::ContainerDefaults;

/// Maximum number of violations in one error message.
const VIOLATIONS_MAX: usize = 1000;

/// A parsed LimitRange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitRange {
    defaults: ContainerDefaults,
    bounds: Vec<(LimitType, LimitBounds)>,
}

/// What a limit applies to (upstream: `LimitType`). Limits of other types are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitType {
    Container,
    Pod,
    Claim,
}

impl LimitType {
    fn named(name: &str) -> Option<LimitType> {
        match name {
            "Container" => Some(LimitType::Container),
            "Pod" => Some(LimitType::Pod),
            "PersistentVolumeClaim" => Some(LimitType::Claim),
            _ => None,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            LimitType::Container => "Container",
            LimitType::Pod => "Pod",
            LimitType::Claim => "PersistentVolumeClaim",
        }
    }
}

impl LimitRange {
    pub fn read(range: &JsonObject) -> Result<LimitRange, QuantityError> {
        let mut read = LimitRange::default();
        for limit in fields::items(range, "spec.limits") {
            let kind = limit["type"].as_str().unwrap_or_default();
            let (Some(limit_type), Some(limit)) = (LimitType::named(kind), limit.as_object())
            else {
                continue;
            };
            if limit_type == LimitType::Container {
                read.defaults.merge_limit(limit);
            }
            read.bounds.push((limit_type, LimitBounds::read(limit)?));
        }
        Ok(read)
    }

    /// Adds default requests and limits to containers, and an annotation to the pod that lists them.
    pub fn apply_defaults(&self, pod: &mut JsonObject) {
        self.defaults.apply(pod);
    }

    pub fn check_pod(&self, pod: &JsonObject) -> Result<(), LimitRangeViolations> {
        let mut violations = LimitRangeViolations::default();
        let partial_pod = PartialPod::from_object(pod);
        for (limit_type, bounds) in &self.bounds {
            match limit_type {
                LimitType::Container => {
                    let containers = partial_pod.containers().iter();
                    for container in containers.chain(partial_pod.init_containers()) {
                        bounds.check(*limit_type, &container.resources, &mut violations);
                    }
                }
                LimitType::Pod => {
                    let together = PartialResourceRequirements {
                        requests: partial_pod.requests(PodResourcesOptions::LIMIT_RANGE),
                        limits: partial_pod.limits(PodResourcesOptions::LIMIT_RANGE),
                    };
                    bounds.check(*limit_type, &together, &mut violations);
                }
                LimitType::Claim => {}
            }
        }
        violations.into_result()
    }

    /// Checks the requests of a PersistentVolumeClaim.
    pub fn check_claim(&self, claim: &JsonObject) -> Result<(), LimitRangeViolations> {
        let mut violations = LimitRangeViolations::default();
        let requested = fields::get(claim, "spec.resources");
        let requested = requested
            .and_then(|requested| PartialResourceRequirements::deserialize(requested).ok());
        // Upstream ignores the limits of a claim.
        let requested = PartialResourceRequirements {
            limits: ResourceList::default(),
            ..requested.unwrap_or_default()
        };
        for (_, bounds) in self.bounds.iter().filter(|it| it.0 == LimitType::Claim) {
            bounds.check_requests(LimitType::Claim, &requested, &mut violations);
        }
        violations.into_result()
    }
}

/// Violated limits of an object, in upstream's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitRangeViolations(Vec<String>);

impl LimitRangeViolations {
    fn push(&mut self, violation: String) {
        if self.0.len() < VIOLATIONS_MAX {
            self.0.push(violation);
        }
    }

    fn into_result(self) -> Result<(), LimitRangeViolations> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for LimitRangeViolations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&aggregate(&self.0))
    }
}
