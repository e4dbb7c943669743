//! Evaluation.

pub(crate) mod compare;
mod cost;
mod folds;
mod plan;

pub(crate) use plan::{Plan, plan};

use crate::environment::Root;
use crate::error::{Evaluated, EvaluationError};
use crate::inputs::Scope;
use crate::library::{self, opaque::Opaque};
use crate::limits::{self, Budget};
use crate::syntax::ast::Logic;
use crate::value::{ITEM_BYTES, Key, List, Map, Object, Patch, Value};
use plan::{Call, Index, Message, Node, Otherwise, Select, SelectKind};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::Arc;

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const MESSAGE_COST: u64 = 40;

/// One evaluation of one expression.
#[derive(Debug)]
pub(crate) struct Machine<'m, 's> {
    plan: &'m Plan,
    pub(crate) scope: &'m mut Scope<'s>,
    pub(crate) budget: &'m mut Budget,
    locals: Vec<Value>,
    /// The pattern of the call that is running, if it was compiled beforehand. Shared, because a copy would begin
    /// without what the pattern has learned.
    pub(crate) regex: Option<Arc<Regex>>,
}

impl<'m, 's> Machine<'m, 's> {
    pub(crate) fn new(
        plan: &'m Plan,
        scope: &'m mut Scope<'s>,
        budget: &'m mut Budget,
    ) -> Machine<'m, 's> {
        Machine {
            plan,
            scope,
            budget,
            locals: vec![Value::Null; plan.locals],
            regex: None,
        }
    }

    pub(crate) fn run(mut self) -> Evaluated<Value> {
        self.budget.look_at_clock()?;
        let plan = self.plan;
        self.evaluate(&plan.root)
    }

    fn evaluate(&mut self, node: &Node) -> Evaluated<Value> {
        self.budget.step()?;
        if self.budget.depth >= limits::EVALUATION_DEPTH_MAX {
            return Err(EvaluationError::TooDeep);
        }
        self.budget.depth += 1;
        let value = self.dispatch(node);
        self.budget.depth -= 1;
        value
    }

