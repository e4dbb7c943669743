//! Mutation in two rounds: who was asked before somebody else changed the object may be asked once more.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhumb_api::Object;

/// What is remembered of one write while it is mutated.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    second: bool,
    wanted: bool,
    webhooks: Memory,
    policies: Memory,
}

/// Which of two plugins is meant.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    Webhooks,
    Policies,
}

/// What one plugin remembers.
#[derive(Debug, Default)]
struct Memory {
    /// Who was asked, wants to be asked again, and has not missed a change yet.
    asked: HashSet<Arc<str>>,
    /// Who has missed one.
    again: HashSet<Arc<str>>,
    /// What the plugin left behind, where anybody wants to know.
    left: Option<Object>,
}

impl Memory {
    fn missed(&mut self) {
        self.again.extend(self.asked.drain());
    }
}

impl State {
    fn memory(&mut self, who: Who) -> &mut Memory {
        match who {
            Who::Webhooks => &mut self.webhooks,
            Who::Policies => &mut self.policies,
        }
    }
}

impl Rounds {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is to be a second round, which then begins.
    pub(super) fn begin_second(&self) -> bool {
        let mut state = self.state();
        let begins = state.wanted && !state.second;
        state.second |= begins;
        begins
    }

    pub(super) fn is_second(&self) -> bool {
        self.state().second
    }

    /// A plugin begins its part. In the second round, others may have changed what it left.
    pub(super) fn enter(&self, who: Who, object: Option<&Object>) {
        let mut state = self.state();
        let second = state.second;
        let memory = state.memory(who);
        if second && memory.left.as_ref() != object {
            memory.missed();
        }
    }

    /// A plugin has done its part.
    pub(super) fn leave(&self, who: Who, object: Option<&Object>) {
        let mut state = self.state();
        if state.second {
            return;
        }
        let memory = state.memory(who);
        if !memory.asked.is_empty() {
            memory.left = object.cloned();
        }
    }

    /// Whether this one may be asked now: everyone in the first round, then only who has missed a change.
    pub(super) fn may_ask(&self, who: Who, id: &str) -> bool {
        let mut state = self.state();
        !state.second || state.memory(who).again.contains(id)
    }

    /// Somebody was asked.
    pub(super) fn asked(&self, who: Who, id: &Arc<str>, changed: bool, reinvoked: bool) {
        let mut state = self.state();
        if changed {
            state.wanted = true;
            state.memory(who).missed();
        }
        if reinvoked {
            state.memory(who).asked.insert(id.clone());
        }
    }
}
