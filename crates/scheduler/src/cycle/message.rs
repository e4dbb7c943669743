//! The message of the `PodScheduled` condition of a pod without a feasible node (upstream: `FitError`).

use super::Diagnosis;

/// The message if the cluster has no nodes.
pub const NO_NODES: &str = "no nodes available to schedule pods";

impl Diagnosis {
    /// `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were unschedulable.`
    pub fn message(&self, nodes: usize) -> String {
        match &self.pre_filter_rejection {
            Some((_, reason)) => format!("0/{nodes} nodes are available: {reason}."),
            None => unavailable_message(nodes, &self.reasons),
        }
    }
}

/// The message for reasons and the number of nodes each applies to.
pub fn unavailable_message(nodes: usize, reasons: &[(String, usize)]) -> String {
    // Sorted as text including the number, as upstream does.
    let mut texts: Vec<String> = reasons
        .iter()
        .map(|(reason, times)| format!("{times} {reason}"))
        .collect();
    texts.sort();
    if texts.is_empty() {
        return format!("0/{nodes} nodes are available:");
    }
    format!("0/{nodes} nodes are available: {}.", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_sorted_by_text() {
        for (nodes, reasons, message) in [
            (3, vec![], "0/3 nodes are available:"),
            (
                12,
                vec![("Insufficient cpu", 2), ("node(s) were unschedulable", 10)],
                "0/12 nodes are available: 10 node(s) were unschedulable, 2 Insufficient cpu.",
            ),
            (
                2,
                vec![("b", 1), ("a", 1)],
                "0/2 nodes are available: 1 a, 1 b.",
            ),
        ] {
            let reasons: Vec<_> = reasons
                .into_iter()
                .map(|(reason, times)| (reason.to_owned(), times))
                .collect();
            assert_eq!(unavailable_message(nodes, &reasons), message);
        }
    }

    #[test]
    fn a_pre_filter_reason_is_shown_without_a_count() {
        let diagnosis = Diagnosis::from_pre_filter((0, "no".to_owned()));
        assert_eq!(diagnosis.message(5), "0/5 nodes are available: no.");
    }
}
