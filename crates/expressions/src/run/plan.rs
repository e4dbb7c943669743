//! A tree that is ready to run: names are resolved, constants are computed, and costs are known where they are fixed.

use super::cost::Cost;
use crate::check::{Checked, Reference};
use crate::environment::Root;
use crate::error::EvaluationError;
use crate::inputs::{Inputs, Scope};
use crate::library::{self, Function, regexes};
use crate::limits::Budget;
use crate::run::Machine;
use crate::syntax::ast::{Element, Entry, Expr, FieldInit, Fold, Kind, Logic};
use crate::value::{Key, List, Map, Value};
use regex::Regex;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    /// How many variables of loops there are at once, at most.
    pub(crate) locals: usize,
}

#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value),
    Local(usize),
    Root(Root),
    Variable(Arc<str>),
    Select(Box<Select>),
    Index(Box<Index>),
    Logic(Logic, Vec<Node>),
    If(Box<[Node; 3]>),
    /// An optional, and what is asked for if it is none.
    Otherwise(Box<Otherwise>),
    Call(Box<Call>),
    List(Vec<(bool, Node)>),
    Map(Vec<(bool, Node, Node)>),
    Message(Box<Message>),
    Fold(Box<FoldPlan>),
    /// Whether the value is one of these.
    OneOf(Box<Node>, List),
}

#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) operand: Node,
    pub(crate) field: Arc<str>,
    pub(crate) kind: SelectKind,
    /// What follows a computed value costs one more than what follows a name.
    pub(crate) extra_cost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectKind {
    Plain,
    Test,
    Optional,
}

#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) operand: Node,
    pub(crate) index: Node,
    pub(crate) optional: bool,
    pub(crate) extra_cost: u64,
}

#[derive(Debug)]
pub(crate) struct Otherwise {
    pub(crate) optional: Node,
    pub(crate) otherwise: Node,
    /// Whether the value is wanted that the optional holds, and not the optional.
    pub(crate) unwrap: bool,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    pub(crate) cost: Cost,
    pub(crate) args: Vec<Node>,
    /// The pattern, if it does not have to be compiled every time.
    pub(crate) regex: Option<Arc<Regex>>,
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) type_name: Arc<str>,
    pub(crate) fields: Vec<(bool, Arc<str>, Node)>,
}

#[derive(Debug)]
pub(crate) struct FoldPlan {
    pub(crate) range: Node,
    /// Where the accumulator is; the variables come after it.
    pub(crate) slot: usize,
    pub(crate) two: bool,
    pub(crate) init: Node,
    pub(crate) body: Body,
    pub(crate) result: Node,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// `all` and `exists`: errors are forgotten if another item decides.
    Quantifier(Logic, Node),
    /// Every item is looked at.
    Every(Step),
    /// No item is: the loop only gives a name to a value.
    Bind,
    /// And nobody uses the name.
    Unused,
}

/// What a turn of a loop does to the accumulator.
#[derive(Debug)]
pub(crate) enum Step {
    Keep,
    Append(Node),
    Insert(Node, Node),
    Merge(Node),
    Set(Node),
    When(Node, Box<Step>),
}

/// What stands in the way of running an expression that has been checked.
pub(crate) fn plan(root: &Expr, checked: &Checked) -> Result<Plan, EvaluationError> {
    let mut planner = Planner {
        checked,
        scope: Vec::new(),
        used: Vec::new(),
        locals: 0,
    };
    let root = planner.node(root)?;
    Ok(Plan {
        root,
        locals: planner.locals,
    })
}

type Planned<T> = Result<T, EvaluationError>;

