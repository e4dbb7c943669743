//! Finds the watchers that a change may concern without asking all of them.
//!
//! Each watcher sits in one place, chosen when it begins: among the things it asks for, the one where the fewest
//! changes and the fewest other watchers meet. A change goes to the places of the object as it was and as it is:
//! whoever it concerns sits in one of those, because it can only concern a watcher whose requirement the old or the
//! new object meets. The cost is a few look-ups for each label of the object, however many watchers there are.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Mailbox;
use super::benches::Benches;
use super::place::{Place, Trigger, places};
use crate::EventKind;
use crate::change::Change;

/// Watchers are counted under so many names; clients choose them, so they are bounded.
const NAMES_MAX: usize = 128;

/// What the others are counted under. No label or field is called so.
const OTHERS: &str = "(others)";

/// Which watcher.
pub(crate) type Seat = usize;

/// An event on its way to a watcher.
pub(crate) type Delivery = (Seat, Arc<Change>, EventKind);

#[derive(Debug)]
pub(crate) struct Places {
    /// The names of the resource's selectable fields.
    field_names: Arc<[Arc<str>]>,
    /// Whether labels and fields are places, or only names and namespaces.
    triggers: bool,
    seats: Vec<Option<Seated>>,
    free: Vec<Seat>,
    anywhere: Benches,
    by_namespace: HashMap<Box<str>, Benches>,
    /// How many watchers sit at what.
    counts: BTreeMap<Box<str>, usize>,
}

#[derive(Debug)]
struct Seated {
    mailbox: Arc<Mailbox>,
    /// Which of the places that its filter allows.
    choice: usize,
    /// Whether it is counted under the name of its place.
    by_name: bool,
    /// The change it was last found for, so that no change finds it twice.
    found_for: Option<u64>,
}

impl Places {
    pub(crate) fn new(field_names: &[Arc<str>], triggers: bool) -> Self {
        Places {
            field_names: field_names.into(),
            triggers,
            seats: Vec::new(),
            free: Vec::new(),
            anywhere: Benches::default(),
            by_namespace: HashMap::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    /// How many watchers are found by a label, a field, their name or namespace; by nothing under an empty name.
    pub(crate) fn counts(&self) -> BTreeMap<Box<str>, usize> {
        self.counts.clone()
    }

    pub(crate) fn mailboxes(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.seats.iter().flatten().map(|seated| &seated.mailbox)
    }

    pub(crate) fn mailbox(&self, seat: Seat) -> Option<&Arc<Mailbox>> {
        self.seats.get(seat)?.as_ref().map(|seated| &seated.mailbox)
    }

    pub(crate) fn sit(&mut self, mailbox: Arc<Mailbox>) -> Seat {
        let seat = self.free.pop().unwrap_or(self.seats.len());
        let places = places(&mailbox.filter, &self.field_names, self.triggers);
        let choice = self.choose(&places);
        let mut by_name = false;
        if let Some(place) = places.get(choice) {
            let name = place.index_name(&self.field_names);
            by_name = self.counts.contains_key(name) || self.counts.len() < NAMES_MAX;
            let name = if by_name { name } else { OTHERS };
            *self.counts.entry(name.into()).or_default() += 1;
            let benches = match &place.namespace {
                None => &mut self.anywhere,
                Some(namespace) => self.by_namespace.entry(namespace.clone()).or_default(),
            };
            benches.each(&place.trigger, |bench| bench.push(seat));
        }
        let seated = Some(Seated {
            mailbox,
            choice,
            by_name,
            found_for: None,
        });
        match self.seats.get_mut(seat) {
            Some(free) => *free = seated,
            None => self.seats.push(seated),
        }
        seat
    }

    pub(crate) fn leave(&mut self, seat: Seat) {
        let Some(seated) = self.seats.get_mut(seat).and_then(Option::take) else {
            return;
        };
        self.free.push(seat);
        let places = places(&seated.mailbox.filter, &self.field_names, self.triggers);
        if let Some(place) = places.get(seated.choice) {
            self.clear_away(place, seat);
            let field_names = Arc::clone(&self.field_names);
            let name = place.index_name(&field_names);
            self.discount(if seated.by_name { name } else { OTHERS });
        }
        if self.free.len() == self.seats.len() {
            (self.seats, self.free) = (Vec::new(), Vec::new());
        }
    }

    fn clear_away(&mut self, place: &Place, seat: Seat) {
        match &place.namespace {
            None => self.anywhere.leave(&place.trigger, seat),
            Some(namespace) => {
                if let Some(benches) = self.by_namespace.get_mut(namespace) {
                    benches.leave(&place.trigger, seat);
                    if benches.is_empty() {
                        self.by_namespace.remove(namespace);
                    }
                }
            }
        }
    }

    fn discount(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(name);
            }
        }
    }

