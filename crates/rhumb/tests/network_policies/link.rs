//! Packets over a bridge to link-local and multicast addresses.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep};

use crate::cluster::{NetpolTestCluster, with_cluster};
use crate::network_namespace::NetworkNamespace;
use crate::pod_links::PodLinkType;
use crate::program::{PATIENCE, poll_until};

/// A port per family: an IPv6 socket would also bind the IPv4 port.
const PORT: u16 = 7001;
const PORT6: u16 = 7002;
/// Far longer than allowed packets take.
const SILENCE: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(20);

/// The numbers of the received messages.
type ReceivedMessages = Arc<Mutex<BTreeSet<u8>>>;

fn ip_command(netns: &NetworkNamespace, words: &[&str]) -> String {
    let output = netns.inside(|| Command::new("ip").args(words).output());
    String::from_utf8_lossy(&output.expect("ip runs").stdout).into_owned()
}

/// The link-local address of an interface, after duplicate address detection.
async fn link_local(netns: &NetworkNamespace) -> Ipv6Addr {
    poll_until("an address of the link", async || {
        let words = ["-6", "-o", "addr", "show", "dev", "eth0", "scope", "link"];
        let text = ip_command(netns, &words);
        let is_sure = !text.contains("tentative");
        let mut words = text.split_whitespace().skip_while(|word| *word != "inet6");
        let (address, _) = words.nth(1).filter(|_| is_sure)?.split_once('/')?;
        address.parse().ok()
    })
    .await
}

fn index_of_eth0(netns: &NetworkNamespace) -> u32 {
    let text = ip_command(netns, &["-o", "link", "show", "eth0"]);
    let number = text.split(':').next().and_then(|it| it.parse().ok());
    number.expect("an index")
}

async fn listen(address: &str, arrived: ReceivedMessages) -> io::Result<()> {
    let address: SocketAddr = address.parse().expect("an address");
    let socket = UdpSocket::bind(address).await?;
    let mut message = [0];
    loop {
        socket.recv_from(&mut message).await?;
        arrived.lock().expect("a set").insert(message[0]);
    }
}

async fn send(to: SocketAddr, number: u8) -> io::Result<()> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await?;
    socket.set_broadcast(true)?;
    socket.send_to(&[number], to).await?;
    Ok(())
}

/// Sends each target messages with its number, until all have arrived or none has for long enough.
async fn check(
    from: &NetworkNamespace,
    targets: &[SocketAddr],
    arrived: &ReceivedMessages,
    is_open: bool,
    what: &str,
) {
    let numbers: BTreeSet<u8> = (0..).take(targets.len()).collect();
    arrived.lock().expect("a set").clear();
    let timeout_after = if is_open { PATIENCE } else { SILENCE };
    let begun = Instant::now();
    while begun.elapsed() < timeout_after {
        for (number, target) in (0..).zip(targets) {
            from.spawn(send(*target, number))
                .await
                .expect("a task")
                .expect("a message");
        }
        sleep(PAUSE).await;
        if is_open && *arrived.lock().expect("a set") == numbers {
            return;
        }
    }
    let expected = if is_open { numbers } else { BTreeSet::new() };
    assert_eq!(
        *arrived.lock().expect("a set"),
        expected,
        "{what}: {targets:?}"
    );
}

async fn link_local_traffic_follows_policies(cluster: &mut NetpolTestCluster) {
    cluster.create_pods().await;
    cluster.start_agents().await;
    let [a, b] = ["x/a", "x/c"].map(|name| cluster.pod(name));
    let arrived = ReceivedMessages::default();
    for address in [format!("0.0.0.0:{PORT}"), format!("[::]:{PORT6}")] {
        let arrived = arrived.clone();
        drop(a.spawn(async move { listen(&address, arrived).await }));
    }
    let scope = index_of_eth0(&b);
    let of_link = |ip| SocketAddr::from(SocketAddrV6::new(ip, PORT6, 0, scope));
    let targets = [
        of_link(link_local(&a).await),
        of_link(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)),
        SocketAddr::from(([224, 0, 0, 1], PORT)),
        SocketAddr::from(([255, 255, 255, 255], PORT)),
    ];
    link_local(&b).await;
    check(&b, &targets, &arrived, true, "without policies").await;
    let nobody = "{podSelector: {matchLabels: {pod: a}}, policyTypes: [Ingress]}";
    cluster.enforce("x/nobody", nobody).await;
    check(&b, &targets, &arrived, false, "isolated").await;
    cluster.delete_policy_and_wait("x/nobody").await;
    check(&b, &targets, &arrived, true, "without policies again").await;
}

#[test]
fn link_local_and_multicast_addresses_do_not_bypass_policies() {
    with_cluster(PodLinkType::Bridged, link_local_traffic_follows_policies);
}
