//! Calls that are not functions but ways to write a loop, or a question whether a field is there.

use super::ast::{Element, Expr, Fold, Kind, Logic};
use super::parser::{Parser, Step};
use crate::value::Value;
use std::sync::Arc;

/// No one can write this name.
pub(crate) const ACCUMULATOR: &str = "@result";
const ACCUMULATOR_OLD: &str = "__result__";
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";

pub(super) fn global_call(
    parser: &mut Parser,
    at: usize,
    function: Arc<str>,
    mut args: Vec<Expr>,
) -> Step<Expr> {
    if &*function != "has" || args.len() != 1 {
        return parser.make(
            at,
            Kind::Call {
                function,
                target: None,
                args,
            },
        );
    }
    let arg = args.swap_remove(0);
    match *arg.kind {
        Kind::Select { operand, field, .. } => parser.make(
            at,
            Kind::Select {
                operand,
                field,
                test: true,
            },
        ),
        _ => refuse(parser, at, arg.at, "invalid argument to has() macro"),
    }
}

pub(super) fn member_call(
    parser: &mut Parser,
    at: usize,
    target: Expr,
    function: Arc<str>,
    args: Vec<Expr>,
) -> Step<Expr> {
    let mut builder = Builder { parser, at };
    match (&*function, args.len()) {
        ("all" | "exists" | "exists_one", 2) => builder.quantifier(&function, target, args),
        ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            builder.quantifier_of_two(&function, target, args)
        }
        ("map", 2 | 3) => builder.map(target, args),
        ("filter", 2) => builder.filter(target, args),
        ("transformList", 3 | 4) => builder.transform(Transform::List, target, args),
        ("transformMap", 3 | 4) => builder.transform(Transform::Map, target, args),
        ("transformMapEntry", 3 | 4) => builder.transform(Transform::MapEntry, target, args),
        ("sortBy", 2) => builder.sort_by(target, args),
        ("optMap", 2) => builder.optional_map("optMap", target, args),
        ("optFlatMap", 2) => builder.optional_map("optFlatMap", target, args),
        _ => builder.parser.make(
            at,
            Kind::Call {
                function,
                target: Some(Box::new(target)),
                args,
            },
        ),
    }
}

