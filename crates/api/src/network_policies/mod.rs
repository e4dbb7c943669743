//! Which release a network policy needs (KEP-2732): the features it uses, each with the version that brought it.
//!
//! A server fills in `spec.minVersion` by this, and whoever enforces policies asks it whether it knows all that a
//! policy says. `docs/network-policy-versions.md` has the rules, those for alpha features too.

mod features;
mod version;

use std::borrow::Cow;

use rhumb_meta::field::Path;
use serde_json::Value;

pub use features::{BOTH_SELECTORS, EGRESS, IP_BLOCKS, IPV6, PORT_RANGES, SCTP};
pub use version::{NotAVersion, Version};

use crate::{Gates, View, gates};

/// What every policy can say: rules for incoming traffic, selectors of pods or namespaces, TCP, UDP, named ports.
pub const BASE: &str = "1.3";

/// Calls back with each field of a policy's specification that needs a feature.
pub type Find = fn(spec: &View<'_>, found: &mut dyn FnMut(&View<'_>));

/// Something that policies can say since a certain version.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    pub name: &'static str,
    pub version: &'static str,
    /// For an alpha feature, without which the server refuses it.
    pub gate: Option<gates::Feature>,
    find: Find,
}

/// A feature that a policy uses, and the fields that do.
#[derive(Debug, Clone)]
pub struct Use<'a> {
    pub feature: &'a Feature,
    /// Such as `spec.ingress[0].ports[0].endPort`; never empty.
    pub paths: Vec<String>,
}

impl Use<'_> {
    /// The first of the fields.
    pub fn path(&self) -> &str {
        self.paths.first().map_or("spec", String::as_str)
    }
}

/// The version that a policy needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Required {
    pub version: &'static str,
    /// The first field that needs it; `None` if any version does.
    pub path: Option<String>,
}

/// All features that one program knows: a server, or whoever enforces policies.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// In the order of their versions.
    features: Cow<'static, [Feature]>,
}

/// Why a list of features cannot be the catalog of anyone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    #[error("{feature} has the version {version:?}: {source}")]
    Version {
        feature: &'static str,
        version: &'static str,
        source: NotAVersion,
    },
    #[error("{0} is alpha and has no gate")]
    Ungated(&'static str),
    #[error("{0} has a gate and a released version: its version is a revision of the alpha")]
    Released(&'static str),
    #[error("{feature} is alpha in {version}, but {latest} is the latest version")]
    Stale {
        feature: &'static str,
        version: &'static str,
        latest: &'static str,
    },
}

impl Feature {
    pub const fn new(name: &'static str, version: &'static str, find: Find) -> Feature {
        Feature {
            name,
            version,
            gate: None,
            find,
        }
    }

    #[must_use]
    pub const fn gated(mut self, gate: gates::Feature) -> Feature {
        self.gate = Some(gate);
        self
    }

    pub fn is_used(&self, spec: &Value) -> bool {
        self.first_use(spec).is_some()
    }

    fn first_use(&self, spec: &Value) -> Option<String> {
        let mut first = None;
        self.each_use(spec, |path| {
            first.get_or_insert_with(|| path.to_string());
        });
        first
    }

    fn each_use(&self, spec: &Value, mut found: impl FnMut(&Path<'_>)) {
        let spec = View::at(Some(spec), Path::new("spec"));
        (self.find)(&spec, &mut |field| found(field.path()));
    }

    pub fn is_on(&self, gates: &Gates) -> bool {
        self.gate.is_none_or(|gate| gates.enabled(gate))
    }

    /// What cannot be read is refused when a catalog is made.
    fn order(&self) -> Option<Version> {
        self.version.parse().ok()
    }
}

impl Catalog {
    pub const fn builtin() -> Catalog {
        Catalog {
            features: Cow::Borrowed(features::FEATURES),
        }
    }

    /// The built-in features and others.
    pub fn with(others: &[Feature]) -> Result<Catalog, CatalogError> {
        let mut features = [features::FEATURES, others].concat();
        features.sort_by_key(Feature::order);
        let catalog = Catalog {
            features: features.into(),
        };
        catalog.check()?;
        Ok(catalog)
    }

    /// A version stands for all that was known when it was made: it can only do so for alpha features if they have
    /// the latest version, one for all of them.
    fn check(&self) -> Result<(), CatalogError> {
        let latest = self.features.last().map_or(BASE, |last| last.version);
        for feature in &*self.features {
            let (name, version) = (feature.name, feature.version);
            let parsed = version.parse::<Version>();
            let parsed = parsed.map_err(|source| CatalogError::Version {
                feature: name,
                version,
                source,
            })?;
            match (parsed.alpha.is_some(), feature.gate.is_some()) {
                (true, false) => return Err(CatalogError::Ungated(name)),
                (false, true) => return Err(CatalogError::Released(name)),
                (true, true) if version != latest => {
                    return Err(CatalogError::Stale {
                        feature: name,
                        version,
                        latest,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Every version, each once, in order.
    pub fn versions(&self) -> Vec<&'static str> {
        self.versions_of(|_| true)
    }

    /// Those that a server with these gates lets policies ask for.
    pub fn versions_with(&self, gates: &Gates) -> Vec<&'static str> {
        self.versions_of(|feature| feature.is_on(gates))
    }

    fn versions_of(&self, is_meant: impl Fn(&Feature) -> bool) -> Vec<&'static str> {
        let meant = self.features.iter().filter(|feature| is_meant(feature));
        let mut versions = vec![BASE];
        versions.extend(meant.map(|feature| feature.version));
        versions.dedup();
        versions
    }

    /// Whether a policy that asks for this version is understood. Of an alpha only the one revision is, as another
    /// may mean something else by the same words.
    pub fn knows(&self, version: &str) -> bool {
        version == BASE || self.features.iter().any(|known| known.version == version)
    }

    /// The version that a policy needs, by its specification.
    pub fn required(&self, spec: &Value) -> Required {
        let newest_first = self.features.iter().rev();
        let mut used = newest_first.filter_map(|feature| {
            let path = feature.first_use(spec)?;
            Some(Required {
                version: feature.version,
                path: Some(path),
            })
        });
        used.next().unwrap_or(Required {
            version: BASE,
            path: None,
        })
    }

    /// Every feature that a policy uses, in the order of their versions.
    pub fn used(&self, spec: &Value) -> Vec<Use<'_>> {
        let uses = self.features.iter().filter_map(|feature| {
            let mut paths = Vec::new();
            feature.each_use(spec, |path| paths.push(path.to_string()));
            (!paths.is_empty()).then_some(Use { feature, paths })
        });
        uses.collect()
    }

    /// The features that a policy uses although it says that this version is enough.
    pub fn used_beyond(&self, version: Version, spec: &Value) -> Vec<Use<'_>> {
        let mut uses = self.used(spec);
        uses.retain(|used| used.feature.order() > Some(version));
        uses
    }
}

/// The version that a policy needs, for objects of servers that do not say it.
pub fn required(spec: &Value) -> &'static str {
    Catalog::builtin().required(spec).version
}

#[cfg(test)]
mod tests;
