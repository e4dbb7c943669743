//! Splits a delta into two transactions where one would let packets in flight see inconsistent rules.

use std::collections::BTreeSet;

use rhumb_netpol::ruleset::{PolicyChainId, RulesetDelta};

/// Splits a delta: the first part adds new objects that nothing refers to yet, the second part has the effect. `None`
/// if one transaction suffices.
///
/// A packet in flight during a transaction sees the old rules but the new map elements. If an element leads to a group
/// that is added in the same transaction, the packet finds no rules there. So new groups are added in a transaction
/// before.
pub(super) fn split_update(
    changes: &RulesetDelta,
    known: &BTreeSet<PolicyChainId>,
) -> Option<(RulesetDelta, RulesetDelta)> {
    if changes.groups.is_empty() {
        return None;
    }
    let mut rest = changes.clone();
    let mut first = RulesetDelta {
        new_sets: std::mem::take(&mut rest.new_sets),
        groups: std::mem::take(&mut rest.groups),
        ..RulesetDelta::default()
    };
    let elements = std::mem::take(&mut rest.added_elements);
    (first.added_elements, rest.added_elements) = elements
        .into_iter()
        .partition(|(set, _)| first.new_sets.contains_key(set));
    let chains = std::mem::take(&mut rest.chains);
    (rest.chains, first.chains) = chains.into_iter().partition(|(id, _)| known.contains(id));
    Some((first, rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rhumb_netpol::ruleset::{
        IpSetElement, IpSetElementType, IpSetId, NodeRuleset, PolicyChain, PolicyGroupChange,
        PolicyGroupId,
    };
    use rhumb_netpol::{Direction, IpFamily, NamespacedName};

    use super::*;

    #[test]
    fn additions_precede_removals_and_together_equal_the_delta() {
        let direction = Direction::Ingress;
        let address = [10, 0, 0, 1].into();
        let chain = |number| PolicyChainId { number, direction };
        let group = |number| PolicyGroupId { number, direction };
        let set = |number| IpSetId {
            number,
            family: IpFamily::V4,
        };
        let rules = |name: &str| PolicyChain {
            policy: NamespacedName::new("a", name),
            rules: vec![],
        };
        let element = IpSetElement {
            address,
            port: None,
        };
        let moved = PolicyGroupChange {
            before: Some(group(1)),
            after: Some(group(2)),
        };
        let changes = RulesetDelta {
            new_sets: BTreeMap::from([(set(2), IpSetElementType::Addresses)]),
            removed_elements: BTreeMap::from([(set(1), vec![element])]),
            added_elements: BTreeMap::from([(set(1), vec![element]), (set(2), vec![element])]),
            chains: BTreeMap::from([(chain(1), rules("old")), (chain(2), rules("new"))]),
            groups: BTreeMap::from([(group(2), vec![chain(1), chain(2)])]),
            dispatch: BTreeMap::from([((direction, address), moved)]),
            removed_groups: vec![group(1)],
            ..RulesetDelta::default()
        };
        let known = BTreeSet::from([chain(1)]);
        let (first, rest) = split_update(&changes, &known).unwrap();
        let expected = RulesetDelta {
            new_sets: changes.new_sets.clone(),
            added_elements: BTreeMap::from([(set(2), vec![element])]),
            chains: BTreeMap::from([(chain(2), rules("new"))]),
            groups: changes.groups.clone(),
            ..RulesetDelta::default()
        };
        assert_eq!(first, expected);
        let (mut at_once, mut in_parts) = (NodeRuleset::default(), NodeRuleset::default());
        at_once.apply(&changes);
        in_parts.apply(&first);
        in_parts.apply(&rest);
        assert_eq!(in_parts, at_once);
        let without = RulesetDelta {
            groups: BTreeMap::new(),
            ..changes
        };
        assert_eq!(split_update(&without, &known), None);
    }
}
