//! What of a change can be made before it takes effect.

use std::collections::BTreeSet;

use rhumb_netpol::program::{ChainId, Changes};

/// A change in two transactions: the first makes what is new and what nobody refers to yet, the second has the effect.
/// `None` if one is as good.
///
/// A packet that is under way during a transaction sees the rules from before it, but elements of maps from after it. If
/// these lead to a group that comes with the same transaction, the packet finds no rules there. So a group comes first.
pub(super) fn apart(changes: &Changes, known: &BTreeSet<ChainId>) -> Option<(Changes, Changes)> {
    if changes.groups.is_empty() {
        return None;
    }
    let mut rest = changes.clone();
    let mut first = Changes {
        new_sets: std::mem::take(&mut rest.new_sets),
        groups: std::mem::take(&mut rest.groups),
        ..Changes::default()
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

    use rhumb_netpol::program::{Chain, Element, GroupId, Program, Redirection, SetId, SetKind};
    use rhumb_netpol::{Direction, Family, Name};

    use super::*;

    #[test]
    fn what_is_new_comes_first_and_both_parts_are_the_whole() {
        let direction = Direction::Ingress;
        let address = [10, 0, 0, 1].into();
        let chain = |number| ChainId { number, direction };
        let group = |number| GroupId { number, direction };
        let set = |number| SetId {
            number,
            family: Family::V4,
        };
        let rules = |name: &str| Chain {
            policy: Name::new("a", name),
            rules: vec![],
        };
        let element = Element {
            address,
            port: None,
        };
        let moved = Redirection {
            before: Some(group(1)),
            after: Some(group(2)),
        };
        let changes = Changes {
            new_sets: BTreeMap::from([(set(2), SetKind::Addresses)]),
            removed_elements: BTreeMap::from([(set(1), vec![element])]),
            added_elements: BTreeMap::from([(set(1), vec![element]), (set(2), vec![element])]),
            chains: BTreeMap::from([(chain(1), rules("old")), (chain(2), rules("new"))]),
            groups: BTreeMap::from([(group(2), vec![chain(1), chain(2)])]),
            dispatch: BTreeMap::from([((direction, address), moved)]),
            removed_groups: vec![group(1)],
            ..Changes::default()
        };
        let known = BTreeSet::from([chain(1)]);
        let (first, rest) = apart(&changes, &known).unwrap();
        let expected = Changes {
            new_sets: changes.new_sets.clone(),
            added_elements: BTreeMap::from([(set(2), vec![element])]),
            chains: BTreeMap::from([(chain(2), rules("new"))]),
            groups: changes.groups.clone(),
            ..Changes::default()
        };
        assert_eq!(first, expected);
        let (mut at_once, mut in_parts) = (Program::default(), Program::default());
        at_once.apply(&changes);
        in_parts.apply(&first);
        in_parts.apply(&rest);
        assert_eq!(in_parts, at_once);
        let without = Changes {
            groups: BTreeMap::new(),
            ..changes
        };
        assert_eq!(apart(&without, &known), None);
    }
}