/// Notes what is wrong, and gives something to go on with.
fn refuse(parser: &mut Parser, at: usize, problem_at: usize, problem: &str) -> Step<Expr> {
    parser.note(problem_at, problem);
    parser.make(at, Kind::Literal(Value::Null))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transform {
    List,
    Map,
    MapEntry,
}

/// What a loop is made of, apart from what it runs over and the names of its variables.
struct Loop {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

struct Builder<'p> {
    parser: &'p mut Parser,
    at: usize,
}

impl Builder<'_> {
    fn literal(&mut self, value: Value) -> Step<Expr> {
        self.parser.make(self.at, Kind::Literal(value))
    }

    fn ident(&mut self, name: &str) -> Step<Expr> {
        self.parser.make(self.at, Kind::Ident(name.into()))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Step<Expr> {
        self.parser.operator(self.at, function, args)
    }

    fn logic(&mut self, operator: Logic, term: Expr) -> Step<Expr> {
        let terms = vec![self.ident(ACCUMULATOR)?, term];
        self.parser.make(self.at, Kind::Logic { operator, terms })
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Step<Expr> {
        let kind = Kind::Call {
            function: function.into(),
            target: Some(Box::new(target)),
            args,
        };
        self.parser.make(self.at, kind)
    }

    fn list(&mut self, values: Vec<Expr>) -> Step<Expr> {
        let element = |value| Element {
            optional: false,
            value,
        };
        let elements = values.into_iter().map(element).collect();
        self.parser.make(self.at, Kind::List(elements))
    }

    fn refuse(&mut self, problem_at: usize, problem: &str) -> Step<Expr> {
        refuse(self.parser, self.at, problem_at, problem)
    }

    /// The name that an argument is, unless it is none or taken.
    fn variable(&self, arg: &Expr, not_a_name: &'static str) -> Result<Arc<str>, &'static str> {
        match &*arg.kind {
            Kind::Ident(name) if matches!(&**name, ACCUMULATOR | ACCUMULATOR_OLD) => {
                Err("iteration variable overwrites accumulator variable")
            }
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(not_a_name),
        }
    }

    fn fold(
        &mut self,
        range: Expr,
        variable: Arc<str>,
        second: Option<Arc<str>>,
        body: Loop,
    ) -> Step<Expr> {
        let fold = Fold {
            range,
            variable,
            second,
            accumulator: ACCUMULATOR.into(),
            init: body.init,
            condition: body.condition,
            step: body.step,
            result: body.result,
        };
        self.parser.make(self.at, Kind::Fold(Box::new(fold)))
    }

    fn quantifier(&mut self, kind: &str, target: Expr, mut args: Vec<Expr>) -> Step<Expr> {
        let predicate = args.swap_remove(1);
        let variable = match self.variable(&args[0], "argument must be a simple name") {
            Ok(variable) => variable,
            Err(problem) => return self.refuse(args[0].at, problem),
        };
        let body = self.quantifier_loop(kind, predicate)?;
        self.fold(target, variable, None, body)
    }

    fn quantifier_of_two(&mut self, kind: &str, target: Expr, mut args: Vec<Expr>) -> Step<Expr> {
        let predicate = args.swap_remove(2);
        let (variable, second) = match self.two_variables(&args) {
            Ok(variables) => variables,
            Err((at, problem)) => return self.refuse(at, &problem),
        };
        let body = self.quantifier_loop(kind, predicate)?;
        self.fold(target, variable, Some(second), body)
    }

    fn two_variables(&self, args: &[Expr]) -> Result<(Arc<str>, Arc<str>), (usize, String)> {
        let name = |arg: &Expr| {
            self.variable(arg, "argument must be a simple name")
                .map_err(|problem| (arg.at, problem.to_owned()))
        };
        let (first, second) = (name(&args[0])?, name(&args[1])?);
        if first == second {
            return Err((args[1].at, format!("duplicate variable name: {first}")));
        }
        Ok((first, second))
    }

    fn quantifier_loop(&mut self, kind: &str, predicate: Expr) -> Step<Loop> {
        let accumulator = self.ident(ACCUMULATOR)?;
        Ok(match kind {
            "all" => Loop {
                init: self.literal(Value::Bool(true))?,
                condition: self.call("@not_strictly_false", vec![accumulator])?,
                step: self.logic(Logic::And, predicate)?,
                result: self.ident(ACCUMULATOR)?,
            },
            "exists" => {
                let not = self.call("!_", vec![accumulator])?;
                Loop {
                    init: self.literal(Value::Bool(false))?,
                    condition: self.call("@not_strictly_false", vec![not])?,
                    step: self.logic(Logic::Or, predicate)?,
                    result: self.ident(ACCUMULATOR)?,
                }
            }
            _ => {
                let one = self.literal(Value::Int(1))?;
                let more = self.call("_+_", vec![accumulator, one])?;
                let same = self.ident(ACCUMULATOR)?;
                let (found, once) = (self.ident(ACCUMULATOR)?, self.literal(Value::Int(1))?);
                Loop {
                    init: self.literal(Value::Int(0))?,
                    condition: self.literal(Value::Bool(true))?,
                    step: self.call("_?_:_", vec![predicate, more, same])?,
                    result: self.call("_==_", vec![found, once])?,
                }
            }
        })
    }

    /// A loop that makes a list or a map, of those that pass the filter.
    fn collecting(&mut self, init: Expr, step: Expr, filter: Option<Expr>) -> Step<Loop> {
        let step = match filter {
            Some(filter) => {
                let same = self.ident(ACCUMULATOR)?;
                self.call("_?_:_", vec![filter, step, same])?
            }
            None => step,
        };
        Ok(Loop {
            init,
            condition: self.literal(Value::Bool(true))?,
            step,
            result: self.ident(ACCUMULATOR)?,
        })
    }

    fn appending(&mut self, value: Expr, filter: Option<Expr>) -> Step<Loop> {
        let init = self.list(Vec::new())?;
        let accumulator = self.ident(ACCUMULATOR)?;
        let added = self.list(vec![value])?;
        let step = self.call("_+_", vec![accumulator, added])?;
        self.collecting(init, step, filter)
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> Step<Expr> {
        let variable = match self.variable(&args[0], "argument is not an identifier") {
            Ok(variable) => variable,
            Err(problem) => return self.refuse(args[0].at, problem),
        };
        let value = args.pop();
        let filter = (args.len() == 2).then(|| args.swap_remove(1));
        let Some(value) = value else {
            return self.refuse(self.at, "map needs an argument");
        };
        let body = self.appending(value, filter)?;
        self.fold(target, variable, None, body)
    }

    fn filter(&mut self, target: Expr, mut args: Vec<Expr>) -> Step<Expr> {
        let variable = match self.variable(&args[0], "argument is not an identifier") {
            Ok(variable) => variable,
            Err(problem) => return self.refuse(args[0].at, problem),
        };
        let predicate = args.swap_remove(1);
        let item = args.swap_remove(0);
        let body = self.appending(item, Some(predicate))?;
        self.fold(target, variable, None, body)
    }

    fn transform(&mut self, kind: Transform, target: Expr, mut args: Vec<Expr>) -> Step<Expr> {
        let (variable, second) = match self.two_variables(&args) {
            Ok(variables) => variables,
            Err((at, problem)) => return self.refuse(at, &problem),
        };
        let value = args.pop();
        let filter = (args.len() == 3).then(|| args.swap_remove(2));
        let Some(value) = value else {
            return self.refuse(self.at, "transform needs an argument");
        };
        let body = if kind == Transform::List {
            self.appending(value, filter)?
        } else {
            let init = self.parser.make(self.at, Kind::Map(Vec::new()))?;
            let mut insert = vec![self.ident(ACCUMULATOR)?];
            if kind == Transform::Map {
                insert.push(self.ident(&variable)?);
            }
            insert.push(value);
            let step = self.call("cel.@mapInsert", insert)?;
            self.collecting(init, step, filter)?
        };
        self.fold(target, variable, Some(second), body)
    }

    /// Gives a name to a value: a loop that does not run.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> Step<Expr> {
        let fold = Fold {
            range: self.list(Vec::new())?,
            variable: UNUSED.into(),
            second: None,
            accumulator: name.into(),
            init: value,
            condition: self.literal(Value::Bool(false))?,
            step: self.ident(name)?,
            result,
        };
        self.parser.make(self.at, Kind::Fold(Box::new(fold)))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Step<Expr> {
        if matches!(
            *target.kind,
            Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. }
        ) {
            return self.refuse(
                target.at,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
        }
        let input = self.ident(SORTED)?;
        let keys = self.map(input, args)?;
        let input = self.ident(SORTED)?;
        let sorted = self.member("@sortByAssociatedKeys", input, vec![keys])?;
        self.bind(SORTED, target, sorted)
    }

    fn optional_map(&mut self, kind: &str, target: Expr, mut args: Vec<Expr>) -> Step<Expr> {
        let result = args.swap_remove(1);
        let variable = match &*args[0].kind {
            Kind::Ident(name) => name.clone(),
            _ => {
                let problem = format!("{kind}() variable name must be a simple identifier");
                return self.refuse(args[0].at, &problem);
            }
        };
        let copy = self.parser.copy(&target)?;
        let has = self.member("hasValue", target, Vec::new())?;
        let value = self.member("value", copy, Vec::new())?;
        let bound = self.bind(&variable, value, result)?;
        let mapped = match kind {
            "optMap" => self.optional_function("of", vec![bound])?,
            _ => bound,
        };
        let none = self.optional_function("none", Vec::new())?;
        self.call("_?_:_", vec![has, mapped, none])
    }

    fn optional_function(&mut self, name: &str, args: Vec<Expr>) -> Step<Expr> {
        self.call(&format!("optional.{name}"), args)
    }
}
