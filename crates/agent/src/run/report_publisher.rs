//! Assembles the node's `NetworkPolicyNode` report and publishes it to the report writer.

use rhumb_netpol::NamespacedName;
use tokio::sync::watch;

use super::observed_state::NodeObjectState;
use crate::probe::BridgeFiltering;
use rhumb_netpol::node_report::{AppliedPolicy, MAX_APPLIED_POLICIES, NetworkPolicyNode};

/// The report and its independent problems; published when something changed.
#[derive(Debug)]
pub(super) struct NodeReportPublisher {
    report: NetworkPolicyNode,
    /// The report must be written although only the observed version of pods changed.
    covers_changed_pods: bool,
    /// Why the kernel's rules are not up to date.
    kernel_problem: Option<String>,
    /// Why bridged packets bypass the rules.
    bridge_problem: Option<String>,
    /// Why not all policies are listed.
    overflow_problem: Option<String>,
    published: watch::Sender<Option<NetworkPolicyNode>>,
}

impl NodeReportPublisher {
    pub(super) fn new(
        report: NetworkPolicyNode,
    ) -> (
        NodeReportPublisher,
        watch::Receiver<Option<NetworkPolicyNode>>,
    ) {
        let (published, receiver) = watch::channel(None);
        let publisher = NodeReportPublisher {
            report,
            covers_changed_pods: false,
            kernel_problem: None,
            bridge_problem: None,
            overflow_problem: None,
            published,
        };
        (publisher, receiver)
    }