struct Planner<'c> {
    checked: &'c Checked,
    scope: Vec<Arc<str>>,
    /// Which of them have been named.
    used: Vec<bool>,
    locals: usize,
}

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Planned<Node> {
        Ok(match &*expr.kind {
            Kind::Literal(value) => Node::Constant(value.clone()),
            Kind::Ident(_) => self.name(expr)?,
            Kind::Select { .. } if self.checked.references[expr.id].is_some() => self.name(expr)?,
            Kind::Select {
                operand,
                field,
                test,
            } => {
                let kind = match test {
                    true => SelectKind::Test,
                    false => SelectKind::Plain,
                };
                self.select(operand, field, kind)?
            }
            Kind::OptionalSelect { operand, field } => {
                self.select(operand, field, SelectKind::Optional)?
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(expr, function, target.as_deref(), args)?,
            Kind::Logic { operator, terms } => {
                let terms: Planned<Vec<Node>> = terms.iter().map(|term| self.node(term)).collect();
                Node::Logic(*operator, terms?)
            }
            Kind::List(elements) => self.list(elements)?,
            Kind::Map(entries) => self.map(entries)?,
            Kind::Struct { name, fields } => self.message(name, fields)?,
            Kind::Fold(fold) => self.fold(fold)?,
        })
    }

    fn name(&mut self, expr: &Expr) -> Planned<Node> {
        match &self.checked.references[expr.id] {
            Some(Reference::Local(name)) => {
                let slot = self.scope.iter().rposition(|scope| scope == name);
                let slot = slot.unwrap_or_default();
                if let Some(used) = self.used.get_mut(slot) {
                    *used = true;
                }
                Ok(Node::Local(slot))
            }
            Some(Reference::Root(root)) => Ok(Node::Root(*root)),
            Some(Reference::Type(name)) => match &**name {
                "timestamp" | "duration" => Err(undefined_type(name)),
                _ if name.starts_with("Object") => Err(undefined_type(name)),
                _ => Ok(Node::Constant(Value::Type(name.clone()))),
            },
            _ => Err(EvaluationError::new("unsupported expr")),
        }
    }

    fn select(&mut self, operand: &Expr, field: &Arc<str>, kind: SelectKind) -> Planned<Node> {
        let operand = self.node(operand)?;
        if matches!(operand, Node::Root(Root::Variables)) && kind == SelectKind::Plain {
            return Ok(Node::Variable(field.clone()));
        }
        Ok(Node::Select(Box::new(Select {
            extra_cost: extra_cost(&operand),
            operand,
            field: field.clone(),
            kind,
        })))
    }

    fn call(
        &mut self,
        expr: &Expr,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Planned<Node> {
        let Some(Reference::Function(declared, overload)) = self.checked.references[expr.id] else {
            return Err(EvaluationError::new(format!("no such overload: {name}")));
        };
        // A target that is part of the function's name is no argument.
        let target = target.filter(|_| name == declared);
        let args: Planned<Vec<Node>> = target
            .into_iter()
            .chain(args)
            .map(|arg| self.node(arg))
            .collect();
        let mut args = args?;
        match (declared, args.len()) {
            ("_?_:_", 3) => {
                if let Ok(args) = <[Node; 3]>::try_from(args) {
                    return Ok(Node::If(Box::new(args)));
                }
                return Err(EvaluationError::no_overload());
            }
            ("_[_]" | "_[?_]", 2) => {
                let (Some(index), Some(operand)) = (args.pop(), args.pop()) else {
                    return Err(EvaluationError::no_overload());
                };
                return Ok(Node::Index(Box::new(Index {
                    extra_cost: extra_cost(&operand),
                    operand,
                    index,
                    optional: declared == "_[?_]",
                })));
            }
            ("or" | "orValue", 2) => {
                let (Some(otherwise), Some(optional)) = (args.pop(), args.pop()) else {
                    return Err(EvaluationError::no_overload());
                };
                return Ok(Node::Otherwise(Box::new(Otherwise {
                    optional,
                    otherwise,
                    unwrap: declared == "orValue",
                })));
            }
            ("@in", 2) => {
                if let Some(node) = one_of(&mut args) {
                    return Ok(node);
                }
            }
            _ => {}
        }
        let function = library::find(declared)
            .ok_or_else(|| EvaluationError::new(format!("no such overload: {declared}")))?;
        let call = Call {
            name: declared,
            function,
            cost: Cost::of(declared, overload),
            regex: constant_regex(declared, &args)?,
            args,
        };
        if library::is_conversion(declared) && matches!(call.args[..], [Node::Constant(_)]) {
            return constant(Node::Call(Box::new(call)));
        }
        Ok(Node::Call(Box::new(call)))
    }

    fn list(&mut self, elements: &[Element]) -> Planned<Node> {
        let nodes: Planned<Vec<(bool, Node)>> = elements
            .iter()
            .map(|element| Ok((element.optional, self.node(&element.value)?)))
            .collect();
        let nodes = nodes?;
        match nodes
            .iter()
            .all(|node| matches!(node, (false, Node::Constant(_))))
        {
            true => constant(Node::List(nodes)),
            false => Ok(Node::List(nodes)),
        }
    }

    fn map(&mut self, entries: &[Entry]) -> Planned<Node> {
        let nodes: Planned<Vec<(bool, Node, Node)>> = entries
            .iter()
            .map(|entry| {
                Ok((
                    entry.optional,
                    self.node(&entry.key)?,
                    self.node(&entry.value)?,
                ))
            })
            .collect();
        let nodes = nodes?;
        let constants: Option<Map> = nodes
            .iter()
            .map(|node| match node {
                (false, Node::Constant(key), Node::Constant(value)) => {
                    Some((Key::from_value(key)?, value.clone()))
                }
                _ => None,
            })
            .collect();
        Ok(match constants {
            Some(map) => Node::Constant(Value::Map(Arc::new(map))),
            None => Node::Map(nodes),
        })
    }

    fn message(&mut self, name: &str, fields: &[FieldInit]) -> Planned<Node> {
        let fields: Planned<Vec<(bool, Arc<str>, Node)>> = fields
            .iter()
            .map(|field| Ok((field.optional, field.name.clone(), self.node(&field.value)?)))
            .collect();
        Ok(Node::Message(Box::new(Message {
            type_name: name.strip_prefix('.').unwrap_or(name).into(),
            fields: fields?,
        })))
    }

    fn fold(&mut self, fold: &Fold) -> Planned<Node> {
        let range = self.node(&fold.range)?;
        let init = self.node(&fold.init)?;
        let slot = self.scope.len();
        self.scope.push(fold.accumulator.clone());
        self.scope.push(fold.variable.clone());
        self.scope.extend(fold.second.clone());
        self.locals = self.locals.max(self.scope.len());
        self.used.resize(self.scope.len(), false);
        let mut body = self.body(fold, slot)?;
        self.scope.truncate(slot + 1);
        self.used.truncate(slot);
        self.used.push(false);
        let result = self.node(&fold.result)?;
        if matches!(body, Body::Bind) && !self.used[slot] {
            body = Body::Unused;
        }
        self.scope.truncate(slot);
        self.used.truncate(slot);
        Ok(Node::Fold(Box::new(FoldPlan {
            range,
            slot,
            two: fold.second.is_some(),
            init,
            body,
            result,
        })))
    }

    fn body(&mut self, fold: &Fold, slot: usize) -> Planned<Body> {
        if let Kind::Literal(Value::Bool(false)) = *fold.condition.kind {
            return Ok(Body::Bind);
        }
        if let Kind::Logic { operator, terms } = &*fold.step.kind
            && let [_, predicate] = &terms[..]
        {
            return Ok(Body::Quantifier(*operator, self.node(predicate)?));
        }
        Ok(Body::Every(self.step(&fold.step, slot)?))
    }

    /// The steps that macros are made of; each begins with the accumulator, which is therefore not evaluated.
    fn step(&mut self, expr: &Expr, slot: usize) -> Planned<Step> {
        let is_accumulator = |planner: &Planner<'_>, expr: &Expr| matches!(&*expr.kind, Kind::Ident(name) if *name == planner.scope[slot]);
        if is_accumulator(self, expr) {
            return Ok(Step::Keep);
        }
        let Kind::Call { function, args, .. } = &*expr.kind else {
            return Ok(Step::Set(self.node(expr)?));
        };
        Ok(match (&**function, &args[..]) {
            ("_?_:_", [condition, then, otherwise]) if is_accumulator(self, otherwise) => {
                let condition = self.node(condition)?;
                Step::When(condition, Box::new(self.step(then, slot)?))
            }
            ("_+_", [first, second]) if is_accumulator(self, first) => match &*second.kind {
                Kind::List(elements) if elements.len() == 1 => {
                    Step::Append(self.node(&elements[0].value)?)
                }
                _ => Step::Set(self.node(expr)?),
            },
            ("cel.@mapInsert", [_, key, value]) => Step::Insert(self.node(key)?, self.node(value)?),
            ("cel.@mapInsert", [_, map]) => Step::Merge(self.node(map)?),
            _ => Step::Set(self.node(expr)?),
        })
    }
}

fn undefined_type(name: &str) -> EvaluationError {
    EvaluationError::new(format!("reference to undefined type: {name}"))
}

fn extra_cost(operand: &Node) -> u64 {
    u64::from(!operand.is_path())
}

impl Node {
    /// Whether it is a name and what is selected from it.
    pub(crate) fn is_path(&self) -> bool {
        matches!(
            self,
            Node::Local(_) | Node::Root(_) | Node::Variable(_) | Node::Select(_) | Node::Index(_)
        )
    }
}

/// A search in a list of constants needs no list.
fn one_of(args: &mut Vec<Node>) -> Option<Node> {
    let Some(Node::Constant(Value::List(list))) = args.get(1) else {
        return None;
    };
    let list = List::clone(list);
    args.truncate(1);
    Some(Node::OneOf(Box::new(args.pop()?), list))
}

fn constant_regex(function: &str, args: &[Node]) -> Planned<Option<Arc<Regex>>> {
    match (function, args.get(1)) {
        ("matches" | "find" | "findAll", Some(Node::Constant(Value::String(pattern)))) => {
            regexes::compile(pattern).map(|regex| Some(Arc::new(regex)))
        }
        _ => Ok(None),
    }
}

/// Evaluates what does not depend on any input.
fn constant(node: Node) -> Planned<Node> {
    let plan = Plan {
        root: node,
        locals: 0,
    };
    let inputs = Inputs::default();
    let mut scope = Scope::new(&inputs);
    let mut budget = Budget::for_policy(None);
    budget.begin();
    Machine::new(&plan, &mut scope, &mut budget)
        .run()
        .map(Node::Constant)
}
