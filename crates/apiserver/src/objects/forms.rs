//! The forms in which objects may be stored: ours is JSON in one version, but other servers on the same store may
//! have written protobuf, or another version.

use rhumb_api::{Conversion, Gates, Mend, Object};
use rhumb_schema::protobuf::{self, Envelope};
use rhumb_schema::{Table, TypeId};
use serde_json::Value;

/// A version of a kind, and how its objects become those of the version that is stored.
#[derive(Debug, Clone)]
pub struct Form {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub schema: TypeId,
    /// `None` for the version that is stored.
    pub conversion: Option<Conversion>,
}

/// Reads the objects below one path, whoever stored them.
#[derive(Debug, Clone)]
pub struct Forms {
    table: &'static Table,
    stored: Form,
    others: Vec<Form>,
    mend: Option<(Mend, Gates)>,
}

impl Forms {
    pub fn new(table: &'static Table, stored: Form, others: Vec<Form>) -> Forms {
        Forms {
            table,
            stored,
            others,
            mend: None,
        }
    }

    /// Every object that is read is put right by this.
    #[must_use]
    pub fn mended(mut self, mend: Mend, gates: Gates) -> Forms {
        self.mend = Some((mend, gates));
        self
    }

    /// Whether the object has to be read to know what it holds: its bytes alone do not tell.
    pub fn is_to_mend(&self, stored: &[u8]) -> bool {
        self.mend.is_some_and(|(mend, gates)| {
            serde_json::from_slice(stored).is_ok_and(|mut object| mend(&mut object, &gates))
        })
    }

    /// The object in the version that is stored. The error tells nothing of what the object holds.
    pub fn read(&self, stored: &[u8]) -> Result<Object, String> {
        let mut object = if stored.starts_with(protobuf::MAGIC) {
            self.read_protobuf(stored)?
        } else {
            self.read_json(stored)?
        };
        let types = [
            ("apiVersion", &self.stored.api_version),
            ("kind", &self.stored.kind),
        ];
        for (name, value) in types {
            object.insert(name.into(), Value::from(&**value));
        }
        if let Some((mend, gates)) = &self.mend {
            mend(&mut object, gates);
        }
        Ok(object)
    }

    fn read_json(&self, stored: &[u8]) -> Result<Object, String> {
        let mut object: Object =
            serde_json::from_slice(stored).map_err(|error| not_json(&error))?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(form) = self.find(text("apiVersion"), text("kind")) {
            self.convert(form, &mut object);
        }
        Ok(object)
    }

    fn read_protobuf(&self, stored: &[u8]) -> Result<Object, String> {
        let envelope = Envelope::open(stored).map_err(|error| error.to_string())?;
        let (api_version, kind) = (&*envelope.api_version, &*envelope.kind);
        let form = self.find(api_version, kind).ok_or_else(|| {
            format!("it is stored as {kind} of {api_version}, which is not known")
        })?;
        let mut object = protobuf::decode(self.table, form.schema, envelope.raw)
            .map_err(|error| format!("what is stored is no {kind} in protobuf: {error}"))?;
        self.convert(form, &mut object);
        // Protobuf has no word for much that JSON writes.
        rhumb_schema::conform(self.table, self.stored.schema, &mut object);
        Ok(object)
    }

    fn find(&self, api_version: &str, kind: &str) -> Option<&Form> {
        std::iter::once(&self.stored)
            .chain(&self.others)
            .find(|form| *form.api_version == *api_version && *form.kind == *kind)
    }

    fn convert(&self, form: &Form, object: &mut Object) {
        if let Some(conversion) = &form.conversion {
            (conversion.to_stored)(object);
        }
    }
}

fn not_json(error: &serde_json::Error) -> String {
    format!(
        "what is stored is not an object in JSON (at line {}, column {})",
        error.line(),
        error.column()
    )
}
