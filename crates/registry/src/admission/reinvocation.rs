//! Reinvocation of mutating webhooks and policies: those called before a later plugin changed the object may be called
//! once more (`reinvocationPolicy: IfNeeded`; upstream: `ReinvocationContext`).

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::sync::Arc;

use rhumb_api::JsonObject;

/// The reinvocation state of one request.
#[derive(Debug, Default)]
pub struct ReinvocationState(Mutex<ReinvocationStateInner>);

#[derive(Debug, Default)]
struct ReinvocationStateInner {
    is_reinvocation: bool,
    reinvocation_needed: bool,
    webhooks: PluginReinvocationState,
    policies: PluginReinvocationState,
}

/// The plugins that support reinvocation.
#[derive(Debug, Clone, Copy)]
pub enum MutatingPluginKind {
    Webhooks,
    Policies,
}

/// Which webhooks or policies of one plugin were called.
#[derive(Debug, Default)]
struct PluginReinvocationState {
    /// Ids that were called with `reinvocationPolicy: IfNeeded` and have seen all changes so far.
    reinvocable: HashSet<Arc<str>>,
    /// Ids to call again: the object changed after they were called.
    to_reinvoke: HashSet<Arc<str>>,
    /// The object as the plugin left it; kept only if `reinvocable` is not empty.
    last_output: Option<JsonObject>,
}

impl PluginReinvocationState {
    fn mark_for_reinvocation(&mut self) {
        self.to_reinvoke.extend(self.reinvocable.drain());
    }
}

impl ReinvocationStateInner {
    fn plugin(&mut self, plugin_kind: MutatingPluginKind) -> &mut PluginReinvocationState {
        match plugin_kind {
            MutatingPluginKind::Webhooks => &mut self.webhooks,
            MutatingPluginKind::Policies => &mut self.policies,
        }
    }
}

impl ReinvocationState {
    fn state(&self) -> MutexGuard<'_, ReinvocationStateInner> {
        self.0.lock()
    }

    /// Starts the reinvocation pass if one is needed; returns whether it starts.
    pub(super) fn begin_reinvocation(&self) -> bool {
        let mut state = self.state();
        let is_needed = state.reinvocation_needed && !state.is_reinvocation;
        state.is_reinvocation |= is_needed;
        is_needed
    }

    pub fn is_reinvocation(&self) -> bool {
        self.state().is_reinvocation
    }

    /// Called when a plugin starts. In the reinvocation pass, schedules all its ids if the object differs from what it
    /// left.
    pub fn plugin_started(&self, plugin_kind: MutatingPluginKind, object: Option<&JsonObject>) {
        let mut state = self.state();
        let second = state.is_reinvocation;
        let invocations = state.plugin(plugin_kind);
        if second && invocations.last_output.as_ref() != object {
            invocations.mark_for_reinvocation();
        }
    }

    /// Called when a plugin is done; remembers the object.
    pub fn plugin_finished(&self, plugin_kind: MutatingPluginKind, object: Option<&JsonObject>) {
        let mut state = self.state();
        if state.is_reinvocation {
            return;
        }
        let invocations = state.plugin(plugin_kind);
        if !invocations.reinvocable.is_empty() {
            invocations.last_output = object.cloned();
        }
    }

    /// Whether this id may be called: all in the first pass, then only those scheduled for reinvocation.
    pub fn may_invoke(&self, plugin_kind: MutatingPluginKind, id: &str) -> bool {
        let mut state = self.state();
        !state.is_reinvocation || state.plugin(plugin_kind).to_reinvoke.contains(id)
    }

    /// Records a call. If it changed the object, earlier ids are scheduled for reinvocation.
    pub fn record_invocation(
        &self,
        plugin_kind: MutatingPluginKind,
        id: &Arc<str>,
        changed: bool,
        reinvoked: bool,
    ) {
        let mut state = self.state();
        if changed {
            state.reinvocation_needed = true;
            state.plugin(plugin_kind).mark_for_reinvocation();
        }
        if reinvoked {
            state.plugin(plugin_kind).reinvocable.insert(id.clone());
        }
    }
}
