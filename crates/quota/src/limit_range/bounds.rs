//! Minimum, maximum and limit/request ratio of each resource in a limit.

use rhumb_api::JsonObject;
use rhumb_api::pods::partial_pod::PartialResourceRequirements;
use rhumb_meta::{Quantity, QuantityError};
use serde_json::Value;

use super::{LimitRangeViolations, LimitType};
use crate::ResourceQuantities;

/// The largest number of units whose milli value fits into an `i64`.
const MILLI_MAX: i64 = i64::MAX / 1000;

/// Bounds of one limit, by resource name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LimitBounds {
    min: ResourceQuantities,
    max: ResourceQuantities,
    max_limit_request_ratio: ResourceQuantities,
}

impl LimitBounds {
    pub(super) fn read(limit: &JsonObject) -> Result<LimitBounds, QuantityError> {
        let amounts = |field: &str| match limit.get(field).and_then(Value::as_object) {
            Some(list) => ResourceQuantities::parse(list),
            None => Ok(ResourceQuantities::default()),
        };
        Ok(LimitBounds {
            min: amounts("min")?,
            max: amounts("max")?,
            max_limit_request_ratio: amounts("maxLimitRequestRatio")?,
        })
    }

    pub(super) fn check(
        &self,
        limit_type: LimitType,
        requested: &PartialResourceRequirements<'_>,
        violations: &mut LimitRangeViolations,
    ) {
        violations.check_each(&self.min, requested, |it| it.below_minimum(limit_type));
        violations.check_each(&self.max, requested, |it| it.above_maximum(limit_type));
        violations.check_each(&self.max_limit_request_ratio, requested, |it| {
            it.ratio_exceeded(limit_type)
        });
    }

    /// Checks only the requests, for objects without limits.
    pub(super) fn check_requests(
        &self,
        limit_type: LimitType,
        requested: &PartialResourceRequirements<'_>,
        violations: &mut LimitRangeViolations,
    ) {
        violations.check_each(&self.min, requested, |it| it.below_minimum(limit_type));
        violations.check_each(&self.max, requested, |it| {
            it.request_above_maximum(limit_type)
        });
    }
}

impl LimitRangeViolations {
    fn check_each(
        &mut self,
        bounds: &ResourceQuantities,
        requested: &PartialResourceRequirements<'_>,
        violated: impl Fn(&BoundedResource<'_>) -> Option<String>,
    ) {
        for (name, bound) in bounds.iter() {
            let check = BoundedResource {
                name,
                bound,
                request: requested.requests.get(name),
                limit: requested.limits.get(name),
            };
            if let Some(violation) = violated(&check) {
                self.push(violation);
            }
        }
    }
}

/// Request and limit of one resource, to be compared with a bound.
struct BoundedResource<'a> {
    name: &'a str,
    bound: &'a Quantity,
    request: Option<&'a Quantity>,
    limit: Option<&'a Quantity>,
}

/// Request, limit and bound as integers of the same unit.
struct ComparableQuantities {
    request: i64,
    limit: i64,
    bound: i64,
}

impl BoundedResource<'_> {
    /// In milli units if all of them fit, else in whole units, rounded up as upstream does.
    fn comparable(&self) -> ComparableQuantities {
        let all = |number: fn(&Quantity) -> i64| ComparableQuantities {
            request: self.request.map_or(0, number),
            limit: self.limit.map_or(0, number),
            bound: number(self.bound),
        };
        let units = all(Quantity::value);
        let largest = units.request.max(units.limit).max(units.bound);
        if largest <= MILLI_MAX {
            all(Quantity::milli_value)
        } else {
            units
        }
    }

    fn below_minimum(&self, limit_type: LimitType) -> Option<String> {
        let numbers = self.comparable();
        let is_below = |number| number < numbers.bound;
        let but = match (self.request, self.limit) {
            (None, _) => ".  No request is specified".to_owned(),
            (Some(request), _) if is_below(numbers.request) => {
                format!(", but request is {request}")
            }
            (_, Some(limit)) if is_below(numbers.limit) => format!(", but limit is {limit}"),
            _ => return None,
        };
        Some(self.usage("minimum", limit_type, &but))
    }

    fn above_maximum(&self, limit_type: LimitType) -> Option<String> {
        let numbers = self.comparable();
        let is_above = |number| number > numbers.bound;
        let but = match (self.limit, self.request) {
            (None, _) => ".  No limit is specified".to_owned(),
            (Some(limit), _) if is_above(numbers.limit) => format!(", but limit is {limit}"),
            (_, Some(request)) if is_above(numbers.request) => {
                format!(", but request is {request}")
            }
            _ => return None,
        };
        Some(self.usage("maximum", limit_type, &but))
    }

    fn request_above_maximum(&self, limit_type: LimitType) -> Option<String> {
        let numbers = self.comparable();
        let but = match self.request {
            None => ".  No request is specified".to_owned(),
            Some(request) if numbers.request > numbers.bound => {
                format!(", but request is {request}")
            }
            Some(_) => return None,
        };
        Some(self.usage("maximum", limit_type, &but))
    }

    fn ratio_exceeded(&self, limit_type: LimitType) -> Option<String> {
        let numbers = self.comparable();
        let but = if numbers.request == 0 {
            "no request is specified or request is 0".to_owned()
        } else if numbers.limit == 0 {
            "no limit is specified or limit is 0".to_owned()
        } else {
            let ratio = numbers.limit as f64 / numbers.request as f64;
            let (observed, most) = if self.bound.value() <= MILLI_MAX {
                (ratio * 1000.0, self.bound.milli_value() as f64)
            } else {
                (ratio, self.bound.value() as f64)
            };
            if observed <= most {
                return None;
            }
            format!("provided ratio is {ratio:.6}")
        };
        let (name, bound, limit_type) = (self.name, self.bound, limit_type.as_str());
        Some(format!(
            "{name} max limit to request ratio per {limit_type} is {bound}, but {but}"
        ))
    }

    fn usage(&self, which: &str, limit_type: LimitType, but: &str) -> String {
        let (name, bound, limit_type) = (self.name, self.bound, limit_type.as_str());
        format!("{which} {name} usage per {limit_type} is {bound}{but}")
    }
}
