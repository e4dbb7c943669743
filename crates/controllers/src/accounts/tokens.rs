//! Secrets that hold a token of a service account: filled when someone makes one, gone with their account.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, PartialObjectMeta, PostParams, Preconditions};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, ResourceExt};

use crate::error::found;
use crate::queue::{Done, Queue};
use crate::watching::watch;
use crate::{Context, Error};

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const WORKERS: usize = 5;

/// The namespace and name of an object.
type Name = (String, String);

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let queue = Queue::new();
    let known = Known::default();
    let secrets: Api<PartialObjectMeta<Secret>> = Api::all(context.reader.clone());
    let config = Config::default().fields(&format!("type={TYPE}"));
    let secrets = watch(secrets, config, |event| known.secret(event, &queue));
    let accounts: Api<PartialObjectMeta<ServiceAccount>> = Api::all(context.reader.clone());
    let accounts = watch(accounts, Config::default(), |event| {
        known.account(event, &queue);
    });
    let work = queue.work(WORKERS, |name| put_right(&context, name));
    tokio::select! {
        ended = secrets => ended,
        ended = accounts => ended,
        ended = work => ended,
    }
}

/// Which secrets belong to which account.
#[derive(Default)]
struct Known {
    by_account: Mutex<HashMap<Name, HashSet<Name>>>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, HashSet<Name>>> {
        self.by_account
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn secret(&self, event: Event<PartialObjectMeta<Secret>>, queue: &Queue<Name>) {
        match event {
            Event::Apply(secret) | Event::InitApply(secret) => {
                let namespace = secret.namespace().unwrap_or_default();
                let name = (namespace.clone(), secret.name_any());
                if let Some(account) = secret.annotations().get(ACCOUNT_NAME) {
                    let account = (namespace, account.clone());
                    self.lock().entry(account).or_default().insert(name.clone());
                }
                queue.add(name);
            }
            Event::Delete(secret) => {
                let namespace = secret.namespace().unwrap_or_default();
                let account = secret.annotations().get(ACCOUNT_NAME).cloned();
                let account = (namespace.clone(), account.unwrap_or_default());
                let mut by_account = self.lock();
                if let Some(secrets) = by_account.get_mut(&account) {
                    secrets.remove(&(namespace, secret.name_any()));
                    if secrets.is_empty() {
                        by_account.remove(&account);
                    }
                }
            }
            Event::Init | Event::InitDone => {}
        }
    }

    /// The secrets of an account that goes are looked at. After a break of the stream it is not known which went.
    fn account(&self, event: Event<PartialObjectMeta<ServiceAccount>>, queue: &Queue<Name>) {
        let by_account = self.lock();
        let concerned: Vec<&Name> = match event {
            Event::Delete(account) => {
                let name = (account.namespace().unwrap_or_default(), account.name_any());
                by_account.get(&name).into_iter().flatten().collect()
            }
            Event::InitDone => by_account.values().flatten().collect(),
            Event::Apply(_) | Event::InitApply(_) | Event::Init => return,
        };
        for name in concerned {
            queue.add(name.clone());
        }
    }
}

/// Deletes the secret if its account is gone, and fills in what it lacks otherwise.
async fn put_right(context: &Context, (namespace, name): Name) -> Result<Done, Error> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    let Some(secret) = found(secrets.get(&name).await)? else {
        return Ok(Done::Yes);
    };
    let account_name = secret.annotations().get(ACCOUNT_NAME).cloned();
    let (Some(TYPE), Some(account_name)) = (secret.type_.as_deref(), account_name) else {
        return Ok(Done::Yes);
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(context.client.clone(), &namespace);
    let account = found(accounts.get(&account_name).await)?.filter(|account| {
        let wanted = secret.annotations().get(ACCOUNT_UID);
        wanted.is_none_or(|uid| uid.is_empty() || Some(uid) == account.uid().as_ref())
    });
    let Some(account) = account else {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: secret.uid(),
                resource_version: secret.resource_version(),
            }),
            ..DeleteParams::default()
        };
        found(secrets.delete(&name, &params).await)?;
        return Ok(Done::Yes);
    };
    if let Some(filled) = fill(context, &secret, &account) {
        let params = PostParams::default();
        found(secrets.replace(&name, &params, &filled).await)?;
    }
    Ok(Done::Yes)
}

/// The secret with a token and what goes with it; `None` if it has all of that.
fn fill(context: &Context, secret: &Secret, account: &ServiceAccount) -> Option<Secret> {
    let mut filled = secret.clone();
    let namespace = secret.namespace()?;
    let data = filled.data.get_or_insert_default();
    let is_empty = |key: &str| {
        let data = secret.data.as_ref();
        data.and_then(|data| data.get(key))
            .is_none_or(|value| value.0.is_empty())
    };
    if let Some(bundle) = &context.options.root_ca {
        data.insert("ca.crt".into(), ByteString(bundle.clone().into_bytes()));
    }
    if is_empty("namespace") {
        let bytes = namespace.clone().into_bytes();
        data.insert("namespace".into(), ByteString(bytes));
    }
    if is_empty("token")
        && let Some(signer) = &context.options.token_signer
    {
        let uid = account.uid()?;
        let token = signer.sign(&namespace, &account.name_any(), &uid, &secret.name_any())?;
        data.insert("token".into(), ByteString(token.into_bytes()));
    }
    let annotations = filled.annotations_mut();
    annotations.insert(ACCOUNT_NAME.into(), account.name_any());
    annotations.insert(ACCOUNT_UID.into(), account.uid()?);
    (filled != *secret).then_some(filled)
}
