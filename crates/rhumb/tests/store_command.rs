//! The `rhumb store` command.

use std::path::Path;
use std::process::{Command, Output};

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{ExpectedRevision, Store, Transaction};

fn rhumb(arguments: &[&str], data: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rhumb"))
        .args(arguments)
        .arg("--data-dir")
        .arg(data)
        .output()
        .expect("the program runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn make_store(directory: &Path, objects: usize) {
    let store = EmbeddedStore::open(directory, EmbeddedOptions::default())
        .await
        .expect("a new store");
    for index in 0..objects {
        let key = format!("/registry/configmaps/default/{index}");
        let create = Transaction::new().put(key, "{}", ExpectedRevision::Absent);
        store.commit(create).await.expect("a creation");
    }
    store.close().await;
}

#[tokio::test]
async fn store_is_checked_backed_up_and_restored() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    make_store(&path("a"), 12).await;
    let checked = rhumb(&["store", "check"], &path("a"));
    assert!(
        stdout(&checked).starts_with("checked 12 objects"),
        "{checked:?}"
    );
    let file = path("backup").display().to_string();
    let saved = rhumb(
        &["store", "backup", "--to", &file, "-o", "json"],
        &path("a"),
    );
    let report: serde_json::Value = serde_json::from_slice(&saved.stdout).expect("JSON");
    assert_eq!(
        (&report["objects"], &report["damaged"]),
        (&12.into(), &serde_json::json!([]))
    );
    let restored = rhumb(&["store", "restore", "--from", &file], &path("b"));
    assert!(
        stdout(&restored).starts_with("restored 12 objects"),
        "{restored:?}"
    );
    let checked = rhumb(&["store", "check"], &path("b"));
    assert!(checked.status.success() && stdout(&checked).starts_with("checked 12 objects"));
    // Where `rhumb up --data-dir b` finds it.
    assert!(path("b/store/log").is_dir());
}

#[tokio::test]
async fn failures_are_reported_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    make_store(&path("a"), 1).await;
    let file = path("taken").display().to_string();
    std::fs::write(&file, "mine").expect("a file");
    let cases = [
        (rhumb(&["store", "check"], &path("nowhere")), "nowhere"),
        (
            rhumb(&["store", "backup", "--to", &file], &path("a")),
            "never overwrites a file",
        ),
        (
            rhumb(&["store", "restore", "--from", &file], &path("b")),
            "taken",
        ),
    ];
    for (output, words) in cases {
        let message = stderr(&output);
        assert!(!output.status.success(), "{message}");
        assert!(
            message.contains(words) && message.lines().count() == 1,
            "{message}"
        );
    }
    assert_eq!(std::fs::read(&file).expect("the file"), b"mine");
}

#[tokio::test]
async fn commands_reject_the_directory_of_a_running_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(directory.path(), EmbeddedOptions::default()).await;
    let store = store.expect("a new store");
    let refused = rhumb(&["store", "check"], directory.path());
    let message = stderr(&refused);
    let process = format!("in use by process {}", std::process::id());
    assert!(message.contains(&process), "{message}");
    store.close().await;
    assert!(
        rhumb(&["store", "check"], directory.path())
            .status
            .success()
    );
}

#[tokio::test]
async fn corruption_is_reported_and_can_be_discarded() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    make_store(&data, 3).await;
    let store = EmbeddedStore::open(&data, EmbeddedOptions::default())
        .await
        .expect("the store");
    let put = Transaction::new().put(
        "/registry/secrets/a/b",
        "unmistakable",
        ExpectedRevision::Absent,
    );
    store.commit(put).await.expect("a write");
    store.close().await;
    let file = data.join("log/00000000000000000002.log");
    let bytes = std::fs::read(&file).expect("the file");
    let text = bytes
        .iter()
        .map(|byte| char::from(*byte))
        .collect::<String>();
    let damaged = text.replace("unmistakable", "unmistakabel");
    std::fs::write(&file, damaged.chars().map(|c| c as u8).collect::<Vec<_>>()).expect("the file");

    let checked = rhumb(&["store", "check"], &data);
    assert!(!checked.status.success());
    let shown = stdout(&checked);
    assert!(shown.contains("damaged: /registry/secrets/a/b"), "{shown}");
    let backup = directory.path().join("backup").display().to_string();
    assert!(
        !rhumb(&["store", "backup", "--to", &backup], &data)
            .status
            .success()
    );

    let healthy = rhumb(
        &[
            "store",
            "drop-damaged",
            "--key",
            "/registry/configmaps/default/0",
        ],
        &data,
    );
    assert!(stderr(&healthy).contains("is not damaged"), "{healthy:?}");
    let dropped = rhumb(
        &["store", "drop-damaged", "--key", "/registry/secrets/a/b"],
        &data,
    );
    assert!(dropped.status.success(), "{dropped:?}");
    assert!(
        rhumb(&["store", "backup", "--to", &backup], &data)
            .status
            .success()
    );
}
