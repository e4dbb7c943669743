//! The lists and sets libraries (upstream: `library.Lists`, cel-go `ext.Lists`, `ext.Sets`).

use super::operators::add_values;
use super::{FunctionTable, fail, no_overload, strings};
use crate::error::{EvaluationError, EvaluationResult};
use crate::interpreter::{Interpreter, compare};
use crate::value::{ITEM_BYTES, ListValue, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("isSorted", is_sorted),
    ("sum", sum),
    ("max", |interpreter, args| {
        min_or_max(interpreter, args, "max", Ordering::Less)
    }),
    ("min", |interpreter, args| {
        min_or_max(interpreter, args, "min", Ordering::Greater)
    }),
    ("indexOf", |interpreter, args| {
        index_of(interpreter, args, false)
    }),
    ("lastIndexOf", |interpreter, args| {
        index_of(interpreter, args, true)
    }),
    ("slice", slice),
    ("flatten", flatten),
    ("sort", |interpreter, args| match args {
        [Value::List(list)] => sort_by_keys(interpreter, list, list),
        _ => no_overload(),
    }),
    ("@sortByAssociatedKeys", |interpreter, args| match args {
        [Value::List(list), Value::List(keys)] => sort_by_keys(interpreter, list, keys),
        _ => no_overload(),
    }),
    ("lists.range", range),
    ("reverse", reverse),
    ("distinct", distinct),
    ("sets.contains", |interpreter, args| match args {
        [Value::List(list), Value::List(subset)] => {
            contains_all(interpreter, list, subset).map(Value::Bool)
        }
        _ => no_overload(),
    }),
    ("sets.equivalent", |interpreter, args| match args {
        [Value::List(left), Value::List(right)] => {
            let both =
                contains_all(interpreter, left, right)? && contains_all(interpreter, right, left)?;
            Ok(Value::Bool(both))
        }
        _ => no_overload(),
    }),
    ("sets.intersects", intersects),
];

fn new_list(interpreter: &mut Interpreter<'_, '_>, items: Vec<Value>) -> EvaluationResult<Value> {
    interpreter.budget.allocate(items.len() * ITEM_BYTES)?;
    interpreter.check_size(Value::list(items))
}

fn is_sorted(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    for pair in list.items().windows(2) {
        interpreter.budget.count_step()?;
        if compare::compare_values(&pair[0], &pair[1])? == Ordering::Greater {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    let mut items = list.items().iter();
    let mut sum = match items.next() {
        None => Value::Int(0),
        Some(first @ (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_))) => {
            first.clone()
        }
        Some(_) => return no_overload(),
    };
    for item in items {
        interpreter.budget.count_step()?;
        sum = add_values(interpreter, &sum, item)?;
    }
    Ok(sum)
}

fn min_or_max(
    interpreter: &mut Interpreter<'_, '_>,
    args: &[Value],
    name: &str,
    replace_when: Ordering,
) -> EvaluationResult<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    let mut items = list.items().iter();
    let Some(mut extreme_item) = items.next() else {
        return fail(format!("{name} called on empty list"));
    };
    for item in items {
        interpreter.budget.count_step()?;
        if compare::compare_values(extreme_item, item)? == replace_when {
            extreme_item = item;
        }
    }
    Ok(extreme_item.clone())
}

fn index_of(
    interpreter: &mut Interpreter<'_, '_>,
    args: &[Value],
    last: bool,
) -> EvaluationResult<Value> {
    let [Value::List(list), element] = args else {
        return strings::index_of(args, last);
    };
    let length = list.items().len();
    for distance in 0..length {
        let index = if last {
            length - 1 - distance
        } else {
            distance
        };
        if interpreter.equal(&list.items()[index], element)? {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

fn slice(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return no_overload();
    };
    let slice_error = |reason: String| fail(format!("cannot slice({start}, {end}), {reason}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return slice_error("negative indexes not supported".to_owned());
    };
    if from > to {
        return slice_error("start index must be less than or equal to end index".to_owned());
    }
    match list.items().get(from..to) {
        Some(items) => new_list(interpreter, items.to_vec()),
        None => slice_error(format!("list is length {}", list.items().len())),
    }
}

fn flatten(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return no_overload(),
    };
    if depth < 0 {
        return fail("level must be non-negative");
    }
    let mut items = Vec::new();
    flatten_into(interpreter, list, depth, &mut items)?;
    interpreter.check_size(Value::list(items))
}

fn flatten_into(
    interpreter: &mut Interpreter<'_, '_>,
    list: &ListValue,
    depth: i64,
    items: &mut Vec<Value>,
) -> EvaluationResult<()> {
    for item in list.items() {
        interpreter.budget.count_step()?;
        match item {
            Value::List(inner) if depth > 0 => flatten_into(interpreter, inner, depth - 1, items)?,
            other => {
                interpreter.budget.allocate(ITEM_BYTES)?;
                items.push(other.clone());
            }
        }
    }
    Ok(())
}

fn sort_by_keys(
    interpreter: &mut Interpreter<'_, '_>,
    list: &Arc<ListValue>,
    keys: &ListValue,
) -> EvaluationResult<Value> {
    let (length, key_count) = (list.items().len(), keys.items().len());
    if length != key_count {
        return fail(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {length} and {key_count} elements respectively"
        ));
    }
    let Some(first) = keys.items().first() else {
        return Ok(Value::List(list.clone()));
    };
    if compare::compare_values(first, first).is_err() && !matches!(first, Value::Double(_)) {
        return fail("list elements must be comparable");
    }
    if keys
        .items()
        .iter()
        .any(|key| key.type_name() != first.type_name())
    {
        return fail("list elements must have the same type");
    }
    interpreter.budget.check_deadline()?;
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|left, right| {
        compare::compare_values(&keys.items()[*left], &keys.items()[*right])
            .unwrap_or(Ordering::Equal)
    });
    let items = order.into_iter().map(|at| list.items()[at].clone());
    new_list(interpreter, items.collect())
}

fn range(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::Int(count)] = args else {
        return no_overload();
    };
    let length = usize::try_from(*count).unwrap_or(0);
    interpreter.budget.allocate(
        length
            .checked_mul(ITEM_BYTES)
            .ok_or(EvaluationError::TooLarge)?,
    )?;
    interpreter.check_size(Value::list((0..*count).map(Value::Int).collect()))
}

fn reverse(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::List(list)] => {
            let items = list.items().iter().rev().cloned().collect();
            new_list(interpreter, items)
        }
        _ => no_overload(),
    }
}

fn distinct(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    let mut distinct_items = ListValue::default();
    for item in list.items() {
        if !interpreter.contains(&distinct_items, item)? {
            interpreter.budget.allocate(ITEM_BYTES)?;
            distinct_items.push(item.clone());
        }
    }
    Ok(Value::List(Arc::new(distinct_items)))
}

fn contains_all(
    interpreter: &mut Interpreter<'_, '_>,
    list: &ListValue,
    subset: &ListValue,
) -> EvaluationResult<bool> {
    for item in subset.items() {
        if !interpreter.contains(list, item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::List(left), Value::List(right)] = args else {
        return no_overload();
    };
    for item in left.items() {
        if interpreter.contains(right, item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
