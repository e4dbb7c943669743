//! Determines the plugins of a profile: upstream's defaults, merged with the file's `multiPoint` and
//! per-extension-point plugin sets by upstream's rules. Entry point: [`ProfilePlugins::read`].

use rhumb_meta::field::{Error, ErrorList, Path};

use super::default_plugins::{
    self, DEFAULT_PLUGINS, DefaultPlugin, EXTENSION_POINTS, ExtensionPoint,
};
use super::v1::{self, PluginSet};

/// An enabled plugin of a profile and the extension points it runs at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnabledPluginConfig {
    pub name: &'static str,
    pub filters: bool,
    /// Score weight; 0 if the plugin does not score.
    pub weight: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilePlugins {
    /// Filter and score plugins, in execution order.
    pub node_plugins: Vec<EnabledPluginConfig>,
    /// Whether `DefaultPreemption` is enabled.
    pub preemption: bool,
}

/// An enabled plugin with its weight; 0 if none is given.
type WeightedPlugin = (&'static DefaultPlugin, i32);

impl ProfilePlugins {
    pub(super) fn read(
        form: Option<&v1::Plugins>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) -> ProfilePlugins {
        let empty = v1::Plugins::default();
        let form = form.unwrap_or(&empty);
        let path = path.child("plugins");
        let multi_point = multi_point_plugins(form, &path, errors);
        let at = |point: ExtensionPoint| {
            plugins_at(form, point, &multi_point, &path, &mut ErrorList::new())
        };
        for point in EXTENSION_POINTS {
            plugins_at(form, point, &multi_point, &path, errors);
        }
        check_required_plugins(&at, &path, errors);
        ProfilePlugins {
            node_plugins: read_node_plugins(&at, &path, errors),
            preemption: contains_plugin(&at(ExtensionPoint::PostFilter), "DefaultPreemption"),
        }
    }
}

fn plugin_set(form: &v1::Plugins, point: ExtensionPoint) -> Option<&PluginSet> {
    match point {
        ExtensionPoint::PreEnqueue => form.pre_enqueue.as_ref(),
        ExtensionPoint::QueueSort => form.queue_sort.as_ref(),
        ExtensionPoint::PreFilter => form.pre_filter.as_ref(),
        ExtensionPoint::Filter => form.filter.as_ref(),
        ExtensionPoint::PostFilter => form.post_filter.as_ref(),
        ExtensionPoint::PreScore => form.pre_score.as_ref(),
        ExtensionPoint::Score => form.score.as_ref(),
        ExtensionPoint::Reserve => form.reserve.as_ref(),
        ExtensionPoint::Permit => form.permit.as_ref(),
        ExtensionPoint::PreBind => form.pre_bind.as_ref(),
        ExtensionPoint::Bind => form.bind.as_ref(),
        ExtensionPoint::PostBind => form.post_bind.as_ref(),
        ExtensionPoint::PlacementGenerate => form.placement_generate.as_ref(),
        ExtensionPoint::PlacementScore => form.placement_score.as_ref(),
    }
}

fn contains_plugin(entries: &[WeightedPlugin], name: &str) -> bool {
    entries.iter().any(|(plugin, _)| plugin.name == name)
}

/// The plugins that a set enables; unknown and duplicate ones are reported and left out.
fn read_enabled(set: &PluginSet, path: &Path<'_>, errors: &mut ErrorList) -> Vec<WeightedPlugin> {
    let mut entries: Vec<WeightedPlugin> = Vec::new();
    let path = path.child("enabled");
    for (index, plugin) in set.enabled.iter().flatten().enumerate() {
        let path = path.index(index);
        let name = plugin.name.as_str();
        let weight = plugin.weight.unwrap_or_default();
        if weight < 0 {
            errors.push(Error::invalid(
                &path.child("weight"),
                weight,
                "must be greater than or equal to 0",
            ));
        }
        match default_plugins::find(name) {
            Err(problem) => errors.push(Error::invalid(&path.child("name"), name, problem)),
            Ok(_) if contains_plugin(&entries, name) => {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            Ok(plugin) => entries.push((plugin, weight)),
        }
    }
    entries
}

fn is_disabled(set: &PluginSet, name: &str) -> bool {
    let mut disabled = set.disabled.iter().flatten();
    disabled.any(|plugin| plugin.name == name || plugin.name == "*")
}

/// The defaults minus disabled plugins. An explicitly enabled plugin replaces its default entry or is appended.
fn multi_point_plugins(
    form: &v1::Plugins,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Vec<WeightedPlugin> {
    let empty = PluginSet::default();
    let set = form.multi_point.as_ref().unwrap_or(&empty);
    let explicit = read_enabled(set, &path.child("multiPoint"), errors);
    let find = |name: &str| {
        let mut explicit = explicit.iter();
        explicit.find(|(plugin, _)| plugin.name == name).copied()
    };
    let defaults = DEFAULT_PLUGINS
        .iter()
        .filter(|plugin| !is_disabled(set, plugin.name));
    let mut entries: Vec<WeightedPlugin> = defaults
        .map(|plugin| find(plugin.name).unwrap_or((plugin, plugin.weight)))
        .collect();
    for entry in explicit {
        if !contains_plugin(&entries, entry.0.name) {
            entries.push(entry);
        }
    }
    entries
}

/// The plugins that run at an extension point; its own plugin set overrides `multiPoint`.
fn plugins_at(
    form: &v1::Plugins,
    point: ExtensionPoint,
    multi_point: &[WeightedPlugin],
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Vec<WeightedPlugin> {
    let empty = PluginSet::default();
    let set = plugin_set(form, point).unwrap_or(&empty);
    let path = path.child(point.name());
    let explicit = read_enabled(set, &path, errors);
    for (plugin, _) in &explicit {
        if !plugin.points.contains(&point) {
            let detail = format!(
                "plugin {:?} does not implement extension point {}",
                plugin.name,
                point.name()
            );
            errors.push(Error::invalid(&path.child("enabled"), plugin.name, detail));
        }
    }
    let expanded = multi_point.iter().copied().filter(|(plugin, _)| {
        plugin.points.contains(&point)
            && !is_disabled(set, plugin.name)
            && !contains_plugin(&explicit, plugin.name)
    });
    let is_override = |(plugin, _): &WeightedPlugin| {
        contains_plugin(multi_point, plugin.name)
            && !is_disabled(set, "*")
            && !is_disabled(set, plugin.name)
    };
    let (overrides, others): (Vec<WeightedPlugin>, Vec<WeightedPlugin>) =
        explicit.iter().partition(|entry| is_override(entry));
    overrides
        .into_iter()
        .chain(expanded)
        .chain(others)
        .collect()
}

/// These plugins are built in: rhumb has no alternative for them, so they cannot be disabled.
fn check_required_plugins(
    at: &dyn Fn(ExtensionPoint) -> Vec<WeightedPlugin>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (point, name) in [
        (ExtensionPoint::QueueSort, "PrioritySort"),
        (ExtensionPoint::Bind, "DefaultBinder"),
    ] {
        if !contains_plugin(&at(point), name) {
            let detail = format!("{name} cannot be disabled: rhumb has no other plugin for it");
            errors.push(Error::required(&path.child(point.name()), detail));
        }
    }
}

fn read_node_plugins(
    at: &dyn Fn(ExtensionPoint) -> Vec<WeightedPlugin>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Vec<EnabledPluginConfig> {
    let (filters, scores) = (at(ExtensionPoint::Filter), at(ExtensionPoint::Score));
    for (first, then, entries) in [
        (ExtensionPoint::PreFilter, ExtensionPoint::Filter, &filters),
        (ExtensionPoint::PreScore, ExtensionPoint::Score, &scores),
    ] {
        let prepared = at(first);
        let is_split = |plugin: &DefaultPlugin| {
            plugin.points.contains(&first) && !contains_plugin(&prepared, plugin.name)
        };
        for (plugin, _) in entries.iter().filter(|(plugin, _)| is_split(plugin)) {
            let detail = format!(
                "plugin {:?} cannot be disabled in {} and stay enabled in {}",
                plugin.name,
                first.name(),
                then.name()
            );
            errors.push(Error::forbidden(&path.child(first.name()), detail));
        }
    }
    let weight = |name: &str| {
        let found = scores.iter().find(|(plugin, _)| plugin.name == name);
        // The default weight is 1.
        found.map_or(0, |(_, weight)| i64::from(*weight).max(1))
    };
    let only_score = scores
        .iter()
        .filter(|(plugin, _)| !contains_plugin(&filters, plugin.name));
    let all = filters.iter().chain(only_score);
    all.filter_map(|(plugin, _)| {
        let factory = plugin.factory()?;
        Some(EnabledPluginConfig {
            name: factory.name,
            filters: contains_plugin(&filters, factory.name),
            // A plugin that never scores needs no weight.
            weight: if factory.weight > 0 {
                weight(factory.name)
            } else {
                0
            },
        })
    })
    .collect()
}
