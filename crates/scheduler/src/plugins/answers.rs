//! Answers about nodes, kept for as long as the nodes are the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::cluster::{NodeSet, Nodes};
use crate::model::Node;

/// So many questions are remembered; then the one goes that was not asked for the longest time.
const QUESTIONS_MAX: usize = 512;

/// Of which nodes something holds, for each question that pods ask, where nothing but the facts of a node answer it.
/// Pods that say the same ask the same question, so it is answered once; later only nodes that changed are looked at.
#[derive(Debug)]
pub(super) struct NodeAnswers<Q> {
    known: RefCell<Remembered<Q, Arc<Answer>>>,
}

/// What was found out for a number of questions.
#[derive(Debug)]
pub(super) struct Remembered<Q, A> {
    answers: HashMap<Q, (u64, A)>,
    /// Grows with each question, so that it is known which was asked last.
    asked: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    /// That of all nodes when they were looked at.
    version: u64,
    pub(super) nodes: NodeSet,
    /// Whether it holds of all nodes that are known.
    pub(super) is_everywhere: bool,
}

impl<Q> Default for NodeAnswers<Q> {
    fn default() -> Self {
        NodeAnswers {
            known: RefCell::default(),
        }
    }
}

impl<Q, A> Default for Remembered<Q, A> {
    fn default() -> Self {
        Remembered {
            answers: HashMap::new(),
            asked: 0,
        }
    }
}

impl<Q: Hash + Eq + Clone> NodeAnswers<Q> {
    pub(super) fn ask(
        &self,
        question: &Q,
        nodes: &Nodes,
        holds: impl Fn(&Node) -> bool,
    ) -> Arc<Answer> {
        let mut known = self.known.borrow_mut();
        let answer = known.ask(question, || Arc::new(Answer::of_all(nodes, &holds)));
        if answer.version != nodes.version() {
            Arc::make_mut(answer).refresh(nodes, &holds);
        }
        answer.clone()
    }
}

impl<Q: Hash + Eq + Clone, A> Remembered<Q, A> {
    /// What is remembered, which may be of old, or else what is found now.
    pub(super) fn ask(&mut self, question: &Q, find: impl FnOnce() -> A) -> &mut A {
        self.asked += 1;
        if !self.answers.contains_key(question) {
            self.make_room();
        }
        let entry = self.answers.entry(question.clone());
        let (asked, answer) = entry.or_insert_with(|| (0, find()));
        *asked = self.asked;
        answer
    }

    fn make_room(&mut self) {
        if self.answers.len() < QUESTIONS_MAX {
            return;
        }
        let answers = self.answers.iter();
        let oldest = answers.min_by_key(|(_, (asked, _))| *asked);
        if let Some(oldest) = oldest.map(|(question, _)| question.clone()) {
            self.answers.remove(&oldest);
        }
    }
}

impl Answer {
    fn of_all(nodes: &Nodes, holds: impl Fn(&Node) -> bool) -> Answer {
        let mut answer = Answer::default();
        answer.look(nodes, holds, |_| true);
        answer
    }

    /// Looks at nodes that changed since.
    fn refresh(&mut self, nodes: &Nodes, holds: impl Fn(&Node) -> bool) {
        let known = self.version;
        self.look(nodes, holds, |version| version > known);
    }

    fn look(&mut self, nodes: &Nodes, holds: impl Fn(&Node) -> bool, is_new: impl Fn(u64) -> bool) {
        self.is_everywhere = true;
        for (id, slot) in nodes.iter() {
            let Some(facts) = slot.facts() else { continue };
            if is_new(slot.version()) {
                self.nodes.set(id, holds(facts));
            }
            self.is_everywhere &= self.nodes.contains(id);
        }
        self.version = nodes.version();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::plugins::testing::{cluster, node};

    #[test]
    fn only_nodes_that_changed_are_asked_again() {
        let answers: NodeAnswers<&str> = NodeAnswers::default();
        let mut cluster = cluster([node("a"), node("b"), node("c")], []);
        let asked = Cell::new(0);
        let is_open = |node: &Node| {
            asked.set(asked.get() + 1);
            !node.is_unschedulable
        };
        for (change, asked_more, is_everywhere) in [
            (None, 3, true),
            (None, 0, true),
            (Some(("b", true)), 1, false),
            (Some(("d", false)), 1, false),
            (Some(("b", false)), 1, true),
        ] {
            if let Some((name, is_unschedulable)) = change {
                cluster.set_node(Node {
                    is_unschedulable,
                    ..node(name)
                });
            }
            let before = asked.get();
            let answer = answers.ask(&"open", cluster.nodes(), is_open);
            assert_eq!(asked.get() - before, asked_more, "{change:?}");
            assert_eq!(answer.is_everywhere, is_everywhere, "{change:?}");
        }
        cluster.remove_node("a");
        cluster.set_node(Node {
            is_unschedulable: true,
            ..node("e")
        });
        let answer = answers.ask(&"open", cluster.nodes(), is_open);
        let holds = |name| answer.nodes.contains(cluster.nodes().find(name).unwrap());
        assert!(holds("b") && !holds("e"), "a number that is used again");
    }

    #[test]
    fn the_number_of_questions_is_bounded() {
        let answers: NodeAnswers<usize> = NodeAnswers::default();
        let cluster = cluster([node("a")], []);
        for question in 0..QUESTIONS_MAX + 10 {
            answers.ask(&0, cluster.nodes(), |_| true);
            answers.ask(&question, cluster.nodes(), |_| true);
        }
        let known = answers.known.borrow();
        assert_eq!(known.answers.len(), QUESTIONS_MAX);
        assert!(
            known.answers.contains_key(&0),
            "what is asked often is kept"
        );
    }
}
