//! Which protected objects must be checked, and which terminating ones wait for their holders.

use std::collections::{HashMap, HashSet};

use crate::namespaced_name::NamespacedName;

/// Objects that are checked together.
const BATCH_SIZE: usize = 256;

/// State by namespace; the empty name is for cluster-scoped objects.
#[derive(Debug, Default)]
pub(super) struct ProtectionState(HashMap<String, NamespaceProtection>);

/// Objects of one namespace, by name.
#[derive(Debug, Default)]
struct NamespaceProtection {
    due: HashSet<String>,
    held: HashMap<String, HeldObject>,
}

/// A terminating object and the holders that the last check found.
#[derive(Debug, Default)]
struct HeldObject {
    holders: HashSet<String>,
    /// Holders that released the object during a check in progress, which may still have found them.
    left: Option<HashSet<String>>,
}

impl ProtectionState {
    pub(super) fn mark_due(&mut self, namespace: &str, name: &str) {
        let scope = self.0.entry(namespace.to_owned()).or_default();
        scope.due.insert(name.to_owned());
    }

    /// Marks all held objects as due; returns their namespaces.
    pub(super) fn mark_all_held_due(&mut self) -> Vec<String> {
        for scope in self.0.values_mut() {
            scope.due.extend(scope.held.keys().cloned());
        }
        self.0.keys().cloned().collect()
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&mut self, namespace: &str, name: &str) {
        if let Some(scope) = self.0.get_mut(namespace) {
            scope.held.remove(name);
            self.drop_if_empty(namespace);
        }
    }

    /// Forgets all other held objects: they do not exist.
    pub(super) fn retain_objects(&mut self, names: &HashSet<NamespacedName>) {
        for (namespace, scope) in &mut self.0 {
            let exists = |name: &String| names.contains(&(namespace.clone(), name.clone()));
            scope.held.retain(|name, _| exists(name));
        }
        self.0
            .retain(|_, scope| !scope.due.is_empty() || !scope.held.is_empty());
    }

    /// A holder no longer uses the object. Returns whether it was the last one, so that the object is due.
    pub(super) fn remove_holder(&mut self, namespace: &str, name: &str, holder: &str) -> bool {
        let Some(scope) = self.0.get_mut(namespace) else {
            return false;
        };
        let Some(held) = scope.held.get_mut(name) else {
            return false;
        };
        if let Some(left) = &mut held.left {
            left.insert(holder.to_owned());
            return false;
        }
        if !held.holders.remove(holder) || !held.holders.is_empty() {
            return false;
        }
        scope.due.insert(name.to_owned());
        true
    }

    /// Releases all objects except these from the holder.
    pub(super) fn retain_held(&mut self, namespace: &str, kept: &[&str], holder: &str) -> bool {
        let Some(scope) = self.0.get(namespace) else {
            return false;
        };
        let names = scope.held.keys();
        let others: Vec<String> = names
            .filter(|name| !kept.contains(&name.as_str()))
            .cloned()
            .collect();
        let mut is_due = false;
        for name in others {
            is_due |= self.remove_holder(namespace, &name, holder);
        }
        is_due
    }

    /// Starts a check of a batch of due objects.
    pub(super) fn take_batch(&mut self, namespace: &str) -> Vec<String> {
        let Some(scope) = self.0.get_mut(namespace) else {
            return Vec::new();
        };
        let names: Vec<String> = scope.due.iter().take(BATCH_SIZE).cloned().collect();
        for name in &names {
            scope.due.remove(name);
            scope.held.entry(name.clone()).or_default().left = Some(HashSet::new());
        }
        names
    }

    /// Ends the check of an object that found these holders.
    pub(super) fn finish(&mut self, namespace: &str, name: &str, mut holders: HashSet<String>) {
        if holders.is_empty() {
            return self.forget(namespace, name);
        }
        let scope = self.0.entry(namespace.to_owned()).or_default();
        let held = scope.held.entry(name.to_owned()).or_default();
        for left in held.left.take().into_iter().flatten() {
            holders.remove(&left);
        }
        if holders.is_empty() {
            scope.due.insert(name.to_owned());
        }
        held.holders = holders;
    }

    pub(super) fn is_due(&self, namespace: &str) -> bool {
        self.0
            .get(namespace)
            .is_some_and(|scope| !scope.due.is_empty())
    }

    fn drop_if_empty(&mut self, namespace: &str) {
        if self
            .0
            .get(namespace)
            .is_some_and(|scope| scope.due.is_empty() && scope.held.is_empty())
        {
            self.0.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(names: &[&str]) -> HashSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn held_by(names: &[&str]) -> ProtectionState {
        let mut state = ProtectionState::default();
        state.mark_due("ns", "a");
        assert_eq!(state.take_batch("ns"), ["a"]);
        state.finish("ns", "a", holders(names));
        state
    }

    #[test]
    fn an_object_is_due_when_its_last_holder_is_removed() {
        let mut state = held_by(&["p", "q"]);
        assert!(!state.is_due("ns"));
        assert!(!state.remove_holder("ns", "a", "p"));
        assert!(!state.remove_holder("ns", "a", "stranger"));
        assert!(!state.remove_holder("ns", "b", "q"));
        assert!(!state.remove_holder("elsewhere", "a", "q"));
        assert!(state.remove_holder("ns", "a", "q"));
        assert_eq!(state.take_batch("ns"), ["a"]);
    }

    #[test]
    fn a_holder_removed_during_a_check_is_not_waited_for() {
        let mut state = ProtectionState::default();
        state.mark_due("ns", "a");
        state.take_batch("ns");
        assert!(!state.remove_holder("ns", "a", "p"));
        state.finish("ns", "a", holders(&["p"]));
        assert!(state.is_due("ns"));

        state.take_batch("ns");
        state.remove_holder("ns", "a", "p");
        state.finish("ns", "a", holders(&["p", "q"]));
        assert!(!state.is_due("ns"));
        assert!(state.remove_holder("ns", "a", "q"));
    }

    #[test]
    fn a_holder_holds_only_the_objects_it_names() {
        let mut state = held_by(&["p"]);
        assert!(!state.retain_held("ns", &["a"], "p"));
        assert!(state.retain_held("ns", &["b"], "p"));
        assert!(state.is_due("ns"));
    }

    #[test]
    fn no_state_is_kept_for_objects_without_holders() {
        let mut state = held_by(&[]);
        assert!(state.0.is_empty());
        state = held_by(&["p"]);
        state.forget("ns", "a");
        assert!(state.0.is_empty());
        state = held_by(&["p"]);
        let key = |name: &str| ("ns".to_owned(), name.to_owned());
        state.retain_objects(&[key("a"), key("b")].into());
        assert!(!state.0.is_empty());
        state.retain_objects(&[key("b")].into());
        assert!(state.0.is_empty());
    }

    #[test]
    fn after_a_watch_gap_all_held_objects_are_checked() {
        let mut state = held_by(&["p"]);
        assert_eq!(state.mark_all_held_due(), ["ns"]);
        assert_eq!(state.take_batch("ns"), ["a"]);
    }

    #[test]
    fn checks_are_batched() {
        let mut state = ProtectionState::default();
        for number in 0..=BATCH_SIZE {
            state.mark_due("ns", &number.to_string());
        }
        assert_eq!(state.take_batch("ns").len(), BATCH_SIZE);
        assert!(state.is_due("ns"));
        assert_eq!(state.take_batch("ns").len(), 1);
        assert!(!state.is_due("ns"));
    }
}
