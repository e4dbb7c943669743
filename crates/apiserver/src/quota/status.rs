//! What quotas say is used.
//!
//! Writes are judged by the book and not by the status, so the status may come a little later: soon after the first
//! change, then at most once a second. Whoever reads quotas of a namespace has it brought up to date first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select_all;
use rhumb_api::Object;
use rhumb_cache::{Bell, Cache, Message, Start, WatchEnd, WatchRequest};
use rhumb_meta::{ObjectKey, Revision, Status, Timestamp};
use rhumb_quota::Amounts;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::ledger::Ledger;
use super::till::Till;
use crate::Api;
use crate::objects::Metadata;
use crate::start::{Amended, amend_all};

const RESOURCE: (&str, &str) = ("", "resourcequotas");

/// Changes that come within this time of the first are written together.
const GATHER: Duration = Duration::from_millis(30);

/// How far apart two writes of the same status are.
const APART: Duration = Duration::from_secs(1);

/// How much later than the server whose turn it is others write what is still missing.
const STAND_IN: Duration = Duration::from_secs(2);

/// How often the status is looked at though nothing seems to have changed.
const RESYNC: Duration = Duration::from_secs(300);

/// How many quotas are written in one transaction.
const AT_ONCE: usize = 100;

/// How often a status is computed anew because somebody else wrote it meanwhile.
const ATTEMPTS_MAX: usize = 4;

/// How long is waited for what somebody else wrote.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);

/// Writes what the book says into the status of each quota that says something else. All who have asked by the time
/// at which one begins are served by it.
pub(super) async fn settle(api: &Arc<Api>, till: &Till, asked: Instant) -> Result<(), Status> {
    let mut settled = till.settled.lock().await;
    if settled.is_some_and(|began| began > asked) {
        return Ok(());
    }
    for _ in 0..ATTEMPTS_MAX {
        let began = Instant::now();
        let counted = Counted::of(&*till.open(api).await?);
        if counted.write(api).await? {
            *settled = Some(began);
            break;
        }
        // What overtook it has to be here before it is changed.
        let caught_up = api.hub.current(Instant::now() + CATCH_UP_MAX).await;
        caught_up.map_err(Status::internal_error)?;
    }
    Ok(())
}

/// What is used, by the quotas that count it.
struct Counted {
    used: Vec<(ObjectKey, Amounts)>,
    as_of: Revision,
}

impl Counted {
    fn of(ledger: &Ledger) -> Counted {
        let used = |(place, key): (usize, &ObjectKey)| (key.clone(), ledger.book.used(place));
        Counted {
            used: ledger.quota_keys().enumerate().map(used).collect(),
            as_of: ledger.shown(),
        }
    }

    /// Whether all quotas say so now; else somebody else wrote one of them meanwhile.
    async fn write(&self, api: &Arc<Api>) -> Result<bool, Status> {
        let mut is_done = true;
        for few in self.used.chunks(AT_ONCE) {
            match self.write_few(api, few).await {
                Ok(is_written) => is_done &= is_written,
                // One of them may be at fault, or all together are too large.
                Err(_) if few.len() > 1 => {
                    for one in few {
                        let written = self.write_few(api, std::slice::from_ref(one)).await;
                        is_done &= written.unwrap_or_else(|problem| {
                            tracing::warn!(
                                quota = one.0.name(),
                                problem,
                                "a quota cannot be told what is used"
                            );
                            true
                        });
                    }
                }
                Err(problem) => return Err(Status::internal_error(problem)),
            }
        }
        Ok(is_done)
    }

    async fn write_few(
        &self,
        api: &Arc<Api>,
        few: &[(ObjectKey, Amounts)],
    ) -> Result<bool, String> {
        let was_newer = AtomicBool::new(false);
        let edits = few.iter().map(|(key, used)| {
            let was_newer = &was_newer;
            let edit = move |quota: Object| {
                // Another server may have counted more than this one has seen.
                let version = quota.resource_version().parse::<u64>();
                let is_newer = version.is_ok_and(|version| version > self.as_of.get());
                was_newer.fetch_or(is_newer, Ordering::Relaxed);
                amended(quota, used).filter(|_| !is_newer)
            };
            (key, edit)
        });
        let written = amend_all(api, RESOURCE, edits);
        let written = written.await?;
        Ok(written != Amended::Overtaken && !was_newer.load(Ordering::Relaxed))
    }
}

/// The quota with another status, if it needs one.
fn amended(mut quota: Object, used: &Amounts) -> Option<Object> {
    let hard = quota.get("spec").map_or(&Value::Null, |spec| &spec["hard"]);
    let hard = if hard.is_object() {
        hard.clone()
    } else {
        json!({})
    };
    let status = json!({"hard": hard, "used": used.to_json()});
    let is_same = |field: &str| {
        let old = quota.get("status").map_or(&Value::Null, |old| &old[field]);
        old == &status[field] || (old.is_null() && status[field] == json!({}))
    };
    if is_same("hard") && is_same("used") {
        return None;
    }
    quota.insert("status".into(), status);
    Some(quota)
}

