//! Printers of the rbac group. Roles are shown by the generic one.

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    matches!(kind, "ClusterRoleBinding" | "RoleBinding").then_some(BINDING)
}

const BINDING: Printer = Printer::new(
    &[
        NAME,
        Column::text("Role", "The role that is given."),
        AGE,
        Column::text("Users", "The users it is given to.").wide(),
        Column::text("Groups", "The groups it is given to.").wide(),
        Column::text("ServiceAccounts", "The service accounts it is given to.").wide(),
    ],
    |object, now| {
        let object = Part::Root(object);
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

fn subjects(binding: Part<'_>, kind: &str) -> String {
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
