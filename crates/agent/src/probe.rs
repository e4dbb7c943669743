//! What can be had on this node. All of it is looked up for the network namespace of this process.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::Error;
use crate::nft::Kernel;
use rhumb_netpol::report::Unimplemented;

/// The capability to change rules, as a bit of `CapEff`.
const CAP_NET_ADMIN: u32 = 12;
/// Only there if conntrack tells associations of SCTP apart by their ports.
const SCTP_TRACKED: &str = "sys/net/netfilter/nf_conntrack_sctp_timeout_established";
const IPV6_OFF: &str = "sys/net/ipv6/conf/all/disable_ipv6";
const BOOT_ID: &str = "sys/kernel/random/boot_id";

/// Features as policies know them.
pub(crate) const SCTP: &str = "SCTP";
const IPV6: &str = "IPv6";

/// Where the kernel tells about itself.
#[derive(Debug, Clone)]
pub(crate) struct System {
    proc: PathBuf,
    sys: PathBuf,
}

impl Default for System {
    fn default() -> System {
        System {
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

/// Whether rules see packets that stay on a bridge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bridged {
    Seen,
    /// And what people can do about it.
    Unseen(String),
    /// It cannot be told whether there are bridges.
    Unknown,
}

impl System {
    /// Finds out what cannot be had, or why nothing can.
    pub(crate) async fn probe(&self, kernel: &Kernel) -> Result<Vec<Unimplemented>, Error> {
        if !self.may_change_rules() {
            return Err(Error::NotAllowed);
        }
        kernel.probe().await.map_err(Error::of_kernel)?;
        Ok(self.unimplemented())
    }

    /// Which run of the kernel this is, as kubelets tell it of their nodes.
    pub(crate) fn boot_id(&self) -> Option<String> {
        let id = std::fs::read_to_string(self.proc.join(BOOT_ID)).ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// If it cannot be found out, the kernel will tell.
    pub(crate) fn may_change_rules(&self) -> bool {
        let Ok(status) = std::fs::read_to_string(self.proc.join("self/status")) else {
            return true;
        };
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        bits.is_none_or(|bits| bits & (1 << CAP_NET_ADMIN) != 0)
    }

    /// To be asked when the modules that rules need are loaded.
    fn unimplemented(&self) -> Vec<Unimplemented> {
        let mut all = Vec::new();
        if !self.proc.join(SCTP_TRACKED).exists() {
            all.push(Unimplemented {
                feature: SCTP.to_owned(),
                message: "the kernel's conntrack does not know SCTP (CONFIG_NF_CT_PROTO_SCTP)"
                    .to_owned(),
            });
        }
        let is_off = match std::fs::read_to_string(self.proc.join(IPV6_OFF)) {
            Ok(value) => value.trim() == "1",
            Err(_) => true,
        };
        if is_off {
            all.push(Unimplemented {
                feature: IPV6.to_owned(),
                message: "IPv6 is turned off on this node (net.ipv6.conf.all.disable_ipv6)"
                    .to_owned(),
            });
        }
        all
    }

    /// Sees to it that packets which stay on a bridge come by the rules, as those between pods of one node often do.
    pub(crate) fn see_bridged(&self) -> Bridged {
        let bridges = self.bridges();
        if bridges.as_ref().is_some_and(BTreeSet::is_empty) {
            return Bridged::Seen;
        }
        let switches = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"];
        let mut remedies = switches
            .iter()
            .filter_map(|name| self.switch_on(name).err());
        let remedy = remedies.next();
        match (bridges, remedy) {
            (None, _) => Bridged::Unknown,
            (Some(_), None) => Bridged::Seen,
            (Some(bridges), Some(remedy)) => {
                let bridges: Vec<String> = bridges.into_iter().collect();
                let bridges = bridges.join(", ");
                Bridged::Unseen(format!(
                    "rules do not see what goes over bridges ({bridges}), such as traffic between pods of this node: {remedy}"
                ))
            }
        }
    }

    /// Fails with what people can do about it.
    fn switch_on(&self, name: &str) -> Result<(), String> {
        let path = self.proc.join("sys/net/bridge").join(name);
        let Ok(value) = std::fs::read_to_string(&path) else {
            return Err("load the kernel module br_netfilter (modprobe br_netfilter)".to_owned());
        };
        if value.trim() != "0" {
            return Ok(());
        }
        std::fs::write(&path, "1").map_err(|error| {
            format!("set net.bridge.{name} to 1, which this process cannot: {error}")
        })?;
        tracing::info!("net.bridge.{name} is set to 1, so that rules see what goes over bridges");
        Ok(())
    }

    /// `None` if it cannot be told: what is mounted may show the interfaces of another namespace.
    fn bridges(&self) -> Option<BTreeSet<String>> {
        let table = std::fs::read_to_string(self.proc.join("net/dev")).ok()?;
        let lines = table.lines().filter_map(|line| line.split_once(':'));
        let here: BTreeSet<String> = lines.map(|(name, _)| name.trim().to_owned()).collect();
        let mut shown = BTreeSet::new();
        let mut bridges = BTreeSet::new();
        for entry in std::fs::read_dir(self.sys.join("class/net")).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().join("bridge").is_dir() {
                bridges.insert(name.clone());
            }
            if entry.path().is_dir() {
                shown.insert(name);
            }
        }
        (here == shown).then_some(bridges)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    struct Fake {
        root: tempfile::TempDir,
        system: System,
    }

    impl Fake {
        fn new(files: &[(&str, &str)]) -> Fake {
            let root = tempfile::tempdir().unwrap();
            let system = System {
                proc: root.path().join("proc"),
                sys: root.path().join("sys"),
            };
            let fake = Fake { root, system };
            for (path, text) in files {
                let path = fake.path(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            fake
        }

        fn path(&self, path: &str) -> PathBuf {
            self.root.path().join(Path::new(path))
        }
    }

    #[test]
    fn only_those_with_the_capability_may_change_rules() {
        for (status, may) in [
            ("Name:\tx\nCapEff:\t000001ffffffffff\n", true),
            ("CapEff:\t0000000000001000\n", true),
            ("CapEff:\t0000000000000fff\n", false),
            ("CapEff:\t0000000000000000\n", false),
            ("CapPrm:\t0000000000000000\n", true),
        ] {
            let fake = Fake::new(&[("proc/self/status", status)]);
            assert_eq!(fake.system.may_change_rules(), may, "{status}");
        }
    }

    #[test]
    fn a_run_of_the_kernel_has_a_name() {
        let id = "proc/sys/kernel/random/boot_id";
        let told = |files: &[(&str, &str)]| Fake::new(files).system.boot_id();
        assert_eq!(told(&[(id, "2d9f-11\n")]).as_deref(), Some("2d9f-11"));
        assert_eq!(told(&[(id, "\n")]), None);
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn what_the_kernel_lacks_is_told() {
        const SCTP_FILE: &str = "proc/sys/net/netfilter/nf_conntrack_sctp_timeout_established";
        const IPV6_FILE: &str = "proc/sys/net/ipv6/conf/all/disable_ipv6";
        for (files, lacks) in [
            (vec![(SCTP_FILE, "210\n"), (IPV6_FILE, "0\n")], vec![]),
            (vec![(IPV6_FILE, "0\n")], vec!["SCTP"]),
            (vec![(SCTP_FILE, "210\n"), (IPV6_FILE, "1\n")], vec!["IPv6"]),
            (vec![], vec!["SCTP", "IPv6"]),
        ] {
            let fake = Fake::new(&files);
            let lacking = fake.system.unimplemented();
            let lacking: Vec<&str> = lacking.iter().map(|it| it.feature.as_str()).collect();
            assert_eq!(lacking, lacks, "{files:?}");
        }
    }

    const V4: &str = "proc/sys/net/bridge/bridge-nf-call-iptables";
    const V6: &str = "proc/sys/net/bridge/bridge-nf-call-ip6tables";
    const INTERFACES: (&str, &str) = (
        "proc/net/dev",
        "Inter-|   Receive  |\n face |bytes\n    lo: 0 0\n  cni0: 1 1\n",
    );
    const LO: (&str, &str) = ("sys/class/net/lo/ifindex", "1");
    const CNI: (&str, &str) = ("sys/class/net/cni0/bridge/forward_delay", "0");
    const NO_BRIDGE: (&str, &str) = ("sys/class/net/cni0/ifindex", "2");

    #[test]
    fn packets_on_bridges_are_seen_or_it_is_told_why_not() {
        let bridge = [INTERFACES, LO, CNI];
        let with = |more: &[(&'static str, &'static str)]| [&bridge, more].concat();
        for (files, is_seen) in [
            (with(&[(V4, "1\n"), (V6, "1\n")]), true),
            (with(&[(V4, "0\n"), (V6, "0\n")]), true),
            (with(&[]), false),
            (with(&[(V4, "1\n")]), false),
            (vec![INTERFACES, LO, NO_BRIDGE], true),
        ] {
            let fake = Fake::new(&files);
            match fake.system.see_bridged() {
                Bridged::Unseen(told) if !is_seen => {
                    let words = ["(cni0)", "modprobe br_netfilter"];
                    assert!(words.iter().all(|word| told.contains(word)), "{told}");
                }
                bridged => assert!(is_seen && bridged == Bridged::Seen, "{files:?} {bridged:?}"),
            }
            for switch in [V4, V6] {
                let value = std::fs::read_to_string(fake.path(switch)).unwrap_or_default();
                assert_ne!(value.trim(), "0", "{files:?}");
            }
        }
    }

    #[test]
    fn where_interfaces_of_another_namespace_are_shown_nobody_complains_but_bridges_are_seen() {
        for others in [vec![], vec![("sys/class/net/br9/bridge/x", "")]] {
            let switches = [(V4, "0"), (V6, "1")];
            let files = [vec![INTERFACES, LO], others, switches.to_vec()].concat();
            let fake = Fake::new(&files);
            assert_eq!(fake.system.see_bridged(), Bridged::Unknown, "{files:?}");
            assert_eq!(std::fs::read_to_string(fake.path(V4)).unwrap(), "1");
        }
    }

    #[test]
    fn without_bridges_nothing_is_switched() {
        let fake = Fake::new(&[INTERFACES, LO, NO_BRIDGE, (V4, "0"), (V6, "0")]);
        assert_eq!(fake.system.see_bridged(), Bridged::Seen);
        assert_eq!(std::fs::read_to_string(fake.path(V4)).unwrap(), "0");
    }
}
