//! Packets over a bridge to addresses that are no single pod's: those of the link, and those of groups.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, PATIENCE, until, with_cluster};
use crate::site::Site;
use crate::wiring::Wiring;

/// One for each family: a socket for the second would take the first one's port too.
const PORT: u16 = 7001;
const PORT6: u16 = 7002;
/// What is let through arrives in far less.
const SILENCE: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(20);

/// The numbers of messages that have arrived.
type Arrived = Arc<Mutex<BTreeSet<u8>>>;

fn shown(site: &Site, words: &[&str]) -> String {
    let output = site.inside(|| Command::new("ip").args(words).output());
    String::from_utf8_lossy(&output.expect("ip runs").stdout).into_owned()
}

/// The address that an interface has by itself, once nobody else can have it.
async fn link_local(site: &Site) -> Ipv6Addr {
    until("an address of the link", async || {
        let words = ["-6", "-o", "addr", "show", "dev", "eth0", "scope", "link"];
        let text = shown(site, &words);
        let is_sure = !text.contains("tentative");
        let mut words = text.split_whitespace().skip_while(|word| *word != "inet6");
        let (address, _) = words.nth(1).filter(|_| is_sure)?.split_once('/')?;
        address.parse().ok()
    })
    .await
}

fn index_of_eth0(site: &Site) -> u32 {
    let text = shown(site, &["-o", "link", "show", "eth0"]);
    let number = text.split(':').next().and_then(|it| it.parse().ok());
    number.expect("an index")
}

async fn listen(address: &str, arrived: Arrived) -> io::Result<()> {
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

/// Each target is sent messages of a number of its own, until all have arrived or none has for long enough.
async fn check(from: &Site, targets: &[SocketAddr], arrived: &Arrived, is_open: bool, what: &str) {
    let numbers: BTreeSet<u8> = (0..).take(targets.len()).collect();
    arrived.lock().expect("a set").clear();
    let patience = if is_open { PATIENCE } else { SILENCE };
    let begun = Instant::now();
    while begun.elapsed() < patience {
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

async fn beside_policies(cluster: &mut Cluster) {
    cluster.create_pods().await;
    cluster.start_agents().await;
    let [a, b] = ["x/a", "x/c"].map(|name| cluster.pod(name));
    let arrived = Arrived::default();
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
    cluster.lift("x/nobody").await;
    check(&b, &targets, &arrived, true, "without policies again").await;
}

#[test]
fn nobody_gets_around_policies_by_addresses_of_the_link_or_of_groups() {
    with_cluster(Wiring::Bridged, beside_policies);
}
