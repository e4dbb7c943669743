//! Finds out which features this node supports, from /proc and /sys of this process's network namespace.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::AgentError;
use crate::nft::KernelTable;
use rhumb_netpol::node_report::UnimplementedFeature;

/// Bit number of CAP_NET_ADMIN in `CapEff`.
const CAP_NET_ADMIN: u32 = 12;
/// Exists only if conntrack supports SCTP ports.
const SCTP_CONNTRACK_SYSCTL: &str = "sys/net/netfilter/nf_conntrack_sctp_timeout_established";
const IPV6_DISABLED_SYSCTL: &str = "sys/net/ipv6/conf/all/disable_ipv6";
const BOOT_ID_FILE: &str = "sys/kernel/random/boot_id";

/// Feature names as in `rhumb_netpol`.
pub(crate) const SCTP_FEATURE: &str = "SCTP";
const IPV6_FEATURE: &str = "IPv6";

/// Reads and sets kernel settings below /proc and /sys.
#[derive(Debug, Clone)]
pub(crate) struct HostProbe {
    proc: PathBuf,
    sys: PathBuf,
}

impl Default for HostProbe {
    fn default() -> HostProbe {
        HostProbe {
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

/// Whether nftables filters packets that stay on a bridge (br_netfilter).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BridgeFiltering {
    Active,
    /// With a message for the administrator that says how to fix it.
    Inactive(String),
    /// It cannot be determined whether there are bridges.
    Unknown,
}

impl HostProbe {
    /// Returns the features that this node does not support, or an error if it cannot enforce policies at all.
    pub(crate) async fn probe(
        &self,
        kernel: &KernelTable,
    ) -> Result<Vec<UnimplementedFeature>, AgentError> {
        if !self.has_net_admin_capability() {
            return Err(AgentError::PermissionDenied);
        }
        kernel.probe().await.map_err(AgentError::from_probe)?;
        Ok(self.unimplemented_features())
    }

    /// The boot id, as kubelets report it in `status.nodeInfo.bootID`.
    pub(crate) fn boot_id(&self) -> Option<String> {
        let id = std::fs::read_to_string(self.proc.join(BOOT_ID_FILE)).ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// Whether this process has CAP_NET_ADMIN. True if unknown: the kernel will reject changes then.
    pub(crate) fn has_net_admin_capability(&self) -> bool {
        let Ok(status) = std::fs::read_to_string(self.proc.join("self/status")) else {
            return true;
        };
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        bits.is_none_or(|bits| bits & (1 << CAP_NET_ADMIN) != 0)
    }

    /// To be called after the kernel modules that rules need have been loaded.
    fn unimplemented_features(&self) -> Vec<UnimplementedFeature> {
        let mut all = Vec::new();
        if !self.proc.join(SCTP_CONNTRACK_SYSCTL).exists() {
            all.push(UnimplementedFeature {
                feature: SCTP_FEATURE.to_owned(),
                message: "conntrack does not support SCTP in this kernel (CONFIG_NF_CT_PROTO_SCTP)"
                    .to_owned(),
            });
        }
        let is_off = match std::fs::read_to_string(self.proc.join(IPV6_DISABLED_SYSCTL)) {
            Ok(value) => value.trim() == "1",
            Err(_) => true,
        };
        if is_off {
            all.push(UnimplementedFeature {
                feature: IPV6_FEATURE.to_owned(),
                message: "IPv6 is disabled on this node (net.ipv6.conf.all.disable_ipv6)"
                    .to_owned(),
            });
        }
        all
    }

    /// Makes packets that stay on a bridge, such as those between pods of one node, pass through nftables.
    pub(crate) fn enable_bridge_filtering(&self) -> BridgeFiltering {
        let bridges = self.bridges();
        if bridges.as_ref().is_some_and(BTreeSet::is_empty) {
            return BridgeFiltering::Active;
        }
        let switches = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"];
        let mut remedies = switches
            .iter()
            .filter_map(|name| self.enable_bridge_sysctl(name).err());
        let remedy = remedies.next();
        match (bridges, remedy) {
            (None, _) => BridgeFiltering::Unknown,
            (Some(_), None) => BridgeFiltering::Active,
            (Some(bridges), Some(remedy)) => {
                let bridges: Vec<String> = bridges.into_iter().collect();
                let bridges = bridges.join(", ");
                BridgeFiltering::Inactive(format!(
                    "traffic over bridges ({bridges}), such as between pods of this node, bypasses the rules: {remedy}"
                ))
            }
        }
    }

    /// On failure, returns what the administrator can do about it.
    fn enable_bridge_sysctl(&self, name: &str) -> Result<(), String> {
        let path = self.proc.join("sys/net/bridge").join(name);
        let Ok(value) = std::fs::read_to_string(&path) else {
            return Err("load the kernel module br_netfilter (modprobe br_netfilter)".to_owned());
        };
        if value.trim() != "0" {
            return Ok(());
        }
        std::fs::write(&path, "1").map_err(|error| {
            format!("set net.bridge.{name} to 1; this process failed to do so: {error}")
        })?;
        tracing::info!(
            sysctl = name,
            "set net.bridge sysctl to 1, so that bridged packets are filtered"
        );
        Ok(())
    }

    /// `None` if unknown: /sys may have been mounted in another network namespace and show its interfaces.
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

    struct FakeHostFiles {
        root: tempfile::TempDir,
        system: HostProbe,
    }

    impl FakeHostFiles {
        fn new(files: &[(&str, &str)]) -> FakeHostFiles {
            let root = tempfile::tempdir().unwrap();
            let system = HostProbe {
                proc: root.path().join("proc"),
                sys: root.path().join("sys"),
            };
            let fake = FakeHostFiles { root, system };
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
    fn changing_rules_requires_cap_net_admin() {
        for (status, may) in [
            ("Name:\tx\nCapEff:\t000001ffffffffff\n", true),
            ("CapEff:\t0000000000001000\n", true),
            ("CapEff:\t0000000000000fff\n", false),
            ("CapEff:\t0000000000000000\n", false),
            ("CapPrm:\t0000000000000000\n", true),
        ] {
            let fake = FakeHostFiles::new(&[("proc/self/status", status)]);
            assert_eq!(fake.system.has_net_admin_capability(), may, "{status}");
        }
    }

    #[test]
    fn boot_id_is_read() {
        let id = "proc/sys/kernel/random/boot_id";
        let boot_id = |files: &[(&str, &str)]| FakeHostFiles::new(files).system.boot_id();
        assert_eq!(boot_id(&[(id, "2d9f-11\n")]).as_deref(), Some("2d9f-11"));
        assert_eq!(boot_id(&[(id, "\n")]), None);
        assert_eq!(boot_id(&[]), None);
    }

    #[test]
    fn missing_kernel_features_are_reported() {
        const SCTP_FILE: &str = "proc/sys/net/netfilter/nf_conntrack_sctp_timeout_established";
        const IPV6_FILE: &str = "proc/sys/net/ipv6/conf/all/disable_ipv6";
        for (files, lacks) in [
            (vec![(SCTP_FILE, "210\n"), (IPV6_FILE, "0\n")], vec![]),
            (vec![(IPV6_FILE, "0\n")], vec!["SCTP"]),
            (vec![(SCTP_FILE, "210\n"), (IPV6_FILE, "1\n")], vec!["IPv6"]),
            (vec![], vec!["SCTP", "IPv6"]),
        ] {
            let fake = FakeHostFiles::new(&files);
            let lacking = fake.system.unimplemented_features();
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
    fn bridge_filtering_is_enabled_or_reported_inactive() {
        let bridge = [INTERFACES, LO, CNI];
        let with = |more: &[(&'static str, &'static str)]| [&bridge, more].concat();
        for (files, is_seen) in [
            (with(&[(V4, "1\n"), (V6, "1\n")]), true),
            (with(&[(V4, "0\n"), (V6, "0\n")]), true),
            (with(&[]), false),
            (with(&[(V4, "1\n")]), false),
            (vec![INTERFACES, LO, NO_BRIDGE], true),
        ] {
            let fake = FakeHostFiles::new(&files);
            match fake.system.enable_bridge_filtering() {
                BridgeFiltering::Inactive(message) if !is_seen => {
                    let words = ["(cni0)", "modprobe br_netfilter"];
                    assert!(words.iter().all(|word| message.contains(word)), "{message}");
                }
                bridged => assert!(
                    is_seen && bridged == BridgeFiltering::Active,
                    "{files:?} {bridged:?}"
                ),
            }
            for switch in [V4, V6] {
                let value = std::fs::read_to_string(fake.path(switch)).unwrap_or_default();
                assert_ne!(value.trim(), "0", "{files:?}");
            }
        }
    }

    #[test]
    fn foreign_sysfs_leaves_bridge_filtering_unknown_but_enables_it() {
        for others in [vec![], vec![("sys/class/net/br9/bridge/x", "")]] {
            let switches = [(V4, "0"), (V6, "1")];
            let files = [vec![INTERFACES, LO], others, switches.to_vec()].concat();
            let fake = FakeHostFiles::new(&files);
            assert_eq!(
                fake.system.enable_bridge_filtering(),
                BridgeFiltering::Unknown,
                "{files:?}"
            );
            assert_eq!(std::fs::read_to_string(fake.path(V4)).unwrap(), "1");
        }
    }

    #[test]
    fn without_bridges_bridge_filtering_is_not_changed() {
        let fake = FakeHostFiles::new(&[INTERFACES, LO, NO_BRIDGE, (V4, "0"), (V6, "0")]);
        assert_eq!(
            fake.system.enable_bridge_filtering(),
            BridgeFiltering::Active
        );
        assert_eq!(std::fs::read_to_string(fake.path(V4)).unwrap(), "0");
    }
}
