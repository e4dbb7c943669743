//! Secrets that hold a token of a service account: filled when someone makes one, gone with their account. An
//! account does not name a secret that is gone.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, PartialObjectMeta, PostParams, Preconditions};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};

use crate::queue::{Done, Queue};
use crate::{Context, Error};
use rhumb_client::error::found;
use rhumb_client::watching::watch;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const WORKERS: usize = 5;

/// The namespace and name of an object.
type Name = (String, String);

/// What a worker does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    /// Puts a secret right.
    Check(Name),
    /// A secret is gone, and its account is not to name it.
    Unlist { secret: Name, account: Account },
}

/// The account that a secret says it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Account {
    name: String,
    /// Which one of that name, once the secret has a token of it.
    uid: Option<String>,
}

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let queue = Queue::new();
    let known = Mutex::new(Known::default());
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let secrets: Api<PartialObjectMeta<Secret>> = Api::all(context.reader.clone());
    let config = Config::default().fields(&format!("type={TYPE}"));
    let secrets = watch(secrets, config, |event| {
        let tasks = lock().secret(event);
        tasks.into_iter().for_each(|task| queue.add(task));
    });
    let accounts: Api<PartialObjectMeta<ServiceAccount>> = Api::all(context.reader.clone());
    let accounts = watch(accounts, Config::default(), |event| {
        let tasks = lock().account(event);
        tasks.into_iter().for_each(|task| queue.add(task));
    });
    let work = queue.work(WORKERS, |task| handle(&context, task));
    tokio::select! {
        ended = secrets => ended,
        ended = accounts => ended,
        ended = work => ended,
    }
}

/// Which secrets belong to which account.
#[derive(Default)]
struct Known {
    by_account: HashMap<Name, HashSet<Name>>,
    accounts: HashMap<Name, Account>,
    /// What was known before a list that is not complete yet; what stays here is gone.
    unlisted: HashMap<Name, Account>,
}

impl Known {
    fn secret(&mut self, event: Event<PartialObjectMeta<Secret>>) -> Vec<Task> {
        match event {
            Event::Apply(secret) | Event::InitApply(secret) => {
                let name = name_of(&secret);
                self.unlisted.remove(&name);
                self.forget(&name);
                if let Some(account) = account_of(&secret) {
                    let owner = (name.0.clone(), account.name.clone());
                    let secrets = self.by_account.entry(owner).or_default();
                    secrets.insert(name.clone());
                    self.accounts.insert(name.clone(), account);
                }
                vec![Task::Check(name)]
            }
            Event::Delete(secret) => {
                let secret_name = name_of(&secret);
                self.forget(&secret_name);
                let account = account_of(&secret);
                let unlist = account.map(|account| Task::Unlist {
                    secret: secret_name,
                    account,
                });
                unlist.into_iter().collect()
            }
            // Every secret that is there comes again, and is looked at then.
            Event::Init => {
                self.by_account.clear();
                self.unlisted.extend(self.accounts.drain());
                Vec::new()
            }
            Event::InitDone => {
                let gone = self.unlisted.drain();
                gone.map(|(secret, account)| Task::Unlist { secret, account })
                    .collect()
            }
        }
    }

    fn forget(&mut self, secret: &Name) {
        let Some(account) = self.accounts.remove(secret) else {
            return;
        };
        let account = (secret.0.clone(), account.name);
        if let Some(secrets) = self.by_account.get_mut(&account) {
            secrets.remove(secret);
            if secrets.is_empty() {
                self.by_account.remove(&account);
            }
        }
    }

    /// The secrets of an account that goes are looked at. After a break of the stream it is not known which went.
    fn account(&self, event: Event<PartialObjectMeta<ServiceAccount>>) -> Vec<Task> {
        match event {
            Event::Delete(account) => {
                let secrets = self.by_account.get(&name_of(&account));
                let secrets = secrets.into_iter().flatten();
                secrets.cloned().map(Task::Check).collect()
            }
            Event::InitDone => self.accounts.keys().cloned().map(Task::Check).collect(),
            Event::Apply(_) | Event::InitApply(_) | Event::Init => Vec::new(),
        }
    }
}

fn name_of(object: &impl ResourceExt) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn account_of(secret: &impl ResourceExt) -> Option<Account> {
    let annotations = secret.annotations();
    let uid = annotations.get(ACCOUNT_UID).filter(|uid| !uid.is_empty());
    Some(Account {
        name: annotations.get(ACCOUNT_NAME)?.clone(),
        uid: uid.cloned(),
    })
}

impl Account {
    fn is(&self, account: &ServiceAccount) -> bool {
        self.uid.is_none() || self.uid == account.uid()
    }
}

async fn handle(context: &Context, task: Task) -> Result<Done, Error> {
    match task {
        Task::Check(name) => put_right(context, name).await,
        Task::Unlist { secret, account } => unlist(&context.client, secret, account).await,
    }
}

/// Takes a secret that is gone out of the list of its account.
async fn unlist(
    client: &Client,
    (namespace, secret): Name,
    wanted: Account,
) -> Result<Done, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    if found(secrets.get_metadata(&secret).await)?.is_some() {
        return Ok(Done::Yes);
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let account = found(accounts.get(&wanted.name).await)?;
    let Some(mut account) = account.filter(|account| wanted.is(account)) else {
        return Ok(Done::Yes);
    };
    let listed = account.secrets.get_or_insert_default();
    let before = listed.len();
    listed.retain(|own| own.name.as_ref() != Some(&secret));
    if listed.len() < before {
        let params = PostParams::default();
        found(accounts.replace(&wanted.name, &params, &account).await)?;
    }
    Ok(Done::Yes)
}

/// Deletes the secret if its account is gone, and fills in what it lacks otherwise.
async fn put_right(context: &Context, (namespace, name): Name) -> Result<Done, Error> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    let Some(secret) = found(secrets.get(&name).await)? else {
        return Ok(Done::Yes);
    };
    let (Some(TYPE), Some(wanted)) = (secret.type_.as_deref(), account_of(&secret)) else {
        return Ok(Done::Yes);
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(context.client.clone(), &namespace);
    let account = found(accounts.get(&wanted.name).await)?;
    let account = account.filter(|account| wanted.is(account));
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
