//! Temporary network namespaces for tests.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rhumb_agent::nft::{KernelTable, NftTable, NftablesConnection};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Locations of nft if it is not in PATH.
const DEFAULT_NFT_PATHS: [&str; 2] = ["/usr/sbin/nft", "/sbin/nft"];

/// Whether the tests can run: only root can create network namespaces.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("*** SKIPPED: kernel tests require root ***");
    }
    is_root
}

/// A network namespace with its loopback up. Deleted on drop.
#[derive(Debug)]
pub(crate) struct TestNetworkNamespace {
    name: String,
}

impl TestNetworkNamespace {
    pub(crate) fn new() -> TestNetworkNamespace {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rhumb-agent-{}-{number}", std::process::id());
        run_command(Command::new("ip").args(["netns", "add", &name]));
        let namespace = TestNetworkNamespace { name };
        namespace.ip("link set lo up");
        namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these arguments in the namespace.
    pub(crate) fn ip(&self, ip_arguments: &str) {
        let mut ip = Command::new("ip");
        ip.args(["-n", &self.name])
            .args(ip_arguments.split_whitespace());
        run_command(&mut ip);
    }

    pub(crate) fn enable_forwarding(&self) {
        for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let path = format!("/proc/sys/{}", setting.replace('.', "/"));
            self.run_inside(move || std::fs::write(path, "1").unwrap());
        }
    }

    /// Runs a closure on a thread in the namespace. Sockets that it opens stay in the namespace.
    pub(crate) fn run_inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    pub(crate) fn connection(&self) -> NftablesConnection {
        self.run_inside(NftablesConnection::open).unwrap()
    }

    pub(crate) fn kernel(&self) -> KernelTable {
        KernelTable::new(self.connection(), table())
    }

    /// An nft command in the namespace.
    fn nft(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(nft());
        command
    }

    /// The output of an nft command.
    pub(crate) fn nft_output(&self, arguments: &[&str]) -> String {
        String::from_utf8(run_command(self.nft().args(arguments))).unwrap()
    }

    /// Applies these commands with `nft -f`, in one transaction.
    pub(crate) fn nft_apply(&self, commands: &str) {
        let output = self.nft_stdin(commands);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}\n{commands}");
    }

    /// Returns whether the kernel accepted the commands.
    pub(crate) fn nft_try_apply(&self, commands: &str) -> bool {
        self.nft_stdin(commands).status.success()
    }

    fn nft_stdin(&self, commands: &str) -> Output {
        let mut nft = self.nft();
        nft.args(["-f", "-"]).stdin(Stdio::piped());
        let mut nft = nft.stderr(Stdio::piped()).spawn().unwrap();
        let mut input = nft.stdin.take().unwrap();
        input.write_all(commands.as_bytes()).unwrap();
        drop(input);
        nft.wait_with_output().unwrap()
    }

    /// The output of `nft list table`.
    pub(crate) fn listing(&self) -> String {
        self.nft_output(&["list", "table", "inet", table().name()])
    }

    /// All objects of the table as normalized JSON, comparable between equivalent tables.
    pub(crate) fn rules(&self) -> Vec<String> {
        let list = self.nft_output(&["-j", "-s", "list", "table", "inet", table().name()]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let objects = list["nftables"].as_array().unwrap().iter();
        let objects = objects
            .filter(|object| object.get("metainfo").is_none() && object["set"]["name"] != "marker");
        let mut texts: Vec<String> = objects
            .map(|object| normalized(object.clone()).to_string())
            .collect();
        // The order of rules within a chain matters; chains and sets are listed in creation order, which does not.
        texts.sort_by_key(|text| (text.starts_with("{\"rule\""), chain_of(text)));
        texts
    }
}

fn chain_of(text: &str) -> String {
    let object: Value = serde_json::from_str(text).unwrap();
    match object.get("rule") {
        Some(rule) => rule["chain"].as_str().unwrap_or_default().to_owned(),
        None => text.to_owned(),
    }
}

/// Removes handles and priorities, which differ between equivalent tables, and sorts set elements.
fn normalized(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("handle");
            fields.remove("prio");
            for (name, field) in fields.iter_mut() {
                *field = normalized(field.take());
                if let (Value::Array(items), "elem" | "set") = (field, name.as_str()) {
                    items.sort_by_key(Value::to_string);
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = normalized(item.take())),
        _ => {}
    }
    value
}

impl Drop for TestNetworkNamespace {
    fn drop(&mut self) {
        let gone = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
        if !gone.is_ok_and(|status| status.success()) {
            eprintln!("failed to delete the network namespace {}", self.name);
        }
    }
}

pub(crate) fn table() -> NftTable {
    NftTable::new("rhumb").unwrap()
}

fn nft() -> PathBuf {
    if let Some(path) = std::env::var_os("RHUMB_TEST_NFT") {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|candidate| candidate.join("nft"));
    let usual = DEFAULT_NFT_PATHS.iter().map(PathBuf::from);
    let found = candidates.find(|candidate| candidate.is_file());
    let mut all = found.into_iter().chain(usual);
    all.find(|candidate| candidate.is_file())
        .expect("nft not found: apt-get install nftables, or set RHUMB_TEST_NFT to its path")
}

pub(crate) fn run_command(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output.stdout
}

/// Connects two namespaces with a veth pair: interface name and addresses of each end.
pub(crate) fn link(
    a: (&TestNetworkNamespace, &str, &[&str]),
    b: (&TestNetworkNamespace, &str, &[&str]),
) {
    let mut ip = Command::new("ip");
    ip.args(["link", "add", a.1, "netns", a.0.name(), "type", "veth"]);
    run_command(ip.args(["peer", "name", b.1, "netns", b.0.name()]));
    for (namespace, name, addresses) in [a, b] {
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            namespace.ip(&format!("addr add {address} dev {name} {nodad}"));
        }
        namespace.ip(&format!("link set {name} up"));
    }
}
