//! The least and the most of each resource.

use rhumb_api::Object;
use rhumb_api::pods::outline::Requirements;
use rhumb_meta::{Quantity, QuantityError};
use serde_json::Value;

use super::{Subject, Violations};
use crate::Amounts;

/// The largest number of units that can be compared in thousandths.
const MILLI_MAX: i64 = i64::MAX / 1000;

/// What a limit says of all its resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bounds {
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

impl Bounds {
    pub(super) fn read(limit: &Object) -> Result<Bounds, QuantityError> {
        let amounts = |field: &str| match limit.get(field).and_then(Value::as_object) {
            Some(list) => Amounts::parse(list),
            None => Ok(Amounts::default()),
        };
        Ok(Bounds {
            min: amounts("min")?,
            max: amounts("max")?,
            ratio: amounts("maxLimitRequestRatio")?,
        })
    }

    pub(super) fn check(
        &self,
        subject: Subject,
        asked: &Requirements<'_>,
        violations: &mut Violations,
    ) {
        violations.find(&self.min, asked, |it| it.too_little(subject));
        violations.find(&self.max, asked, |it| it.too_much(subject));
        violations.find(&self.ratio, asked, |it| it.too_far_apart(subject));
    }

    /// The same for those who have no limits.
    pub(super) fn check_requests(
        &self,
        subject: Subject,
        asked: &Requirements<'_>,
        violations: &mut Violations,
    ) {
        violations.find(&self.min, asked, |it| it.too_little(subject));
        violations.find(&self.max, asked, |it| it.requests_too_much(subject));
    }
}

impl Violations {
    fn find(
        &mut self,
        bounds: &Amounts,
        asked: &Requirements<'_>,
        violated: impl Fn(&Held<'_>) -> Option<String>,
    ) {
        for (name, bound) in bounds.iter() {
            let held = Held {
                name,
                bound,
                request: asked.requests.get(name),
                limit: asked.limits.get(name),
            };
            if let Some(violation) = violated(&held) {
                self.push(violation);
            }
        }
    }
}

/// What somebody asks for of one resource, held against a bound.
struct Held<'a> {
    name: &'a str,
    bound: &'a Quantity,
    request: Option<&'a Quantity>,
    limit: Option<&'a Quantity>,
}

/// Amounts as numbers that can be compared with each other.
struct Numbers {
    request: i64,
    limit: i64,
    bound: i64,
}

impl Held<'_> {
    /// In thousandths if all of them fit, else in whole units, rounded up as upstream does it.
    fn numbers(&self) -> Numbers {
        let all = |number: fn(&Quantity) -> i64| Numbers {
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

    fn too_little(&self, subject: Subject) -> Option<String> {
        let numbers = self.numbers();
        let is_below = |number| number < numbers.bound;
        let but = match (self.request, self.limit) {
            (None, _) => ".  No request is specified".to_owned(),
            (Some(request), _) if is_below(numbers.request) => {
                format!(", but request is {request}")
            }
            (_, Some(limit)) if is_below(numbers.limit) => format!(", but limit is {limit}"),
            _ => return None,
        };
        Some(self.usage("minimum", subject, &but))
    }

    fn too_much(&self, subject: Subject) -> Option<String> {
        let numbers = self.numbers();
        let is_above = |number| number > numbers.bound;
        let but = match (self.limit, self.request) {
            (None, _) => ".  No limit is specified".to_owned(),
            (Some(limit), _) if is_above(numbers.limit) => format!(", but limit is {limit}"),
            (_, Some(request)) if is_above(numbers.request) => {
                format!(", but request is {request}")
            }
            _ => return None,
        };
        Some(self.usage("maximum", subject, &but))
    }

    fn requests_too_much(&self, subject: Subject) -> Option<String> {
        let numbers = self.numbers();
        let but = match self.request {
            None => ".  No request is specified".to_owned(),
            Some(request) if numbers.request > numbers.bound => {
                format!(", but request is {request}")
            }
            Some(_) => return None,
        };
        Some(self.usage("maximum", subject, &but))
    }

    fn too_far_apart(&self, subject: Subject) -> Option<String> {
        let numbers = self.numbers();
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
        let (name, bound, subject) = (self.name, self.bound, subject.as_str());
        Some(format!(
            "{name} max limit to request ratio per {subject} is {bound}, but {but}"
        ))
    }

    fn usage(&self, which: &str, subject: Subject, but: &str) -> String {
        let (name, bound, subject) = (self.name, self.bound, subject.as_str());
        format!("{which} {name} usage per {subject} is {bound}{but}")
    }
}
