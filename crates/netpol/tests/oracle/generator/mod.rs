//! Clusters and histories in which much happens on little room, so that things get into each other's way.

mod pods;
mod policies;

use rhumb_netpol::{Knowledge, Name};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::script::{Event, Kind, Script, World, kind_of, name_of};

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
pub(crate) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
pub(crate) const VERSIONS: [&str; 6] = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];

/// Makes objects, and remembers what has to be different in each.
#[derive(Debug)]
pub(crate) struct Maker<'d> {
    dice: &'d mut Dice,
    uids: usize,
}

/// A cluster that is there at once.
pub(crate) fn cluster(dice: &mut Dice, pods: usize, policies: usize) -> Script {
    let mut maker = Maker { dice, uids: 0 };
    let mut events = Vec::new();
    for name in NAMESPACES {
        if maker.dice.percent(80) {
            events.push(Event::Set(maker.namespace(name)));
        }
    }
    for number in 0..pods {
        let namespace = maker.dice.weighted(&[(5, "a"), (3, "b"), (2, "c")]);
        let pod = maker.pod(&Name::new(namespace, format!("p{number}")));
        events.push(Event::Set(pod));
    }
    for number in 0..policies {
        let namespace = maker.dice.weighted(&[(5, "a"), (3, "b"), (2, "c")]);
        let policy = maker.policy(&Name::new(namespace, format!("q{number}")));
        events.push(Event::Set(policy));
    }
    dice.shuffle(&mut events);
    Script {
        knowledge: knowledge(dice),
        events,
    }
}

/// A cluster to which much happens.
pub(crate) fn history(dice: &mut Dice, length: usize) -> Script {
    let (pods, policies) = (dice.between(1, 4), dice.between(1, 3));
    let mut script = cluster(dice, pods, policies);
    let mut world = World::of(&script.events);
    let mut maker = Maker { dice, uids: 1000 };
    while script.events.len() < length {
        let events = match maker.dice.percent(3) {
            true => maker.departure(&world),
            false => vec![maker.event(&world)],
        };
        events.iter().for_each(|event| world.apply(event));
        script.events.extend(events);
    }
    script
}

/// Mostly everything.
fn knowledge(dice: &mut Dice) -> Knowledge {
    let limited = dice.percent(10);
    let known = VERSIONS.iter().filter(|_| !limited || dice.percent(80));
    Knowledge {
        versions: known.map(ToString::to_string).collect(),
        sctp: dice.percent(90),
    }
}

impl Maker<'_> {
    /// A namespace goes with all that is in it.
    fn departure(&mut self, world: &World) -> Vec<Event> {
        let gone = *self.dice.pick(&NAMESPACES);
        let objects = world
            .objects()
            .map(|object| (kind_of(object), name_of(object)));
        let inside = objects.filter(|(_, name)| name.namespace == gone);
        let mut events: Vec<Event> = inside
            .map(|(kind, name)| Event::Remove(kind, name))
            .collect();
        events.push(Event::Remove(Kind::Namespace, Name::new("", gone)));
        self.dice.shuffle(&mut events);
        events
    }

    fn event(&mut self, world: &World) -> Event {
        let kind =
            self.dice
                .weighted(&[(60, Kind::Pod), (28, Kind::Policy), (12, Kind::Namespace)]);
        match kind {
            Kind::Namespace => {
                let name = *self.dice.pick(&NAMESPACES);
                if self.dice.percent(20) {
                    return Event::Remove(kind, Name::new("", name));
                }
                Event::Set(self.namespace(name))
            }
            Kind::Pod => self.pod_event(world),
            Kind::Policy => {
                let name = self.name('q', 3);
                if self.dice.percent(20) {
                    return Event::Remove(kind, name);
                }
                let known = world.get(kind, &name).cloned();
                Event::Set(match known {
                    Some(policy) if self.dice.percent(60) => self.changed_policy(policy),
                    _ => self.policy(&name),
                })
            }
        }
    }

    fn pod_event(&mut self, world: &World) -> Event {
        let name = self.name('p', 4);
        if self.dice.percent(15) {
            return Event::Remove(Kind::Pod, name);
        }
        let known = world.get(Kind::Pod, &name).cloned();
        Event::Set(match known {
            Some(pod) if self.dice.percent(70) => self.changed_pod(pod),
            _ => self.pod(&name),
        })
    }

    fn name(&mut self, letter: char, count: usize) -> Name {
        let namespace = self.dice.weighted(&[(5, "a"), (3, "b"), (2, "c")]);
        Name::new(namespace, format!("{letter}{}", self.dice.below(count)))
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{:04}", self.uids)
    }

    fn namespace(&mut self, name: &str) -> Value {
        let mut labels = json!({});
        if self.dice.percent(70) {
            labels["team"] = json!(self.dice.pick(&["red", "blue"]));
        }
        if self.dice.percent(15) {
            labels["app"] = json!(self.dice.pick(&["x", "y"]));
        }
        match self.dice.below(10) {
            0 => labels["kubernetes.io/metadata.name"] = json!(self.dice.pick(&NAMESPACES)),
            1 => labels = Value::Null,
            _ => {}
        }
        json!({"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    }

    fn pod_labels(&mut self) -> Value {
        let mut labels = json!({});
        if self.dice.percent(90) {
            labels["app"] = json!(self.dice.pick(&["x", "x", "y", "z"]));
        }
        if self.dice.percent(50) {
            labels["tier"] = json!(self.dice.pick(&["front", "back"]));
        }
        if self.dice.percent(5) {
            return Value::Null;
        }
        labels
    }
}
