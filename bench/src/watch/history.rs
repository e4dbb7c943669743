//! Checks watch correctness: the unfiltered watch must match the acknowledged writes, and each filtered watch must
//! match the events derived from the unfiltered one.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::event::{TimedWatchEvent, WatchEventType};
use super::watchers::WatcherRecord;

/// Write that the server acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AcknowledgedWrite {
    pub(super) pod: u32,
    /// Label of the pod after the write; None for a deleted pod.
    pub(super) app: Option<u32>,
    /// resourceVersion in the response; None for a deleted pod, whose response need not have one.
    pub(super) version: Option<u64>,
}

impl From<&TimedWatchEvent> for AcknowledgedWrite {
    fn from(event: &TimedWatchEvent) -> Self {
        let there = event.kind != WatchEventType::Deleted;
        Self {
            pod: event.pod,
            app: event.app.filter(|_| there),
            version: there.then_some(event.version),
        }
    }
}

/// Event that a watcher must receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedEvent {
    kind: WatchEventType,
    pod: u32,
    version: u64,
}

impl fmt::Display for ExpectedEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExpectedEvent { kind, pod, version } = self;
        write!(formatter, "{kind:?} of pod {pod} at version {version}")
    }
}

impl From<&TimedWatchEvent> for ExpectedEvent {
    fn from(event: &TimedWatchEvent) -> Self {
        Self {
            kind: event.kind,
            pod: event.pod,
            version: event.version,
        }
    }
}

/// All events in order, as received by an unfiltered watcher.
pub(super) struct EventHistory(Vec<TimedWatchEvent>);

impl EventHistory {
    pub(super) fn of(everything: &WatcherRecord) -> Self {
        let events = everything.received.iter();
        let events = events.filter(|event| event.kind != WatchEventType::Bookmark);
        Self(events.copied().collect())
    }

    /// Checks the history itself: it must contain exactly the acknowledged writes, with increasing resourceVersions.
    pub(super) fn problems(&self, changes: &[AcknowledgedWrite]) -> Vec<String> {
        let mut problems = Vec::new();
        for pair in self.0.windows(2) {
            if pair[1].version <= pair[0].version {
                let (event, before) = (ExpectedEvent::from(&pair[1]), pair[0].version);
                problems.push(format!("the history has {event} after version {before}"));
            }
        }
        let happened: HashSet<AcknowledgedWrite> =
            self.0.iter().map(AcknowledgedWrite::from).collect();
        let answered: HashSet<AcknowledgedWrite> = changes.iter().copied().collect();
        for change in answered.difference(&happened) {
            problems.push(format!("the history lacks {change:?}, which was answered"));
        }
        let mut next_of: HashMap<u32, WatchEventType> = HashMap::new();
        for event in self.0.iter().rev() {
            let next = next_of.insert(event.pod, event.kind);
            // A delete may set deletionTimestamp first and then remove the pod: two events for one request.
            let mark =
                event.kind == WatchEventType::Modified && next == Some(WatchEventType::Deleted);
            if !mark && !answered.contains(&AcknowledgedWrite::from(event)) {
                let event = ExpectedEvent::from(event);
                problems.push(format!("the history has {event}, which nobody did"));
            }
            if event.kind == WatchEventType::Deleted && next.is_some() {
                let event = ExpectedEvent::from(event);
                problems.push(format!("the history goes on after {event}"));
            }
        }
        problems
    }

    /// Events that the watcher of each application must receive.
    pub(super) fn due(&self, apps: usize) -> Vec<Vec<ExpectedEvent>> {
        let mut due = vec![Vec::new(); apps];
        let mut labels: HashMap<u32, u32> = HashMap::new();
        for event in &self.0 {
            let (pod, version) = (event.pod, event.version);
            let new = event.app.filter(|_| event.kind != WatchEventType::Deleted);
            let old = match new {
                Some(app) => labels.insert(pod, app),
                None => labels.remove(&pod),
            };
            let mut expect_event = |app: u32, kind| {
                if let Some(due) = due.get_mut(app as usize) {
                    due.push(ExpectedEvent { kind, pod, version });
                }
            };
            match (old, new) {
                (Some(old), Some(new)) if old == new => expect_event(new, WatchEventType::Modified),
                (old, new) => {
                    old.into_iter()
                        .for_each(|app| expect_event(app, WatchEventType::Deleted));
                    new.into_iter()
                        .for_each(|app| expect_event(app, WatchEventType::Added));
                }
            }
        }
        due
    }
}

/// Checks the events of an application's watcher; returns the first problem.
pub(super) fn check(app: usize, stream: &WatcherRecord, due: &[ExpectedEvent]) -> Option<String> {
    let problem = check_end(stream)
        .or_else(|| check_events(stream, due))
        .or_else(|| check_bookmarks(stream))
        .or_else(|| check_labels(app, stream))?;
    Some(format!("watcher {app}: {problem}"))
}

fn check_end(stream: &WatcherRecord) -> Option<String> {
    let end = stream.end.as_ref()?;
    Some(format!("its watch ended: {end}"))
}

/// Expected events in order, no duplicates, none missing.
fn check_events(stream: &WatcherRecord, due: &[ExpectedEvent]) -> Option<String> {
    let events = stream
        .received
        .iter()
        .filter(|it| it.kind != WatchEventType::Bookmark);
    let mut received: HashSet<u64> = HashSet::new();
    let mut due = due.iter();
    for event in events.map(ExpectedEvent::from) {
        let repeated = !received.insert(event.version);
        match due.next() {
            Some(due) if *due == event => {}
            _ if repeated => return Some(format!("received twice: {event}")),
            Some(due) => return Some(format!("received {event}, but expected {due}")),
            None => return Some(format!("received {event}, but expected nothing more")),
        }
    }
    let missed = due.next()?;
    Some(format!("not received: {missed}, and {} more", due.count()))
}

/// No event after a bookmark is older than it, and no bookmark is older than the events before it.
fn check_bookmarks(stream: &WatcherRecord) -> Option<String> {
    let (mut bookmark, mut last) = (0, 0);
    for event in &stream.received {
        let version = event.version;
        if event.kind == WatchEventType::Bookmark {
            if version < last {
                return Some(format!("a bookmark of {version} after version {last}"));
            }
            bookmark = version;
        } else if version <= bookmark {
            let event = ExpectedEvent::from(event);
            return Some(format!("{event} after a bookmark of {bookmark}"));
        }
        last = version;
    }
    None
}

/// Every object sent to a watcher has its label, also in DELETED events of relabeled pods.
fn check_labels(app: usize, stream: &WatcherRecord) -> Option<String> {
    let mut events = stream
        .received
        .iter()
        .filter(|it| it.kind != WatchEventType::Bookmark);
    let other = events.find(|event| event.app.map(|shown| shown as usize) != Some(app))?;
    let (event, shown) = (ExpectedEvent::from(other), other.app);
    Some(format!("{event} was shown with the label of {shown:?}"))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
