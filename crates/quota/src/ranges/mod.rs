//! What one container, pod or claim may ask for, and what a container gets that says nothing.

mod bounds;
mod defaults;
#[cfg(test)]
mod tests;

use std::fmt;

use rhumb_api::partial::ResourceList;
use rhumb_api::pods::outline::{Basis, Outline, Requirements};
use rhumb_api::{Object, fields};
use rhumb_meta::{QuantityError, aggregate};
use serde::Deserialize;

use bounds::Bounds;
use defaults::Defaults;

/// Said in one refusal; nobody reads more.
const VIOLATIONS_MAX: usize = 1000;

/// A limit range as it is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitRange {
    defaults: Defaults,
    bounds: Vec<(Subject, Bounds)>,
}

/// Whom a limit is for. Limits for anything else mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Container,
    Pod,
    Claim,
}

impl Subject {
    fn named(name: &str) -> Option<Subject> {
        match name {
            "Container" => Some(Subject::Container),
            "Pod" => Some(Subject::Pod),
            "PersistentVolumeClaim" => Some(Subject::Claim),
            _ => None,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Subject::Container => "Container",
            Subject::Pod => "Pod",
            Subject::Claim => "PersistentVolumeClaim",
        }
    }
}

impl LimitRange {
    pub fn read(range: &Object) -> Result<LimitRange, QuantityError> {
        let mut read = LimitRange::default();
        for limit in fields::items(range, "spec.limits") {
            let kind = limit["type"].as_str().unwrap_or_default();
            let (Some(subject), Some(limit)) = (Subject::named(kind), limit.as_object()) else {
                continue;
            };
            if subject == Subject::Container {
                read.defaults.learn(limit);
            }
            read.bounds.push((subject, Bounds::read(limit)?));
        }
        Ok(read)
    }

    /// Gives containers what they do not say, and the pod an annotation that tells what that was.
    pub fn fill(&self, pod: &mut Object) {
        self.defaults.fill(pod);
    }

    pub fn check_pod(&self, pod: &Object) -> Result<(), Violations> {
        let mut violations = Violations::default();
        let outline = Outline::of(pod);
        for (subject, bounds) in &self.bounds {
            match subject {
                Subject::Container => {
                    let containers = outline.containers().iter();
                    for container in containers.chain(outline.init_containers()) {
                        bounds.check(*subject, &container.resources, &mut violations);
                    }
                }
                Subject::Pod => {
                    let together = Requirements {
                        requests: outline.requests(Basis::LIMIT_RANGE),
                        limits: outline.limits(Basis::LIMIT_RANGE),
                    };
                    bounds.check(*subject, &together, &mut violations);
                }
                Subject::Claim => {}
            }
        }
        violations.into_result()
    }

    /// A claim has requests only.
    pub fn check_claim(&self, claim: &Object) -> Result<(), Violations> {
        let mut violations = Violations::default();
        let asked = fields::get(claim, "spec.resources");
        let asked = asked.and_then(|asked| Requirements::deserialize(asked).ok());
        // Limits of a claim mean nothing.
        let asked = Requirements {
            limits: ResourceList::default(),
            ..asked.unwrap_or_default()
        };
        for (_, bounds) in self.bounds.iter().filter(|it| it.0 == Subject::Claim) {
            bounds.check_requests(Subject::Claim, &asked, &mut violations);
        }
        violations.into_result()
    }
}

/// What is wrong with an object, as upstream says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations(Vec<String>);

impl Violations {
    fn push(&mut self, violation: String) {
        if self.0.len() < VIOLATIONS_MAX {
            self.0.push(violation);
        }
    }

    fn into_result(self) -> Result<(), Violations> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&aggregate(&self.0))
    }
}
