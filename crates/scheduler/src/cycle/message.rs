//! Why there is no node, in upstream's words.

use super::Diagnosis;

/// Where there are no nodes at all.
pub const NO_NODES: &str = "no nodes available to schedule pods";

impl Diagnosis {
    /// `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were unschedulable.`
    pub fn message(&self, nodes: usize) -> String {
        match &self.everywhere {
            Some((_, reason)) => format!("0/{nodes} nodes are available: {reason}."),
            None => message_of(nodes, &self.reasons),
        }
    }
}

/// The same for reasons and how often each was given.
pub fn message_of(nodes: usize, reasons: &[(String, usize)]) -> String {
    // The order is that of the texts with their numbers, as upstream has it.
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
    fn reasons_are_in_the_order_of_their_texts() {
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
            assert_eq!(message_of(nodes, &reasons), message);
        }
    }

    #[test]
    fn what_holds_everywhere_is_not_counted() {
        let diagnosis = Diagnosis::everywhere((0, "no".to_owned()));
        assert_eq!(diagnosis.message(5), "0/5 nodes are available: no.");
    }
}
