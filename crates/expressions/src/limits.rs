//! How large, how deep and how long. No expression, whoever wrote it, can keep a thread busy or exhaust memory.

use crate::error::EvaluationError;
use std::time::Instant;

/// How long an expression may be, in characters.
pub const TEXT_CHARACTERS_MAX: usize = 100_000;
/// How deep brackets of any kind may be nested. Upstream allows 250; its stacks grow.
pub(crate) const NESTING_MAX: usize = 80;
/// How deep a tree may be once macros are expanded. Everything that walks through it recurses this deep. Upstream
/// allows 250, before macros are expanded.
pub(crate) const DEPTH_MAX: usize = 120;
/// How many parts an expression may have, once macros are expanded.
pub(crate) const NODES_MAX: usize = 100_000;
/// How deep evaluation may go, through the variables that a variable uses as well.
pub(crate) const EVALUATION_DEPTH_MAX: usize = 240;

/// What one expression may cost.
pub const COST_PER_EXPRESSION_MAX: u64 = 1_000_000;
/// What all expressions of one policy may cost, for one binding.
pub const COST_PER_POLICY_MAX: u64 = 10_000_000;
/// What all match conditions of one webhook, or of one policy, may cost.
pub const COST_PER_MATCH_CONDITIONS_MAX: u64 = 2_500_000;
/// How long the result of a message expression may be.
pub const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// What the values may take up that are made by the expressions which share a budget.
pub(crate) const MEMORY_BYTES_MAX: usize = 64 << 20;
/// What one value may take up if everything in it that is shared were there several times.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;
/// How deep lists and maps may be nested.
pub(crate) const VALUE_DEPTH_MAX: usize = 300;
/// What a compiled regular expression may take up.
pub(crate) const REGEX_BYTES_MAX: usize = 1 << 20;

/// Steps between two looks at the clock.
const STEPS_BETWEEN_LOOKS: u32 = 256;

/// What is left of the cost and the time that several expressions share.
#[derive(Debug)]
pub struct Budget {
    cost_left: u64,
    deadline: Option<Instant>,
    memory_left: usize,
    /// What the expression that is running may still cost.
    expression_left: u64,
    steps: u32,
    pub(crate) depth: usize,
}

impl Budget {
    /// A budget of that cost, which ends at the deadline whatever is left.
    pub fn new(cost: u64, deadline: Option<Instant>) -> Budget {
        Budget {
            cost_left: cost,
            deadline,
            memory_left: MEMORY_BYTES_MAX,
            expression_left: COST_PER_EXPRESSION_MAX,
            steps: 0,
            depth: 0,
        }
    }

    /// What upstream gives a policy: [`COST_PER_POLICY_MAX`].
    pub fn for_policy(deadline: Option<Instant>) -> Budget {
        Budget::new(COST_PER_POLICY_MAX, deadline)
    }

    /// What upstream gives match conditions: [`COST_PER_MATCH_CONDITIONS_MAX`].
    pub fn for_match_conditions(deadline: Option<Instant>) -> Budget {
        Budget::new(COST_PER_MATCH_CONDITIONS_MAX, deadline)
    }

    pub fn cost_left(&self) -> u64 {
        self.cost_left
    }

    /// Begins an expression, and says what the one that has begun before may still cost.
    pub(crate) fn begin(&mut self) -> u64 {
        std::mem::replace(&mut self.expression_left, COST_PER_EXPRESSION_MAX)
    }

    /// Ends an expression: what it has cost is paid for.
    pub(crate) fn finish(&mut self, outer_left: u64) -> Result<(), EvaluationError> {
        let cost = COST_PER_EXPRESSION_MAX.saturating_sub(self.expression_left);
        self.expression_left = outer_left;
        match self.cost_left.checked_sub(cost) {
            Some(left) => {
                self.cost_left = left;
                Ok(())
            }
            None => {
                self.cost_left = 0;
                Err(EvaluationError::OutOfBudget)
            }
        }
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvaluationError> {
        match self.expression_left.checked_sub(cost) {
            Some(left) => {
                self.expression_left = left;
                Ok(())
            }
            None => {
                self.expression_left = 0;
                Err(EvaluationError::CostExceeded)
            }
        }
    }

    /// Gives back what upstream does not charge in some places.
    pub(crate) fn refund(&mut self, cost: u64) {
        self.expression_left = self
            .expression_left
            .saturating_add(cost)
            .min(COST_PER_EXPRESSION_MAX);
    }

    /// One small piece of work, as small as looking at one item.
    pub(crate) fn step(&mut self) -> Result<(), EvaluationError> {
        self.steps += 1;
        if self.steps < STEPS_BETWEEN_LOOKS {
            return Ok(());
        }
        self.look_at_clock()
    }

    /// Before work that is not small.
    pub(crate) fn look_at_clock(&mut self) -> Result<(), EvaluationError> {
        self.steps = 0;
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(EvaluationError::Interrupted),
            _ => Ok(()),
        }
    }

    /// Before something is made that takes up so much.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        if bytes > VALUE_BYTES_MAX {
            return Err(EvaluationError::TooLarge);
        }
        match self.memory_left.checked_sub(bytes) {
            Some(left) => {
                self.memory_left = left;
                Ok(())
            }
            None => Err(EvaluationError::TooLarge),
        }
    }
}
