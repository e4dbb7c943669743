//! Questions about what someone may do, which expressions can ask.

use std::fmt::Debug;

/// Who answers. It is asked synchronously, while an expression is evaluated.
pub trait Authorizer: Debug + Send + Sync {
    fn check(&self, question: &Question<'_>) -> Decision;
}

/// May this subject do this?
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    pub subject: &'q Subject,
    pub verb: &'q str,
    pub target: Target<'q>,
}

/// About whom it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// The user of the request.
    #[default]
    Requester,
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Target<'q> {
    /// A path that is no resource.
    Path(&'q str),
    Resource(&'q ResourceCheck),
}

/// What is to be done with a resource. The version is any; what is empty is not asked about. Selectors are as they
/// were written: one that cannot be parsed is the authorizer's to judge, as in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    /// What went wrong on the way, if anything did.
    pub error: Option<String>,
}