    /// Adds to `found` every watcher that the change concerns, each once. Returns how many it had to ask.
    pub(crate) fn find(&mut self, change: &Arc<Change>, found: &mut Vec<Delivery>) -> usize {
        let Places {
            seats, field_names, ..
        } = self;
        let mut asked = 0;
        let mut visit = |bench: &[Seat]| {
            for &seat in bench {
                let Some(seated) = seats.get_mut(seat).and_then(Option::as_mut) else {
                    continue;
                };
                if seated.found_for.replace(change.sequence) == Some(change.sequence) {
                    continue;
                }
                asked += 1;
                if let Some(kind) = seated.mailbox.filter.judge(change, field_names) {
                    found.push((seat, Arc::clone(change), kind));
                }
            }
        };
        self.anywhere.visit(change, &mut visit);
        let namespace = change.key.namespace();
        if let Some(benches) = namespace.and_then(|namespace| self.by_namespace.get(namespace)) {
            benches.visit(change, &mut visit);
        }
        asked
    }

    /// The place with the fewest changes to look at, and the fewest others who do.
    fn choose(&self, places: &[Place]) -> usize {
        let cost = |place: &Place| {
            let benches = match &place.namespace {
                None => Some(&self.anywhere),
                Some(namespace) => self.by_namespace.get(namespace),
            };
            let crowd = benches.map_or(0, |benches| benches.crowd(&place.trigger));
            crowd
                .saturating_add(1)
                .saturating_mul(place.trigger.weight())
        };
        let is_broad = |place: &Place| place.trigger == Trigger::Anything;
        let best = places.iter().enumerate().min_by_key(|(_, place)| {
            // Where everything comes by is never better, however few sit there.
            (is_broad(place), cost(place))
        });
        best.map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::LABEL_VALUES_MAX;
    use super::super::{Filter, Scope};
    use super::*;
    use rhumb_meta::Revision;

    fn filter(scope: Scope, labels: &str, fields: &str) -> Filter {
        Filter {
            scope,
            labels: labels.parse().expect(labels),
            fields: fields.parse().expect(fields),
            after: Revision::ZERO,
        }
    }

    fn empty(triggers: bool) -> Places {
        Places::new(&["spec.nodeName".into(), "status.phase".into()], triggers)
    }

    fn chosen(empty: &Places, filter: &Filter) -> Place {
        let mut all = places(filter, &empty.field_names, empty.triggers);
        let choice = empty.choose(&all);
        all.swap_remove(choice)
    }

    fn check(scope: Scope, labels: &str, fields: &str, trigger: Trigger, namespace: Option<&str>) {
        let expect = Place {
            trigger,
            namespace: namespace.map(Into::into),
        };
        let place = chosen(&empty(true), &filter(scope, labels, fields));
        assert_eq!(place, expect, "{labels} {fields}");
    }

    fn label(key: &str, values: &[&str]) -> Trigger {
        let values = values.iter().map(|&value| value.into());
        Trigger::Label(key.into(), values.collect())
    }

    #[test]
    fn a_watcher_sits_where_the_fewest_changes_come_by() {
        let team = || Scope::Namespace("team".into());
        let all = || Scope::All;
        check(all(), "", "", Trigger::Anything, None);
        check(team(), "", "", Trigger::Anything, Some("team"));
        let negative = "a!=b,!c,d notin (e)";
        check(
            team(),
            negative,
            "status.phase!=x",
            Trigger::Anything,
            Some("team"),
        );
        check(
            team(),
            "a!=b,c",
            "",
            Trigger::LabelKey("c".into()),
            Some("team"),
        );
        check(all(), "a>3", "", Trigger::LabelKey("a".into()), None);
        check(all(), "a in (x,y),b=z,c", "", label("b", &["z"]), None);
        check(all(), "a in (y,x,y)", "", label("a", &["x", "y"]), None);
        let empty_phase = Trigger::Field(1, "".into());
        check(all(), "a", "status.phase=", empty_phase, None);
        check(all(), "a=b", "other=x", label("a", &["b"]), None);
        check(
            all(),
            "a=b",
            "status.phase=x,metadata.name=n",
            Trigger::Name("n".into()),
            None,
        );
        check(
            all(),
            "",
            "metadata.namespace=n",
            Trigger::Anything,
            Some("n"),
        );
        check(all(), "", "metadata.namespace=", Trigger::Anything, None);
        let values: Vec<String> = (0..=LABEL_VALUES_MAX).map(|n| n.to_string()).collect();
        let many = format!("a in ({})", values.join(","));
        check(all(), &many, "", Trigger::LabelKey("a".into()), None);
        let object = Scope::Object {
            namespace: Some("team".into()),
            name: "n".into(),
        };
        check(object, "a=b", "", Trigger::Name("n".into()), Some("team"));
    }

    fn sit(places: &mut Places, filter: Filter) -> Seat {
        places.sit(Arc::new(Mailbox::new(filter, 0, true)))
    }

    #[test]
    fn a_crowd_is_avoided() {
        let mut places = empty(true);
        for job in 0..100 {
            let selector = format!("job={job},team=a");
            sit(&mut places, filter(Scope::All, &selector, ""));
        }
        let team = label("team", &["a"]);
        let crowd = places.anywhere.crowd(&team);
        assert!(crowd <= 1, "{crowd} watchers sit together");
    }

    #[test]
    fn watchers_are_counted_by_what_finds_them_and_leave_nothing_behind() {
        let mut places = empty(true);
        let team = || Scope::Namespace("team".into());
        let asked = [
            filter(team(), "a=b", ""),
            filter(Scope::All, "a in (x,y)", ""),
            filter(team(), "", "spec.nodeName=n"),
            filter(team(), "", ""),
            filter(team(), "c", "metadata.name=n"),
            filter(Scope::All, "", ""),
            filter(Scope::All, "c", ""),
        ];
        let seats: Vec<_> = asked
            .into_iter()
            .map(|asked| sit(&mut places, asked))
            .collect();
        let counts: Vec<_> = places.counts().into_iter().collect();
        let expect = [
            ("", 1),
            ("a", 2),
            ("c", 1),
            ("metadata.name", 1),
            ("metadata.namespace", 1),
            ("spec.nodeName", 1),
        ];
        assert_eq!(counts, expect.map(|(name, count)| (name.into(), count)));
        seats.into_iter().for_each(|seat| places.leave(seat));
        assert!(places.counts().is_empty());
        assert!(places.anywhere.is_empty() && places.by_namespace.is_empty());
        assert_eq!(places.len(), 0);
    }

    #[test]
    fn a_crowd_never_drives_watchers_to_where_everything_comes_by() {
        let mut places = empty(true);
        for _ in 0..2_000 {
            sit(&mut places, filter(Scope::All, "app=web", ""));
        }
        let counts: Vec<_> = places.counts().into_iter().collect();
        assert_eq!(counts, [("app".into(), 2_000)]);
    }

    #[test]
    fn names_that_clients_choose_are_bounded() {
        let mut places = empty(true);
        let seats: Vec<_> = (0..300)
            .map(|index| {
                sit(
                    &mut places,
                    filter(Scope::All, &format!("key-{index}=x"), ""),
                )
            })
            .collect();
        assert_eq!(places.counts().len(), NAMES_MAX + 1);
        assert_eq!(places.counts().values().sum::<usize>(), 300);
        seats.into_iter().for_each(|seat| places.leave(seat));
        assert!(places.counts().is_empty());
    }

    #[test]
    fn without_triggers_only_names_and_namespaces_are_places() {
        let place = chosen(&empty(false), &filter(Scope::All, "a=b", "spec.nodeName=n"));
        assert_eq!(place.trigger, Trigger::Anything);
        let place = chosen(&empty(false), &filter(Scope::All, "a=b", "metadata.name=n"));
        assert_eq!(place.trigger, Trigger::Name("n".into()));
    }
}
