//! Which plugins a profile has: upstream's defaults, and what the file changes of them, for all points at once
//! (`multiPoint`) and for single ones.

use rhumb_meta::field::{Error, ErrorList, Path};

use super::form::{self, PluginSet};
use super::registry::{self, KNOWN, Known, POINTS, Point};

/// A plugin of a profile, and what it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enabled {
    pub name: &'static str,
    pub filters: bool,
    /// 0 if it has no say in which node is better.
    pub weight: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugins {
    /// In the order in which they are asked.
    pub about_nodes: Vec<Enabled>,
    /// Pods that find no room may take that of others.
    pub preemption: bool,
}

/// A plugin as it is enabled, with its weight or 0.
type Entry = (&'static Known, i32);

impl Plugins {
    pub(super) fn read(
        form: Option<&form::Plugins>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) -> Plugins {
        let nothing = form::Plugins::default();
        let form = form.unwrap_or(&nothing);
        let path = path.child("plugins");
        let everywhere = multi_point(form, &path, errors);
        let at = |point: Point| at_point(form, point, &everywhere, &path, &mut ErrorList::new());
        for point in POINTS {
            at_point(form, point, &everywhere, &path, errors);
        }
        check_indispensable(&at, &path, errors);
        Plugins {
            about_nodes: about_nodes(&at, &path, errors),
            preemption: has(&at(Point::PostFilter), "DefaultPreemption"),
        }
    }
}

fn set_of(form: &form::Plugins, point: Point) -> Option<&PluginSet> {
    match point {
        Point::PreEnqueue => form.pre_enqueue.as_ref(),
        Point::QueueSort => form.queue_sort.as_ref(),
        Point::PreFilter => form.pre_filter.as_ref(),
        Point::Filter => form.filter.as_ref(),
        Point::PostFilter => form.post_filter.as_ref(),
        Point::PreScore => form.pre_score.as_ref(),
        Point::Score => form.score.as_ref(),
        Point::Reserve => form.reserve.as_ref(),
        Point::Permit => form.permit.as_ref(),
        Point::PreBind => form.pre_bind.as_ref(),
        Point::Bind => form.bind.as_ref(),
        Point::PostBind => form.post_bind.as_ref(),
        Point::PlacementGenerate => form.placement_generate.as_ref(),
        Point::PlacementScore => form.placement_score.as_ref(),
    }
}

fn has(entries: &[Entry], name: &str) -> bool {
    entries.iter().any(|(known, _)| known.name == name)
}

/// What a set enables, without those that cannot be.
fn enabled(set: &PluginSet, path: &Path<'_>, errors: &mut ErrorList) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
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
        match registry::find(name) {
            Err(problem) => errors.push(Error::invalid(&path.child("name"), name, problem)),
            Ok(_) if has(&entries, name) => {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            Ok(known) => entries.push((known, weight)),
        }
    }
    entries
}

fn is_disabled(set: &PluginSet, name: &str) -> bool {
    let mut disabled = set.disabled.iter().flatten();
    disabled.any(|plugin| plugin.name == name || plugin.name == "*")
}

/// The defaults, without what is disabled; what is enabled takes the place of the default or comes last.
fn multi_point(form: &form::Plugins, path: &Path<'_>, errors: &mut ErrorList) -> Vec<Entry> {
    let nothing = PluginSet::default();
    let set = form.multi_point.as_ref().unwrap_or(&nothing);
    let said = enabled(set, &path.child("multiPoint"), errors);
    let find = |name: &str| said.iter().find(|(known, _)| known.name == name).copied();
    let defaults = KNOWN.iter().filter(|known| !is_disabled(set, known.name));
    let mut entries: Vec<Entry> = defaults
        .map(|known| find(known.name).unwrap_or((known, known.weight)))
        .collect();
    for entry in said {
        if !has(&entries, entry.0.name) {
            entries.push(entry);
        }
    }
    entries
}

/// Those that have a say at a point: what is said for it overrides what is said for all.
fn at_point(
    form: &form::Plugins,
    point: Point,
    everywhere: &[Entry],
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Vec<Entry> {
    let nothing = PluginSet::default();
    let set = set_of(form, point).unwrap_or(&nothing);
    let path = path.child(point.name());
    let said = enabled(set, &path, errors);
    for (known, _) in &said {
        if !known.points.contains(&point) {
            let detail = format!("plugin {:?} has no say in {}", known.name, point.name());
            errors.push(Error::invalid(&path.child("enabled"), known.name, detail));
        }
    }
    let expanded = everywhere.iter().copied().filter(|(known, _)| {
        known.points.contains(&point) && !is_disabled(set, known.name) && !has(&said, known.name)
    });
    let is_override = |(known, _): &Entry| {
        has(everywhere, known.name) && !is_disabled(set, "*") && !is_disabled(set, known.name)
    };
    let (overrides, others): (Vec<Entry>, Vec<Entry>) =
        said.iter().partition(|one| is_override(one));
    overrides
        .into_iter()
        .chain(expanded)
        .chain(others)
        .collect()
}

/// Without these nothing can be scheduled, and there are no others.
fn check_indispensable(at: &dyn Fn(Point) -> Vec<Entry>, path: &Path<'_>, errors: &mut ErrorList) {
    for (point, name) in [
        (Point::QueueSort, "PrioritySort"),
        (Point::Bind, "DefaultBinder"),
        (Point::PreEnqueue, "SchedulingGates"),
    ] {
        if !has(&at(point), name) {
            let detail = format!("{name} cannot be disabled: rhumb has no other plugin for it");
            errors.push(Error::required(&path.child(point.name()), detail));
        }
    }
}

fn about_nodes(
    at: &dyn Fn(Point) -> Vec<Entry>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Vec<Enabled> {
    let (filters, scores) = (at(Point::Filter), at(Point::Score));
    for (first, then, entries) in [
        (Point::PreFilter, Point::Filter, &filters),
        (Point::PreScore, Point::Score, &scores),
    ] {
        let prepared = at(first);
        let is_apart = |known: &Known| known.points.contains(&first) && !has(&prepared, known.name);
        for (known, _) in entries.iter().filter(|(known, _)| is_apart(known)) {
            let detail = format!(
                "plugin {:?} cannot be disabled in {} and stay enabled in {}",
                known.name,
                first.name(),
                then.name()
            );
            errors.push(Error::forbidden(&path.child(first.name()), detail));
        }
    }
    let weight = |name: &str| {
        let found = scores.iter().find(|(known, _)| known.name == name);
        // What is enabled without a weight has 1.
        found.map_or(0, |(_, weight)| i64::from(*weight).max(1))
    };
    let only_score = scores
        .iter()
        .filter(|(known, _)| !has(&filters, known.name));
    let all = filters.iter().chain(only_score);
    all.filter_map(|(known, _)| {
        let ours = known.about_nodes()?;
        Some(Enabled {
            name: ours.name,
            filters: has(&filters, ours.name),
            // One that never has anything to say of it need not be asked.
            weight: if ours.weight > 0 {
                weight(ours.name)
            } else {
                0
            },
        })
    })
    .collect()
}
