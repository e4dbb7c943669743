//! Quotas and limit ranges, as users meet them: the built program, many clients at once, crashes, several servers.

#[path = "../../../store/tests/etcd_server/mod.rs"]
mod etcd_server;
#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;
#[path = "../kube_rs/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "../controllers/waiting.rs"]
#[allow(dead_code)]
mod waiting;
#[path = "../admission/webhook.rs"]
#[allow(dead_code)]
mod webhook;

mod crash;
mod cross_namespace;
mod failures;
mod gate;
mod limited;
mod metrics;
mod paths;
mod ranges;
mod release;
mod rush;
mod space;
mod status;
