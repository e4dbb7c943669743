//! Token controller for secrets of type `kubernetes.io/service-account-token` (upstream's `TokensController`): fills in
//! the token, deletes the secret with its service account, and removes references to deleted secrets from accounts.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, PartialObjectMeta, PostParams, Preconditions};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};

use crate::namespaced_name::{NamespacedName, namespaced_name};
use crate::{ControllerContext, Error};
use rhumb_client::error::none_if_not_found;
use rhumb_client::informer::{Event, watch};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const WORKERS: usize = 5;

/// Key of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TokenSecretTask {
    /// Fill in the secret, or delete it if its account is gone.
    Check(NamespacedName),
    /// A secret was deleted: remove it from its account's `secrets`.
    RemoveReference {
        secret: NamespacedName,
        account: ServiceAccountRef,
    },
}

/// The service account that a secret's annotations name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ServiceAccountRef {
    name: String,
    /// Set once the secret has been filled in.
    uid: Option<String>,
}

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let queue = WorkQueue::new();
    let known = Mutex::new(TokenSecretIndex::default());
    let lock = || known.lock();
    let secrets: Api<PartialObjectMeta<Secret>> = Api::all(context.reader.clone());
    let config = Config::default().fields(&format!("type={SECRET_TYPE}"));
    let secrets = watch(secrets, config, namespaced_name, |event| {
        let tasks = lock().handle_secret_event(event);
        tasks.into_iter().for_each(|task| queue.add(task));
    });
    let accounts: Api<PartialObjectMeta<ServiceAccount>> = Api::all(context.reader.clone());
    let accounts = watch(accounts, Config::default(), namespaced_name, |event| {
        let tasks = lock().handle_account_event(event);
        tasks.into_iter().for_each(|task| queue.add(task));
    });
    let work = queue.run_workers(WORKERS, |task| handle(&context, task));
    tokio::select! {
        ended = secrets => ended,
        ended = accounts => ended,
        ended = work => ended,
    }
}

/// Index of token secrets by service account.
#[derive(Default)]
struct TokenSecretIndex {
    by_account: HashMap<NamespacedName, HashSet<NamespacedName>>,
    accounts: HashMap<NamespacedName, ServiceAccountRef>,
}

impl TokenSecretIndex {
    fn handle_secret_event(
        &mut self,
        event: Event<PartialObjectMeta<Secret>, NamespacedName>,
    ) -> Vec<TokenSecretTask> {
        match event {
            Event::Applied(secret) => {
                let name = namespaced_name(&secret);
                self.forget(&name);
                if let Some(account) = account_ref(&secret) {
                    let owner = (name.0.clone(), account.name.clone());
                    let secrets = self.by_account.entry(owner).or_default();
                    secrets.insert(name.clone());
                    self.accounts.insert(name.clone(), account);
                }
                vec![TokenSecretTask::Check(name)]
            }
            Event::Deleted(secret) => self.remove(secret).into_iter().collect(),
            Event::Replaced(names) => {
                let gone = self.accounts.keys().filter(|name| !names.contains(*name));
                let gone: Vec<NamespacedName> = gone.cloned().collect();
                let unlist = gone.into_iter().filter_map(|secret| self.remove(secret));
                unlist.collect()
            }
        }
    }

    /// Removes a deleted secret, then from its account.
    fn remove(&mut self, secret: NamespacedName) -> Option<TokenSecretTask> {
        let account = self.forget(&secret)?;
        Some(TokenSecretTask::RemoveReference { secret, account })
    }

    fn forget(&mut self, secret: &NamespacedName) -> Option<ServiceAccountRef> {
        let account = self.accounts.remove(secret)?;
        let owner = (secret.0.clone(), account.name.clone());
        if let Some(secrets) = self.by_account.get_mut(&owner) {
            secrets.remove(secret);
            if secrets.is_empty() {
                self.by_account.remove(&owner);
            }
        }
        Some(account)
    }

