//! `rhumb netpol check`: evaluates one connection and explains the verdict.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rhumb_netpol::Direction;
use rhumb_netpol::verdict::{
    AddressPairVerdict, AllowingRule, ConnectionEndpoint, ConnectionQuery, ConnectionVerdict,
    DenyingPolicy, DirectionVerdict,
};
use serde::Serialize;

use super::cluster::NetpolCluster;
use super::endpoints::{ConnectionDestination, ConnectionSource, PortAndProtocol, question, shown};
use super::enforcement::{self, UnenforcedPolicy};
use super::{NOT_ENFORCED, note};
use crate::text_table::aligned;

#[derive(clap::Args, Debug)]
pub(crate) struct NetpolCheckCommand {
    #[command(flatten)]
    source: super::ObjectSourceFlags,
    /// Source: NAMESPACE/POD, or an address.
    #[arg(long, value_name = "END")]
    from: ConnectionSource,
    /// Destination: NAMESPACE/POD:PORT/PROTOCOL, ADDRESS:PORT/PROTOCOL or [ADDRESS]:PORT/PROTOCOL. PORT is a number or the
    /// name of a container port; the default protocol is TCP.
    #[arg(long, value_name = "END:PORT")]
    to: ConnectionDestination,
    /// Verdict for which the exit code is 0.
    #[arg(long, value_name = "VERDICT", value_enum, default_value = "allowed")]
    expect: ExpectedVerdict,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: CheckOutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExpectedVerdict {
    Allowed,
    Denied,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CheckOutputFormat {
    Table,
    Json,
}

pub(super) fn run(command: &NetpolCheckCommand) -> Result<ExitCode> {
    let cluster = command.source.read()?;
    note(&cluster.notes);
    let (question, port_name) = question(&cluster, &command.from, &command.to)?;
    let verdict = cluster.engine.evaluate(&question).with_context(|| {
        format!(
            "no connection from {} to {} can be evaluated: {}",
            shown(&question.from),
            shown(&question.to),
            why_no_pair(&cluster, &question)
        )
    })?;
    let verdict = without_placeholders(verdict, &question, &cluster);
    let answer = CheckAnswer {
        cluster: &cluster,
        question: &question,
        port_name,
        pairs: &verdict.pairs,
        unenforced: unenforced_at(&cluster, &verdict.pairs),
    };
    match command.output {
        CheckOutputFormat::Table => print!("{}", answer.table()),
        CheckOutputFormat::Json => println!("{}", serde_json::to_string_pretty(&answer.json())?),
    }
    if answer.is_enforced() == Some(false) {
        return Ok(ExitCode::from(NOT_ENFORCED));
    }
    let is_expected = answer.is_allowed() == (command.expect == ExpectedVerdict::Allowed);
    Ok(match is_expected {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The policies that select an endpoint but are not enforced there; `None` for objects from files.
fn unenforced_at(
    cluster: &NetpolCluster,
    pairs: &[AddressPairVerdict],
) -> Option<Vec<UnenforcedPolicy>> {
    let enforcement = cluster.enforcement.as_ref()?;
    let addresses = pairs.iter().flat_map(|pair| [pair.from, pair.to]);
    let pods = addresses.filter_map(|address| cluster.pod_at(address));
    Some(enforcement.unenforced_on(&cluster.engine, pods))
}

fn why_no_pair(cluster: &NetpolCluster, question: &ConnectionQuery) -> String {
    let ends = [&question.from, &question.to].into_iter();
    let pods = ends.filter_map(|end| match end {
        ConnectionEndpoint::Pod(name) => Some(name),
        ConnectionEndpoint::Address(_) => None,
    });
    let taken = pods.flat_map(|pod| {
        let taken = cluster.reassigned_addresses(pod).into_iter();
        taken.map(move |(address, owner)| {
            format!("{owner} has the address {address} of {pod} by now")
        })
    });
    let taken: Vec<String> = taken.collect();
    match taken.is_empty() {
        true => "they have no addresses of the same family".to_owned(),
        false => taken.join(", "),
    }
}

/// Replaces placeholder addresses by pod names in the reasons.
fn without_placeholders(
    mut verdict: ConnectionVerdict,
    question: &ConnectionQuery,
    cluster: &NetpolCluster,
) -> ConnectionVerdict {
    for pair in &mut verdict.pairs {
        for (direction_verdict, address, end) in [
            (&mut pair.ingress, pair.from, &question.from),
            (&mut pair.egress, pair.to, &question.to),
        ] {
            if let (DirectionVerdict::Denied { policies }, ConnectionEndpoint::Pod(name)) =
                (direction_verdict, end)
                && cluster.placeholders.contains(&address)
            {
                let made_up = format!("{address} (pod {name})");
                for rule in policies.iter_mut().flat_map(|policy| &mut policy.rules) {
                    *rule = rule.replace(&made_up, &format!("pod {name}"));
                }
            }
        }
    }
    verdict
}

struct CheckAnswer<'a> {
    cluster: &'a NetpolCluster,
    question: &'a ConnectionQuery,
    port_name: Option<String>,
    pairs: &'a [AddressPairVerdict],
    unenforced: Option<Vec<UnenforcedPolicy>>,
}

/// The address pair that decides a connection: the first allowed one, or the first.
pub(super) fn deciding_pair(pairs: &[AddressPairVerdict]) -> Option<&AddressPairVerdict> {
    let allowed = pairs.iter().find(|pair| pair.is_allowed());
    allowed.or(pairs.first())
}

pub(super) fn verdict_word(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}

impl CheckAnswer<'_> {
    fn is_allowed(&self) -> bool {
        self.pairs.iter().any(AddressPairVerdict::is_allowed)
    }

    /// Whether the policies that lead to the verdict are enforced; `None` for objects from files.
    fn is_enforced(&self) -> Option<bool> {
        let enforcement = self.cluster.enforcement.as_ref()?;
        let pod = |address| self.cluster.pod_at(address).map(|(_, pod)| pod);
        let is_certain =
            |pair: &AddressPairVerdict| enforcement.is_certain(pair, pod(pair.from), pod(pair.to));
        let mut pairs = self.pairs.iter();
        Some(match self.is_allowed() {
            true => pairs.any(|pair| pair.is_allowed() && is_certain(pair)),
            false => pairs.all(is_certain),
        })
    }

    fn table(&self) -> String {
        let mut text = format!("{}\n", self.headline());
        for (opinions, pairs) in self.distinct() {
            text.push('\n');
            for pair in pairs {
                if let Some(addresses) = self.addresses(pair) {
                    text.push_str(&addresses);
                    text.push('\n');
                }
            }
            text.push_str(&aligned(&rows(opinions)));
        }
        if let Some(unenforced) = self.unenforced.as_ref().filter(|list| !list.is_empty()) {
            text.push('\n');
            text.push_str(&enforcement::lines(unenforced));
        }
        text
    }

    fn headline(&self) -> String {
        let to = PortAndProtocol {
            port: self.question.port,
            protocol: self.question.protocol,
        };
        let doubt = match self.is_enforced() {
            Some(false) => ", but not enforced",
            _ => "",
        };
        let mut line = format!(
            "{}{doubt}: {} → {}:{to}",
            self.summary(),
            shown(&self.question.from),
            shown(&self.question.to),
        );
        if let Some(name) = &self.port_name {
            line.push_str(&format!(" ({name})"));
        }
        line
    }

    /// The verdict; for each address family if they differ.
    fn summary(&self) -> String {
        let all = self.pairs.iter().all(AddressPairVerdict::is_allowed);
        if all || !self.is_allowed() {
            return verdict_word(all).to_owned();
        }
        let over = |pair: &AddressPairVerdict| if pair.to.is_ipv4() { "IPv4" } else { "IPv6" };
        let parts = self
            .pairs
            .iter()
            .map(|pair| format!("{} over {}", verdict_word(pair.is_allowed()), over(pair)));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Groups address pairs with equal verdicts.
    fn distinct(&self) -> Vec<(&AddressPairVerdict, Vec<&AddressPairVerdict>)> {
        let mut groups: Vec<(&AddressPairVerdict, Vec<&AddressPairVerdict>)> = Vec::new();
        for pair in self.pairs {
            let same = |(one, _): &&mut (&AddressPairVerdict, Vec<&AddressPairVerdict>)| {
                one.egress == pair.egress && one.ingress == pair.ingress
            };
            match groups.iter_mut().find(same) {
                Some((_, pairs)) => pairs.push(pair),
                None => groups.push((pair, vec![pair])),
            }
        }
        groups
    }

    /// The addresses of a pair; `None` if both were given by the user or are placeholders.
    fn addresses(&self, pair: &AddressPairVerdict) -> Option<String> {
        let queried = |end: &ConnectionEndpoint| matches!(end, ConnectionEndpoint::Address(_));
        if queried(&self.question.from) && queried(&self.question.to) {
            return None;
        }
        let shown = |address: IpAddr| match self.unless_placeholder(address) {
            Some(address) => address.to_string(),
            None => "(no address yet)".to_owned(),
        };
        if self.unless_placeholder(pair.from).is_none()
            && self.unless_placeholder(pair.to).is_none()
        {
            return None;
        }
        Some(format!("{} → {}", shown(pair.from), shown(pair.to)))
    }

    fn unless_placeholder(&self, address: IpAddr) -> Option<IpAddr> {
        (!self.cluster.placeholders.contains(&address)).then_some(address)
    }

    fn json(&self) -> CheckJson<'_> {
        let best = deciding_pair(self.pairs);
        let by = |direction_verdict: fn(&AddressPairVerdict) -> &DirectionVerdict| {
            verdict_word(best.is_some_and(|pair| direction_verdict(pair).is_allowed()))
        };
        let pair = |pair| AddressPairReport::new(self, pair);
        CheckJson {
            from: shown(&self.question.from),
            to: shown(&self.question.to),
            port: self.question.port,
            protocol: self.question.protocol,
            ingress: by(|pair| &pair.ingress),
            egress: by(|pair| &pair.egress),
            combined: verdict_word(self.is_allowed()),
            enforced: self.is_enforced(),
            not_enforced: self.unenforced.as_deref(),
            pairs: self.pairs.iter().map(pair).collect(),
        }
    }
}

/// The JSON output: the fields of a matrix row, and the verdict of each address pair.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckJson<'a> {
    from: String,
    to: String,
    port: u16,
    protocol: rhumb_netpol::Protocol,
    ingress: &'static str,
    egress: &'static str,
    combined: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforced: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_enforced: Option<&'a [UnenforcedPolicy]>,
    pairs: Vec<AddressPairReport<'a>>,
}

#[derive(Serialize)]
struct AddressPairReport<'a> {
    from: Option<IpAddr>,
    to: Option<IpAddr>,
    ingress: DirectionReport<'a>,
    egress: DirectionReport<'a>,
    combined: &'static str,
}

#[derive(Serialize)]
struct DirectionReport<'a> {
    verdict: &'static str,
    #[serde(flatten)]
    direction_verdict: &'a DirectionVerdict,
}

