//! Runs a check on the scripts of many seeds, and minimizes a failing script.

use std::panic::{self, AssertUnwindSafe};

use serde_json::Value;

use crate::event_script::{EventScript, ObjectEvent, to_json_lines};
use rhumb_seeded_rng::SeededRng;

/// Environment variable that multiplies the number of seeds.
const SEED_MULTIPLIER_VARIABLE: &str = "RHUMB_NETPOL_SEEDS";

/// Checks the scripts of `count` seeds. The check must depend on the script only.
pub(crate) fn check_seeds(
    count: u64,
    make: impl Fn(&mut SeededRng) -> EventScript,
    check: impl Fn(&EventScript) -> Result<(), String>,
) {
    for seed in 0..count * multiplier() {
        let script = make(&mut SeededRng::new(seed));
        if let Err(problem) = check_catching_panics(&check, &script) {
            let shortest = minimize(script, &|script| {
                check_catching_panics(&check, script).is_err()
            });
            let problem = check_catching_panics(&check, &shortest)
                .err()
                .unwrap_or(problem);
            panic!("seed {seed}: {problem}\n{}", to_json_lines(&shortest));
        }
    }
}

pub(crate) fn multiplier() -> u64 {
    let set = std::env::var(SEED_MULTIPLIER_VARIABLE).ok();
    set.map_or(1, |text| {
        text.parse().expect("RHUMB_NETPOL_SEEDS is a number")
    })
}

/// Runs the check; a panic counts as a failure.
fn check_catching_panics(
    check: &impl Fn(&EventScript) -> Result<(), String>,
    script: &EventScript,
) -> Result<(), String> {
    let result = panic::catch_unwind(AssertUnwindSafe(|| check(script)));
    result.unwrap_or_else(|_| Err("the check panicked".to_owned()))
}

/// Removes events, then list elements of objects, one at a time, as long as the check still fails.
fn minimize(mut script: EventScript, fails: &dyn Fn(&EventScript) -> bool) -> EventScript {
    let mut index = script.events.len();
    while index > 0 {
        index -= 1;
        let mut shorter = script.clone();
        shorter.events.remove(index);
        if fails(&shorter) {
            script = shorter;
            index = index.min(script.events.len());
        }
    }
    for index in 0..script.events.len() {
        loop {
            let smaller = without_one_list_element(&script, index)
                .into_iter()
                .find(fails);
            match smaller {
                Some(smaller) => script = smaller,
                None => break,
            }
        }
    }
    script
}

/// All variants of the script with one list element less in the object of an event.
fn without_one_list_element(script: &EventScript, index: usize) -> Vec<EventScript> {
    let objects = match &script.events[index] {
        ObjectEvent::Set(object) => without_one(object),
        ObjectEvent::Remove(..) => Vec::new(),
    };
    let smaller = objects.into_iter().map(|object| {
        let mut smaller = script.clone();
        smaller.events[index] = ObjectEvent::Set(object);
        smaller
    });
    smaller.collect()
}

fn without_one(value: &Value) -> Vec<Value> {
    let mut smaller = Vec::new();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let mut fewer = items.clone();
                fewer.remove(index);
                smaller.push(Value::Array(fewer));
                smaller.extend(without_one(item).into_iter().map(|item| {
                    let mut items = items.clone();
                    items[index] = item;
                    Value::Array(items)
                }));
            }
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                smaller.extend(without_one(value).into_iter().map(|value| {
                    let mut fields = fields.clone();
                    fields.insert(field.clone(), value);
                    Value::Object(fields)
                }));
            }
        }
        _ => {}
    }
    smaller
}
