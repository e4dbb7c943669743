//! [`SchemaRef`], a reference to a type that keeps its table.

use std::fmt;
use std::sync::Arc;

use crate::{Object, ObjectType, Table, TypeId};

/// A type and the table that it belongs to. Cheap to clone; the table of a custom resource is dropped with the last
/// reference to it.
#[derive(Clone)]
pub struct SchemaRef {
    table: Arc<Table>,
    id: TypeId,
}

impl SchemaRef {
    /// `id` is of this table.
    pub fn new(table: Arc<Table>, id: TypeId) -> SchemaRef {
        SchemaRef { table, id }
    }

    /// The type with that OpenAPI name.
    pub fn find(table: &Arc<Table>, name: &str) -> Option<SchemaRef> {
        let id = table.type_id(name)?;
        Some(SchemaRef::new(Arc::clone(table), id))
    }

    #[inline]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    #[inline]
    pub fn id(&self) -> TypeId {
        self.id
    }

    pub fn get(&self) -> &ObjectType {
        self.table.get(self.id)
    }

    /// Brings an object of this type into canonical form.
    pub fn canonicalize(&self, object: &mut Object) {
        crate::canonicalize(&self.table, self.id, object);
    }
}

impl PartialEq for SchemaRef {
    fn eq(&self, other: &SchemaRef) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.table, &other.table)
    }
}

impl Eq for SchemaRef {}

impl fmt::Debug for SchemaRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SchemaRef").field(&self.get().name).finish()
    }
}