impl<'a> AddressPairReport<'a> {
    fn new(answer: &CheckAnswer<'_>, pair: &'a AddressPairVerdict) -> AddressPairReport<'a> {
        let direction_verdict = |direction_verdict: &'a DirectionVerdict| DirectionReport {
            verdict: verdict_word(direction_verdict.is_allowed()),
            direction_verdict,
        };
        AddressPairReport {
            from: answer.unless_placeholder(pair.from),
            to: answer.unless_placeholder(pair.to),
            ingress: direction_verdict(&pair.ingress),
            egress: direction_verdict(&pair.egress),
            combined: verdict_word(pair.is_allowed()),
        }
    }
}

fn rows(pair: &AddressPairVerdict) -> Vec<[String; 4]> {
    let mut rows = vec![["DIRECTION", "VERDICT", "POLICY", "WHY"].map(str::to_owned)];
    for (direction, direction_verdict) in [
        (Direction::Egress, &pair.egress),
        (Direction::Ingress, &pair.ingress),
    ] {
        let name = match direction {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        };
        let mut labels = [name, verdict_word(direction_verdict.is_allowed())];
        for [policy, why] in reasons(direction, direction_verdict) {
            let [name, verdict] = std::mem::take(&mut labels).map(str::to_owned);
            rows.push([name, verdict, policy, why]);
        }
    }
    rows
}

