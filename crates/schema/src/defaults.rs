//! Defaults by type, wherever in an object a type stands.

use serde_json::Value;

use crate::builder::TableError;
use crate::conform::is_empty;
use crate::{Field, Object, Shape, Table, Type, TypeId};

/// Fills in what was left out of one object. It looks at nothing but the object: what it does to an empty one, it does
/// always.
pub type Fill = fn(&mut Object);

/// What to do for each type: the given functions, the constants of the table, and the fields to go on to.
#[derive(Debug)]
pub struct Defaults<'t> {
    table: &'t Table,
    plans: Vec<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    fills: Vec<Fill>,
    /// Positions of fields.
    constants: Vec<usize>,
    /// Positions of fields below which there are defaults, in order.
    below: Vec<usize>,
    /// Positions of fields that get something even where they are absent.
    made: Vec<usize>,
}

impl Plan {
    fn has_own(&self) -> bool {
        !(self.fills.is_empty() && self.constants.is_empty())
    }

    /// Whether an empty object does not stay empty, whatever is below it.
    fn fills_empty(&self) -> bool {
        let mut empty = Object::new();
        for fill in &self.fills {
            fill(&mut empty);
        }
        !(self.constants.is_empty() && empty.is_empty())
    }
}

impl<'t> Defaults<'t> {
    /// Each function belongs to a type by its name in the table; a type may have several, which run in order.
    pub fn new(
        table: &'t Table,
        fills: impl IntoIterator<Item = (&'static str, Fill)>,
    ) -> Result<Defaults<'t>, TableError> {
        let mut plans: Vec<Plan> = table.types().map(constants).collect();
        for (name, fill) in fills {
            let id = table
                .named(name)
                .ok_or(TableError::Undefined(name.into()))?;
            plans[id.0 as usize].fills.push(fill);
        }
        let mut defaults = Defaults { table, plans };
        defaults.find_paths();
        Ok(defaults)
    }

    /// Marks the fields that lead to defaults.
    fn find_paths(&mut self) {
        let own = self.plans.iter().map(Plan::has_own).collect();
        for (user, at) in leading_to(self.table, own, |_| true) {
            self.plans[user].below.push(at);
        }
        for plan in &mut self.plans {
            plan.below.sort_unstable();
        }
        let filling = self.plans.iter().map(Plan::fills_empty).collect();
        for (user, at) in leading_to(self.table, filling, is_always_there) {
            self.plans[user].made.push(at);
        }
    }

    /// Fills in an object and everything in it, a parent before its children.
    ///
    /// A struct that is no pointer is always there in Go. If it is absent here, it is made as soon as there is
    /// something to fill in.
    pub fn apply(&self, of: TypeId, object: &mut Object) {
        let plan = &self.plans[of.0 as usize];
        let of = self.table.get(of);
        for fill in &plan.fills {
            fill(object);
        }
        for &at in &plan.constants {
            apply_constant(&of.fields[at], object);
        }
        for &at in &plan.made {
            make(&of.fields[at], object);
        }
        if !plan.below.is_empty() {
            self.apply_below(plan, of, object);
        }
    }

    fn apply_below(&self, plan: &Plan, of: &Type, object: &mut Object) {
        // Whichever is shorter: what could be there, or what is. To look for a field costs about twice as much as to
        // come across it.
        if plan.below.len() * 2 <= object.len() {
            for field in plan.below.iter().map(|&at| &of.fields[at]) {
                if let Some(value) = object.get_mut(&*field.name) {
                    self.apply_value(&field.shape, value);
                }
            }
            return;
        }
        for (name, value) in object.iter_mut() {
            if matches!(value, Value::Object(_) | Value::Array(_))
                && let Some(at) = of.position(name)
                && plan.below.binary_search(&at).is_ok()
            {
                self.apply_value(&of.fields[at].shape, value);
            }
        }
    }

    fn apply_value(&self, shape: &Shape, value: &mut Value) {
        match (shape, value) {
            (
                Shape::Object(id) | Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id),
                Value::Object(object),
            ) => self.apply(*id, object),
            (Shape::OrList(id), Value::Array(list)) => {
                for item in list {
                    self.apply_value(&Shape::Object(*id), item);
                }
            }
            (Shape::List(items), Value::Array(list)) => {
                for item in list {
                    self.apply_value(&items.shape, item);
                }
            }
            (Shape::Map(values), Value::Object(map)) => {
                for (_, value) in map {
                    self.apply_value(values, value);
                }
            }
            _ => {}
        }
    }
}

