//! Writes audit events to a file or standard output in a thread of its own, with rotation. Requests never wait for it:
//! when it falls behind, events are dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{AuditEvent, AuditPolicy};

/// Limits of the queue.
const QUEUE_EVENTS_MAX: usize = 10_000;
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Destination and rotation of the audit log (upstream: the `--audit-log-*` flags).
#[derive(Debug, Clone)]
pub struct AuditLogOptions {
    /// `-` is standard output.
    pub path: PathBuf,
    /// Size at which the file is rotated; 0 disables rotation.
    pub bytes_max: u64,
    /// Number of rotated files to keep; 0 keeps all.
    pub backups_max: usize,
    pub policy: AuditPolicy,
}

/// Handle of the audit log: queues events for the writer thread.
#[derive(Debug)]
pub struct AuditLog {
    /// `None` only during drop.
    queue: Option<SyncSender<AuditEvent>>,
    counters: Arc<AuditLogCounters>,
    thread: Option<JoinHandle<()>>,
    policy: AuditPolicy,
}

#[derive(Debug, Default)]
struct AuditLogCounters {
    bytes_queued: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl AuditLog {
    pub fn open(options: AuditLogOptions) -> io::Result<AuditLog> {
        let policy = options.policy.clone();
        let output = AuditLogOutput::open(options)?;
        let (queue, events) = sync_channel(QUEUE_EVENTS_MAX);
        let counters = Arc::new(AuditLogCounters::default());
        let writer = AuditLogWriter {
            output,
            counters: counters.clone(),
            dropped_reported: 0,
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&events))?;
        Ok(AuditLog {
            queue: Some(queue),
            counters,
            thread: Some(thread),
            policy,
        })
    }

    pub fn policy(&self) -> &AuditPolicy {
        &self.policy
    }

