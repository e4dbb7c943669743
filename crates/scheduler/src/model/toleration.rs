//! Taints that a pod can live with.

use std::fmt;

use super::Taint;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
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
    /// Empty with `Exists` tolerates everything.
    pub key: Box<str>,
    pub operator: TolerationOperator,
    pub value: Box<str>,
    /// `None` is any.
    pub effect: Option<Effect>,
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
                TolerationOperator::Lt => is_ordered(&taint.value, &self.value),
                TolerationOperator::Gt => is_ordered(&self.value, &taint.value),
            }
    }
}

/// Whether both are whole numbers, and the first is the smaller one.
fn is_ordered(a: &str, b: &str) -> bool {
    match (a.parse::<i64>(), b.parse::<i64>()) {
        (Ok(a), Ok(b)) => a < b,
        _ => false,
    }
}
