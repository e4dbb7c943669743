//! The parent process: kills children and verifies the store.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rhumb_store::embedded::EmbeddedStore;
use rhumb_store::{ChangeStreamEvent, Error, Revision, Store};
use rhumb_store_conformance::SeededRng;

use crate::child::{WRITERS, leading_number, left_key, options, right_key};

/// The commits acknowledged so far, as printed by the children.
struct AcknowledgedWrites {
    counts: [u64; WRITERS],
    revision: u64,
    total: u64,
}

/// The maximum lifetime of a child: long enough to open the store and write; many kills come earlier.
const CHILD_LIFETIME_MAX: Duration = Duration::from_millis(150);

pub(super) async fn torture(rounds: usize) -> Result<String, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let data = directory.path().join("data");
    let mut acknowledged = AcknowledgedWrites {
        counts: [0; WRITERS],
        revision: 0,
        total: 0,
    };
    let mut random = time_seeded_rng();
    let mut kills_in_recovery = 0;
    let mut last_report = Instant::now();
    for round in 1..=rounds {
        run_and_kill_writer(
            &data,
            random_duration(&mut random, CHILD_LIFETIME_MAX),
            &mut acknowledged,
        )?;
        // Sometimes kill the next child during its recovery.
        if round % 3 == 0 {
            run_and_kill_writer(
                &data,
                random_duration(&mut random, CHILD_LIFETIME_MAX / 20),
                &mut acknowledged,
            )?;
            kills_in_recovery += 1;
        }
        if let Err(violation) = verify_store(&data, &acknowledged).await {
            let kept = directory.keep();
            let kept = kept.display();
            return Err(format!("round {round}: {violation}; the data is in {kept}"));
        }
        if last_report.elapsed() > Duration::from_secs(10) {
            eprintln!("{round} of {rounds} rounds, {} writes", acknowledged.total);
            last_report = Instant::now();
        }
    }
    Ok(format!(
        "{rounds} rounds, {} kills, {} acknowledged writes, none lost",
        rounds + kills_in_recovery,
        acknowledged.total
    ))
}

fn run_and_kill_writer(
    data: &Path,
    lifetime: Duration,
    acknowledged: &mut AcknowledgedWrites,
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .arg("--child")
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("failed to start the writer process: {error}"))?;
    let mut output = child
        .stdout
        .take()
        .ok_or("the writer process has no stdout")?;
    // Read concurrently, or the writer would block once the pipe is full.
    let listener = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    std::thread::sleep(lifetime);
    if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
        return Err(format!("the writer exited on its own: {status}"));
    }
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    let text = listener.join().map_err(|_| "the output reader panicked")?;
    acknowledged.add_output(&text.map_err(|error| error.to_string())?)
}

impl AcknowledgedWrites {
    fn add_output(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let numbers: Vec<u64> = line
                .split(' ')
                .filter_map(|word| word.parse().ok())
                .collect();
            let [writer, count, revision] = numbers[..] else {
                return Err(format!("not an acknowledgement: {line:?}"));
            };
            self.counts[writer as usize] = count;
            self.revision = self.revision.max(revision);
            self.total += 1;
        }
        Ok(())
    }
}

/// Checks that every acknowledged commit is present and complete, and that the revision did not go back.
async fn verify_store(data: &Path, acknowledged: &AcknowledgedWrites) -> Result<(), String> {
    let store = EmbeddedStore::open(data, options())
        .await
        .map_err(|error| error.to_string())?;
    let revision = store.revision().await.map_err(|error| error.to_string())?;
    if revision.get() < acknowledged.revision {
        let seen = acknowledged.revision;
        return Err(format!("the revision went back from {seen} to {revision}"));
    }
    for (writer, count) in acknowledged.counts.iter().enumerate() {
        verify_writer(&store, writer, *count).await?;
    }
    verify_history(&store, revision).await?;
    store.close().await;
    Ok(())
}

async fn verify_writer(
    store: &EmbeddedStore,
    writer: usize,
    acknowledged: u64,
) -> Result<(), String> {
    let read = async |key: String| store.get(&key).await.map_err(|error| error.to_string());
    let (left, right) = (
        read(left_key(writer)).await?,
        read(right_key(writer)).await?,
    );
    let (Some(left), Some(right)) = (&left, &right) else {
        let nothing = left.is_none() && right.is_none() && acknowledged == 0;
        return nothing
            .then_some(())
            .ok_or(format!("writer {writer}: incomplete transaction"));
    };
    if (&left.value, left.modified) != (&right.value, right.modified) {
        return Err(format!("writer {writer}: incomplete transaction"));
    }
    let found = leading_number(&left.value);
    // A kill may interrupt one unacknowledged transaction per writer, and there may be two kills in a row.
    if found < acknowledged || found > acknowledged + 2 {
        return Err(format!(
            "writer {writer}: acknowledged {acknowledged}, found {found}"
        ));
    }
    Ok(())
}

/// Checks that the recent history has no gap: each writer increments by one.
async fn verify_history(store: &EmbeddedStore, revision: Revision) -> Result<(), String> {
    let mut after = Revision::new(revision.get().saturating_sub(500));
    let mut stream = loop {
        match store.changes("/left/", after).await {
            Ok(stream) => break stream,
            Err(Error::Compacted { oldest, .. }) => after = oldest,
            Err(error) => return Err(error.to_string()),
        }
    };
    stream
        .request_progress()
        .await
        .map_err(|error| error.to_string())?;
    let mut last = [None; WRITERS];
    while let ChangeStreamEvent::Changes(set) =
        stream.next().await.map_err(|error| error.to_string())?
    {
        for change in set.changes.iter() {
            let rhumb_store::KeyChange::Put { key, value, .. } = change else {
                return Err(format!("unexpected deletion of {}", change.key()));
            };
            let writer: usize = key["/left/".len()..]
                .parse()
                .map_err(|_| "unexpected key")?;
            let count = leading_number(value);
            if last[writer].is_some_and(|last: u64| last + 1 != count) {
                return Err(format!(
                    "writer {writer}: a gap before {count} in the history"
                ));
            }
            last[writer] = Some(count);
        }
    }
    Ok(())
}

/// A generator seeded by the current time, for different kill times in every run.
fn time_seeded_rng() -> SeededRng {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    SeededRng::new(now.map_or(1, |time| time.as_nanos() as u64))
}

fn random_duration(random: &mut SeededRng, bound: Duration) -> Duration {
    Duration::from_micros(random.below(bound.as_micros() as usize) as u64)
}
