//! Server-side table printing (`meta.k8s.io/v1 Table`), which `kubectl get` shows. The printers are in `printers/`.

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use crate::JsonObject;

/// A column of a table (`TableColumnDefinition`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableColumn {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column with the object's name.
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always shown, higher values only with `-o wide`.
    pub priority: i32,
}

/// The columns of a kind and the function that computes an object's cells. Objects are in the storage version.
#[derive(Debug, Clone, Copy)]
pub struct TablePrinter {
    columns: &'static [TableColumn],
    cells: fn(&JsonObject, Timestamp) -> Vec<Value>,
    /// The row's `Completed` condition, for objects that have run to completion.
    completion: fn(&JsonObject) -> Option<RowCompletion>,
}

/// Reason and message of a row's `Completed` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCompletion {
    pub reason: &'static str,
    pub message: &'static str,
}

impl TableColumn {
    pub const fn new(
        name: &'static str,
        kind: &'static str,
        description: &'static str,
    ) -> TableColumn {
        TableColumn {
            name,
            kind,
            format: "",
            description,
            priority: 0,
        }
    }

    pub const fn text(name: &'static str, description: &'static str) -> TableColumn {
        TableColumn::new(name, "string", description)
    }

    pub const fn integer(name: &'static str, description: &'static str) -> TableColumn {
        TableColumn::new(name, "integer", description)
    }

    pub const fn boolean(name: &'static str, description: &'static str) -> TableColumn {
        TableColumn::new(name, "boolean", description)
    }

    /// Sets the format to `name`.
    pub const fn name_format(mut self) -> TableColumn {
        self.format = "name";
        self
    }

    /// Shows the column with `-o wide` only.
    pub const fn wide(mut self) -> TableColumn {
        self.priority = 1;
        self
    }

    /// The entry in the Table's `columnDefinitions`.
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

impl TablePrinter {
    pub const fn new(
        columns: &'static [TableColumn],
        cells: fn(&JsonObject, Timestamp) -> Vec<Value>,
    ) -> TablePrinter {
        TablePrinter {
            columns,
            cells,
            completion: |_| None,
        }
    }

    pub const fn with_completion(
        mut self,
        completed: fn(&JsonObject) -> Option<RowCompletion>,
    ) -> TablePrinter {
        self.completion = completed;
        self
    }

    pub fn columns(&self) -> &[TableColumn] {
        self.columns
    }

    /// The cells of an object's row, one for each column.
    pub fn cells(&self, object: &JsonObject, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }

    pub fn column_definitions(&self) -> Vec<Value> {
        self.columns.iter().map(TableColumn::definition).collect()
    }

    /// The `conditions` of an object's row; `None` if it has none.
    pub fn conditions(&self, object: &JsonObject) -> Option<Value> {
        (self.completion)(object).map(|RowCompletion { reason, message }| {
            json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }])
        })
    }
}
