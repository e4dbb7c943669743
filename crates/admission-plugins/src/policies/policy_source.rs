//! All policies of a type with their bindings, parsed and kept current (upstream: `generic.policySource`).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use rhumb_admission::{
    CommonPolicySpec, CriteriaFeatures, MutatingPolicy, PolicyBinding, PolicyType, ValidatingPolicy,
};
use rhumb_api::JsonObject;
use rhumb_api::feature_gates::Feature;
use rhumb_cache::{CacheEntry, ResourceCache};
use rhumb_meta::Revision;

use super::evaluation_pacer::EvaluationPacer;
use crate::cache_derived_value::CacheDerivedValue;
use crate::exclusion_counters::ExclusionCounters;
use rhumb_registry::admission::AdmissionAttributes;

/// A policy of either type.
pub(super) trait AdmissionPolicy {
    fn spec(&self) -> &CommonPolicySpec;
}

impl AdmissionPolicy for ValidatingPolicy {
    fn spec(&self) -> &CommonPolicySpec {
        &self.spec
    }
}

impl AdmissionPolicy for MutatingPolicy {
    fn spec(&self) -> &CommonPolicySpec {
        &self.spec
    }
}

/// A parsed policy or binding, with its exclusion counters and evaluation pacer.
#[derive(Debug)]
pub(super) struct ParsedPolicyObject<T> {
    revision: Revision,
    pub(super) value: T,
    pub(super) exclusion_counters: ExclusionCounters,
    pub(super) pacer: EvaluationPacer,
}

type PolicyObjectsByName<T> = HashMap<String, Arc<ParsedPolicyObject<T>>>;

/// All policies of a type and their bindings.
#[derive(Debug)]
pub(super) struct PolicySource<P> {
    pub(super) policy_type: PolicyType,
    parse: fn(&JsonObject, CriteriaFeatures) -> P,
    /// The caches of policies and bindings; `None` if they are not served.
    caches: OnceLock<Option<(ResourceCache, ResourceCache)>>,
    policies: CacheDerivedValue<PolicyObjectsByName<P>>,
    bindings: CacheDerivedValue<PolicyObjectsByName<PolicyBinding>>,
    /// The last combination of both.
    combined: ArcSwapOption<CombinedPolicyHooks<P>>,
}

/// Policies and bindings, and the hooks computed from them.
#[derive(Debug)]
struct CombinedPolicyHooks<P> {
    policies: Arc<PolicyObjectsByName<P>>,
    bindings: Arc<PolicyObjectsByName<PolicyBinding>>,
    hooks: Arc<Vec<PolicyHook<P>>>,
}

/// A policy and its bindings (upstream: `PolicyHook`).
#[derive(Debug)]
pub(super) struct PolicyHook<P> {
    pub(super) policy: Arc<ParsedPolicyObject<P>>,
    /// Sorted by name.
    pub(super) bindings: Vec<Arc<ParsedPolicyObject<PolicyBinding>>>,
}

impl<P> PolicySource<P> {
    pub(super) fn new(
        policy_type: PolicyType,
        parse: fn(&JsonObject, CriteriaFeatures) -> P,
    ) -> PolicySource<P> {
        PolicySource {
            policy_type,
            parse,
            caches: OnceLock::new(),
            policies: CacheDerivedValue::default(),
            bindings: CacheDerivedValue::default(),
            combined: ArcSwapOption::empty(),
        }
    }

    /// The policies that have bindings, sorted by name; `None` if there are none.
    pub(super) fn hooks(
        &self,
        attributes: &AdmissionAttributes<'_>,
    ) -> Option<Arc<Vec<PolicyHook<P>>>> {
        let context = attributes.context;
        let caches = self.caches.get_or_init(|| {
            let cache = |plural: &str| {
                let resource = context
                    .resources
                    .find("admissionregistration.k8s.io", plural)?;
                Some(resource.storage.as_ref()?.cache.clone())
            };
            Some((
                cache(self.policy_type.policies_resource())?,
                cache(self.policy_type.bindings_resource())?,
            ))
        });
        let (policies, bindings) = caches.as_ref()?;
        let parse_options = CriteriaFeatures {
            exclusion_rules: context
                .registry
                .gates
                .enabled(Feature::AdmissionWebhookExclusionRules),
        };
        let bindings = parse_all(&self.bindings, bindings, |object| {
            PolicyBinding::parse(object, parse_options)
        });
        if bindings.is_empty() {
            return None;
        }
        let policies = parse_all(&self.policies, policies, |object| {
            (self.parse)(object, parse_options)
        });
        if let Some(combined) = &*self.combined.load()
            && Arc::ptr_eq(&combined.policies, &policies)
            && Arc::ptr_eq(&combined.bindings, &bindings)
        {
            return Some(combined.hooks.clone());
        }
        let hooks = Arc::new(combine(&policies, &bindings));
        self.combined.store(Some(Arc::new(CombinedPolicyHooks {
            policies,
            bindings,
            hooks: hooks.clone(),
        })));
        Some(hooks)
    }
}

/// Joins policies with their bindings, both sorted by name. A policy without bindings is not in force.
fn combine<P>(
    policies: &PolicyObjectsByName<P>,
    bindings: &PolicyObjectsByName<PolicyBinding>,
) -> Vec<PolicyHook<P>> {
    let mut bound: HashMap<&str, Vec<Arc<ParsedPolicyObject<PolicyBinding>>>> = HashMap::new();
    for binding in bindings.values() {
        let policy_bindings = bound.entry(&binding.value.policy_name).or_default();
        policy_bindings.push(binding.clone());
    }
    let mut hooks: Vec<(&str, PolicyHook<P>)> = bound
        .into_iter()
        .filter_map(|(name, mut bindings)| {
            bindings.sort_by(|a, b| a.value.name.cmp(&b.value.name));
            let policy = policies.get(name)?.clone();
            Some((name, PolicyHook { policy, bindings }))
        })
        .collect();
    hooks.sort_by_key(|(name, _)| *name);
    hooks.into_iter().map(|(_, hook)| hook).collect()
}

/// Parses all objects of a cache. Unchanged objects are reused, so that expressions are compiled only once.
fn parse_all<T>(
    derived: &CacheDerivedValue<PolicyObjectsByName<T>>,
    cache: &ResourceCache,
    parse_object: impl Fn(&JsonObject) -> T,
) -> Arc<PolicyObjectsByName<T>> {
    derived.get(cache, |snapshot, previous| {
        let reuse_or_parse = |entry: &Arc<CacheEntry>| {
            let name = entry.key().name().to_owned();
            let unchanged = previous
                .and_then(|previous| previous.get(&name))
                .filter(|parsed| parsed.revision == entry.revision());
            if let Some(unchanged) = unchanged {
                return Some((name, unchanged.clone()));
            }
            let object: JsonObject = match serde_json::from_slice(entry.json_slice()) {
                Ok(object) => object,
                Err(error) => {
                    tracing::error!(name, %error, "failed to decode policy or binding; it is not enforced");
                    return None;
                }
            };
            let parsed = ParsedPolicyObject {
                revision: entry.revision(),
                value: parse_object(&object),
                exclusion_counters: ExclusionCounters::default(),
                pacer: EvaluationPacer::default(),
            };
            Some((name, Arc::new(parsed)))
        };
        snapshot.range(None, None).filter_map(reuse_or_parse).collect()
    })
}
