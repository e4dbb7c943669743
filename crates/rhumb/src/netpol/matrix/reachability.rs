//! Evaluates all pairs of pods. Only one pod of each equivalence class is evaluated.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use rhumb_netpol::verdict::{ConnectionEndpoint, ConnectionQuery};
use rhumb_netpol::{NamespacedName, Pod};

use super::equivalence_classes::{self, PodEquivalenceClass};
use super::queried_ports::EvaluatedPort;
use crate::netpol::check::deciding_pair;
use crate::netpol::cluster::{NetpolCluster, counted, first_names};
use crate::netpol::endpoints::PortAndProtocol;

/// Limit of evaluations: more would take minutes.
const QUESTIONS_MAX: usize = 20_000_000;

/// The verdict for one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirectionVerdicts {
    pub(super) ingress: bool,
    pub(super) egress: bool,
}

impl DirectionVerdicts {
    pub(super) fn is_allowed(self) -> bool {
        self.ingress && self.egress
    }
}

pub(super) struct ReachabilityMatrix<'c> {
    /// Sorted by name.
    pub(super) pods: Vec<&'c NamespacedName>,
    pub(super) classes: Vec<PodEquivalenceClass>,
    /// The index of each pod's class.
    class_of: Vec<usize>,
    /// For each pair of classes, row by row, an index into the verdict lists. Also for two pods of one class.
    between: Vec<usize>,
    /// For each class, the verdict list of a pod and itself.
    itself: Vec<usize>,
    /// Distinct lists of verdicts, one verdict for each queried port. The first list is empty: no common address family.
    lists: Vec<Vec<DirectionVerdicts>>,
    unrelated: usize,
    /// Descriptions of pods with addresses that now belong to others.
    taken: Vec<String>,
    differing: usize,
}

impl<'c> ReachabilityMatrix<'c> {
    pub(super) fn find(
        cluster: &'c NetpolCluster,
        namespaces: &[String],
        ports: &[PortAndProtocol],
    ) -> Result<ReachabilityMatrix<'c>> {
        let is_shown =
            |name: &NamespacedName| namespaces.is_empty() || namespaces.contains(&name.namespace);
        let pods = cluster.pods.iter().filter(|(name, _)| is_shown(name));
        let pods: Vec<(&NamespacedName, &Pod)> = pods.collect();
        let classes = equivalence_classes::find(cluster, &pods, ports);
        let ports: usize = classes.iter().map(|class| class.queried.len()).sum();
        let questions = ports.saturating_mul(classes.len());
        ensure!(
            questions <= QUESTIONS_MAX,
            "{} classes of pods would need {questions} evaluations, more than the limit of {QUESTIONS_MAX}: select \
             namespaces with --namespace",
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
        let mut reach = ReachabilityMatrix {
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
            let taken = cluster.reassigned_addresses(pod).into_iter();
            taken.map(move |(address, owner)| format!("{pod} ({owner} has {address})"))
        });
        reach.taken = taken.collect();
        reach.evaluate(cluster);
        Ok(reach)
    }

    fn evaluate(&mut self, cluster: &NetpolCluster) {
        let mut evaluator = MatrixEvaluator {
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
                let found = evaluator.answers(one, other, &to.queried);
                if other.is_some() && found == 0 && !from.shares_family(to) {
                    self.unrelated += from.members.len() * to.members.len();
                }
                self.between.push(found);
            }
            self.itself.push(evaluator.answers(one, one, &from.queried));
        }
        self.differing = evaluator.differing;
        let mut lists: Vec<(Vec<DirectionVerdicts>, usize)> = evaluator.lists.into_iter().collect();
        lists.sort_by_key(|(_, number)| *number);
        self.lists = lists.into_iter().map(|(list, _)| list).collect();
    }

    /// The ports that are evaluated for a pod as destination.
    pub(super) fn queried_ports(&self, pod: usize) -> &[EvaluatedPort] {
        let class = self
            .class_of
            .get(pod)
            .and_then(|class| self.classes.get(*class));
        class.map_or(&[], |class| &class.queried)
    }

    /// Whether two pods have a common address family according to their status.
    pub(super) fn shares_family(&self, from: usize, to: usize) -> bool {
        let class = |pod: usize| self.classes.get(*self.class_of.get(pod)?);
        let classes = class(from).zip(class(to));
        classes.is_some_and(|(from, to)| from.shares_family(to))
    }

    /// One verdict for each queried port of the destination; empty if there is no common address family, or the addresses
    /// belong to other pods.
    pub(super) fn answers(&self, from: usize, to: usize) -> &[DirectionVerdicts] {
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

    /// The verdict list of a pair of classes. Equal indexes mean equal verdicts.
    pub(super) fn between(&self, row: usize, column: usize) -> Option<usize> {
        let place = row.checked_mul(self.classes.len())?.checked_add(column)?;
        self.between.get(place).copied()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.differing > 0 {
            notes.push(
                "IPv4 and IPv6 differ for some pairs, which are shown as allowed: `rhumb netpol check` shows both"
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
                first_names(self.taken.iter().cloned())
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

struct MatrixEvaluator<'c> {
    cluster: &'c NetpolCluster,
    lists: BTreeMap<Vec<DirectionVerdicts>, usize>,
    differing: usize,
}

impl MatrixEvaluator<'_> {
    /// Evaluates all ports of a pair and returns the index of the verdict list.
    fn answers(
        &mut self,
        from: Option<&NamespacedName>,
        to: Option<&NamespacedName>,
        queried: &[EvaluatedPort],
    ) -> usize {
        let (Some(from), Some(to)) = (from, to) else {
            return 0;
        };
        let mut question = ConnectionQuery {
            from: ConnectionEndpoint::Pod(from.clone()),
            to: ConnectionEndpoint::Pod(to.clone()),
            protocol: rhumb_netpol::Protocol::Tcp,
            port: 0,
        };
        let mut answers = Vec::with_capacity(queried.len());
        for EvaluatedPort { port, .. } in queried {
            (question.port, question.protocol) = (port.port, port.protocol);
            answers.extend(self.answer(&question));
        }
        let next = self.lists.len();
        *self.lists.entry(answers).or_insert(next)
    }

    fn answer(&mut self, question: &ConnectionQuery) -> Option<DirectionVerdicts> {
        let verdict = self.cluster.engine.evaluate(question)?;
        let pair = deciding_pair(&verdict.pairs)?;
        let is_allowed = pair.is_allowed();
        let differ = verdict.pairs.iter().any(|it| it.is_allowed() != is_allowed);
        self.differing += usize::from(differ);
        Some(DirectionVerdicts {
            ingress: pair.ingress.is_allowed(),
            egress: pair.egress.is_allowed(),
        })
    }
}
