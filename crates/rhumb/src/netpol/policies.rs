//! Policies in files, taken as a server would take them.

use anyhow::{Context, Result, bail};
use rhumb_api::{Gates, Request, View, metadata};
use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;
use rhumb_schema::{Defaults, Table, TypeId};

use crate::documents::{Object, Strict};

const GROUP: &str = "networking.k8s.io";
const KIND: &str = "NetworkPolicy";

/// What a server does to a new policy before it stores it.
pub(super) struct Validation {
    gates: Gates,
    defaults: Defaults<'static>,
    schema: TypeId,
}

impl Validation {
    pub(super) fn new() -> Result<Validation> {
        let gates = Gates::default();
        let table = Table::builtin();
        let defaults = Defaults::new(table, rhumb_api::defaults::by_type_for(&gates))
            .context("the schema table is broken")?;
        let schema = table
            .named("io.k8s.api.networking.v1.NetworkPolicy")
            .context("the schema table has no NetworkPolicy")?;
        Ok(Validation {
            gates,
            defaults,
            schema,
        })
    }

    /// The policy with its defaults, if it is valid.
    pub(super) fn admit(&self, strict: &Strict, mut object: Object) -> Result<Object> {
        let kind = strict
            .kind(GROUP, KIND)
            .context("there is no such kind here")?;
        let request = Request {
            gates: &self.gates,
            now: Timestamp::from_unix(0, 0),
            user: "",
            uid: "",
            groups: &[],
            extra: None,
        };
        self.defaults.apply(self.schema, &mut object);
        kind.rules.default(&mut object);
        kind.rules.prepare_create(&mut object, &request);
        let mut errors = ErrorList::new();
        let view = View::root(&object);
        metadata::validate_create(&view, kind, &mut errors);
        kind.rules.validate_create(&view, &request, &mut errors);
        if errors.is_empty() {
            return Ok(object);
        }
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("{}", errors.join("; "));
    }
}
