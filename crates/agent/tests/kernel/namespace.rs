//! Network namespaces for the time of a test.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rhumb_agent::nft::{Connection, Kernel, Table};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Where nft is if it is not on the path.
const USUAL_PLACES: [&str; 2] = ["/usr/sbin/nft", "/sbin/nft"];

/// Whether a test can run at all. Only root can make network namespaces.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("*** SKIPPED: only root can test rules in a kernel ***");
    }
    is_root
}

/// A network namespace, with its loopback up. It goes with this value.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    pub(crate) fn new() -> Namespace {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rhumb-agent-{}-{number}", std::process::id());
        carry_out(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Namespace { name };
        namespace.ip("link set lo up");
        namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `ip` with these words, inside.
    pub(crate) fn ip(&self, words: &str) {
        let mut ip = Command::new("ip");
        ip.args(["-n", &self.name]).args(words.split_whitespace());
        carry_out(&mut ip);
    }

    pub(crate) fn forwards(&self) {
        for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let path = format!("/proc/sys/{}", setting.replace('.', "/"));
            self.inside(move || std::fs::write(path, "1").unwrap());
        }
    }

    /// Runs something on a thread that is inside. Sockets that it opens stay there.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let place = File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    pub(crate) fn connection(&self) -> Connection {
        self.inside(Connection::open).unwrap()
    }

    pub(crate) fn kernel(&self) -> Kernel {
        Kernel::new(self.connection(), table())
    }

    /// Runs nft inside.
    fn nft(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(nft());
        command
    }

    /// What nft answers to a command.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8(carry_out(self.nft().args(arguments))).unwrap()
    }

    /// Has nft carry out these commands, all at one moment.
    pub(crate) fn tell(&self, commands: &str) {
        let output = self.feed(commands);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{commands}");
    }

    /// Whether the kernel took them.
    pub(crate) fn try_to_tell(&self, commands: &str) -> bool {
        self.feed(commands).status.success()
    }

    fn feed(&self, commands: &str) -> Output {
        let mut nft = self.nft();
        nft.args(["-f", "-"]).stdin(Stdio::piped());
        let mut nft = nft.stderr(Stdio::piped()).spawn().unwrap();
        let mut input = nft.stdin.take().unwrap();
        input.write_all(commands.as_bytes()).unwrap();
        drop(input);
        nft.wait_with_output().unwrap()
    }

    /// What people are shown.
    pub(crate) fn listing(&self) -> String {
        self.ask(&["list", "table", "inet", table().name()])
    }

    /// All that there is in the table, without what differs from one table to the next that means the same.
    pub(crate) fn rules(&self) -> Vec<String> {
        let list = self.ask(&["-j", "-s", "list", "table", "inet", table().name()]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let objects = list["nftables"].as_array().unwrap().iter();
        let objects = objects
            .filter(|object| object.get("metainfo").is_none() && object["set"]["name"] != "marker");
        let mut texts: Vec<String> = objects
            .map(|object| plain(object.clone()).to_string())
            .collect();
        // Rules are in order within their chains; chains and sets are in the order in which they were made.
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

/// Handles are given out in order, and each table has a priority of its own; elements of sets have no order.
fn plain(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("handle");
            fields.remove("prio");
            for (name, field) in fields.iter_mut() {
                *field = plain(field.take());
                if let (Value::Array(items), "elem" | "set") = (field, name.as_str()) {
                    items.sort_by_key(Value::to_string);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = plain(item.take())),
        _ => {}
    }
    value
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let gone = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
        if !gone.is_ok_and(|status| status.success()) {
            eprintln!("the network namespace {} stays", self.name);
        }
    }
}

pub(crate) fn table() -> Table {
    Table::new("rhumb").unwrap()
}

fn nft() -> PathBuf {
    if let Some(path) = std::env::var_os("RHUMB_TEST_NFT") {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|place| place.join("nft"));
    let usual = USUAL_PLACES.iter().map(PathBuf::from);
    let found = places.find(|place| place.is_file());
    let mut all = found.into_iter().chain(usual);
    all.find(|place| place.is_file())
        .expect("nft is needed: apt-get install nftables, or name it in RHUMB_TEST_NFT")
}

pub(crate) fn carry_out(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output.stdout
}

/// A link between two namespaces: names of its ends, and their addresses.
pub(crate) fn link(a: (&Namespace, &str, &[&str]), b: (&Namespace, &str, &[&str])) {
    let mut ip = Command::new("ip");
    ip.args(["link", "add", a.1, "netns", a.0.name(), "type", "veth"]);
    carry_out(ip.args(["peer", "name", b.1, "netns", b.0.name()]));
    for (namespace, name, addresses) in [a, b] {
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            namespace.ip(&format!("addr add {address} dev {name} {nodad}"));
        }
        namespace.ip(&format!("link set {name} up"));
    }
}
