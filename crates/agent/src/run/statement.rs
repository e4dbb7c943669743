//! What is to be told of this node, kept up to date.

use rhumb_netpol::Name;
use tokio::sync::watch;

use super::world::NodeState;
use crate::probe::Bridged;
use rhumb_netpol::report::{Applied, NetworkPolicyNode, POLICIES_MAX};

/// Made of parts that change on their own, and published when they have.
#[derive(Debug)]
pub(super) struct Statement {
    report: NetworkPolicyNode,
    /// Why the kernel is not up to date.
    kernel: Option<String>,
    /// Why rules do not see all packets.
    bridges: Option<String>,
    /// Why not all policies are named.
    overflow: Option<String>,
    published: watch::Sender<Option<NetworkPolicyNode>>,
}

impl Statement {
    pub(super) fn new(
        report: NetworkPolicyNode,
    ) -> (Statement, watch::Receiver<Option<NetworkPolicyNode>>) {
        let (published, told) = watch::channel(None);
        let statement = Statement {
            report,
            kernel: None,
            bridges: None,
            overflow: None,
            published,
        };
        (statement, told)
    }

    /// The policies that the kernel has now, in a fixed order.
    pub(super) fn note_applied<'a>(
        &mut self,
        applied: impl Iterator<Item = (&'a Name, &'a str, i64)>,
    ) {
        let told = &mut self.report.applied;
        let mut count = 0;
        for (index, (policy, uid, generation)) in applied.enumerate() {
            count += 1;
            if index >= POLICIES_MAX {
                continue;
            }
            let is_same = told.get(index).is_some_and(|told| {
                told.name == policy.name
                    && told.namespace == policy.namespace
                    && told.uid == uid
                    && told.generation == generation
            });
            if !is_same {
                told.truncate(index);
                told.push(Applied {
                    namespace: policy.namespace.clone(),
                    name: policy.name.clone(),
                    uid: uid.to_owned(),
                    generation,
                });
            }
        }
        told.truncate(count);
        self.overflow = (count > POLICIES_MAX).then(|| {
            format!("{count} policies select pods of this node, and only {POLICIES_MAX} of them are listed")
        });
    }

    pub(super) fn note_kernel(&mut self, problem: Option<String>) {
        self.kernel = problem;
    }

    pub(super) fn note_bridges(&mut self, bridged: Bridged) {
        let problem = match bridged {
            Bridged::Seen => None,
            Bridged::Unseen(problem) => Some(problem),
            Bridged::Unknown => return,
        };
        if let Some(problem) = problem.as_ref().filter(|_| problem != self.bridges) {
            tracing::warn!("{problem}");
        }
        self.bridges = problem;
    }

    /// Tells it to whoever writes it, if it has changed. Nothing is told of a node that is no more: its report is
    /// deleted with it, and would stay for ever if it were written again.
    pub(super) fn publish(&mut self, node: &NodeState) {
        let problems = [&self.kernel, &self.bridges, &self.overflow];
        let problems: Vec<&str> = problems.into_iter().flatten().map(String::as_str).collect();
        self.report.problem = (!problems.is_empty()).then(|| problems.join("; "));
        self.report.belongs_to(match node {
            NodeState::Known(uid) => Some(uid),
            NodeState::Unknown | NodeState::Gone => None,
        });
        let report = Some(&self.report).filter(|_| *node != NodeState::Gone);
        self.published.send_if_modified(|published| {
            let is_news = published.as_ref() != report;
            if is_news {
                *published = report.cloned();
            }
            is_news
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> (Statement, watch::Receiver<Option<NetworkPolicyNode>>) {
        Statement::new(NetworkPolicyNode::new(
            "n",
            "a".to_owned(),
            vec!["1.3".to_owned()],
        ))
    }

    #[test]
    fn only_what_has_changed_is_news() {
        let (mut statement, mut told) = statement();
        let names = [
            Name::new("a", "x"),
            Name::new("b", "y"),
            Name::new("b", "z"),
        ];
        let mut check = |applied: &[(usize, &str, i64)], is_news: bool| {
            let of = applied.iter();
            let all = of.map(|(index, uid, generation)| (&names[*index], *uid, *generation));
            statement.note_applied(all);
            statement.publish(&NodeState::Unknown);
            assert_eq!(told.has_changed().unwrap(), is_news, "{applied:?}");
            let report = told.borrow_and_update().clone().unwrap();
            let shown: Vec<_> = report
                .applied
                .iter()
                .map(|it| (it.name.as_str(), it.generation))
                .collect();
            let expected: Vec<_> = applied
                .iter()
                .map(|it| (names[it.0].name.as_str(), it.2))
                .collect();
            assert_eq!(shown, expected);
        };
        check(&[], true);
        check(&[], false);
        check(&[(0, "u", 1), (1, "v", 1)], true);
        check(&[(0, "u", 1), (1, "v", 1)], false);
        check(&[(0, "u", 1), (1, "v", 2)], true);
        check(&[(0, "w", 1), (1, "v", 2)], true);
        check(&[(0, "w", 1), (2, "v", 2)], true);
        check(&[(0, "w", 1)], true);
        check(&[(0, "w", 1)], false);
    }

    #[test]
    fn problems_are_told_together_and_of_a_node_that_is_gone_nothing_is() {
        let (mut statement, mut told) = statement();
        let mut publish = |statement: &mut Statement, node: &NodeState| {
            statement.publish(node);
            told.borrow_and_update().clone()
        };
        statement.note_kernel(Some("no room".to_owned()));
        statement.note_bridges(Bridged::Unseen("no module".to_owned()));
        statement.note_bridges(Bridged::Unknown);
        let known = NodeState::Known("uid".to_owned());
        let report = publish(&mut statement, &known).unwrap();
        assert_eq!(report.problem.as_deref(), Some("no room; no module"));
        let owners = report.metadata.owner_references.unwrap();
        assert_eq!(
            (owners[0].name.as_str(), owners[0].uid.as_str()),
            ("n", "uid")
        );
        statement.note_kernel(None);
        statement.note_bridges(Bridged::Seen);
        assert_eq!(publish(&mut statement, &NodeState::Gone), None);
        let report = publish(&mut statement, &NodeState::Unknown).unwrap();
        assert_eq!(
            (report.problem, report.metadata.owner_references),
            (None, None)
        );
    }

    #[test]
    fn a_report_has_room_for_so_many_policies() {
        let (mut statement, told) = statement();
        let names: Vec<Name> = (0..=POLICIES_MAX)
            .map(|index| Name::new("a", format!("{index:06}")))
            .collect();
        let mut check = |count: usize, shown: usize, is_problem: bool| {
            statement.note_applied(names[..count].iter().map(|name| (name, "u", 1)));
            statement.publish(&NodeState::Unknown);
            let report = told.borrow().clone().unwrap();
            assert_eq!(
                (report.applied.len(), report.problem.is_some()),
                (shown, is_problem)
            );
        };
        check(POLICIES_MAX, POLICIES_MAX, false);
        check(POLICIES_MAX + 1, POLICIES_MAX, true);
        check(1, 1, false);
    }
}
