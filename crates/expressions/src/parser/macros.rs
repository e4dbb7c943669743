//! Macro expansion: `has`, and the macros that become comprehensions (cel-go: `parser/macro.go`, `ext/comprehensions.go`,
//! `ext/lists.go`).

use super::{ParseResult, Parser};
use crate::ast::{ComprehensionExpr, Expr, ExprKind, ListElement, LogicalOperator};
use crate::value::Value;
use std::sync::Arc;

/// The accumulator variable; not a valid identifier, so that expressions cannot name it.
pub(crate) const ACCUMULATOR_NAME: &str = "@result";
const LEGACY_ACCUMULATOR_NAME: &str = "__result__";
const UNUSED_ITER_VAR: &str = "#unused";
const SORT_BY_INPUT: &str = "@__sortBy_input__";

pub(super) fn global_call(
    parser: &mut Parser,
    offset: usize,
    function: Arc<str>,
    mut args: Vec<Expr>,
) -> ParseResult<Expr> {
    if &*function != "has" || args.len() != 1 {
        return parser.new_expr(
            offset,
            ExprKind::Call {
                function,
                target: None,
                args,
            },
        );
    }
    let arg = args.swap_remove(0);
    match *arg.kind {
        ExprKind::Select { operand, field, .. } => parser.new_expr(
            offset,
            ExprKind::Select {
                operand,
                field,
                test_only: true,
            },
        ),
        _ => report_error(
            parser,
            offset,
            arg.offset,
            "invalid argument to has() macro",
        ),
    }
}

pub(super) fn member_call(
    parser: &mut Parser,
    offset: usize,
    target: Expr,
    function: Arc<str>,
    args: Vec<Expr>,
) -> ParseResult<Expr> {
    let mut expander = MacroExpander { parser, offset };
    match (&*function, args.len()) {
        ("all" | "exists" | "exists_one", 2) => expander.quantifier(&function, target, args),
        ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            expander.two_variable_quantifier(&function, target, args)
        }
        ("map", 2 | 3) => expander.map(target, args),
        ("filter", 2) => expander.filter(target, args),
        ("transformList", 3 | 4) => expander.transform(TransformMacro::List, target, args),
        ("transformMap", 3 | 4) => expander.transform(TransformMacro::Map, target, args),
        ("transformMapEntry", 3 | 4) => expander.transform(TransformMacro::MapEntry, target, args),
        ("sortBy", 2) => expander.sort_by(target, args),
        ("optMap", 2) => expander.opt_map("optMap", target, args),
        ("optFlatMap", 2) => expander.opt_map("optFlatMap", target, args),
        _ => expander.parser.new_expr(
            offset,
            ExprKind::Call {
                function,
                target: Some(Box::new(target)),
                args,
            },
        ),
    }
}

/// Reports an error and returns a placeholder, so that parsing can continue.
fn report_error(
    parser: &mut Parser,
    offset: usize,
    error_offset: usize,
    message: &str,
) -> ParseResult<Expr> {
    parser.report(error_offset, message);
    parser.new_expr(offset, ExprKind::Literal(Value::Null))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransformMacro {
    List,
    Map,
    MapEntry,
}

/// The expressions of a comprehension other than its range.
struct ComprehensionLoop {
    accu_init: Expr,
    loop_condition: Expr,
    loop_step: Expr,
    result: Expr,
}

struct MacroExpander<'p> {
    parser: &'p mut Parser,
    offset: usize,
}

