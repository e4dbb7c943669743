//! What can go wrong for a client.

/// Why something could not be done. It is tried again in any case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", said(.0))]
    Request(#[from] kube::Error),
    #[error("{}", chain(.0))]
    Watch(#[from] kube::runtime::watcher::Error),
    #[error("{0}")]
    Other(String),
}

/// What the server said, or why it could not be asked.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => chain(other),
    }
}

/// An error and its causes, each thing once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return status.message.clone();
    }
    let text = error.to_string();
    match error.source() {
        None => text,
        Some(source) => {
            let source = chain(source);
            match text.strip_suffix(&source) {
                Some(_) => text,
                None => format!("{text}: {source}"),
            }
        }
    }
}

impl Error {
    /// The HTTP status that the server refused with.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Request(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// What is there, or `None` if the server says that it is not.
pub fn found<T>(result: Result<T, kube::Error>) -> Result<Option<T>, Error> {
    match result.map_err(Error::from) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