    /// Queues an event if its stage is logged; drops it if the queue is full.
    pub fn record(&self, event: AuditEvent) {
        if !event.config.logs_stage(event.stage) {
            return;
        }
        let bytes = event.estimated_bytes();
        let queued_before = self
            .counters
            .bytes_queued
            .fetch_add(bytes, Ordering::Relaxed);
        let fits = queued_before + bytes <= QUEUE_BYTES_MAX;
        let queued = fits
            && self
                .queue
                .as_ref()
                .is_some_and(|queue| queue.try_send(event).is_ok());
        if !queued {
            self.counters
                .bytes_queued
                .fetch_sub(bytes, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn written(&self) -> u64 {
        self.counters.written.load(Ordering::Relaxed)
    }

    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for AuditLog {
    /// Waits until all queued events are written.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The writer thread.
struct AuditLogWriter {
    output: AuditLogOutput,
    counters: Arc<AuditLogCounters>,
    dropped_reported: u64,
}

impl AuditLogWriter {
    fn run(mut self, events: &Receiver<AuditEvent>) {
        while let Ok(event) = events.recv() {
            self.write(&event);
            // Write all queued events before flushing.
            while let Ok(event) = events.try_recv() {
                self.write(&event);
            }
            if let Err(error) = self.output.flush() {
                tracing::error!(%error, "failed to flush the audit log");
            }
            self.report_dropped();
        }
        self.report_dropped();
    }

    fn write(&mut self, event: &AuditEvent) {
        let result = event
            .to_json()
            .map_err(io::Error::from)
            .and_then(|line| self.output.write_line(line));
        match result {
            Ok(()) => self.counters.written.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                tracing::error!(%error, "failed to write an audit event; dropping it");
                self.counters.dropped.fetch_add(1, Ordering::Relaxed)
            }
        };
        // An event counts against the queue limit until it is written.
        self.counters
            .bytes_queued
            .fetch_sub(event.estimated_bytes(), Ordering::Relaxed);
    }

    fn report_dropped(&mut self) {
        let dropped = self.counters.dropped.load(Ordering::Relaxed);
        if dropped > self.dropped_reported {
            tracing::warn!(
                events = dropped - self.dropped_reported,
                "dropped audit events: the queue is full or writing failed"
            );
            self.dropped_reported = dropped;
        }
    }
}

/// Destination of the log.
enum AuditLogOutput {
    Standard(BufWriter<io::Stdout>),
    File {
        options: AuditLogOptions,
        file: BufWriter<File>,
        bytes: u64,
    },
}

impl AuditLogOutput {
    fn open(options: AuditLogOptions) -> io::Result<AuditLogOutput> {
        if options.path == Path::new("-") {
            return Ok(AuditLogOutput::Standard(BufWriter::new(io::stdout())));
        }
        let (file, bytes) = open_file(&options.path)?;
        Ok(AuditLogOutput::File {
            options,
            file,
            bytes,
        })
    }

    fn write_line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        match self {
            AuditLogOutput::Standard(stdout) => stdout.write_all(&line),
            AuditLogOutput::File {
                options,
                file,
                bytes,
            } => {
                let length = line.len() as u64;
                if options.bytes_max > 0 && *bytes > 0 && *bytes + length > options.bytes_max {
                    file.flush()?;
                    rotate(options)?;
                    (*file, *bytes) = open_file(&options.path)?;
                }
                *bytes += length;
                file.write_all(&line)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            AuditLogOutput::Standard(stdout) => stdout.flush(),
            AuditLogOutput::File { file, .. } => file.flush(),
        }
    }
}

/// Opens the log for appending, readable only by its owner; returns its current size too.
fn open_file(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    let bytes = file.metadata()?.len();
    Ok((BufWriter::new(file), bytes))
}

/// Renames `audit.log` to `audit.log.1`, that to `audit.log.2`, and so on; the oldest is overwritten.
fn rotate(options: &AuditLogOptions) -> io::Result<()> {
    let numbered = |number: usize| {
        let mut name = options.path.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let mut last_index = 1;
    while numbered(last_index).exists()
        && (options.backups_max == 0 || last_index < options.backups_max)
    {
        last_index += 1;
    }
    for number in (1..last_index).rev() {
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
    use crate::audit::{AuditStage, AuditedRequest, RequestAuditConfig};
    use rhumb_handlers::request::{QueryParameters, RequestInfo};

    fn event(path: &str) -> AuditEvent {
        let now = Timestamp::from_unix(1_800_000_000, 123_456_789);
        let info = RequestInfo::new(&http::Method::GET, path, &QueryParameters::default());
        AuditEvent {
            config: RequestAuditConfig::default(),
            audited_request: AuditedRequest::new(
                HeaderValue::from_static("id"),
                &path.parse().unwrap(),
                &info,
                "10.1.2.3",
                &HeaderMap::new(),
                now,
            ),
            stage: AuditStage::ResponseComplete,
            stage_time: now,
            user: None,
            impersonated: None,
            code: 200,
            failure: None,
            admission_annotations: Vec::new(),
            authorization: Some((true, String::new())),
            request: None,
            response: None,
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
    fn queued_events_are_written_at_shutdown_in_upstreams_format() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let log = AuditLog::open(AuditLogOptions {
            path: path.clone(),
            bytes_max: 0,
            backups_max: 0,
            policy: AuditPolicy::default(),
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
    fn full_files_are_rotated_and_the_oldest_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let log = AuditLog::open(AuditLogOptions {
            path: path.clone(),
            bytes_max: 1000,
            backups_max: 2,
            policy: AuditPolicy::default(),
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
    fn a_slow_disk_drops_events_instead_of_buffering_them() {
        const BODY_BYTES: usize = 1024 * 1024;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mkfifo = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(mkfifo.unwrap().success());
        // Opened for reading and writing, a FIFO does not block.
        let mut pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let log = AuditLog::open(AuditLogOptions {
            path,
            bytes_max: 0,
            backups_max: 0,
            policy: AuditPolicy::default(),
        })
        .unwrap();
        let body = Bytes::from(format!("\"{}\"", "x".repeat(BODY_BYTES)));
        let events = 2 * QUEUE_BYTES_MAX / BODY_BYTES;
        for _ in 0..events {
            log.record(AuditEvent {
                request: Some(body.clone()),
                ..event("/version")
            });
        }
        let queued = log.counters.bytes_queued.load(Ordering::Relaxed);
        let written_count = events as u64 - log.dropped();
        let counters = log.counters.clone();
        let end = std::thread::spawn(move || drop(log));
        let mut buffer = vec![0; 64 * 1024];
        let mut line_count = 0;
        while line_count < written_count {
            let bytes_read = pipe.read(&mut buffer).unwrap();
            line_count += buffer[..bytes_read]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count() as u64;
        }
        end.join().unwrap();
        assert!(queued <= QUEUE_BYTES_MAX, "{queued}");
        assert!(
            written_count as usize * BODY_BYTES <= QUEUE_BYTES_MAX,
            "{written_count}"
        );
        assert_eq!(counters.written.load(Ordering::Relaxed), written_count);
        assert_eq!(counters.bytes_queued.load(Ordering::Relaxed), 0);
    }
}