    fn dispatch(&mut self, node: &Node) -> Evaluated<Value> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Local(slot) => {
                self.budget.charge(1)?;
                Ok(self.locals[*slot].clone())
            }
            Node::Root(root) => self.root(*root),
            Node::Variable(name) => {
                self.budget.charge(2)?;
                self.scope.variable(name, self.budget)
            }
            Node::Select(select) => self.select(select),
            Node::Index(index) => self.index(index),
            Node::Logic(operator, terms) => self.logic(*operator, terms),
            Node::If(parts) => self.conditional(parts),
            Node::Otherwise(parts) => self.otherwise(parts),
            Node::Call(call) => self.call(call),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Message(message) => self.message(message),
            Node::Fold(fold) => self.fold(fold),
            Node::OneOf(item, list) => {
                let item = self.evaluate(item)?;
                self.one_of(&item, list)
            }
        }
    }

    fn root(&mut self, root: Root) -> Evaluated<Value> {
        self.budget.charge(1)?;
        let inputs = self.scope.inputs;
        let missing = |name: &str| EvaluationError::new(format!("no such attribute(s): {name}"));
        Ok(match root {
            Root::Object => inputs.object.value().clone(),
            Root::OldObject => inputs.old_object.value().clone(),
            Root::Request => inputs.request.value().clone(),
            Root::NamespaceObject => inputs.namespace_object.value().clone(),
            Root::Params => match self.scope.params {
                Some(params) => params.value().clone(),
                None => Value::Null,
            },
            Root::Authorizer => match inputs.authorizer {
                Some(_) => Value::Opaque(Opaque::Authorizer(Arc::default())),
                None => return Err(missing("authorizer")),
            },
            Root::RequestResource => match inputs.authorizer {
                Some(_) => Value::Opaque(Opaque::ResourceCheck(Arc::new((
                    Arc::default(),
                    inputs.request_resource.clone(),
                )))),
                None => return Err(missing("authorizer.requestResource")),
            },
            // What variables there are is known when they are named one by one.
            Root::Variables => Value::Map(Arc::default()),
        })
    }

    fn select(&mut self, select: &Select) -> Evaluated<Value> {
        if let (Node::Root(Root::Variables), false) =
            (&select.operand, select.kind == SelectKind::Plain)
        {
            self.budget.charge(1)?;
            let value = self.scope.variable(&select.field, self.budget)?;
            return Ok(match select.kind {
                SelectKind::Test => Value::Bool(true),
                _ => Value::some(value),
            });
        }
        let operand = self.evaluate(&select.operand)?;
        self.budget.charge(select.extra_cost)?;
        if let Value::Optional(inner) = &operand {
            return self.select_from_optional(select, inner.as_deref());
        }
        let found = field(&operand, &select.field)?;
        match select.kind {
            SelectKind::Test => Ok(Value::Bool(is_set(&operand, &select.field, found.as_ref()))),
            SelectKind::Plain => {
                self.budget.charge(1)?;
                found.ok_or_else(|| no_such_key(&Value::String(select.field.clone())))
            }
            SelectKind::Optional => self.optional(found),
        }
    }

    fn optional(&mut self, found: Option<Value>) -> Evaluated<Value> {
        Ok(match found {
            Some(value) => {
                self.budget.charge(1)?;
                Value::some(value)
            }
            None => Value::NONE,
        })
    }

    /// From an optional that is there, an optional; from none, none.
    fn select_from_optional(&mut self, select: &Select, inner: Option<&Value>) -> Evaluated<Value> {
        let found = match inner {
            Some(inner) => field(inner, &select.field)?,
            None => None,
        };
        match select.kind {
            SelectKind::Test => {
                if inner.is_none() {
                    self.budget.refund(1);
                }
                Ok(Value::Bool(found.is_some()))
            }
            _ => self.optional(found),
        }
    }

    fn index(&mut self, index: &Index) -> Evaluated<Value> {
        let operand = self.evaluate(&index.operand)?;
        self.budget.charge(index.extra_cost)?;
        let (operand, optional) = match operand {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            other => (other, index.optional),
        };
        let at = self.part(&index.index)?;
        if optional {
            let found = item(&operand, &at).ok();
            return self.optional(found);
        }
        self.budget.charge(1)?;
        item(&operand, &at)
    }

    fn logic(&mut self, operator: Logic, terms: &[Node]) -> Evaluated<Value> {
        let decides = operator == Logic::Or;
        let mut failed = None;
        for term in terms {
            match self.evaluate(term) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvaluationError::no_overload())),
                Err(error) if error.can_be_absorbed() => failed = failed.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decides)),
        }
    }

    fn conditional(&mut self, [condition, then, otherwise]: &[Node; 3]) -> Evaluated<Value> {
        match self.evaluate(condition)? {
            Value::Bool(true) => self.part(then),
            Value::Bool(false) => self.part(otherwise),
            _ => Err(EvaluationError::no_overload()),
        }
    }

    /// A part of another expression in which a name is not charged by itself.
    fn part(&mut self, node: &Node) -> Evaluated<Value> {
        let value = self.evaluate(node)?;
        if node.is_path() {
            self.budget.refund(1);
        }
        Ok(value)
    }

    fn otherwise(&mut self, parts: &Otherwise) -> Evaluated<Value> {
        match self.evaluate(&parts.optional)? {
            Value::Optional(None) => self.evaluate(&parts.otherwise),
            Value::Optional(Some(value)) if parts.unwrap => Ok(Value::clone(&value)),
            other => Ok(other),
        }
    }

    fn call(&mut self, call: &Call) -> Evaluated<Value> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.evaluate(arg)?);
        }
        let cost = call.cost.before(self.budget, &args)?;
        self.budget.charge(cost)?;
        self.regex.clone_from(&call.regex);
        let result = (call.function)(self, &args)
            .map_err(|error| library::named_overload(call.name, &args, error))?;
        self.budget.charge(call.cost.after(&result))?;
        Ok(result)
    }

    fn list(&mut self, elements: &[(bool, Node)]) -> Evaluated<Value> {
        self.budget.allocate(elements.len() * ITEM_BYTES)?;
        let mut list = List::default();
        for (optional, element) in elements {
            let value = self.evaluate(element)?;
            match (optional, value) {
                (false, value) => list.push(value),
                (true, Value::Optional(Some(value))) => list.push(Value::clone(&value)),
                (true, Value::Optional(None)) => {}
                (true, value) => {
                    let shown = library::text::show(&value);
                    return Err(EvaluationError::new(format!(
                        "cannot initialize optional list element from non-optional value {shown}"
                    )));
                }
            }
        }
        self.budget.charge(LIST_COST)?;
        self.limited(Value::List(Arc::new(list)))
    }

    /// The value, unless it is too large when everything in it is counted.
    pub(crate) fn limited(&self, value: Value) -> Evaluated<Value> {
        value.extent().check()?;
        Ok(value)
    }

    fn map(&mut self, entries: &[(bool, Node, Node)]) -> Evaluated<Value> {
        self.budget.allocate(entries.len() * ITEM_BYTES * 2)?;
        let mut map = Map::default();
        for (optional, key, value) in entries {
            let key = self.evaluate(key)?;
            let value = self.evaluate(value)?;
            let Some(key) = Key::from_value(&key) else {
                let name = key.type_name();
                return Err(EvaluationError::new(format!(
                    "unsupported key type: {name}"
                )));
            };
            if let Some(value) = self.given(*optional, &key.to_value(), value)? {
                map.insert(key, value);
            }
        }
        self.budget.charge(MAP_COST)?;
        self.limited(Value::Map(Arc::new(map)))
    }

    /// The value of an entry, unless it is optional and none.
    fn given(&self, optional: bool, name: &Value, value: Value) -> Evaluated<Option<Value>> {
        match (optional, value) {
            (false, value) => Ok(Some(value)),
            (true, Value::Optional(value)) => Ok(value.map(|value| Value::clone(&value))),
            (true, value) => {
                let (name, shown) = (library::text::show(name), library::text::show(&value));
                Err(EvaluationError::new(format!(
                    "cannot initialize optional entry '{name}' from non-optional value {shown}"
                )))
            }
        }
    }

    fn message(&mut self, message: &Message) -> Evaluated<Value> {
        self.budget
            .allocate(message.fields.len() * ITEM_BYTES * 2)?;
        let mut fields = BTreeMap::new();
        for (optional, name, value) in &message.fields {
            let value = self.evaluate(value)?;
            if let Some(value) = self.given(*optional, &Value::String(name.clone()), value)? {
                fields.insert(name.clone(), value);
            }
        }
        self.budget.charge(MESSAGE_COST)?;
        let value = match &*message.type_name {
            "JSONPatch" => Value::Patch(Arc::new(patch(fields)?)),
            _ => Value::Object(Arc::new(Object {
                type_name: message.type_name.clone(),
                fields,
            })),
        };
        self.limited(value)
    }
}

