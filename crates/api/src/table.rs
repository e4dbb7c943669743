//! How a kind is printed as a table: what `kubectl get` shows.

use rhumb_meta::Timestamp;
use serde_json::Value;

use crate::View;

/// A column of a table.
#[derive(Debug, Clone)]
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

/// The columns of a kind, and the cells of one object in their order.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    pub columns: &'static [Column],
    pub cells: fn(&View<'_>, Timestamp) -> Vec<Value>,
}
