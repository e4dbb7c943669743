//! Which objects are to be looked at, and which wait for those that use them.

use std::collections::{HashMap, HashSet};

/// Objects that are looked at together.
const BATCH: usize = 256;

/// By namespace; what has none is in the namespace without a name.
#[derive(Debug, Default)]
pub(super) struct State(HashMap<String, Scope>);

/// Of one namespace, the objects by name.
#[derive(Debug, Default)]
struct Scope {
    due: HashSet<String>,
    held: HashMap<String, Held>,
}

/// An object that is being deleted, and who used it when it was last looked at.
#[derive(Debug, Default)]
struct Held {
    holders: HashSet<String>,
    /// Who left since the look began that goes on now: it may have seen them.
    left: Option<HashSet<String>>,
}

impl State {
    pub(super) fn want(&mut self, namespace: &str, name: &str) {
        let scope = self.0.entry(namespace.to_owned()).or_default();
        scope.due.insert(name.to_owned());
    }

    /// Has everything that is held looked at; tells the namespaces.
    pub(super) fn want_all_held(&mut self) -> Vec<String> {
        for scope in self.0.values_mut() {
            scope.due.extend(scope.held.keys().cloned());
        }
        self.0.keys().cloned().collect()
    }

    /// The object is gone.
    pub(super) fn forget(&mut self, namespace: &str, name: &str) {
        if let Some(scope) = self.0.get_mut(namespace) {
            scope.held.remove(name);
            self.drop_if_empty(namespace);
        }
    }

    /// What is still there will be told again.
    pub(super) fn forget_held(&mut self) {
        for scope in self.0.values_mut() {
            scope.held.clear();
        }
        self.0.retain(|_, scope| !scope.due.is_empty());
    }

    /// The holder does not use the object any more. Whether the object is to be looked at, since nobody is left.
    pub(super) fn leave(&mut self, namespace: &str, name: &str, holder: &str) -> bool {
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

    /// The same for all objects but these.
    pub(super) fn leave_others(&mut self, namespace: &str, kept: &[&str], holder: &str) -> bool {
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
            is_due |= self.leave(namespace, &name, holder);
        }
        is_due
    }

    /// Begins a look at some that are due.
    pub(super) fn begin(&mut self, namespace: &str) -> Vec<String> {
        let Some(scope) = self.0.get_mut(namespace) else {
            return Vec::new();
        };
        let names: Vec<String> = scope.due.iter().take(BATCH).cloned().collect();
        for name in &names {
            scope.due.remove(name);
            scope.held.entry(name.clone()).or_default().left = Some(HashSet::new());
        }
        names
    }

    /// Ends a look that has found these holders.
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

    fn held_by(names: &[&str]) -> State {
        let mut state = State::default();
        state.want("ns", "a");
        assert_eq!(state.begin("ns"), ["a"]);
        state.finish("ns", "a", holders(names));
        state
    }

    #[test]
    fn what_is_held_waits_for_its_last_holder() {
        let mut state = held_by(&["p", "q"]);
        assert!(!state.is_due("ns"));
        assert!(!state.leave("ns", "a", "p"));
        assert!(!state.leave("ns", "a", "stranger"));
        assert!(!state.leave("ns", "b", "q"));
        assert!(!state.leave("elsewhere", "a", "q"));
        assert!(state.leave("ns", "a", "q"));
        assert_eq!(state.begin("ns"), ["a"]);
    }

    #[test]
    fn who_leaves_during_a_look_is_not_waited_for() {
        let mut state = State::default();
        state.want("ns", "a");
        state.begin("ns");
        assert!(!state.leave("ns", "a", "p"));
        state.finish("ns", "a", holders(&["p"]));
        assert!(state.is_due("ns"));

        state.begin("ns");
        state.leave("ns", "a", "p");
        state.finish("ns", "a", holders(&["p", "q"]));
        assert!(!state.is_due("ns"));
        assert!(state.leave("ns", "a", "q"));
    }

    #[test]
    fn a_holder_keeps_only_what_it_names() {
        let mut state = held_by(&["p"]);
        assert!(!state.leave_others("ns", &["a"], "p"));
        assert!(state.leave_others("ns", &["b"], "p"));
        assert!(state.is_due("ns"));
    }

    #[test]
    fn nothing_is_kept_of_what_nobody_holds() {
        let mut state = held_by(&[]);
        assert!(state.0.is_empty());
        state = held_by(&["p"]);
        state.forget("ns", "a");
        assert!(state.0.is_empty());
        state = held_by(&["p"]);
        state.forget_held();
        assert!(state.0.is_empty());
    }

    #[test]
    fn after_a_gap_everything_held_is_looked_at() {
        let mut state = held_by(&["p"]);
        assert_eq!(state.want_all_held(), ["ns"]);
        assert_eq!(state.begin("ns"), ["a"]);
    }

    #[test]
    fn many_are_looked_at_in_parts() {
        let mut state = State::default();
        for number in 0..=BATCH {
            state.want("ns", &number.to_string());
        }
        assert_eq!(state.begin("ns").len(), BATCH);
        assert!(state.is_due("ns"));
        assert_eq!(state.begin("ns").len(), 1);
        assert!(!state.is_due("ns"));
    }
}
