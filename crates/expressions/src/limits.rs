//! Limits of the size and depth of expressions and values, and the cost, memory and time budget of evaluation. No
//! expression can block a thread or exhaust memory.

use crate::error::EvaluationError;
use std::time::Instant;

/// The maximum length of an expression, in code points.
pub const EXPRESSION_CODE_POINTS_MAX: usize = 100_000;
/// The maximum nesting of brackets. Upstream allows 250, because Go stacks grow.
pub(crate) const NESTING_MAX: usize = 80;
/// The maximum depth of an AST after macro expansion, which bounds all recursion over it. Upstream allows 250 before
/// macro expansion.
pub(crate) const AST_DEPTH_MAX: usize = 120;
/// The maximum number of AST nodes after macro expansion.
pub(crate) const AST_NODES_MAX: usize = 100_000;
/// The maximum recursion depth of evaluation, including nested composited variables.
pub(crate) const EVALUATION_DEPTH_MAX: usize = 240;

/// The cost limit of one expression (upstream: `PerCallLimit`).
pub const COST_PER_EXPRESSION_MAX: u64 = 1_000_000;
/// The cost limit of all expressions of a policy for one binding (upstream: `RuntimeCELCostBudget`).
pub const COST_PER_POLICY_MAX: u64 = 10_000_000;
/// The cost limit of all match conditions of one webhook or policy (upstream:
/// `RuntimeCELCostBudgetMatchConditions`).
pub const COST_PER_MATCH_CONDITIONS_MAX: u64 = 2_500_000;
/// The maximum length of the result of a message expression.
pub const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The memory limit of the values created by expressions that share a budget.
pub(crate) const MEMORY_BYTES_MAX: usize = 64 << 20;
/// The size limit of one value, counting shared parts each time.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;
/// The maximum nesting of lists and maps.
pub(crate) const VALUE_DEPTH_MAX: usize = 300;
/// The memory limit of a compiled regular expression.
pub(crate) const REGEX_BYTES_MAX: usize = 1 << 20;

/// Steps between two checks of the deadline (cel-go: `InterruptCheckFrequency`).
const INTERRUPT_CHECK_FREQUENCY: u32 = 256;

/// Remaining cost, memory and time, shared by several expressions.
#[derive(Debug)]
pub struct EvaluationBudget {
    cost_left: u64,
    deadline: Option<Instant>,
    memory_left: usize,
    /// The remaining cost of the current expression.
    expression_cost_left: u64,
    steps: u32,
    pub(crate) depth: usize,
}

impl EvaluationBudget {
    /// A budget with this cost limit; evaluation is interrupted at the deadline.
    pub fn new(cost: u64, deadline: Option<Instant>) -> EvaluationBudget {
        EvaluationBudget {
            cost_left: cost,
            deadline,
            memory_left: MEMORY_BYTES_MAX,
            expression_cost_left: COST_PER_EXPRESSION_MAX,
            steps: 0,
            depth: 0,
        }
    }

    /// A budget of [`COST_PER_POLICY_MAX`].
    pub fn for_policy(deadline: Option<Instant>) -> EvaluationBudget {
        EvaluationBudget::new(COST_PER_POLICY_MAX, deadline)
    }

    /// A budget of [`COST_PER_MATCH_CONDITIONS_MAX`].
    pub fn for_match_conditions(deadline: Option<Instant>) -> EvaluationBudget {
        EvaluationBudget::new(COST_PER_MATCH_CONDITIONS_MAX, deadline)
    }

    pub fn cost_left(&self) -> u64 {
        self.cost_left
    }

    /// Begins an expression; returns the remaining cost of the enclosing one, for `end_expression`.
    pub(crate) fn begin_expression(&mut self) -> u64 {
        std::mem::replace(&mut self.expression_cost_left, COST_PER_EXPRESSION_MAX)
    }

    /// Ends an expression and deducts its cost from the shared budget.
    pub(crate) fn end_expression(&mut self, outer_cost_left: u64) -> Result<(), EvaluationError> {
        let cost = COST_PER_EXPRESSION_MAX.saturating_sub(self.expression_cost_left);
        self.expression_cost_left = outer_cost_left;
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
        match self.expression_cost_left.checked_sub(cost) {
            Some(left) => {
                self.expression_cost_left = left;
                Ok(())
            }
            None => {
                self.expression_cost_left = 0;
                Err(EvaluationError::CostExceeded)
            }
        }
    }

    /// Returns a cost that upstream does not charge in this position.
    pub(crate) fn refund(&mut self, cost: u64) {
        self.expression_cost_left = self
            .expression_cost_left
            .saturating_add(cost)
            .min(COST_PER_EXPRESSION_MAX);
    }

    /// Counts a unit of work, such as visiting one item, and checks the deadline from time to time.
    pub(crate) fn count_step(&mut self) -> Result<(), EvaluationError> {
        self.steps += 1;
        if self.steps < INTERRUPT_CHECK_FREQUENCY {
            return Ok(());
        }
        self.check_deadline()
    }

    /// Checks the deadline; called before expensive work.
    pub(crate) fn check_deadline(&mut self) -> Result<(), EvaluationError> {
        self.steps = 0;
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(EvaluationError::Interrupted),
            _ => Ok(()),
        }
    }

    /// Reserves memory before a value of this size is created.
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