/// One line for each policy or rule: policy name and reason.
fn reasons(direction: Direction, direction_verdict: &DirectionVerdict) -> Vec<[String; 2]> {
    let alone = |why: &str| vec![["-".to_owned(), why.to_owned()]];
    match direction_verdict {
        DirectionVerdict::NoPod => alone(match direction {
            Direction::Egress => "the source is not a pod that policies can select",
            Direction::Ingress => "the destination is not a pod that policies can select",
        }),
        DirectionVerdict::NotIsolated => alone("no policy isolates the pod in this direction"),
        DirectionVerdict::Itself => alone("a pod may always reach itself"),
        DirectionVerdict::OwnNode => alone("a node and its own pods may always reach each other"),
        DirectionVerdict::Allowed { grants } => grants.iter().map(granted).collect(),
        DirectionVerdict::Denied { policies } => policies
            .iter()
            .flat_map(|refusal| refused(direction, refusal))
            .collect(),
    }
}

fn granted(grant: &AllowingRule) -> [String; 2] {
    let parts = [&grant.peer, &grant.port];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    let why = match parts.is_empty() {
        true => format!("{}: everything", grant.rule),
        false => format!("{}: {}", grant.rule, parts.join(", ")),
    };
    [grant.policy.to_string(), why]
}

fn refused(direction: Direction, refusal: &DenyingPolicy) -> Vec<[String; 2]> {
    let policy = refusal.policy.to_string();
    if refusal.rules.is_empty() {
        let why = match direction {
            Direction::Egress => "it has no egress rules: nothing may go out",
            Direction::Ingress => "it has no ingress rules: nothing may come in",
        };
        return vec![[policy, why.to_owned()]];
    }
    let mut policy = Some(policy);
    let rules = refusal.rules.iter();
    rules
        .map(|rule| [policy.take().unwrap_or_default(), rule.clone()])
        .collect()
}
