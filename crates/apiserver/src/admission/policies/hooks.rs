//! All policies, with the bindings that put them into force.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use rhumb_admission::{Binding, Head, MutatingPolicy, PolicyFlavor, Reading, ValidatingPolicy};
use rhumb_api::Object;
use rhumb_api::gates::Feature;
use rhumb_cache::{Cache, Entry};
use rhumb_meta::Revision;

use super::pace::Pace;
use crate::admission::Attributes;
use crate::admission::derived::Derived;
use crate::admission::exclusions::Exclusions;

/// What every policy has.
pub(super) trait Headed {
    fn head(&self) -> &Head;
}

impl Headed for ValidatingPolicy {
    fn head(&self) -> &Head {
        &self.head
    }
}

impl Headed for MutatingPolicy {
    fn head(&self) -> &Head {
        &self.head
    }
}

/// Something that was read from an object, and what its exclusion rules kept away from it.
#[derive(Debug)]
pub(super) struct Known<T> {
    revision: Revision,
    pub(super) it: T,
    pub(super) exclusions: Exclusions,
    pub(super) pace: Pace,
}

type ByName<T> = HashMap<String, Arc<Known<T>>>;

/// All policies of a flavor and their bindings.
#[derive(Debug)]
pub(super) struct Hooks<P> {
    pub(super) flavor: PolicyFlavor,
    read: fn(&Object, Reading) -> P,
    /// Of the policies and of the bindings; nothing where they are not served.
    caches: OnceLock<Option<(Cache, Cache)>>,
    policies: Derived<ByName<P>>,
    bindings: Derived<ByName<Binding>>,
    /// What was last made of both.
    combined: ArcSwapOption<Combined<P>>,
}

/// Policies and bindings, and what they come to.
#[derive(Debug)]
struct Combined<P> {
    policies: Arc<ByName<P>>,
    bindings: Arc<ByName<Binding>>,
    hooks: Arc<Vec<Hook<P>>>,
}

/// A policy in force.
#[derive(Debug)]
pub(super) struct Hook<P> {
    pub(super) policy: Arc<Known<P>>,
    /// By name.
    pub(super) bindings: Vec<Arc<Known<Binding>>>,
}

impl<P> Hooks<P> {
    pub(super) fn new(flavor: PolicyFlavor, read: fn(&Object, Reading) -> P) -> Hooks<P> {
        Hooks {
            flavor,
            read,
            caches: OnceLock::new(),
            policies: Derived::default(),
            bindings: Derived::default(),
            combined: ArcSwapOption::empty(),
        }
    }

    /// The policies in force, in the order of their names; `None` if there are none.
    pub(super) fn in_force(&self, attributes: &Attributes<'_>) -> Option<Arc<Vec<Hook<P>>>> {
        let api = attributes.call.api;
        let caches = self.caches.get_or_init(|| {
            let cache = |plural: &str| {
                let resource = api.registry.find("admissionregistration.k8s.io", plural)?;
                Some(resource.storage.as_ref()?.cache.clone())
            };
            Some((cache(self.flavor.plural())?, cache(self.flavor.bindings())?))
        });
        let (policies, bindings) = caches.as_ref()?;
        let reading = Reading {
            exclusions: api.gates.enabled(Feature::AdmissionWebhookExclusionRules),
        };
        let bindings = known(&self.bindings, bindings, |it| Binding::read(it, reading));
        if bindings.is_empty() {
            return None;
        }
        let policies = known(&self.policies, policies, |it| (self.read)(it, reading));
        if let Some(combined) = &*self.combined.load()
            && Arc::ptr_eq(&combined.policies, &policies)
            && Arc::ptr_eq(&combined.bindings, &bindings)
        {
            return Some(combined.hooks.clone());
        }
        let hooks = Arc::new(combine(&policies, &bindings));
        self.combined.store(Some(Arc::new(Combined {
            policies,
            bindings,
            hooks: hooks.clone(),
        })));
        Some(hooks)
    }
}

/// Each policy with its bindings, both in the order of their names. A policy without bindings is not in force.
fn combine<P>(policies: &ByName<P>, bindings: &ByName<Binding>) -> Vec<Hook<P>> {
    let mut bound: HashMap<&str, Vec<Arc<Known<Binding>>>> = HashMap::new();
    for binding in bindings.values() {
        let of = bound.entry(&binding.it.policy).or_default();
        of.push(binding.clone());
    }
    let mut hooks: Vec<(&str, Hook<P>)> = bound
        .into_iter()
        .filter_map(|(name, mut bindings)| {
            bindings.sort_by(|a, b| a.it.name.cmp(&b.it.name));
            let policy = policies.get(name)?.clone();
            Some((name, Hook { policy, bindings }))
        })
        .collect();
    hooks.sort_by_key(|(name, _)| *name);
    hooks.into_iter().map(|(_, hook)| hook).collect()
}

/// What is read from all objects of a cache. What has not changed is not read again: expressions are compiled once.
fn known<T>(
    derived: &Derived<ByName<T>>,
    cache: &Cache,
    read: impl Fn(&Object) -> T,
) -> Arc<ByName<T>> {
    derived.get(cache, |snapshot, before| {
        let again = |entry: &Arc<Entry>| {
            let name = entry.key().name().to_owned();
            let same = before
                .and_then(|before| before.get(&name))
                .filter(|known| known.revision == entry.revision());
            if let Some(same) = same {
                return Some((name, same.clone()));
            }
            let object: Object = match serde_json::from_slice(entry.json_slice()) {
                Ok(object) => object,
                Err(error) => {
                    tracing::error!(name, %error, "a policy or a binding cannot be read, and is not in force");
                    return None;
                }
            };
            let known = Known {
                revision: entry.revision(),
                it: read(&object),
                exclusions: Exclusions::default(),
                pace: Pace::default(),
            };
            Some((name, Arc::new(known)))
        };
        snapshot.range(None, None).filter_map(again).collect()
    })
}
