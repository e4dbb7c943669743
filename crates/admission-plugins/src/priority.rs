//! The Priority plugin: resolves a pod's `priorityClassName` to `priority` and `preemptionPolicy`, and allows only one
//! default PriorityClass.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_cache::{CacheSnapshot, ResourceCache};
use rhumb_meta::Status;

use super::cache_derived_value::CacheDerivedValue;
use super::object_lookup;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::ObjectMetadata;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

#[derive(Debug, Default)]
pub(super) struct PriorityPlugin {
    /// The cache of PriorityClasses; `None` if they are not served.
    cache: OnceLock<Option<ResourceCache>>,
    /// The class of pods that name none.
    default_priority: CacheDerivedValue<Result<Arc<ResolvedPriorityClass>, Status>>,
}

impl PriorityPlugin {
    fn class_of(
        &self,
        attributes: &AdmissionAttributes<'_>,
        pod: &JsonObject,
    ) -> Result<Arc<ResolvedPriorityClass>, Status> {
        let name = fields::str(pod, "spec.priorityClassName");
        if name.is_empty() {
            return self.fallback(attributes);
        }
        match object_lookup::cached_cluster_object(attributes.context, GROUP, CLASSES, name)? {
            Some(class) => Ok(Arc::new(ResolvedPriorityClass::from_object(&class))),
            None => Err(attributes.forbidden(
                Some(pod),
                format_args!("no PriorityClass with name {name} was found"),
            )),
        }
    }

    fn fallback(
        &self,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Arc<ResolvedPriorityClass>, Status> {
        let resources = attributes.context.resources;
        let cache = self.cache.get_or_init(|| {
            let resource = resources.find(GROUP, CLASSES)?;
            Some(resource.storage.as_ref()?.cache.clone())
        });
        match cache {
            Some(cache) => (*self
                .default_priority
                .get(cache, |classes, _| default_priority_of(classes)))
            .clone(),
            None => Ok(Arc::new(ResolvedPriorityClass::without_class())),
        }
    }
}

fn default_priority_of(classes: &CacheSnapshot) -> Result<Arc<ResolvedPriorityClass>, Status> {
    let classes = classes.range(None, None);
    let classes = classes.map(|entry| serde_json::from_slice(entry.json_slice()).map(Arc::new));
    let classes: Vec<Arc<JsonObject>> = classes
        .collect::<Result<_, _>>()
        .map_err(Status::internal_error)?;
    let class = default_class(&classes).map_or_else(
        ResolvedPriorityClass::without_class,
        ResolvedPriorityClass::from_object,
    );
    Ok(Arc::new(class))
}

#[async_trait]
impl AdmissionPlugin for PriorityPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        match step {
            AdmissionPass::Mutation => attributes.is_resource("", "pods"),
            AdmissionPass::Validation => attributes.is_resource(GROUP, CLASSES),
        }
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| attributes.is_resource("", "pods")) else {
            return Ok(());
        };
        match (attributes.operation, attributes.old_object) {
            (Operation::Update, Some(old)) => {
                keep_priority_fields(pod, old);
                Ok(())
            }
            (Operation::Create, _) => {
                let class = self.class_of(attributes, pod)?;
                apply_class(pod, &class).map_err(|reason| attributes.forbidden(Some(pod), reason))
            }
            _ => Ok(()),
        }
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        let Some(class) = object.filter(|_| is_write && attributes.is_resource(GROUP, CLASSES))
        else {
            return Ok(());
        };
        if !is_default(class) {
            return Ok(());
        }
        let classes = object_lookup::list_cached(attributes.context, GROUP, CLASSES)?;
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

/// The fields of a PriorityClass that are copied to pods.
#[derive(Debug, PartialEq, Eq)]
struct ResolvedPriorityClass {
    name: String,
    value: i64,
    preemption_policy: Option<String>,
}

impl ResolvedPriorityClass {
    fn from_object(class: &JsonObject) -> ResolvedPriorityClass {
        ResolvedPriorityClass {
            name: class.name().to_owned(),
            value: fields::int(class, "value").unwrap_or(0),
            preemption_policy: Some(fields::text(class, "preemptionPolicy"))
                .filter(|policy| !policy.is_empty()),
        }
    }

    /// For pods without a class, if there is no default class.
    fn without_class() -> ResolvedPriorityClass {
        ResolvedPriorityClass {
            name: String::new(),
            value: 0,
            preemption_policy: Some("PreemptLowerPriority".to_owned()),
        }
    }
}

fn is_default(class: &JsonObject) -> bool {
    fields::get(class, "globalDefault") == Some(&true.into())
}

/// The default PriorityClass. Two servers may admit one each at the same time; the lowest value wins then.
fn default_class(classes: &[Arc<JsonObject>]) -> Option<&JsonObject> {
    classes
        .iter()
        .map(|class| &**class)
        .filter(|class| is_default(class))
        .min_by_key(|class| fields::int(class, "value").unwrap_or(0))
}

fn apply_class(pod: &mut JsonObject, class: &ResolvedPriorityClass) -> Result<(), String> {
    let Some(spec) = fields::object_or_insert(pod, "spec") else {
        return Ok(());
    };
    if let Some(requested) =
        fields::int(spec, "priority").filter(|&requested| requested != class.value)
    {
        return Err(format!(
            "the integer value of priority ({requested}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
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
    let requested = fields::str(spec, "preemptionPolicy");
    if !requested.is_empty() && requested != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({requested}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    fields::set(spec, "preemptionPolicy", policy.as_str());
    Ok(())
}

/// Keeps the fields on update, for clients that do not know them.
fn keep_priority_fields(pod: &mut JsonObject, old: &JsonObject) {
    for path in ["spec.priority", "spec.preemptionPolicy"] {
        if fields::get(pod, path).is_none() && fields::get(old, path).is_some() {
            fields::restore_from(pod, old, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn pods_get_priority_from_their_class() {
        let class = |policy: Option<&str>| ResolvedPriorityClass {
            name: "high".into(),
            value: 1000,
            preemption_policy: policy.map(str::to_owned),
        };
        let table: [(Value, ResolvedPriorityClass, Result<Value, &str>); 5] = [
            (
                json!({}),
                ResolvedPriorityClass::without_class(),
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
                ResolvedPriorityClass::without_class(),
                Err(
                    "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
                ),
            ),
        ];
        for (spec, class, want) in table {
            let mut pod = object(json!({"spec": spec}));
            match (apply_class(&mut pod, &class), want) {
                (Ok(()), Ok(want)) => assert_eq!(pod["spec"], want),
                (got, want) => assert_eq!(got, want.map(|_| ()).map_err(str::to_owned)),
            }
        }
    }

    #[test]
    fn the_lowest_of_several_default_classes_wins() {
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
        assert_eq!(default_class(&classes).map(ObjectMetadata::name), Some("b"));
        assert!(default_class(&classes[2..]).is_none());
    }

    #[test]
    fn an_update_keeps_unset_priority_fields() {
        let old = object(json!({"spec": {"priority": 5, "preemptionPolicy": "Never"}}));
        let mut pod = object(json!({"spec": {"priority": 6}}));
        keep_priority_fields(&mut pod, &old);
        assert_eq!(
            pod["spec"],
            json!({"priority": 6, "preemptionPolicy": "Never"})
        );
    }
}
