//! What can go wrong in a controller.

/// Why a controller could not do something. It is tried again in any case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Request(#[from] kube::Error),
    #[error("{0}")]
    Watch(#[from] kube::runtime::watcher::Error),
    #[error("{0}")]
    Other(String),
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
pub(crate) fn found<T>(result: Result<T, kube::Error>) -> Result<Option<T>, Error> {
    match result.map_err(Error::from) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
