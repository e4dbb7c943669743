//! Copies of expressions, for macros that need one twice.

use super::ast::{Expr, Kind};
use super::issue::Issue;
use super::parser::{Parser, Step, Stop};
use crate::limits;

impl Parser {
    /// A copy with numbers of its own.
    pub(super) fn copy(&mut self, expr: &Expr) -> Step<Expr> {
        let mut copy = expr.clone();
        self.renumber(&mut copy)?;
        Ok(copy)
    }

    pub(super) fn renumber(&mut self, expr: &mut Expr) -> Step<()> {
        expr.id = self.ids;
        self.ids += 1;
        if self.ids > limits::NODES_MAX {
            self.issues
                .push(Issue::nowhere("max recursion depth exceeded"));
            return Err(Stop);
        }
        match &mut *expr.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } | Kind::OptionalSelect { operand, .. } => {
                self.renumber(operand)?;
            }
            Kind::Call { target, args, .. } => {
                for child in target.as_deref_mut().into_iter().chain(args) {
                    self.renumber(child)?;
                }
            }
            Kind::Logic { terms, .. } => {
                for term in terms {
                    self.renumber(term)?;
                }
            }
            Kind::List(elements) => {
                for element in elements {
                    self.renumber(&mut element.value)?;
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key)?;
                    self.renumber(&mut entry.value)?;
                }
            }
            Kind::Struct { fields, .. } => {
                for field in fields {
                    self.renumber(&mut field.value)?;
                }
            }
            Kind::Fold(fold) => {
                for child in [
                    &mut fold.range,
                    &mut fold.init,
                    &mut fold.condition,
                    &mut fold.step,
                    &mut fold.result,
                ] {
                    self.renumber(child)?;
                }
            }
        }
        Ok(())
    }
}
