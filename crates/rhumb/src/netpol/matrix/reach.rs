//! The verdicts for all pairs of pods.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use rhumb_netpol::judge::{End, Question};
use rhumb_netpol::{Name, Pod};

use super::classes::{self, Class};
use super::ports::Asked;
use crate::netpol::check::best;
use crate::netpol::cluster::{Cluster, counted, few};
use crate::netpol::ends::PortNumber;

/// More are not asked: it would take minutes, and nobody could read the answer.
const QUESTIONS_MAX: usize = 20_000_000;

/// The verdict for one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Answer {
    pub(super) ingress: bool,
    pub(super) egress: bool,
}

impl Answer {
    pub(super) fn is_allowed(self) -> bool {
        self.ingress && self.egress
    }
}

pub(super) struct Reach<'c> {
    /// In order of names.
    pub(super) pods: Vec<&'c Name>,
    pub(super) classes: Vec<Class>,
    /// The class of each pod.
    class_of: Vec<usize>,
    /// For each pair of classes, by rows, where their answers are; those between two pods of one class too.
    between: Vec<usize>,
    /// For each class, where the answers of a pod and itself are.
    itself: Vec<usize>,
    /// Distinct lists of answers, one for each port that is asked about. The first is empty: there is no pair of addresses.
    lists: Vec<Vec<Answer>>,
    unrelated: usize,
    /// Pods with addresses that others have by now, in words.
    taken: Vec<String>,
    differing: usize,
}

