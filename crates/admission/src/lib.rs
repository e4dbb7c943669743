//! Who is to see a write before it is stored: webhooks, policies, and what they leave out.
//!
//! Pure: nothing here calls anybody, reads a cache or asks for the time. The server describes a write ([`Facts`]) and
//! hands over the labels that selectors look at ([`LabelSets`]); [`Criteria`] say who sees it and under which name.
//! What is said to a webhook and what its answer means is in [`review`].

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod conditions;
mod configuration;
mod criteria;
pub mod critical;
mod exclusion;
pub mod explain;
mod facts;
#[cfg(test)]
mod oracle;
mod policy;
pub mod review;
mod rule;
#[cfg(test)]
mod tests;
mod webhook;

pub use conditions::{Conditions, Judged, Met};
pub use configuration::{Configured, configuration_of};
pub use criteria::{Criteria, Outcome, Reading};
pub use exclusion::Exclusion;
pub use facts::{Facts, LabelSets, Names, ObjectLabels, Operation};
pub use policy::{
    Annotation, Binding, Change, Decision, Head, Kinds, MutatingPolicy, ParamChoice, ParamKind,
    ParamRef, PolicyFlavor, ValidatingPolicy, Verdict, expression_warnings,
};
pub use rule::Rule;
pub use webhook::{Address, FailurePolicy, Flavor, Service, SideEffects, Webhook, webhooks_of};

/// A JSON object.
pub type Object = serde_json::Map<String, serde_json::Value>;
