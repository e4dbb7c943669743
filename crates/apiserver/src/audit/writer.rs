//! One thread writes the log. Requests never wait for it: when it falls behind, events are dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{Event, Policy};

/// What may wait to be written.
const QUEUE_EVENTS_MAX: usize = 10_000;
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where the log goes, and how much of it is kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// `-` is standard output.
    pub path: PathBuf,
    /// When the file is put aside for a new one; 0 is never.
    pub bytes_max: u64,
    /// How many files that were put aside are kept; 0 keeps all.
    pub backups_max: usize,
    pub policy: Policy,
}

/// The log, for those who have something to say.
#[derive(Debug)]
pub struct AuditLog {
    /// `None` only while it is dropped.
    queue: Option<SyncSender<Event>>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
    policy: Policy,
}

#[derive(Debug, Default)]
struct Counts {
    bytes_queued: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl AuditLog {
    pub fn open(options: Options) -> io::Result<AuditLog> {
        let policy = options.policy.clone();
        let output = Output::open(options)?;
        let (queue, events) = sync_channel(QUEUE_EVENTS_MAX);
        let counts = Arc::new(Counts::default());
        let writer = Writer {
            output,
            counts: counts.clone(),
            dropped_told: 0,
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&events))?;
        Ok(AuditLog {
            queue: Some(queue),
            counts,
            thread: Some(thread),
            policy,
        })
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Puts an event into the queue if its stage is logged, or drops it if there is no room.
    pub fn record(&self, event: Event) {
        if !event.terms.has(event.stage) {
            return;
        }
        let bytes = event.bytes();
        let before = self.counts.bytes_queued.fetch_add(bytes, Ordering::Relaxed);
        let room = before + bytes <= QUEUE_BYTES_MAX;
        let queued = room
            && self
                .queue
                .as_ref()
                .is_some_and(|queue| queue.try_send(event).is_ok());
        if !queued {
            self.counts.bytes_queued.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }

    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for AuditLog {
    /// What is queued is written before the server ends.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    output: Output,
    counts: Arc<Counts>,
    dropped_told: u64,
}

impl Writer {
    fn run(mut self, events: &Receiver<Event>) {
        while let Ok(event) = events.recv() {
            self.write(&event);
            // What is there is written together; then it can be read.
            while let Ok(event) = events.try_recv() {
                self.write(&event);
            }
            if let Err(error) = self.output.flush() {
                tracing::error!(%error, "the audit log cannot be written");
            }
            self.tell_dropped();
        }
        self.tell_dropped();
    }

    fn write(&mut self, event: &Event) {
        let result = event
            .to_json()
            .map_err(io::Error::from)
            .and_then(|line| self.output.write_line(line));
        match result {
            Ok(()) => self.counts.written.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                tracing::error!(%error, "an audit event cannot be written");
                self.counts.dropped.fetch_add(1, Ordering::Relaxed)
            }
        };
        // It takes room until it is written, however slow the disk is.
        self.counts
            .bytes_queued
            .fetch_sub(event.bytes(), Ordering::Relaxed);
    }

    fn tell_dropped(&mut self) {
        let dropped = self.counts.dropped.load(Ordering::Relaxed);
        if dropped > self.dropped_told {
            tracing::warn!(
                "{} audit events were dropped: they come faster than they can be written",
                dropped - self.dropped_told
            );
            self.dropped_told = dropped;
        }
    }
}

enum Output {
    Standard(BufWriter<io::Stdout>),
    File {
        options: Options,
        file: BufWriter<File>,
        bytes: u64,
    },
}

impl Output {
    fn open(options: Options) -> io::Result<Output> {
        if options.path == Path::new("-") {
            return Ok(Output::Standard(BufWriter::new(io::stdout())));
        }
        let (file, bytes) = open_file(&options.path)?;
        Ok(Output::File {
            options,
            file,
            bytes,
        })
    }

    fn write_line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        match self {
            Output::Standard(out) => out.write_all(&line),
            Output::File {
                options,
                file,
                bytes,
            } => {
                let length = line.len() as u64;
                if options.bytes_max > 0 && *bytes > 0 && *bytes + length > options.bytes_max {
                    file.flush()?;
                    put_aside(options)?;
                    (*file, *bytes) = open_file(&options.path)?;
                }
                *bytes += length;
                file.write_all(&line)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Standard(out) => out.flush(),
            Output::File { file, .. } => file.flush(),
        }
    }
}

/// Only its owner may read it.
fn open_file(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    let bytes = file.metadata()?.len();
    Ok((BufWriter::new(file), bytes))
}

/// `audit.log` becomes `audit.log.1`, that becomes `audit.log.2`, and so on; the oldest goes.
fn put_aside(options: &Options) -> io::Result<()> {
    let numbered = |number: usize| {
        let mut name = options.path.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let mut last = 1;
    while numbered(last).exists() && (options.backups_max == 0 || last < options.backups_max) {
        last += 1;
    }
    for number in (1..last).rev() {
        std::fs::rename(numbered(number), numbered(number + 1))?;
    }
    std::fs::rename(&options.path, numbered(1))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use bytes::Bytes;
    use http::header::{HeaderMap, HeaderValue};
    use rhumb_meta::Timestamp;

    use super::*;
    use crate::audit::{RequestFacts, Stage, Terms};
    use crate::request::{Query, RequestInfo};

    fn event(path: &str) -> Event {
        let now = Timestamp::from_unix(1_800_000_000, 123_456_789);
        let info = RequestInfo::new(&http::Method::GET, path, &Query::default());
        Event {
            terms: Terms::default(),
            facts: RequestFacts::new(
                HeaderValue::from_static("id"),
                &path.parse().unwrap(),
                &info,
                "10.1.2.3",
                &HeaderMap::new(),
                now,
            ),
            stage: Stage::ResponseComplete,
            stage_time: now,
            user: None,
            impersonated: None,
            code: 200,
            failure: None,
            notes: Vec::new(),
            decision: Some((true, String::new())),
            request: None,
            answer: None,
            truncated: false,
        }
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn everything_queued_is_written_before_the_end_in_upstreams_form() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let log = AuditLog::open(Options {
            path: path.clone(),
            bytes_max: 0,
            backups_max: 0,
            policy: Policy::default(),
        })
        .unwrap();
        for _ in 0..100 {
            log.record(event("/apis/apps/v1/namespaces/default/deployments/web"));
        }
        drop(log);
        let lines = lines(&path);
        assert_eq!(lines.len(), 100);
        assert_eq!(
            lines[0],
            serde_json::json!({
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
                "auditID": "id", "stage": "ResponseComplete", "verb": "get",
                "requestURI": "/apis/apps/v1/namespaces/default/deployments/web",
                "sourceIPs": ["10.1.2.3"], "user": {},
                "objectRef": {"resource": "deployments", "namespace": "default", "name": "web",
                    "apiGroup": "apps", "apiVersion": "v1"},
                "responseStatus": {"metadata": {}, "code": 200},
                "requestReceivedTimestamp": "2027-01-15T08:00:00.123456Z",
                "stageTimestamp": "2027-01-15T08:00:00.123456Z",
                "annotations": {"authorization.k8s.io/decision": "allow",
                    "authorization.k8s.io/reason": ""},
            })
        );
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let log = AuditLog::open(Options {
            path: path.clone(),
            bytes_max: 1000,
            backups_max: 2,
            policy: Policy::default(),
        })
        .unwrap();
        for _ in 0..50 {
            log.record(event("/version"));
        }
        drop(log);
        let mut names: Vec<String> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2"]);
        for name in names {
            let path = directory.path().join(name);
            assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
            assert!(!lines(&path).is_empty());
        }
    }

    #[test]
    fn a_slow_disk_costs_events_and_no_memory() {
        const BODY_BYTES: usize = 1024 * 1024;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        // Opened in both directions, it waits for nobody.
        let mut pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let log = AuditLog::open(Options {
            path,
            bytes_max: 0,
            backups_max: 0,
            policy: Policy::default(),
        })
        .unwrap();
        let body = Bytes::from(format!("\"{}\"", "x".repeat(BODY_BYTES)));
        let events = 2 * QUEUE_BYTES_MAX / BODY_BYTES;
        for _ in 0..events {
            log.record(Event {
                request: Some(body.clone()),
                ..event("/version")
            });
        }
        let queued = log.counts.bytes_queued.load(Ordering::Relaxed);
        let kept = events as u64 - log.dropped();
        let counts = log.counts.clone();
        let end = std::thread::spawn(move || drop(log));
        let mut buffer = vec![0; 64 * 1024];
        let mut lines = 0;
        while lines < kept {
            let read = pipe.read(&mut buffer).unwrap();
            lines += buffer[..read].iter().filter(|&&it| it == b'\n').count() as u64;
        }
        end.join().unwrap();
        assert!(queued <= QUEUE_BYTES_MAX, "{queued}");
        assert!(kept as usize * BODY_BYTES <= QUEUE_BYTES_MAX, "{kept}");
        assert_eq!(counts.written.load(Ordering::Relaxed), kept);
        assert_eq!(counts.bytes_queued.load(Ordering::Relaxed), 0);
    }
}
