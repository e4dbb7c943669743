//! Tolerations and taint effects.

use std::fmt;

use super::Taint;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::PreferNoSchedule => "PreferNoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    Equal,
    Exists,
    Lt,
    Gt,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Empty matches all keys.
    pub key: Box<str>,
    pub operator: TolerationOperator,
    pub value: Box<str>,
    /// `None` matches all effects.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let of_effect = self.effect.is_none_or(|effect| effect == taint.effect);
        let of_key = self.key.is_empty() || self.key == taint.key;
        of_effect
            && of_key
            && match self.operator {
                TolerationOperator::Exists => true,
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Lt => is_less_than(&taint.value, &self.value),
                TolerationOperator::Gt => is_less_than(&self.value, &taint.value),
            }
    }
}

/// Whether both are integers and `a` is less than `b`.
fn is_less_than(a: &str, b: &str) -> bool {
    match (a.parse::<i64>(), b.parse::<i64>()) {
        (Ok(a), Ok(b)) => a < b,
        _ => false,
    }
}
