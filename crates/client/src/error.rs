//! Errors of API requests and watches.

/// A failed API request or watch. Callers retry in any case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", api_message(.0))]
    Request(#[from] kube::Error),
    #[error("{}", message_with_causes(.0))]
    Watch(#[from] kube::runtime::watcher::Error),
    #[error("{0}")]
    Other(String),
}

/// The message of the server's Status, or why the request could not be sent.
fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => message_with_causes(other),
    }
}

/// An error and its causes, without repeating a cause that the message already contains.
fn message_with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return status.message.clone();
    }
    let text = error.to_string();
    match error.source() {
        None => text,
        Some(source) => {
            let source = message_with_causes(source);
            match text.strip_suffix(&source) {
                Some(_) => text,
                None => format!("{text}: {source}"),
            }
        }
    }
}

impl Error {
    /// The HTTP status code of the server's error response.
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

/// Converts a 404 response to `None`.
pub fn none_if_not_found<T>(result: Result<T, kube::Error>) -> Result<Option<T>, Error> {
    match result.map_err(Error::from) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
