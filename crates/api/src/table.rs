//! How a kind is printed as a table: what `kubectl get` shows.

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use crate::Object;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column that names the row.
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i32,
}

/// The columns of a kind, and the cells of one object in their order. It is given objects in the version that
/// is stored.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    columns: &'static [Column],
    cells: fn(&Object, Timestamp) -> Vec<Value>,
    /// Says of an object that it is through with what it was made for, and how that ended.
    completed: fn(&Object) -> Option<Completed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    pub reason: &'static str,
    pub message: &'static str,
}

impl Column {
    pub const fn new(name: &'static str, kind: &'static str, description: &'static str) -> Column {
        Column {
            name,
            kind,
            format: "",
            description,
            priority: 0,
        }
    }

    pub const fn text(name: &'static str, description: &'static str) -> Column {
        Column::new(name, "string", description)
    }

    pub const fn integer(name: &'static str, description: &'static str) -> Column {
        Column::new(name, "integer", description)
    }

    pub const fn boolean(name: &'static str, description: &'static str) -> Column {
        Column::new(name, "boolean", description)
    }

    /// It holds the name of something.
    pub const fn names(mut self) -> Column {
        self.format = "name";
        self
    }

    /// It is shown with `-o wide` only.
    pub const fn wide(mut self) -> Column {
        self.priority = 1;
        self
    }

    /// As `columnDefinitions` of a Table has it.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

impl Printer {
    pub const fn new(
        columns: &'static [Column],
        cells: fn(&Object, Timestamp) -> Vec<Value>,
    ) -> Printer {
        Printer {
            columns,
            cells,
            completed: |_| None,
        }
    }

    pub const fn completing(mut self, completed: fn(&Object) -> Option<Completed>) -> Printer {
        self.completed = completed;
        self
    }

    pub fn columns(&self) -> &[Column] {
        self.columns
    }

    /// The cells of an object's row, one for each column.
    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }

    pub fn column_definitions(&self) -> Vec<Value> {
        self.columns.iter().map(Column::definition).collect()
    }

    /// The `conditions` of an object's row; a row without any has no such field.
    pub fn conditions(&self, object: &Object) -> Option<Value> {
        (self.completed)(object).map(|Completed { reason, message }| {
            json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }])
        })
    }
}