/// Keeps the books of all namespaces with quotas, and the status of the quotas if it is to, for as long as there is a
/// server.
pub(crate) fn keep(api: &Arc<Api>, writes_status: bool) {
    if let Some(quotas) = api.tills.quotas.clone() {
        api.tills.is_kept.store(writes_status, Ordering::Relaxed);
        tokio::spawn(follow(Arc::downgrade(api), quotas));
    }
}

/// What tells the task of each namespace with quotas that they have changed.
type Tended = HashMap<Box<str>, Arc<Notify>>;

async fn follow(api: Weak<Api>, quotas: Cache) {
    let (over, mut is_over) = mpsc::unbounded_channel();
    let mut tended = Tended::new();
    while let Ok(mut watcher) = quotas.watch(WatchRequest::everything(Start::List)) {
        loop {
            tokio::select! {
                message = watcher.next() => match message {
                    Ok(Message::Event(event)) => {
                        let namespace = event.entry().key().namespace().unwrap_or_default();
                        tend(&api, &over, &mut tended, namespace);
                    }
                    Ok(Message::InitialEnd(_)) => {}
                    Err(WatchEnd::Expired) => break,
                    Err(WatchEnd::Closing | WatchEnd::Removed) => return,
                },
                Some(namespace) = is_over.recv() => {
                    tended.remove::<str>(&namespace);
                    // A quota may have come while its task was about to end.
                    if quotas.snapshot().range(Some(&namespace), None).next().is_some() {
                        tend(&api, &over, &mut tended, &namespace);
                    }
                }
            }
        }
    }
}

fn tend(
    api: &Weak<Api>,
    over: &mpsc::UnboundedSender<Box<str>>,
    tended: &mut Tended,
    namespace: &str,
) {
    if let Some(changed) = tended.get(namespace) {
        changed.notify_one();
        return;
    }
    let changed = Arc::new(Notify::new());
    let task = keep_namespace(
        api.clone(),
        namespace.into(),
        Arc::clone(&changed),
        over.clone(),
    );
    tokio::spawn(task);
    tended.insert(namespace.into(), changed);
}

/// What wakes whoever keeps a namespace.
struct Wake {
    bells: Vec<Bell>,
    lapse: Option<Timestamp>,
}

async fn keep_namespace(
    api: Weak<Api>,
    namespace: Box<str>,
    changed: Arc<Notify>,
    over: mpsc::UnboundedSender<Box<str>>,
) {
    while let Some(running) = api.upgrade().filter(|api| !api.is_closing()) {
        let Some(till) = running.tills.of(&namespace) else {
            break;
        };
        let wake = match keep_once(&running, &namespace, &till).await {
            Ok(Some(wake)) => wake,
            Ok(None) => break,
            Err(problem) => {
                tracing::warn!(%namespace, problem = problem.message, "the status of quotas cannot be written");
                sleep(STAND_IN).await;
                continue;
            }
        };
        let earliest = Instant::now() + APART;
        let lapse = wake
            .lapse
            .map(|at| at.saturating_duration_since(running.clock.wall()));
        let is_ours = running.tills.turns.is_ours(&namespace);
        drop((running, till));
        tokio::select! {
            () = any(&wake.bells) => {}
            () = changed.notified() => {}
            () = sleep(lapse.unwrap_or(RESYNC).min(RESYNC)) => {}
        }
        sleep(if is_ours { GATHER } else { STAND_IN }).await;
        // The first change after a while is told at once, those that follow it together.
        sleep_until(earliest).await;
    }
    let _ = over.send(namespace);
}

/// Writes what is missing. If there are no quotas any more, and nothing is under way, the till is forgotten.
async fn keep_once(api: &Arc<Api>, namespace: &str, till: &Till) -> Result<Option<Wake>, Status> {
    if api.tills.is_kept() {
        settle(api, till, Instant::now()).await?;
    }
    let ledger = till.open(api).await?;
    if api.tills.forget(namespace, &ledger) {
        return Ok(None);
    }
    let lapse = match ledger.has_quotas() {
        true => ledger.book.next_lapse(),
        false => Some(api.clock.wall().saturating_add(APART)),
    };
    Ok(Some(Wake {
        bells: ledger.bells(),
        lapse,
    }))
}

async fn any(bells: &[Bell]) {
    if bells.is_empty() {
        return std::future::pending().await;
    }
    select_all(bells.iter().map(|bell| Box::pin(bell.rings()))).await;
}
