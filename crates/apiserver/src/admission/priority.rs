//! How important a pod is, from the name of its class.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_cache::{Cache, Snapshot};
use rhumb_meta::Status;

use super::derived::Derived;
use super::{Attributes, Operation, Plugin, Step, lookup};
use crate::objects::Metadata;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

#[derive(Debug, Default)]
pub(super) struct Priority {
    /// Of the classes; nothing where they are not served.
    cache: OnceLock<Option<Cache>>,
    /// What pods get that name no class.
    fallback: Derived<Result<Arc<Class>, Status>>,
}

impl Priority {
    fn class_of(&self, attributes: &Attributes<'_>, pod: &Object) -> Result<Arc<Class>, Status> {
        let name = fields::str(pod, "spec.priorityClassName");
        if name.is_empty() {
            return self.fallback(attributes);
        }
        match lookup::named(attributes.call, GROUP, CLASSES, name)? {
            Some(class) => Ok(Arc::new(Class::of(&class))),
            None => Err(attributes.forbidden(
                Some(pod),
                format_args!("no PriorityClass with name {name} was found"),
            )),
        }
    }

    fn fallback(&self, attributes: &Attributes<'_>) -> Result<Arc<Class>, Status> {
        let registry = &attributes.call.api.registry;
        let cache = self.cache.get_or_init(|| {
            let resource = registry.find(GROUP, CLASSES)?;
            Some(resource.storage.as_ref()?.cache.clone())
        });
        match cache {
            Some(cache) => (*self.fallback.get(cache, |classes, _| fallback_of(classes))).clone(),
            None => Ok(Arc::new(Class::none())),
        }
    }
}

fn fallback_of(classes: &Snapshot) -> Result<Arc<Class>, Status> {
    let classes = classes.range(None, None);
    let classes = classes.map(|entry| serde_json::from_slice(entry.json_slice()).map(Arc::new));
    let classes: Vec<Arc<Object>> = classes
        .collect::<Result<_, _>>()
        .map_err(Status::internal_error)?;
    let class = default_class(&classes).map_or_else(Class::none, Class::of);
    Ok(Arc::new(class))
}

#[async_trait]
impl Plugin for Priority {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        match step {
            Step::Mutation => attributes.is_about("", "pods"),
            Step::Validation => attributes.is_about(GROUP, CLASSES),
        }
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| attributes.is_about("", "pods")) else {
            return Ok(());
        };
        match (attributes.operation, attributes.old) {
            (Operation::Update, Some(old)) => {
                keep(pod, old);
                Ok(())
            }
            (Operation::Create, _) => {
                let class = self.class_of(attributes, pod)?;
                set(pod, &class).map_err(|reason| attributes.forbidden(Some(pod), reason))
            }
            _ => Ok(()),
        }
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        let Some(class) = object.filter(|_| is_write && attributes.is_about(GROUP, CLASSES)) else {
            return Ok(());
        };
        if !is_default(class) {
            return Ok(());
        }
        let classes = lookup::all(attributes.call, GROUP, CLASSES)?;
        match default_class(&classes) {
            Some(other)
                if attributes.operation == Operation::Create || other.name() != class.name() =>
            {
                Err(attributes.forbidden(
                    object,
                    format_args!(
                        "PriorityClass {} is already marked as default. Only one default can exist",
                        other.name()
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// What a class says of its pods.
#[derive(Debug, PartialEq, Eq)]
struct Class {
    name: String,
    value: i64,
    preemption_policy: Option<String>,
}

impl Class {
    fn of(class: &Object) -> Class {
        Class {
            name: class.name().to_owned(),
            value: fields::int(class, "value").unwrap_or(0),
            preemption_policy: Some(fields::text(class, "preemptionPolicy"))
                .filter(|policy| !policy.is_empty()),
        }
    }

    /// Of pods without a class, where no class is the default.
    fn none() -> Class {
        Class {
            name: String::new(),
            value: 0,
            preemption_policy: Some("PreemptLowerPriority".to_owned()),
        }
    }
}

fn is_default(class: &Object) -> bool {
    fields::get(class, "globalDefault") == Some(&true.into())
}

/// Two servers may let in one default each at the same time; the least important one counts then.
fn default_class(classes: &[Arc<Object>]) -> Option<&Object> {
    classes
        .iter()
        .map(|class| &**class)
        .filter(|class| is_default(class))
        .min_by_key(|class| fields::int(class, "value").unwrap_or(0))
}

fn set(pod: &mut Object, class: &Class) -> Result<(), String> {
    let Some(spec) = fields::object_at(pod, "spec") else {
        return Ok(());
    };
    if let Some(given) = fields::int(spec, "priority").filter(|&given| given != class.value) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            class.value
        ));
    }
    if !class.name.is_empty() {
        fields::set(spec, "priorityClassName", class.name.as_str());
    }
    fields::set(spec, "priority", class.value);
    let Some(policy) = &class.preemption_policy else {
        return Ok(());
    };
    let given = fields::str(spec, "preemptionPolicy");
    if !given.is_empty() && given != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    fields::set(spec, "preemptionPolicy", policy.as_str());
    Ok(())
}

/// A client that does not know these fields must not take them away.
fn keep(pod: &mut Object, old: &Object) {
    for path in ["spec.priority", "spec.preemptionPolicy"] {
        if fields::get(pod, path).is_none() && fields::get(old, path).is_some() {
            fields::keep(pod, old, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::object;

    #[test]
    fn the_class_says_how_important_a_pod_is() {
        let class = |policy: Option<&str>| Class {
            name: "high".into(),
            value: 1000,
            preemption_policy: policy.map(str::to_owned),
        };
        let table: [(Value, Class, Result<Value, &str>); 5] = [
            (
                json!({}),
                Class::none(),
                Ok(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})),
            ),
            (
                json!({"priorityClassName": "high"}),
                class(Some("Never")),
                Ok(
                    json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}),
                ),
            ),
            (
                json!({"priority": 1000}),
                class(None),
                Ok(json!({"priorityClassName": "high", "priority": 1000})),
            ),
            (
                json!({"priority": 7}),
                class(None),
                Err(
                    "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name",
                ),
            ),
            (
                json!({"preemptionPolicy": "Never"}),
                Class::none(),
                Err(
                    "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
                ),
            ),
        ];
        for (spec, class, want) in table {
            let mut pod = object(json!({"spec": spec}));
            match (set(&mut pod, &class), want) {
                (Ok(()), Ok(want)) => assert_eq!(pod["spec"], want),
                (got, want) => assert_eq!(got, want.map(|_| ()).map_err(str::to_owned)),
            }
        }
    }

    #[test]
    fn the_least_important_of_several_defaults_counts() {
        let class = |name: &str, value: i64, is_default: bool| {
            let class =
                json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default});
            Arc::new(object(class))
        };
        let classes = [
            class("a", 5, true),
            class("b", 3, true),
            class("c", 1, false),
        ];
        assert_eq!(default_class(&classes).map(Metadata::name), Some("b"));
        assert!(default_class(&classes[2..]).is_none());
    }

    #[test]
    fn an_update_keeps_what_it_leaves_out() {
        let old = object(json!({"spec": {"priority": 5, "preemptionPolicy": "Never"}}));
        let mut pod = object(json!({"spec": {"priority": 6}}));
        keep(&mut pod, &old);
        assert_eq!(
            pod["spec"],
            json!({"priority": 6, "preemptionPolicy": "Never"})
        );
    }
}
