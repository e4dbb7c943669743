//! Tries many scripts, and makes one that fails as short as it gets.

use std::panic::{self, AssertUnwindSafe};

use serde_json::Value;

use crate::dice::Dice;
use crate::script::{Event, Script, lines};

/// A longer run has other scripts than a shorter one has after its last.
const MULTIPLIER: &str = "RHUMB_NETPOL_SEEDS";

/// Checks the scripts of so many seeds. The check may only depend on the script.
pub(crate) fn try_seeds(
    count: u64,
    make: impl Fn(&mut Dice) -> Script,
    check: impl Fn(&Script) -> Result<(), String>,
) {
    for seed in 0..count * multiplier() {
        let script = make(&mut Dice::new(seed));
        if let Err(problem) = attempt(&check, &script) {
            let shortest = shorten(script, &|script| attempt(&check, script).is_err());
            let problem = attempt(&check, &shortest).err().unwrap_or(problem);
            panic!("seed {seed}: {problem}\n{}", lines(&shortest));
        }
    }
}

pub(crate) fn multiplier() -> u64 {
    let set = std::env::var(MULTIPLIER).ok();
    set.map_or(1, |text| {
        text.parse().expect("RHUMB_NETPOL_SEEDS is a number")
    })
}

/// A crash is a failure like others.
fn attempt(check: &impl Fn(&Script) -> Result<(), String>, script: &Script) -> Result<(), String> {
    let result = panic::catch_unwind(AssertUnwindSafe(|| check(script)));
    result.unwrap_or_else(|_| Err("it crashes".to_owned()))
}

/// Leaves out events, then parts of objects, one at a time, while it still fails.
fn shorten(mut script: Script, fails: &dyn Fn(&Script) -> bool) -> Script {
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
            let smaller = smaller_events(&script, index).into_iter().find(fails);
            match smaller {
                Some(smaller) => script = smaller,
                None => break,
            }
        }
    }
    script
}

/// The script with one element less in a list of one of its objects.
fn smaller_events(script: &Script, index: usize) -> Vec<Script> {
    let objects = match &script.events[index] {
        Event::Set(object) => without_one(object),
        Event::Remove(..) => Vec::new(),
    };
    let smaller = objects.into_iter().map(|object| {
        let mut smaller = script.clone();
        smaller.events[index] = Event::Set(object);
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
