//! Machine-readable reasons (`metav1.StatusReason`) and causes (`metav1.CauseType`) of failures.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! open_names {
    ($(#[$doc:meta])* $type:ident { $($constant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Cow<'static, str>);

        impl $type {
            $(pub const $constant: $type = $type(Cow::Borrowed($text));)*

            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn is_unknown(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&'static str> for $type {
            fn from(name: &'static str) -> Self {
                $type(Cow::Borrowed(name))
            }
        }

        impl From<String> for $type {
            fn from(name: String) -> Self {
                $type(Cow::Owned(name))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

open_names! {
    /// Why a request failed. The set is open, because webhooks may return other reasons.
    StatusReason {
        UNKNOWN = "",
        UNAUTHORIZED = "Unauthorized",
        FORBIDDEN = "Forbidden",
        NOT_FOUND = "NotFound",
        ALREADY_EXISTS = "AlreadyExists",
        CONFLICT = "Conflict",
        GONE = "Gone",
        INVALID = "Invalid",
        SERVER_TIMEOUT = "ServerTimeout",
        STORE_READ_ERROR = "StorageReadError",
        TIMEOUT = "Timeout",
        TOO_MANY_REQUESTS = "TooManyRequests",
        BAD_REQUEST = "BadRequest",
        METHOD_NOT_ALLOWED = "MethodNotAllowed",
        NOT_ACCEPTABLE = "NotAcceptable",
        REQUEST_ENTITY_TOO_LARGE = "RequestEntityTooLarge",
        UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType",
        INTERNAL_ERROR = "InternalError",
        EXPIRED = "Expired",
        SERVICE_UNAVAILABLE = "ServiceUnavailable",
    }
}

open_names! {
    /// The type of a single cause. For field errors, the names are those of [`ErrorType`](crate::field::ErrorType).
    CauseType {
        UNKNOWN = "",
        FIELD_MANAGER_CONFLICT = "FieldManagerConflict",
        NAMESPACE_TERMINATING = "NamespaceTerminating",
        RESOURCE_VERSION_TOO_LARGE = "ResourceVersionTooLarge",
        UNEXPECTED_SERVER_RESPONSE = "UnexpectedServerResponse",
    }
}
