//! Copies an expression for macros that use one twice (cel-go: `ExprHelper.Copy`).

use super::{ParseAbort, ParseResult, Parser};
use crate::ast::{Expr, ExprKind};
use crate::compile_issue::CompileIssue;
use crate::limits;

impl Parser {
    /// Copies an expression and assigns new ids.
    pub(super) fn copy(&mut self, expr: &Expr) -> ParseResult<Expr> {
        let mut copy = expr.clone();
        self.assign_new_ids(&mut copy)?;
        Ok(copy)
    }

    pub(super) fn assign_new_ids(&mut self, expr: &mut Expr) -> ParseResult<()> {
        expr.id = self.next_id;
        self.next_id += 1;
        if self.next_id > limits::AST_NODES_MAX {
            self.issues.push(CompileIssue::without_location(
                "max recursion depth exceeded",
            ));
            return Err(ParseAbort);
        }
        match &mut *expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } | ExprKind::OptionalSelect { operand, .. } => {
                self.assign_new_ids(operand)?;
            }
            ExprKind::Call { target, args, .. } => {
                for child in target.as_deref_mut().into_iter().chain(args) {
                    self.assign_new_ids(child)?;
                }
            }
            ExprKind::Logical { terms, .. } => {
                for term in terms {
                    self.assign_new_ids(term)?;
                }
            }
            ExprKind::List(elements) => {
                for element in elements {
                    self.assign_new_ids(&mut element.value)?;
                }
            }
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.assign_new_ids(&mut entry.key)?;
                    self.assign_new_ids(&mut entry.value)?;
                }
            }
            ExprKind::Struct { fields, .. } => {
                for field in fields {
                    self.assign_new_ids(&mut field.value)?;
                }
            }
            ExprKind::Comprehension(comprehension) => {
                for child in [
                    &mut comprehension.iter_range,
                    &mut comprehension.accu_init,
                    &mut comprehension.loop_condition,
                    &mut comprehension.loop_step,
                    &mut comprehension.result,
                ] {
                    self.assign_new_ids(child)?;
                }
            }
        }
        Ok(())
    }
}