impl MacroExpander<'_> {
    fn literal(&mut self, value: Value) -> ParseResult<Expr> {
        self.parser.new_expr(self.offset, ExprKind::Literal(value))
    }

    fn ident(&mut self, name: &str) -> ParseResult<Expr> {
        self.parser
            .new_expr(self.offset, ExprKind::Ident(name.into()))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> ParseResult<Expr> {
        self.parser.operator(self.offset, function, args)
    }

    fn logical(&mut self, operator: LogicalOperator, term: Expr) -> ParseResult<Expr> {
        let terms = vec![self.ident(ACCUMULATOR_NAME)?, term];
        self.parser
            .new_expr(self.offset, ExprKind::Logical { operator, terms })
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> ParseResult<Expr> {
        let kind = ExprKind::Call {
            function: function.into(),
            target: Some(Box::new(target)),
            args,
        };
        self.parser.new_expr(self.offset, kind)
    }

    fn list(&mut self, values: Vec<Expr>) -> ParseResult<Expr> {
        let element = |value| ListElement {
            optional: false,
            value,
        };
        let elements = values.into_iter().map(element).collect();
        self.parser.new_expr(self.offset, ExprKind::List(elements))
    }

    fn report_error(&mut self, error_offset: usize, message: &str) -> ParseResult<Expr> {
        report_error(self.parser, self.offset, error_offset, message)
    }

    /// The iteration variable named by a macro argument.
    fn iter_var(
        &self,
        arg: &Expr,
        not_ident_message: &'static str,
    ) -> Result<Arc<str>, &'static str> {
        match &*arg.kind {
            ExprKind::Ident(name)
                if matches!(&**name, ACCUMULATOR_NAME | LEGACY_ACCUMULATOR_NAME) =>
            {
                Err("iteration variable overwrites accumulator variable")
            }
            ExprKind::Ident(name) => Ok(name.clone()),
            _ => Err(not_ident_message),
        }
    }

    fn comprehension(
        &mut self,
        iter_range: Expr,
        iter_var: Arc<str>,
        iter_var2: Option<Arc<str>>,
        loop_exprs: ComprehensionLoop,
    ) -> ParseResult<Expr> {
        let comprehension = ComprehensionExpr {
            iter_range,
            iter_var,
            iter_var2,
            accu_var: ACCUMULATOR_NAME.into(),
            accu_init: loop_exprs.accu_init,
            loop_condition: loop_exprs.loop_condition,
            loop_step: loop_exprs.loop_step,
            result: loop_exprs.result,
        };
        self.parser.new_expr(
            self.offset,
            ExprKind::Comprehension(Box::new(comprehension)),
        )
    }

    fn quantifier(&mut self, kind: &str, target: Expr, mut args: Vec<Expr>) -> ParseResult<Expr> {
        let predicate = args.swap_remove(1);
        let iter_var = match self.iter_var(&args[0], "argument must be a simple name") {
            Ok(iter_var) => iter_var,
            Err(message) => return self.report_error(args[0].offset, message),
        };
        let loop_exprs = self.quantifier_loop(kind, predicate)?;
        self.comprehension(target, iter_var, None, loop_exprs)
    }

    fn two_variable_quantifier(
        &mut self,
        kind: &str,
        target: Expr,
        mut args: Vec<Expr>,
    ) -> ParseResult<Expr> {
        let predicate = args.swap_remove(2);
        let (iter_var, iter_var2) = match self.two_iter_vars(&args) {
            Ok(variables) => variables,
            Err((offset, message)) => return self.report_error(offset, &message),
        };
        let loop_exprs = self.quantifier_loop(kind, predicate)?;
        self.comprehension(target, iter_var, Some(iter_var2), loop_exprs)
    }

    fn two_iter_vars(&self, args: &[Expr]) -> Result<(Arc<str>, Arc<str>), (usize, String)> {
        let name = |arg: &Expr| {
            self.iter_var(arg, "argument must be a simple name")
                .map_err(|message| (arg.offset, message.to_owned()))
        };
        let (first, iter_var2) = (name(&args[0])?, name(&args[1])?);
        if first == iter_var2 {
            return Err((args[1].offset, format!("duplicate variable name: {first}")));
        }
        Ok((first, iter_var2))
    }

    fn quantifier_loop(&mut self, kind: &str, predicate: Expr) -> ParseResult<ComprehensionLoop> {
        let accu_var = self.ident(ACCUMULATOR_NAME)?;
        Ok(match kind {
            "all" => ComprehensionLoop {
                accu_init: self.literal(Value::Bool(true))?,
                loop_condition: self.call("@not_strictly_false", vec![accu_var])?,
                loop_step: self.logical(LogicalOperator::And, predicate)?,
                result: self.ident(ACCUMULATOR_NAME)?,
            },
            "exists" => {
                let not = self.call("!_", vec![accu_var])?;
                ComprehensionLoop {
                    accu_init: self.literal(Value::Bool(false))?,
                    loop_condition: self.call("@not_strictly_false", vec![not])?,
                    loop_step: self.logical(LogicalOperator::Or, predicate)?,
                    result: self.ident(ACCUMULATOR_NAME)?,
                }
            }
            _ => {
                let one = self.literal(Value::Int(1))?;
                let more = self.call("_+_", vec![accu_var, one])?;
                let same = self.ident(ACCUMULATOR_NAME)?;
                let (matches, one) = (self.ident(ACCUMULATOR_NAME)?, self.literal(Value::Int(1))?);
                ComprehensionLoop {
                    accu_init: self.literal(Value::Int(0))?,
                    loop_condition: self.literal(Value::Bool(true))?,
                    loop_step: self.call("_?_:_", vec![predicate, more, same])?,
                    result: self.call("_==_", vec![matches, one])?,
                }
            }
        })
    }

    /// A loop that collects the elements that pass the filter into a list or a map.
    fn collect_loop(
        &mut self,
        accu_init: Expr,
        loop_step: Expr,
        filter: Option<Expr>,
    ) -> ParseResult<ComprehensionLoop> {
        let loop_step = match filter {
            Some(filter) => {
                let same = self.ident(ACCUMULATOR_NAME)?;
                self.call("_?_:_", vec![filter, loop_step, same])?
            }
            None => loop_step,
        };
        Ok(ComprehensionLoop {
            accu_init,
            loop_condition: self.literal(Value::Bool(true))?,
            loop_step,
            result: self.ident(ACCUMULATOR_NAME)?,
        })
    }

    fn append_loop(&mut self, value: Expr, filter: Option<Expr>) -> ParseResult<ComprehensionLoop> {
        let accu_init = self.list(Vec::new())?;
        let accu_var = self.ident(ACCUMULATOR_NAME)?;
        let added = self.list(vec![value])?;
        let loop_step = self.call("_+_", vec![accu_var, added])?;
        self.collect_loop(accu_init, loop_step, filter)
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> ParseResult<Expr> {
        let iter_var = match self.iter_var(&args[0], "argument is not an identifier") {
            Ok(iter_var) => iter_var,
            Err(message) => return self.report_error(args[0].offset, message),
        };
        let value = args.pop();
        let filter = (args.len() == 2).then(|| args.swap_remove(1));
        let Some(value) = value else {
            return self.report_error(self.offset, "map needs an argument");
        };
        let loop_exprs = self.append_loop(value, filter)?;
        self.comprehension(target, iter_var, None, loop_exprs)
    }

    fn filter(&mut self, target: Expr, mut args: Vec<Expr>) -> ParseResult<Expr> {
        let iter_var = match self.iter_var(&args[0], "argument is not an identifier") {
            Ok(iter_var) => iter_var,
            Err(message) => return self.report_error(args[0].offset, message),
        };
        let predicate = args.swap_remove(1);
        let item = args.swap_remove(0);
        let loop_exprs = self.append_loop(item, Some(predicate))?;
        self.comprehension(target, iter_var, None, loop_exprs)
    }

    fn transform(
        &mut self,
        kind: TransformMacro,
        target: Expr,
        mut args: Vec<Expr>,
    ) -> ParseResult<Expr> {
        let (iter_var, iter_var2) = match self.two_iter_vars(&args) {
            Ok(variables) => variables,
            Err((offset, message)) => return self.report_error(offset, &message),
        };
        let value = args.pop();
        let filter = (args.len() == 3).then(|| args.swap_remove(2));
        let Some(value) = value else {
            return self.report_error(self.offset, "transform needs an argument");
        };
        let loop_exprs = if kind == TransformMacro::List {
            self.append_loop(value, filter)?
        } else {
            let accu_init = self
                .parser
                .new_expr(self.offset, ExprKind::Map(Vec::new()))?;
            let mut insert = vec![self.ident(ACCUMULATOR_NAME)?];
            if kind == TransformMacro::Map {
                insert.push(self.ident(&iter_var)?);
            }
            insert.push(value);
            let loop_step = self.call("cel.@mapInsert", insert)?;
            self.collect_loop(accu_init, loop_step, filter)?
        };
        self.comprehension(target, iter_var, Some(iter_var2), loop_exprs)
    }

    /// Binds a name to a value (`cel.bind`): a comprehension over an empty list.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> ParseResult<Expr> {
        let comprehension = ComprehensionExpr {
            iter_range: self.list(Vec::new())?,
            iter_var: UNUSED_ITER_VAR.into(),
            iter_var2: None,
            accu_var: name.into(),
            accu_init: value,
            loop_condition: self.literal(Value::Bool(false))?,
            loop_step: self.ident(name)?,
            result,
        };
        self.parser.new_expr(
            self.offset,
            ExprKind::Comprehension(Box::new(comprehension)),
        )
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> ParseResult<Expr> {
        if matches!(
            *target.kind,
            ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct { .. }
        ) {
            return self.report_error(
                target.offset,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
        }
        let input = self.ident(SORT_BY_INPUT)?;
        let keys = self.map(input, args)?;
        let input = self.ident(SORT_BY_INPUT)?;
        let sorted = self.member("@sortByAssociatedKeys", input, vec![keys])?;
        self.bind(SORT_BY_INPUT, target, sorted)
    }

    fn opt_map(&mut self, kind: &str, target: Expr, mut args: Vec<Expr>) -> ParseResult<Expr> {
        let result = args.swap_remove(1);
        let iter_var = match &*args[0].kind {
            ExprKind::Ident(name) => name.clone(),
            _ => {
                let message = format!("{kind}() variable name must be a simple identifier");
                return self.report_error(args[0].offset, &message);
            }
        };
        let copy = self.parser.copy(&target)?;
        let has = self.member("hasValue", target, Vec::new())?;
        let value = self.member("value", copy, Vec::new())?;
        let bound = self.bind(&iter_var, value, result)?;
        let mapped = match kind {
            "optMap" => self.optional_call("of", vec![bound])?,
            _ => bound,
        };
        let none = self.optional_call("none", Vec::new())?;
        self.call("_?_:_", vec![has, mapped, none])
    }

    fn optional_call(&mut self, name: &str, args: Vec<Expr>) -> ParseResult<Expr> {
        self.call(&format!("optional.{name}"), args)
    }
}