    /// Sets the policies that the kernel enforces now, in a stable order.
    pub(super) fn set_applied_policies<'a>(
        &mut self,
        applied: impl Iterator<Item = (&'a NamespacedName, &'a str, i64)>,
    ) {
        let listed = &mut self.report.applied;
        let mut count = 0;
        for (index, (policy, uid, generation)) in applied.enumerate() {
            count += 1;
            if index >= MAX_APPLIED_POLICIES {
                continue;
            }
            let is_same = listed.get(index).is_some_and(|listed| {
                listed.name == policy.name
                    && listed.namespace == policy.namespace
                    && listed.uid == uid
                    && listed.generation == generation
            });
            if !is_same {
                listed.truncate(index);
                listed.push(AppliedPolicy {
                    namespace: policy.namespace.clone(),
                    name: policy.name.clone(),
                    uid: uid.to_owned(),
                    generation,
                });
            }
        }
        listed.truncate(count);
        self.overflow_problem = (count > MAX_APPLIED_POLICIES).then(|| {
            format!(
                "{count} policies select pods of this node; only {MAX_APPLIED_POLICIES} of them are listed"
            )
        });
    }

    /// Sets up to which version of the pods the kernel is up to date. `has_changed_targets` if the status of policies
    /// waits for it; otherwise it may be reported with the next heartbeat.
    pub(super) fn set_pods_version(&mut self, version: u64, has_changed_targets: bool) {
        self.report.pods_resource_version = Some(version.to_string());
        self.covers_changed_pods |= has_changed_targets;
    }

    pub(super) fn set_kernel_problem(&mut self, problem: Option<String>) {
        self.kernel_problem = problem;
    }

    pub(super) fn set_bridge_filtering(&mut self, bridged: BridgeFiltering) {
        let problem = match bridged {
            BridgeFiltering::Active => None,
            BridgeFiltering::Inactive(problem) => Some(problem),
            BridgeFiltering::Unknown => return,
        };
        if let Some(problem) = problem.as_ref().filter(|_| problem != self.bridge_problem) {
            tracing::warn!(%problem, "bridged packets bypass the rules");
        }
        self.bridge_problem = problem;
    }

    /// Publishes the report if it changed. No report is published for a deleted node: the report is garbage collected
    /// with its owner, and would never be deleted if it were written again.
    pub(super) fn publish(&mut self, node: &NodeObjectState) {
        let problems = [
            &self.kernel_problem,
            &self.bridge_problem,
            &self.overflow_problem,
        ];
        let problems: Vec<&str> = problems.into_iter().flatten().map(String::as_str).collect();
        self.report.problem = (!problems.is_empty()).then(|| problems.join("; "));
        self.report.set_owner_node(match node {
            NodeObjectState::Exists(uid) => Some(uid),
            NodeObjectState::NeverSeen | NodeObjectState::Deleted => None,
        });
        let report = Some(&self.report).filter(|_| *node != NodeObjectState::Deleted);
        let is_due = std::mem::take(&mut self.covers_changed_pods);
        self.published.send_if_modified(|published| {
            if let Some(published) = published.as_mut().filter(|_| !is_due) {
                let version = &self.report.pods_resource_version;
                published.pods_resource_version.clone_from(version);
            }
            let is_changed = published.as_ref() != report;
            if is_changed {
                *published = report.cloned();
            }
            is_changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publisher() -> (
        NodeReportPublisher,
        watch::Receiver<Option<NetworkPolicyNode>>,
    ) {
        NodeReportPublisher::new(NetworkPolicyNode::new(
            "n",
            "a".to_owned(),
            vec!["1.3".to_owned()],
        ))
    }

    #[test]
    fn only_changed_reports_are_published() {
        let (mut publisher, mut report_receiver) = publisher();
        let names = [
            NamespacedName::new("a", "x"),
            NamespacedName::new("b", "y"),
            NamespacedName::new("b", "z"),
        ];
        let mut check = |applied: &[(usize, &str, i64)], is_changed: bool| {
            let of = applied.iter();
            let all = of.map(|(index, uid, generation)| (&names[*index], *uid, *generation));
            publisher.set_applied_policies(all);
            publisher.publish(&NodeObjectState::NeverSeen);
            assert_eq!(
                report_receiver.has_changed().unwrap(),
                is_changed,
                "{applied:?}"
            );
            let report = report_receiver.borrow_and_update().clone().unwrap();
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
    fn the_observed_version_is_published_if_policies_select_changed_pods() {
        let (mut publisher, mut report_receiver) = publisher();
        let mut check = |version: u64, has_changed_targets: bool, is_published: bool| {
            publisher.set_pods_version(version, has_changed_targets);
            publisher.publish(&NodeObjectState::NeverSeen);
            assert_eq!(report_receiver.has_changed().unwrap(), is_published);
            // The next heartbeat has it in any case.
            let report = report_receiver.borrow_and_update().clone().unwrap();
            assert_eq!(report.pods_resource_version, Some(version.to_string()));
        };
        check(1, false, true);
        check(2, false, false);
        check(3, true, true);
        check(4, false, false);
    }

    #[test]
    fn problems_are_joined_and_nothing_is_published_without_a_node() {
        let (mut publisher, mut report_receiver) = publisher();
        let mut publish = |publisher: &mut NodeReportPublisher, node: &NodeObjectState| {
            publisher.publish(node);
            report_receiver.borrow_and_update().clone()
        };
        publisher.set_kernel_problem(Some("no room".to_owned()));
        publisher.set_bridge_filtering(BridgeFiltering::Inactive("no module".to_owned()));
        publisher.set_bridge_filtering(BridgeFiltering::Unknown);
        let known = NodeObjectState::Exists("uid".to_owned());
        let report = publish(&mut publisher, &known).unwrap();
        assert_eq!(report.problem.as_deref(), Some("no room; no module"));
        let owners = report.metadata.owner_references.unwrap();
        assert_eq!(
            (owners[0].name.as_str(), owners[0].uid.as_str()),
            ("n", "uid")
        );
        publisher.set_kernel_problem(None);
        publisher.set_bridge_filtering(BridgeFiltering::Active);
        assert_eq!(publish(&mut publisher, &NodeObjectState::Deleted), None);
        let report = publish(&mut publisher, &NodeObjectState::NeverSeen).unwrap();
        assert_eq!(
            (report.problem, report.metadata.owner_references),
            (None, None)
        );
    }

    #[test]
    fn report_is_limited_in_applied_policies() {
        let (mut publisher, report_receiver) = publisher();
        let names: Vec<NamespacedName> = (0..=MAX_APPLIED_POLICIES)
            .map(|index| NamespacedName::new("a", format!("{index:06}")))
            .collect();
        let mut check = |count: usize, shown: usize, is_problem: bool| {
            publisher.set_applied_policies(names[..count].iter().map(|name| (name, "u", 1)));
            publisher.publish(&NodeObjectState::NeverSeen);
            let report = report_receiver.borrow().clone().unwrap();
            assert_eq!(
                (report.applied.len(), report.problem.is_some()),
                (shown, is_problem)
            );
        };
        check(MAX_APPLIED_POLICIES, MAX_APPLIED_POLICIES, false);
        check(MAX_APPLIED_POLICIES + 1, MAX_APPLIED_POLICIES, true);
        check(1, 1, false);
    }
}