/// Whether a field is a struct that Go always has.
fn is_always_there(field: &Field) -> bool {
    matches!(field.shape, Shape::Object(_)) && !field.pointer
}

/// The fields below which there is one of the marked types, as positions of a type and of its field. Only those fields
/// that are wanted are looked at.
fn leading_to(
    table: &Table,
    mut marked: Vec<bool>,
    wanted: fn(&Field) -> bool,
) -> Vec<(usize, usize)> {
    let mut users: Vec<Vec<(usize, usize)>> = vec![Vec::new(); marked.len()];
    for (user, of) in table.types().enumerate() {
        for (at, field) in of.fields.iter().enumerate() {
            if let Some(id) = field.shape.object().filter(|_| wanted(field)) {
                users[id.0 as usize].push((user, at));
            }
        }
    }
    let mut waiting: Vec<usize> = (0..marked.len()).filter(|&of| marked[of]).collect();
    let mut leading = Vec::new();
    while let Some(of) = waiting.pop() {
        for &(user, at) in &users[of] {
            leading.push((user, at));
            if !std::mem::replace(&mut marked[user], true) {
                waiting.push(user);
            }
        }
    }
    leading
}

/// Makes a struct that is absent; it is filled in with the others.
fn make(field: &Field, object: &mut Object) {
    if let None | Some(Value::Null) = object.get(&*field.name) {
        object.insert((*field.name).to_owned(), Value::Object(Object::new()));
    }
}

fn constants(of: &Type) -> Plan {
    let has_default = |(at, field): (usize, &Field)| field.default.is_some().then_some(at);
    Plan {
        constants: of
            .fields
            .iter()
            .enumerate()
            .filter_map(has_default)
            .collect(),
        ..Plan::default()
    }
}

fn apply_constant(field: &Field, object: &mut Object) {
    let Some(default) = &field.default else {
        return;
    };
    let unset = match object.get(&*field.name) {
        None | Some(Value::Null) => true,
        Some(value) => !field.pointer && is_empty(value),
    };
    if unset {
        object.insert((*field.name).to_owned(), default.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mark(object: &mut Object) {
        object.insert("marked".to_owned(), true.into());
    }

    fn replicas(object: &mut Object) {
        object.entry("replicas").or_insert_with(|| 1.into());
    }

    fn check(fills: &[(&'static str, Fill)], of: &str, value: Value, expect: &Value) {
        let table = Table::builtin();
        let defaults = Defaults::new(table, fills.iter().copied()).expect("known types");
        let Value::Object(mut object) = value else {
            panic!("an object is expected");
        };
        defaults.apply(table.named(of).expect(of), &mut object);
        assert_eq!(&Value::Object(object), expect);
    }

    const POD: &str = "io.k8s.api.core.v1.Pod";
    const PROBE: &str = "io.k8s.api.core.v1.Probe";

    #[test]
    fn constants_of_the_table_are_filled_in() {
        check(
            &[],
            POD,
            json!({"spec": {"containers": [{"ports": [{"containerPort": 1}, {"protocol": "UDP"}, {"protocol": ""}]}]}}),
            &json!({"spec": {"containers": [{"ports": [
                {"containerPort": 1, "protocol": "TCP"}, {"protocol": "UDP"}, {"protocol": "TCP"},
            ]}]}}),
        );
    }

    #[test]
    fn functions_run_on_what_is_there() {
        check(
            &[(PROBE, mark)],
            POD,
            json!({"spec": {"containers": [{"livenessProbe": {}, "readinessProbe": null}, {}]}}),
            &json!({"spec": {"containers": [{"livenessProbe": {"marked": true}, "readinessProbe": null}, {}]}}),
        );
    }

    #[test]
    fn a_struct_that_go_always_has_is_made_when_something_is_filled_in() {
        check(
            &[("io.k8s.api.apps.v1.DeploymentSpec", replicas)],
            "io.k8s.api.apps.v1.Deployment",
            json!({}),
            &json!({"spec": {"replicas": 1}}),
        );
        check(
            &[(PROBE, mark)],
            "io.k8s.api.apps.v1.Deployment",
            json!({}),
            &json!({}),
        );
    }

    #[test]
    fn a_function_of_an_unknown_type_is_refused() {
        let refused = Defaults::new(Table::builtin(), [("no.Such", mark as Fill)]);
        let error = refused.err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("type no.Such is used and never defined")
        );
    }
}
