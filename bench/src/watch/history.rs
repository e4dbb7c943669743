//! What really happened, what each watcher should have been told of it, and whether it was.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::event::{Kind, Seen};
use super::watchers::Stream;

/// A change that the server said it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) pod: u32,
    /// The label that the pod has since; none for a pod that is gone.
    pub(super) app: Option<u32>,
    /// As answered; for a pod that is gone, the answer need not say.
    pub(super) version: Option<u64>,
}

impl From<&Seen> for Change {
    fn from(seen: &Seen) -> Self {
        let there = seen.kind != Kind::Deleted;
        Self {
            pod: seen.pod,
            app: seen.app.filter(|_| there),
            version: there.then_some(seen.version),
        }
    }
}

/// An event that a watcher must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    kind: Kind,
    pod: u32,
    version: u64,
}

impl fmt::Display for Due {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Due { kind, pod, version } = self;
        write!(formatter, "{kind:?} of pod {pod} at version {version}")
    }
}

impl From<&Seen> for Due {
    fn from(seen: &Seen) -> Self {
        Self {
            kind: seen.kind,
            pod: seen.pod,
            version: seen.version,
        }
    }
}

/// All changes in their order, as a watcher of everything saw them.
pub(super) struct History(Vec<Seen>);

impl History {
    pub(super) fn of(everything: &Stream) -> Self {
        let events = everything.seen.iter();
        let events = events.filter(|seen| seen.kind != Kind::Bookmark);
        Self(events.copied().collect())
    }

    /// What is wrong with the history itself: it must be what the server said it did, in one order.
    pub(super) fn problems(&self, changes: &[Change]) -> Vec<String> {
        let mut problems = Vec::new();
        for pair in self.0.windows(2) {
            if pair[1].version <= pair[0].version {
                let (event, before) = (Due::from(&pair[1]), pair[0].version);
                problems.push(format!("the history has {event} after version {before}"));
            }
        }
        let happened: HashSet<Change> = self.0.iter().map(Change::from).collect();
        let answered: HashSet<Change> = changes.iter().copied().collect();
        for change in answered.difference(&happened) {
            problems.push(format!("the history lacks {change:?}, which was answered"));
        }
        let mut next_of: HashMap<u32, Kind> = HashMap::new();
        for seen in self.0.iter().rev() {
            let next = next_of.insert(seen.pod, seen.kind);
            // A server may mark a pod before it removes it, which are two events for one request.
            let mark = seen.kind == Kind::Modified && next == Some(Kind::Deleted);
            if !mark && !answered.contains(&Change::from(seen)) {
                let event = Due::from(seen);
                problems.push(format!("the history has {event}, which nobody did"));
            }
            if seen.kind == Kind::Deleted && next.is_some() {
                let event = Due::from(seen);
                problems.push(format!("the history goes on after {event}"));
            }
        }
        problems
    }

    /// What the watcher of each application must be told.
    pub(super) fn due(&self, apps: usize) -> Vec<Vec<Due>> {
        let mut due = vec![Vec::new(); apps];
        let mut labels: HashMap<u32, u32> = HashMap::new();
        for seen in &self.0 {
            let (pod, version) = (seen.pod, seen.version);
            let new = seen.app.filter(|_| seen.kind != Kind::Deleted);
            let old = match new {
                Some(app) => labels.insert(pod, app),
                None => labels.remove(&pod),
            };
            let mut tell = |app: u32, kind| {
                if let Some(due) = due.get_mut(app as usize) {
                    due.push(Due { kind, pod, version });
                }
            };
            match (old, new) {
                (Some(old), Some(new)) if old == new => tell(new, Kind::Modified),
                (old, new) => {
                    old.into_iter().for_each(|app| tell(app, Kind::Deleted));
                    new.into_iter().for_each(|app| tell(app, Kind::Added));
                }
            }
        }
        due
    }
}

/// What is wrong with what the watcher of an application was told, if anything.
pub(super) fn check(app: usize, stream: &Stream, due: &[Due]) -> Option<String> {
    let problem = check_end(stream)
        .or_else(|| check_events(stream, due))
        .or_else(|| check_bookmarks(stream))
        .or_else(|| check_labels(app, stream))?;
    Some(format!("watcher {app}: {problem}"))
}

fn check_end(stream: &Stream) -> Option<String> {
    let end = stream.end.as_ref()?;
    Some(format!("its watch ended: {end}"))
}

/// The same events in the same order, nothing twice, nothing missing.
fn check_events(stream: &Stream, due: &[Due]) -> Option<String> {
    let events = stream.seen.iter().filter(|it| it.kind != Kind::Bookmark);
    let mut told: HashSet<u64> = HashSet::new();
    let mut due = due.iter();
    for event in events.map(Due::from) {
        let repeated = !told.insert(event.version);
        match due.next() {
            Some(due) if *due == event => {}
            _ if repeated => return Some(format!("told twice: {event}")),
            Some(due) => return Some(format!("told {event}, but due was {due}")),
            None => return Some(format!("told {event}, but nothing more was due")),
        }
    }
    let missed = due.next()?;
    Some(format!("not told: {missed}, and {} more", due.count()))
}

/// After a bookmark comes nothing that is older, and no bookmark is older than what came before it.
fn check_bookmarks(stream: &Stream) -> Option<String> {
    let (mut bookmark, mut last) = (0, 0);
    for seen in &stream.seen {
        let version = seen.version;
        if seen.kind == Kind::Bookmark {
            if version < last {
                return Some(format!("a bookmark of {version} after version {last}"));
            }
            bookmark = version;
        } else if version <= bookmark {
            let event = Due::from(seen);
            return Some(format!("{event} after a bookmark of {bookmark}"));
        }
        last = version;
    }
    None
}

/// What a watcher is shown has its label, also when the pod no longer has.
fn check_labels(app: usize, stream: &Stream) -> Option<String> {
    let mut events = stream.seen.iter().filter(|it| it.kind != Kind::Bookmark);
    let other = events.find(|seen| seen.app.map(|shown| shown as usize) != Some(app))?;
    let (event, shown) = (Due::from(other), other.app);
    Some(format!("{event} was shown with the label of {shown:?}"))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
