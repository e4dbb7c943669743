//! Printers of the rbac group. Roles use the generic printer.

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    matches!(kind, "ClusterRoleBinding" | "RoleBinding").then_some(BINDING)
}

const BINDING: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Role", "The referenced role."),
        AGE,
        TableColumn::text("Users", "The users it is bound to.").wide(),
        TableColumn::text("Groups", "The groups it is bound to.").wide(),
        TableColumn::text("ServiceAccounts", "The service accounts it is bound to.").wide(),
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let role = object.key("roleRef");
        vec![
            name(object),
            format!("{}/{}", role.key("kind").str(), role.key("name").str()).into(),
            age(object, now),
            subjects(object, "User").into(),
            subjects(object, "Group").into(),
            subjects(object, "ServiceAccount").into(),
        ]
    },
);

fn subjects(binding: JsonView<'_>, kind: &str) -> String {
    binding
        .key("subjects")
        .items()
        .filter(|subject| subject.key("kind").str() == kind)
        .map(|subject| {
            let name = subject.key("name").str();
            if kind == "ServiceAccount" {
                format!("{}/{name}", subject.key("namespace").str())
            } else {
                name.to_string()
            }
        })
        .collect::<Vec<_>>()
        .join(", ")
}
