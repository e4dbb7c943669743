//! Defaults by type, wherever in an object a type stands.

use serde_json::Value;

use crate::builder::TableError;
use crate::conform::is_empty;
use crate::{Field, Object, Shape, Table, Type, TypeId};

/// Fills in what was left out of one object.
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
    /// Positions of fields below which there are defaults.
    below: Vec<usize>,
}

impl Plan {
    fn is_needed(&self) -> bool {
        !(self.fills.is_empty() && self.constants.is_empty() && self.below.is_empty())
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

    /// Marks the fields that lead to defaults, from the types that have some up to those that contain them.
    fn find_paths(&mut self) {
        let mut users: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.plans.len()];
        for (of, found) in self.table.types().enumerate() {
            for (at, field) in found.fields.iter().enumerate() {
                if let Some(id) = field.shape.object() {
                    users[id.0 as usize].push((of, at));
                }
            }
        }
        let needed = |(at, plan): (usize, &Plan)| plan.is_needed().then_some(at);
        let mut waiting: Vec<usize> = self.plans.iter().enumerate().filter_map(needed).collect();
        while let Some(of) = waiting.pop() {
            for (user, field) in std::mem::take(&mut users[of]) {
                let plan = &mut self.plans[user];
                if !plan.is_needed() {
                    waiting.push(user);
                }
                plan.below.push(field);
            }
        }
        for plan in &mut self.plans {
            plan.below.sort_unstable();
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
        for &at in &plan.below {
            self.apply_below(&of.fields[at], object);
        }
    }

    fn apply_below(&self, field: &Field, object: &mut Object) {
        match (object.get_mut(&*field.name), &field.shape) {
            (None | Some(Value::Null), Shape::Object(id)) if !field.pointer => {
                let mut absent = Object::new();
                self.apply(*id, &mut absent);
                if !absent.is_empty() {
                    object.insert((*field.name).to_owned(), Value::Object(absent));
                }
            }
            (None, _) => {}
            (Some(value), shape) => self.apply_value(shape, value),
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