    /// Queues the secrets of a deleted account; after a relist all secrets, since deletions may have been missed.
    fn handle_account_event(
        &self,
        event: Event<PartialObjectMeta<ServiceAccount>, NamespacedName>,
    ) -> Vec<TokenSecretTask> {
        match event {
            Event::Deleted(account) => {
                let secrets = self.by_account.get(&account).into_iter().flatten();
                secrets.cloned().map(TokenSecretTask::Check).collect()
            }
            Event::Replaced(_) => {
                let secrets = self.accounts.keys().cloned();
                secrets.map(TokenSecretTask::Check).collect()
            }
            Event::Applied(_) => Vec::new(),
        }
    }
}

fn account_ref(secret: &impl ResourceExt) -> Option<ServiceAccountRef> {
    let annotations = secret.annotations();
    let uid = annotations.get(ACCOUNT_UID).filter(|uid| !uid.is_empty());
    Some(ServiceAccountRef {
        name: annotations.get(ACCOUNT_NAME)?.clone(),
        uid: uid.cloned(),
    })
}

impl ServiceAccountRef {
    fn matches(&self, account: &ServiceAccount) -> bool {
        self.uid.is_none() || self.uid == account.uid()
    }
}

async fn handle(
    context: &ControllerContext,
    task: TokenSecretTask,
) -> Result<ReconcileAction, Error> {
    match task {
        TokenSecretTask::Check(name) => sync_secret(context, name).await,
        TokenSecretTask::RemoveReference { secret, account } => {
            unlist(&context.client, secret, account).await
        }
    }
}

/// Removes a deleted secret from the `secrets` of its account.
async fn unlist(
    client: &Client,
    (namespace, secret): NamespacedName,
    wanted: ServiceAccountRef,
) -> Result<ReconcileAction, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    if none_if_not_found(secrets.get_metadata(&secret).await)?.is_some() {
        return Ok(ReconcileAction::AwaitChange);
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let account = none_if_not_found(accounts.get(&wanted.name).await)?;
    let Some(mut account) = account.filter(|account| wanted.matches(account)) else {
        return Ok(ReconcileAction::AwaitChange);
    };
    let listed = account.secrets.get_or_insert_default();
    let before = listed.len();
    listed.retain(|own| own.name.as_ref() != Some(&secret));
    if listed.len() < before {
        let params = PostParams::default();
        none_if_not_found(accounts.replace(&wanted.name, &params, &account).await)?;
    }
    Ok(ReconcileAction::AwaitChange)
}

/// Deletes the secret if its account is gone, otherwise fills in missing data.
async fn sync_secret(
    context: &ControllerContext,
    (namespace, name): NamespacedName,
) -> Result<ReconcileAction, Error> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    let Some(secret) = none_if_not_found(secrets.get(&name).await)? else {
        return Ok(ReconcileAction::AwaitChange);
    };
    let (Some(SECRET_TYPE), Some(wanted)) = (secret.type_.as_deref(), account_ref(&secret)) else {
        return Ok(ReconcileAction::AwaitChange);
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(context.client.clone(), &namespace);
    let account = none_if_not_found(accounts.get(&wanted.name).await)?;
    let account = account.filter(|account| wanted.matches(account));
    let Some(account) = account else {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: secret.uid(),
                resource_version: secret.resource_version(),
            }),
            ..DeleteParams::default()
        };
        none_if_not_found(secrets.delete(&name, &params).await)?;
        return Ok(ReconcileAction::AwaitChange);
    };
    if let Some(filled) = fill(context, &secret, &account) {
        let params = PostParams::default();
        none_if_not_found(secrets.replace(&name, &params, &filled).await)?;
    }
    Ok(ReconcileAction::AwaitChange)
}

/// The secret with token, CA bundle and annotations; `None` if it is complete already.
fn fill(context: &ControllerContext, secret: &Secret, account: &ServiceAccount) -> Option<Secret> {
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