fn patch(fields: BTreeMap<Arc<str>, Value>) -> Evaluated<Patch> {
    let mut patch = Patch::default();
    for (name, value) in fields {
        let text = match (&*name, &value) {
            ("op", Value::String(_)) => &mut patch.op,
            ("from", Value::String(_)) => &mut patch.from,
            ("path", Value::String(_)) => &mut patch.path,
            ("value", _) => {
                patch.value = Some(value);
                continue;
            }
            ("op" | "from" | "path", _) => {
                let of = folds::go_native_type(&value);
                return Err(EvaluationError::new(format!(
                    "unexpected type {of} for JSONPatchType '{name}' field"
                )));
            }
            _ => {
                return Err(EvaluationError::new(format!(
                    "unexpected JSONPatchType field: {name}"
                )));
            }
        };
        if let Value::String(value) = value {
            *text = value;
        }
    }
    Ok(patch)
}

fn no_such_key(key: &Value) -> EvaluationError {
    let key = library::text::show(key);
    EvaluationError::new(format!("no such key: {key}"))
}

/// What a field selection finds.
fn field(operand: &Value, name: &Arc<str>) -> Evaluated<Option<Value>> {
    Ok(match operand {
        Value::Map(map) => map.get_str(name).cloned(),
        Value::Object(object) => Some(object.fields.get(name).cloned().unwrap_or(Value::Null)),
        Value::Patch(patch) => match &**name {
            "op" => Some(Value::String(patch.op.clone())),
            "from" => Some(Value::String(patch.from.clone())),
            "path" => Some(Value::String(patch.path.clone())),
            _ => Some(patch.value.clone().unwrap_or(Value::Null)),
        },
        Value::List(_) => {
            return Err(EvaluationError::new(
                "unsupported index type 'string' in list",
            ));
        }
        _ => None,
    })
}

/// Whether `has()` sees a field: of a message, one that is empty is not there.
fn is_set(operand: &Value, name: &str, found: Option<&Value>) -> bool {
    match (operand, found) {
        (Value::Object(object), _) => object.fields.contains_key(name),
        (Value::Patch(patch), _) if name == "value" => patch.value.is_some(),
        (Value::Patch(_), Some(Value::String(text))) => !text.is_empty(),
        (_, found) => found.is_some(),
    }
}

/// What an index finds.
fn item(operand: &Value, index: &Value) -> Evaluated<Value> {
    match operand {
        Value::List(list) => {
            let at = list_index(index)?;
            usize::try_from(at)
                .ok()
                .and_then(|at| list.items().get(at))
                .cloned()
                .ok_or_else(|| EvaluationError::new(format!("index out of bounds: {at}")))
        }
        Value::Map(map) => Key::for_lookup(index)
            .and_then(|key| map.get(&key).cloned())
            .ok_or_else(|| no_such_key(index)),
        Value::Object(_) | Value::Patch(_) => match index {
            Value::String(name) => field(operand, name)?.ok_or_else(|| no_such_key(index)),
            _ => Err(no_such_key(index)),
        },
        _ => Err(no_such_key(index)),
    }
}

fn list_index(index: &Value) -> Evaluated<i64> {
    let shown = || library::text::show(index);
    let whole = match index {
        Value::Int(int) => Some(*int),
        Value::Uint(uint) => i64::try_from(*uint).ok(),
        Value::Double(double) => compare::whole(*double),
        _ => {
            let name = index.type_name();
            return Err(EvaluationError::new(format!(
                "unsupported index type '{name}' in list"
            )));
        }
    };
    whole
        .ok_or_else(|| EvaluationError::new(format!("unsupported index value {} in list", shown())))
}