impl<'c> Reach<'c> {
    pub(super) fn find(
        cluster: &'c Cluster,
        namespaces: &[String],
        ports: &[PortNumber],
    ) -> Result<Reach<'c>> {
        let is_shown = |name: &Name| namespaces.is_empty() || namespaces.contains(&name.namespace);
        let pods = cluster.pods.iter().filter(|(name, _)| is_shown(name));
        let pods: Vec<(&Name, &Pod)> = pods.collect();
        let classes = classes::find(cluster, &pods, ports);
        let ports: usize = classes.iter().map(|class| class.asked.len()).sum();
        let questions = ports.saturating_mul(classes.len());
        ensure!(
            questions <= QUESTIONS_MAX,
            "{} pods that policies tell apart would take {questions} questions, and at most {QUESTIONS_MAX} are asked: \
             choose namespaces with --namespace",
            classes.len()
        );
        let mut class_of = vec![0; pods.len()];
        for (number, class) in classes.iter().enumerate() {
            for member in &class.members {
                if let Some(class_of) = class_of.get_mut(*member) {
                    *class_of = number;
                }
            }
        }
        let mut reach = Reach {
            pods: pods.into_iter().map(|(name, _)| name).collect(),
            between: Vec::with_capacity(classes.len() * classes.len()),
            itself: Vec::with_capacity(classes.len()),
            classes,
            class_of,
            lists: vec![Vec::new()],
            unrelated: 0,
            taken: Vec::new(),
            differing: 0,
        };
        let taken = reach.pods.iter().flat_map(|pod| {
            let taken = cluster.taken(pod).into_iter();
            taken.map(move |(address, owner)| format!("{pod} ({owner} has {address})"))
        });
        reach.taken = taken.collect();
        reach.judge(cluster);
        Ok(reach)
    }

    fn judge(&mut self, cluster: &Cluster) {
        let mut judging = Judging {
            cluster,
            lists: BTreeMap::from([(Vec::new(), 0)]),
            differing: 0,
        };
        let pod = |position: Option<&usize>| position.and_then(|at| self.pods.get(*at)).copied();
        for (row, from) in self.classes.iter().enumerate() {
            let one = pod(from.members.first());
            for (column, to) in self.classes.iter().enumerate() {
                let other = match row == column {
                    false => pod(to.members.first()),
                    true => pod(to.members.get(1)),
                };
                let found = judging.answers(one, other, &to.asked);
                if other.is_some() && found == 0 && !from.shares_family(to) {
                    self.unrelated += from.members.len() * to.members.len();
                }
                self.between.push(found);
            }
            self.itself.push(judging.answers(one, one, &from.asked));
        }
        self.differing = judging.differing;
        let mut lists: Vec<(Vec<Answer>, usize)> = judging.lists.into_iter().collect();
        lists.sort_by_key(|(_, number)| *number);
        self.lists = lists.into_iter().map(|(list, _)| list).collect();
    }

    /// What a pod is asked about.
    pub(super) fn asked(&self, pod: usize) -> &[Asked] {
        let class = self
            .class_of
            .get(pod)
            .and_then(|class| self.classes.get(*class));
        class.map_or(&[], |class| &class.asked)
    }

    /// Whether there would be a pair of addresses, had another pod not one of them by now.
    pub(super) fn shares_family(&self, from: usize, to: usize) -> bool {
        let class = |pod: usize| self.classes.get(*self.class_of.get(pod)?);
        let classes = class(from).zip(class(to));
        classes.is_some_and(|(from, to)| from.shares_family(to))
    }

    /// One answer for each port that the second is asked about; none if they have no family of addresses in common, or
    /// another pod has their addresses.
    pub(super) fn answers(&self, from: usize, to: usize) -> &[Answer] {
        let list = self.list(from, to).and_then(|list| self.lists.get(list));
        list.map_or(&[], Vec::as_slice)
    }

    fn list(&self, from: usize, to: usize) -> Option<usize> {
        let (row, column) = (*self.class_of.get(from)?, *self.class_of.get(to)?);
        match from == to {
            true => self.itself.get(row).copied(),
            false => self.between(row, column),
        }
    }

    /// The same number for two pairs of classes means the same answers.
    pub(super) fn between(&self, row: usize, column: usize) -> Option<usize> {
        let place = row.checked_mul(self.classes.len())?.checked_add(column)?;
        self.between.get(place).copied()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.differing > 0 {
            notes.push(
                "IPv4 and IPv6 differ for some pairs, of which is said that they are allowed: `rhumb netpol check` tells \
                 more"
                    .to_owned(),
            );
        }
        if !self.taken.is_empty() {
            notes.push(format!(
                "{} by now: {}",
                counted(
                    self.taken.len(),
                    "address is not of the pod that claims it, as another has it",
                    "addresses are not of the pods that claim them, as others have them"
                ),
                few(self.taken.iter().cloned())
            ));
        }
        if self.unrelated > 0 {
            notes.push(format!(
                "{} left out: one end has only IPv4 addresses, the other only IPv6 addresses",
                counted(self.unrelated, "pair is", "pairs are")
            ));
        }
        notes
    }
}

struct Judging<'c> {
    cluster: &'c Cluster,
    lists: BTreeMap<Vec<Answer>, usize>,
    differing: usize,
}

impl Judging<'_> {
    /// The number of a list of answers.
    fn answers(&mut self, from: Option<&Name>, to: Option<&Name>, asked: &[Asked]) -> usize {
        let (Some(from), Some(to)) = (from, to) else {
            return 0;
        };
        let mut question = Question {
            from: End::Pod(from.clone()),
            to: End::Pod(to.clone()),
            protocol: rhumb_netpol::Protocol::Tcp,
            port: 0,
        };
        let mut answers = Vec::with_capacity(asked.len());
        for Asked { port, .. } in asked {
            (question.port, question.protocol) = (port.port, port.protocol);
            answers.extend(self.answer(&question));
        }
        let next = self.lists.len();
        *self.lists.entry(answers).or_insert(next)
    }

    fn answer(&mut self, question: &Question) -> Option<Answer> {
        let verdict = self.cluster.engine.judge(question)?;
        let pair = best(&verdict.pairs)?;
        let is_allowed = pair.is_allowed();
        let differ = verdict.pairs.iter().any(|it| it.is_allowed() != is_allowed);
        self.differing += usize::from(differ);
        Some(Answer {
            ingress: pair.ingress.is_allowed(),
            egress: pair.egress.is_allowed(),
        })
    }
}
