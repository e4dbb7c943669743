//! `rhumb netpol check`: one connection.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rhumb_netpol::Direction;
use rhumb_netpol::judge::{End, Grant, Opinion, Pair, Question, Refusal, Verdict};
use serde::Serialize;

use super::cluster::Cluster;
use super::ends::{Destination, PortNumber, Source, question, shown};
use super::note;
use crate::columns::aligned;

#[derive(clap::Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    source: super::Source,
    /// Who connects: NAMESPACE/POD, or an address.
    #[arg(long, value_name = "END")]
    from: Source,
    /// To whom, and on which port: NAMESPACE/POD:PORT/PROTOCOL, ADDRESS:PORT/PROTOCOL or [ADDRESS]:PORT/PROTOCOL. A port is
    /// a number, or a name that the pod declares; the protocol is TCP if it is left out.
    #[arg(long, value_name = "END:PORT")]
    to: Destination,
    /// What makes it exit with 0, where a pipeline sees to it that something is denied.
    #[arg(long, value_name = "VERDICT", value_enum, default_value = "allowed")]
    expect: Expected,
    /// How to show the result.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Expected {
    Allowed,
    Denied,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(super) fn run(command: &Check) -> Result<ExitCode> {
    let cluster = command.source.read()?;
    note(&cluster.notes);
    let (question, port_name) = question(&cluster, &command.from, &command.to)?;
    let verdict = cluster.engine.judge(&question).with_context(|| {
        format!(
            "there is no connection from {} to {} to judge: {}",
            shown(&question.from),
            shown(&question.to),
            why_no_pair(&cluster, &question)
        )
    })?;
    let verdict = without_stand_ins(verdict, &question, &cluster);
    let answer = Answer {
        cluster: &cluster,
        question: &question,
        port_name,
        pairs: &verdict.pairs,
    };
    match command.output {
        Output::Table => print!("{}", answer.table()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&answer.json())?),
    }
    let is_expected = answer.is_allowed() == (command.expect == Expected::Allowed);
    Ok(match is_expected {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn why_no_pair(cluster: &Cluster, question: &Question) -> String {
    let ends = [&question.from, &question.to].into_iter();
    let pods = ends.filter_map(|end| match end {
        End::Pod(name) => Some(name),
        End::Address(_) => None,
    });
    let taken = pods.flat_map(|pod| {
        let taken = cluster.taken(pod).into_iter();
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

/// Reasons speak of pods by their addresses, which are no news where they are made up.
fn without_stand_ins(mut verdict: Verdict, question: &Question, cluster: &Cluster) -> Verdict {
    for pair in &mut verdict.pairs {
        for (opinion, address, end) in [
            (&mut pair.ingress, pair.from, &question.from),
            (&mut pair.egress, pair.to, &question.to),
        ] {
            if let (Opinion::Denied { policies }, End::Pod(name)) = (opinion, end)
                && cluster.stand_ins.contains(&address)
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

struct Answer<'a> {
    cluster: &'a Cluster,
    question: &'a Question,
    port_name: Option<String>,
    pairs: &'a [Pair],
}

/// The pair that speaks for a connection: the first that is allowed, or the first.
pub(super) fn best(pairs: &[Pair]) -> Option<&Pair> {
    let allowed = pairs.iter().find(|pair| pair.is_allowed());
    allowed.or(pairs.first())
}

pub(super) fn word(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}

impl Answer<'_> {
    fn is_allowed(&self) -> bool {
        self.pairs.iter().any(Pair::is_allowed)
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
        text
    }

    fn headline(&self) -> String {
        let to = PortNumber {
            port: self.question.port,
            protocol: self.question.protocol,
        };
        let mut line = format!(
            "{}: {} → {}:{to}",
            self.summary(),
            shown(&self.question.from),
            shown(&self.question.to),
        );
        if let Some(name) = &self.port_name {
            line.push_str(&format!(" ({name})"));
        }
        line
    }

    /// Families are named where they make a difference.
    fn summary(&self) -> String {
        let all = self.pairs.iter().all(Pair::is_allowed);
        if all || !self.is_allowed() {
            return word(all).to_owned();
        }
        let over = |pair: &Pair| if pair.to.is_ipv4() { "IPv4" } else { "IPv6" };
        let parts = self
            .pairs
            .iter()
            .map(|pair| format!("{} over {}", word(pair.is_allowed()), over(pair)));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Pairs of which the same is to be said, together.
    fn distinct(&self) -> Vec<(&Pair, Vec<&Pair>)> {
        let mut groups: Vec<(&Pair, Vec<&Pair>)> = Vec::new();
        for pair in self.pairs {
            let same = |(one, _): &&mut (&Pair, Vec<&Pair>)| {
                one.egress == pair.egress && one.ingress == pair.ingress
            };
            match groups.iter_mut().find(same) {
                Some((_, pairs)) => pairs.push(pair),
                None => groups.push((pair, vec![pair])),
            }
        }
        groups
    }

    /// Unless they are those that were asked about, or made up.
    fn addresses(&self, pair: &Pair) -> Option<String> {
        let asked = |end: &End| matches!(end, End::Address(_));
        if asked(&self.question.from) && asked(&self.question.to) {
            return None;
        }
        let shown = |address: IpAddr| match self.known(address) {
            Some(address) => address.to_string(),
            None => "(no address yet)".to_owned(),
        };
        if self.known(pair.from).is_none() && self.known(pair.to).is_none() {
            return None;
        }
        Some(format!("{} → {}", shown(pair.from), shown(pair.to)))
    }

    fn known(&self, address: IpAddr) -> Option<IpAddr> {
        (!self.cluster.stand_ins.contains(&address)).then_some(address)
    }

    fn json(&self) -> Shown<'_> {
        let best = best(self.pairs);
        let by = |opinion: fn(&Pair) -> &Opinion| {
            word(best.is_some_and(|pair| opinion(pair).is_allowed()))
        };
        let pair = |pair| ShownPair::new(self, pair);
        Shown {
            from: shown(&self.question.from),
            to: shown(&self.question.to),
            port: self.question.port,
            protocol: self.question.protocol,
            ingress: by(|pair| &pair.ingress),
            egress: by(|pair| &pair.egress),
            combined: word(self.is_allowed()),
            pairs: self.pairs.iter().map(pair).collect(),
        }
    }
}

/// An answer for programs: as a row of the matrix, with what is behind it.
#[derive(Serialize)]
struct Shown<'a> {
    from: String,
    to: String,
    port: u16,
    protocol: rhumb_netpol::Protocol,
    ingress: &'static str,
    egress: &'static str,
    combined: &'static str,
    pairs: Vec<ShownPair<'a>>,
}

#[derive(Serialize)]
struct ShownPair<'a> {
    from: Option<IpAddr>,
    to: Option<IpAddr>,
    ingress: ShownOpinion<'a>,
    egress: ShownOpinion<'a>,
    combined: &'static str,
}

#[derive(Serialize)]
struct ShownOpinion<'a> {
    verdict: &'static str,
    #[serde(flatten)]
    opinion: &'a Opinion,
}

impl<'a> ShownPair<'a> {
    fn new(answer: &Answer<'_>, pair: &'a Pair) -> ShownPair<'a> {
        let opinion = |opinion: &'a Opinion| ShownOpinion {
            verdict: word(opinion.is_allowed()),
            opinion,
        };
        ShownPair {
            from: answer.known(pair.from),
            to: answer.known(pair.to),
            ingress: opinion(&pair.ingress),
            egress: opinion(&pair.egress),
            combined: word(pair.is_allowed()),
        }
    }
}

fn rows(pair: &Pair) -> Vec<[String; 4]> {
    let mut rows = vec![["DIRECTION", "VERDICT", "POLICY", "WHY"].map(str::to_owned)];
    for (direction, opinion) in [
        (Direction::Egress, &pair.egress),
        (Direction::Ingress, &pair.ingress),
    ] {
        let name = match direction {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        };
        let mut labels = [name, word(opinion.is_allowed())];
        for [policy, why] in reasons(direction, opinion) {
            let [name, verdict] = std::mem::take(&mut labels).map(str::to_owned);
            rows.push([name, verdict, policy, why]);
        }
    }
    rows
}

/// A policy and what it says, a line each.
fn reasons(direction: Direction, opinion: &Opinion) -> Vec<[String; 2]> {
    let alone = |why: &str| vec![["-".to_owned(), why.to_owned()]];
    match opinion {
        Opinion::NoPod => alone(match direction {
            Direction::Egress => "it does not come from a pod that policies are about",
            Direction::Ingress => "it does not go to a pod that policies are about",
        }),
        Opinion::NotIsolated => alone("no policy isolates the pod in this direction"),
        Opinion::Itself => alone("a pod may always reach itself"),
        Opinion::OwnNode => alone("a node and its own pods may always reach each other"),
        Opinion::Allowed { grants } => grants.iter().map(granted).collect(),
        Opinion::Denied { policies } => policies
            .iter()
            .flat_map(|refusal| refused(direction, refusal))
            .collect(),
    }
}

fn granted(grant: &Grant) -> [String; 2] {
    let parts = [&grant.peer, &grant.port];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    let why = match parts.is_empty() {
        true => format!("{}: everything", grant.rule),
        false => format!("{}: {}", grant.rule, parts.join(", ")),
    };
    [grant.policy.to_string(), why]
}

fn refused(direction: Direction, refusal: &Refusal) -> Vec<[String; 2]> {
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
