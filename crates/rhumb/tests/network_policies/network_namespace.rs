//! A network namespace that threads of a test enter.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::prerequisites::nft;
use crate::sctp_endpoint::SctpEndpoint;

/// A namespace, with a thread in it that runs servers and probes, so that their sockets belong to it.
#[derive(Debug)]
pub(crate) struct NetworkNamespace {
    /// Its name in tests and responses.
    pub(crate) name: String,
    /// Its name for `ip`.
    pub(crate) namespace: String,
    /// The addresses that it answers on, one or two of each family.
    pub(crate) addresses: Vec<IpAddr>,
    /// The nonces of all received packets, answered or not.
    pub(crate) arrived: Arc<Mutex<BTreeSet<u32>>>,
    pub(crate) endpoints: OnceLock<Vec<SctpEndpoint>>,
    runtime: Handle,
    end: CancellationToken,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl NetworkNamespace {
    /// Uses an existing namespace.
    pub(crate) fn new(name: &str, namespace: &str, addresses: &[IpAddr]) -> NetworkNamespace {
        let end = CancellationToken::new();
        let (send, receive) = std::sync::mpsc::channel();
        let (of_thread, ended) = (namespace.to_owned(), end.clone());
        let thread = thread::spawn(move || {
            enter(&of_thread);
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            send.send(runtime.handle().clone()).expect("the test waits");
            runtime.block_on(ended.cancelled());
        });
        NetworkNamespace {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            addresses: addresses.to_vec(),
            arrived: Arc::default(),
            endpoints: OnceLock::new(),
            runtime: receive.recv().expect("the thread says that it is there"),
            end,
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Spawns a task in this namespace.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.runtime.spawn(task)
    }

    /// Runs on a new thread inside the namespace, which child processes inherit.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let body = || {
            enter(&self.namespace);
            act()
        };
        let ended = thread::scope(|scope| scope.spawn(body).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` commands, one per line, in one process.
    pub(crate) fn ip(&self, lines: &str) {
        self.inside(|| feed("ip", &["-batch", "-"], lines));
    }

    pub(crate) fn nft(&self, lines: &str) {
        self.inside(|| feed(&nft(), &["-f", "-"], lines));
    }

    /// The nftables ruleset of the namespace, as text.
    pub(crate) fn ruleset(&self) -> String {
        let listed = self.inside(|| Command::new(nft()).args(["list", "ruleset"]).output());
        String::from_utf8_lossy(&listed.expect("nft runs").stdout).into_owned()
    }

    /// Sysctls belong to the namespace of the writing thread.
    pub(crate) fn set(&self, settings: &[(&str, &str)]) {
        self.inside(|| {
            for (name, value) in settings {
                let path = format!("/proc/sys/net/{name}");
                let written = std::fs::write(&path, value);
                written.unwrap_or_else(|error| panic!("{path}: {error}"));
            }
        });
    }

    /// The first address of a family.
    pub(crate) fn address(&self, is_v4: bool) -> IpAddr {
        let found = self.addresses.iter().find(|own| own.is_ipv4() == is_v4);
        *found.unwrap_or_else(|| panic!("{} has no such address", self.name))
    }

    pub(crate) fn has_seen(&self, nonce: u32) -> bool {
        self.arrived.lock().expect("a set").contains(&nonce)
    }

    pub(crate) fn note(&self, nonce: u32) {
        self.arrived.lock().expect("a set").insert(nonce);
    }

    /// Stops all tasks in this namespace and waits for them.
    pub(crate) fn close(&self) {
        self.end.cancel();
        let thread = self.thread.lock().map(|mut thread| thread.take());
        if let Ok(Some(thread)) = thread {
            let _ = thread.join();
        }
    }
}

fn enter(namespace: &str) {
    let path = format!("/run/netns/{namespace}");
    let file = File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    entered.unwrap_or_else(|error| panic!("cannot enter {namespace}: {error}"));
}

/// Runs a program with commands on standard input; it must succeed.
pub(crate) fn feed(program: &str, arguments: &[&str], input: &str) {
    let mut process = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut pipe = process.stdin.take().expect("a pipe");
    pipe.write_all(input.as_bytes())
        .expect("the program reads on");
    drop(pipe);
    let output = process.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {stderr}\n{input}");
}
