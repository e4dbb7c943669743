use std::cell::RefCell;

use super::*;
use crate::authz::AllowReason;

/// Allows the listed requests, and records every request.
struct RecordingAuthorizer<'a> {
    allowed: &'a [&'a str],
    asked: RefCell<Vec<String>>,
}

impl Authorizer for RecordingAuthorizer<'_> {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let subresource = match attributes.subresource {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        let asked = format!(
            "{} {}/{}{subresource} {}",
            attributes.verb, attributes.api_group, attributes.resource, attributes.name
        );
        let is_allowed = self.allowed.contains(&asked.trim_end());
        self.asked.borrow_mut().push(asked.trim_end().to_owned());
        match is_allowed {
            true => Decision::Allow(AllowReason::Masters),
            false => Decision::Deny(String::new()),
        }
    }
}

type HeaderPairs<'a> = &'a [(&'a str, &'a str)];

fn check(headers: HeaderPairs<'_>, allowed: &[&str], want: Result<&[&str], &str>) {
    let rules = RecordingAuthorizer {
        allowed,
        asked: RefCell::default(),
    };
    let requestor = User {
        extra: [(extra_key::NODE_NAME.to_owned(), vec!["n1".to_owned()])].into(),
        ..User::new("system:serviceaccount:default:agent", &[])
    };
    let list = Attributes {
        namespace: "x",
        ..Attributes::resource(&requestor, "list", "", "pods")
    };
    let wanted =
        ImpersonationRequest::from_headers(headers.iter().copied()).expect("valid headers");
    let got = wanted
        .expect("an impersonation request")
        .authorize(&list, &rules);
    let got = got.map(|user| user.groups).map_err(|status| status.message);
    let want = want
        .map(|groups| groups.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
        .map_err(str::to_owned);
    assert_eq!(got, want, "{headers:?} asked {:?}", rules.asked.borrow());
}

const BOT: (&str, &str) = ("Impersonate-User", "system:serviceaccount:default:bot");

#[test]
fn the_first_of_repeated_headers_counts() {
    let check = |headers: &[(&str, &str)], want: Result<Option<(&str, &str)>, i32>| {
        let got = ImpersonationRequest::from_headers(headers.iter().copied());
        let got = got
            .map_err(|status| status.code)
            .map(|wanted| wanted.map(|it| (it.wanted.name.clone(), it.wanted.uid.clone())));
        let want = want.map(|it| it.map(|(name, uid)| (name.to_owned(), uid.to_owned())));
        assert_eq!(got, want, "{headers:?}");
    };
    let (user, uid) = ("Impersonate-User", "Impersonate-Uid");
    check(&[(user, "a"), (user, "b")], Ok(Some(("a", ""))));
    check(&[(user, "a"), (uid, "1"), (uid, "2")], Ok(Some(("a", "1"))));
    check(&[(user, "a"), (uid, ""), (uid, "2")], Ok(Some(("a", ""))));
    check(&[(user, ""), (uid, "")], Ok(None));
    check(&[(user, ""), (user, "b")], Err(400));
}

#[test]
fn legacy_impersonate_verb_allows_any_request() {
    check(
        &[("Impersonate-User", "ann"), ("Impersonate-Group", "dev")],
        &["impersonate /users ann", "impersonate /groups dev"],
        Ok(&["dev", "system:authenticated"]),
    );
    check(
        &[BOT],
        &["impersonate /serviceaccounts bot"],
        Ok(&[
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ]),
    );
    check(
        &[BOT, ("impersonate-group", "system:masters")],
        &[
            "impersonate /serviceaccounts bot",
            "impersonate /groups system:masters",
        ],
        Ok(&["system:masters", "system:authenticated"]),
    );
    check(
        &[
            ("Impersonate-User", "ann"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-Acme.io%2fScope", "all"),
        ],
        &[
            "impersonate /users ann",
            "impersonate authentication.k8s.io/uids 7",
            "impersonate authentication.k8s.io/userextras/acme.io/scope all",
        ],
        Ok(&["system:authenticated"]),
    );
    check(
        &[("Impersonate-User", "system:anonymous")],
        &["impersonate /users system:anonymous"],
        Ok(&["system:unauthenticated"]),
    );
    check(
        &[
            ("Impersonate-User", "ann"),
            ("Impersonate-Group", "system:unauthenticated"),
        ],
        &[
            "impersonate /users ann",
            "impersonate /groups system:unauthenticated",
        ],
        Ok(&["system:unauthenticated"]),
    );
}

#[test]
fn constrained_impersonation_is_limited_to_mode_and_request() {
    let group = "authentication.k8s.io";
    let name = format!("impersonate:user-info {group}/users ann");
    let on = "impersonate-on:user-info:list /pods";
    check(
        &[("Impersonate-User", "ann")],
        &[on, &name],
        Ok(&["system:authenticated"]),
    );
    check(
        &[("Impersonate-User", "ann")],
        &[&name],
        Err(concat!(
            r#"pods is forbidden: User "system:serviceaccount:default:agent" cannot "#,
            r#"impersonate-on:user-info:list resource "pods" in API group "" in the namespace "x""#,
        )),
    );
    check(
        &[
            ("Impersonate-User", "ann"),
            ("Impersonate-Group", "system:masters"),
        ],
        &[on, &name],
        Err(concat!(
            r#"groups.authentication.k8s.io "system:masters" is forbidden: User "#,
            r#""system:serviceaccount:default:agent" cannot impersonate:user-info resource "groups" "#,
            r#"in API group "authentication.k8s.io" at the cluster scope: "#,
            "impersonating the system:masters group is not allowed",
        )),
    );
    let account = format!("impersonate:serviceaccount {group}/serviceaccounts bot");
    check(
        &[BOT],
        &["impersonate-on:serviceaccount:list /pods", &account],
        Ok(&[
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ]),
    );
    let node: HeaderPairs<'_> = &[("Impersonate-User", "system:node:n1")];
    let own_node = format!("impersonate:associated-node {group}/nodes *");
    let groups: &[&str] = &["system:nodes", "system:authenticated"];
    check(
        node,
        &["impersonate-on:associated-node:list /pods", &own_node],
        Ok(groups),
    );
    let any_node = format!("impersonate:arbitrary-node {group}/nodes n1");
    check(
        node,
        &["impersonate-on:arbitrary-node:list /pods", &any_node],
        Ok(groups),
    );
}

#[test]
fn wildcard_permission_allows_many_groups() {
    let all = "impersonate:user-info authentication.k8s.io/groups *";
    let name = "impersonate:user-info authentication.k8s.io/users ann";
    let on = "impersonate-on:user-info:list /pods";
    let group = |name| ("Impersonate-Group", name);
    let headers = [
        ("Impersonate-User", "ann"),
        group("a"),
        group("b"),
        group("c"),
        group("d"),
    ];
    check(
        &headers,
        &[on, name, all],
        Ok(&["a", "b", "c", "d", "system:authenticated"]),
    );
    let rules = [on, name, all];
    let rules = RecordingAuthorizer {
        allowed: &rules,
        asked: RefCell::default(),
    };
    let agent = User::new("agent", &[]);
    let wanted =
        ImpersonationRequest::from_headers(headers[..4].iter().copied()).expect("valid headers");
    let list = Attributes::resource(&agent, "list", "", "pods");
    assert!(
        wanted
            .expect("an impersonation request")
            .authorize(&list, &rules)
            .is_err(),
        "three groups are checked one by one"
    );
}

#[test]
fn headers_without_a_user_are_rejected() {
    assert_eq!(
        ImpersonationRequest::from_headers([("Accept", "x")]),
        Ok(None)
    );
    assert_eq!(
        ImpersonationRequest::from_headers([("Impersonate-User", "")]),
        Ok(None)
    );
    let error = |headers: HeaderPairs<'_>| {
        ImpersonationRequest::from_headers(headers.iter().copied())
            .expect_err("no user name")
            .message
    };
    assert_eq!(
        error(&[("Impersonate-Group", "a"), ("Impersonate-Group", "b")]),
        concat!(
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a", "b"}, "#,
            "Extra:map[string][]string(nil)} without impersonating a user name",
        )
    );
    assert_eq!(
        error(&[("Impersonate-Uid", "u"), ("Impersonate-Extra-k", "v")]),
        concat!(
            r#"requested &user.DefaultInfo{Name:"", UID:"u", Groups:[]string(nil), "#,
            r#"Extra:map[string][]string{"k":[]string{"v"}}} without impersonating a user name"#,
        )
    );
}

#[test]
fn extra_keys_are_decoded_and_checked() {
    let cases = [
        ("acme.io%2fscope", "acme.io/scope"),
        ("a%zz", "a%zz"),
        ("a%2", "a%2"),
        ("%ff", "%ff"),
        ("plain", "plain"),
    ];
    for (key, want) in cases {
        assert_eq!(unescape(key), want, "{key}");
    }
    let problem = |key: &str, value: &str| {
        validate_extra(&[(key.to_owned(), vec![value.to_owned()])].into()).err()
    };
    assert_eq!(problem("acme.io/scope", "v"), None);
    for (key, value, want) in [
        (
            "",
            "v",
            "impersonating the empty string key in extra is not allowed",
        ),
        (
            "acme.io/s",
            "",
            "impersonating the empty string value in extra is not allowed",
        ),
        (
            "acme.io/S",
            "v",
            r#"impersonating a non-lowercase key in extra is not allowed: "acme.io/S""#,
        ),
        (
            "scope",
            "v",
            concat!(
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: ",
                r#""scope": must be a domain-prefixed path (such as "acme.io/foo")"#,
            ),
        ),
    ] {
        assert_eq!(problem(key, value).as_deref(), Some(want), "{key:?}");
    }
}
