//! Comparison of rule sets: which permissions of one set another set does not cover.
//!
//! Upstream: `validation.Covers` and `CompactRules` of `component-helpers/auth/rbac`.

use std::collections::HashMap;

use super::PolicyRule;
use super::rule::url_covers;

/// The maximum number of individual permissions in one comparison. A larger role is a mistake or an attack.
const PERMISSIONS_MAX: usize = 200_000;

/// The rules contain more than `PERMISSIONS_MAX` individual permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rules contain more than {PERMISSIONS_MAX} individual permissions")]
pub struct TooManyPermissions;

/// The permissions of `wanted` that `held` does not cover, as rules with one verb and one target each.
///
/// Several held rules together may cover a wanted rule.
pub fn uncovered(
    held: &[PolicyRule],
    wanted: &[PolicyRule],
) -> Result<Vec<PolicyRule>, TooManyPermissions> {
    let mut budget = PERMISSIONS_MAX;
    let mut missing = Vec::new();
    for rule in wanted {
        // Fast path: usually a single rule covers the whole wanted rule, and expanding it is unnecessary.
        if held.iter().any(|own| covers(own, rule)) {
            continue;
        }
        let resources = product([
            rule.api_groups.len(),
            rule.resources.len(),
            rule.verbs.len(),
            rule.resource_names.len().max(1),
        ]);
        let paths = product([rule.non_resource_urls.len(), rule.verbs.len(), 1, 1]);
        budget = budget
            .checked_sub(resources.saturating_add(paths))
            .ok_or(TooManyPermissions)?;
        uncovered_resources(held, rule, &mut missing);
        uncovered_paths(held, rule, &mut missing);
    }
    Ok(missing)
}

fn product(factors: [usize; 4]) -> usize {
    factors.into_iter().fold(1, usize::saturating_mul)
}

fn uncovered_resources(held: &[PolicyRule], rule: &PolicyRule, missing: &mut Vec<PolicyRule>) {
    for group in &rule.api_groups {
        for resource in &rule.resources {
            let candidates: Vec<&PolicyRule> = held
                .iter()
                .filter(|own| has_or_all(&own.api_groups, group))
                .filter(|own| covers_resource(&own.resources, resource))
                .collect();
            for verb in &rule.verbs {
                let mut check = |name: Option<&String>| {
                    let covered = candidates.iter().any(|own| {
                        has_or_all(&own.verbs, verb) && covers_name(&own.resource_names, name)
                    });
                    if !covered {
                        missing.push(PolicyRule {
                            api_groups: vec![group.clone()],
                            resources: vec![resource.clone()],
                            verbs: vec![verb.clone()],
                            resource_names: name.cloned().into_iter().collect(),
                            ..PolicyRule::default()
                        });
                    }
                };
                if rule.resource_names.is_empty() {
                    check(None);
                }
                rule.resource_names
                    .iter()
                    .for_each(|name| check(Some(name)));
            }
        }
    }
}

fn uncovered_paths(held: &[PolicyRule], rule: &PolicyRule, missing: &mut Vec<PolicyRule>) {
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            // A rule with resource names covers no paths, as upstream.
            let covered = held.iter().any(|own| {
                own.resource_names.is_empty()
                    && has_or_all(&own.verbs, verb)
                    && own.non_resource_urls.iter().any(|own| url_covers(own, url))
            });
            if !covered {
                missing.push(PolicyRule {
                    non_resource_urls: vec![url.clone()],
                    verbs: vec![verb.clone()],
                    ..PolicyRule::default()
                });
            }
        }
    }
}

/// Whether a single rule covers another rule completely.
fn covers(own: &PolicyRule, other: &PolicyRule) -> bool {
    let names_covered = own.resource_names.is_empty()
        || (!other.resource_names.is_empty()
            && other
                .resource_names
                .iter()
                .all(|name| own.resource_names.contains(name)));
    names_covered
        && other.verbs.iter().all(|verb| has_or_all(&own.verbs, verb))
        && other
            .api_groups
            .iter()
            .all(|group| has_or_all(&own.api_groups, group))
        && other
            .resources
            .iter()
            .all(|resource| covers_resource(&own.resources, resource))
        && other
            .non_resource_urls
            .iter()
            .all(|url| own.non_resource_urls.iter().any(|own| url_covers(own, url)))
}

fn has_or_all(own: &[String], value: &str) -> bool {
    own.iter().any(|own| own == value || own == "*")
}

fn covers_resource(own: &[String], resource: &str) -> bool {
    let any_parent = |own: &str| match (own.strip_prefix("*/"), resource.split_once('/')) {
        (Some(own), Some((_, subresource))) => own == subresource,
        _ => false,
    };
    own.iter()
        .any(|own| own == resource || own == "*" || any_parent(own))
}

fn covers_name(own: &[String], name: Option<&String>) -> bool {
    own.is_empty() || name.is_some_and(|name| own.contains(name))
}

/// Merges rules for the same single target into one rule with all their verbs.
pub fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compacted: Vec<PolicyRule> = Vec::with_capacity(rules.len());
    let mut positions: HashMap<(String, String, Option<String>), usize> = HashMap::new();
    for mut rule in rules {
        let Some(target) = single_thing(&rule) else {
            compacted.push(rule);
            continue;
        };
        let position = *positions.entry(target).or_insert(compacted.len());
        match compacted.get_mut(position) {
            Some(first) => first.verbs.append(&mut rule.verbs),
            None => compacted.push(rule),
        }
    }
    compacted
}

fn single_thing(rule: &PolicyRule) -> Option<(String, String, Option<String>)> {
    let ([group], [resource]) = (&*rule.api_groups, &*rule.resources) else {
        return None;
    };
    let is_single = rule.resource_names.len() <= 1 && rule.non_resource_urls.is_empty();
    let name = rule.resource_names.first().cloned();
    is_single.then(|| (group.clone(), resource.clone(), name))
}
