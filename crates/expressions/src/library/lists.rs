//! Lists, and lists as sets.

use super::operators::sum;
use super::{Table, fail, no_overload, text};
use crate::error::{Evaluated, EvaluationError};
use crate::run::{Machine, compare};
use crate::value::{ITEM_BYTES, List, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const TABLE: Table = &[
    ("isSorted", is_sorted),
    ("sum", total),
    ("max", |machine, args| {
        extreme(machine, args, "max", Ordering::Less)
    }),
    ("min", |machine, args| {
        extreme(machine, args, "min", Ordering::Greater)
    }),
    ("indexOf", |machine, args| index_of(machine, args, false)),
    ("lastIndexOf", |machine, args| index_of(machine, args, true)),
    ("slice", slice),
    ("flatten", flatten),
    ("sort", |machine, args| match args {
        [Value::List(list)] => sorted(machine, list, list),
        _ => no_overload(),
    }),
    ("@sortByAssociatedKeys", |machine, args| match args {
        [Value::List(list), Value::List(keys)] => sorted(machine, list, keys),
        _ => no_overload(),
    }),
    ("lists.range", range),
    ("reverse", reverse),
    ("distinct", distinct),
    ("sets.contains", |machine, args| match args {
        [Value::List(list), Value::List(part)] => {
            contains_all(machine, list, part).map(Value::Bool)
        }
        _ => no_overload(),
    }),
    ("sets.equivalent", |machine, args| match args {
        [Value::List(left), Value::List(right)] => {
            let both = contains_all(machine, left, right)? && contains_all(machine, right, left)?;
            Ok(Value::Bool(both))
        }
        _ => no_overload(),
    }),
    ("sets.intersects", intersects),
];

fn new_list(machine: &mut Machine<'_, '_>, items: Vec<Value>) -> Evaluated<Value> {
    machine.budget.allocate(items.len() * ITEM_BYTES)?;
    machine.limited(Value::list(items))
}

fn is_sorted(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    for pair in list.items().windows(2) {
        machine.budget.step()?;
        if compare::order(&pair[0], &pair[1])? == Ordering::Greater {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn total(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    let mut items = list.items().iter();
    let mut total = match items.next() {
        None => Value::Int(0),
        Some(first @ (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_))) => {
            first.clone()
        }
        Some(_) => return no_overload(),
    };
    for item in items {
        machine.budget.step()?;
        total = sum(machine, &total, item)?;
    }
    Ok(total)
}

fn extreme(
    machine: &mut Machine<'_, '_>,
    args: &[Value],
    name: &str,
    replace_when: Ordering,
) -> Evaluated<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    let mut items = list.items().iter();
    let Some(mut best) = items.next() else {
        return fail(format!("{name} called on empty list"));
    };
    for item in items {
        machine.budget.step()?;
        if compare::order(best, item)? == replace_when {
            best = item;
        }
    }
    Ok(best.clone())
}

fn index_of(machine: &mut Machine<'_, '_>, args: &[Value], last: bool) -> Evaluated<Value> {
    let [Value::List(list), wanted] = args else {
        return text::index_of(args, last);
    };
    let length = list.items().len();
    for step in 0..length {
        let index = if last { length - 1 - step } else { step };
        if machine.equal(&list.items()[index], wanted)? {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

fn slice(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return no_overload();
    };
    let refuse = |why: String| fail(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return refuse("negative indexes not supported".to_owned());
    };
    if from > to {
        return refuse("start index must be less than or equal to end index".to_owned());
    }
    match list.items().get(from..to) {
        Some(items) => new_list(machine, items.to_vec()),
        None => refuse(format!("list is length {}", list.items().len())),
    }
}

fn flatten(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return no_overload(),
    };
    if depth < 0 {
        return fail("level must be non-negative");
    }
    let mut items = Vec::new();
    flatten_into(machine, list, depth, &mut items)?;
    machine.limited(Value::list(items))
}

fn flatten_into(
    machine: &mut Machine<'_, '_>,
    list: &List,
    depth: i64,
    items: &mut Vec<Value>,
) -> Evaluated<()> {
    for item in list.items() {
        machine.budget.step()?;
        match item {
            Value::List(inner) if depth > 0 => flatten_into(machine, inner, depth - 1, items)?,
            other => {
                machine.budget.allocate(ITEM_BYTES)?;
                items.push(other.clone());
            }
        }
    }
    Ok(())
}

fn sorted(machine: &mut Machine<'_, '_>, list: &Arc<List>, keys: &List) -> Evaluated<Value> {
    let (length, key_count) = (list.items().len(), keys.items().len());
    if length != key_count {
        return fail(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {length} and {key_count} elements respectively"
        ));
    }
    let Some(first) = keys.items().first() else {
        return Ok(Value::List(list.clone()));
    };
    if compare::order(first, first).is_err() && !matches!(first, Value::Double(_)) {
        return fail("list elements must be comparable");
    }
    if keys
        .items()
        .iter()
        .any(|key| key.type_name() != first.type_name())
    {
        return fail("list elements must have the same type");
    }
    machine.budget.look_at_clock()?;
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|left, right| {
        compare::order(&keys.items()[*left], &keys.items()[*right]).unwrap_or(Ordering::Equal)
    });
    let items = order.into_iter().map(|at| list.items()[at].clone());
    new_list(machine, items.collect())
}

fn range(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::Int(count)] = args else {
        return no_overload();
    };
    let length = usize::try_from(*count).unwrap_or(0);
    machine.budget.allocate(
        length
            .checked_mul(ITEM_BYTES)
            .ok_or(EvaluationError::TooLarge)?,
    )?;
    machine.limited(Value::list((0..*count).map(Value::Int).collect()))
}

fn reverse(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::List(list)] => {
            let items = list.items().iter().rev().cloned().collect();
            new_list(machine, items)
        }
        _ => no_overload(),
    }
}

fn distinct(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    let mut seen = List::default();
    for item in list.items() {
        if !machine.contains(&seen, item)? {
            machine.budget.allocate(ITEM_BYTES)?;
            seen.push(item.clone());
        }
    }
    Ok(Value::List(Arc::new(seen)))
}

fn contains_all(machine: &mut Machine<'_, '_>, list: &List, part: &List) -> Evaluated<bool> {
    for item in part.items() {
        if !machine.contains(list, item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::List(left), Value::List(right)] = args else {
        return no_overload();
    };
    for item in left.items() {
        if machine.contains(right, item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
