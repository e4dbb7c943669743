//! TokenReview: authenticates a bearer token and returns its user.

use rhumb_meta::Status;
use serde_json::{Value, json};

use crate::resources::ResourceRequest;

pub(super) fn review(request: &ResourceRequest<'_>, review: &mut Value) -> Result<(), Status> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences: Vec<String> = review["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|audience| audience.as_str().map(str::to_owned))
        .collect();
    review["status"] =
        match request
            .state
            .authenticator
            .authenticate_token(token, &audiences, request.now)
        {
            Ok(verified) => json!({
                "authenticated": true,
                "user": verified.user,
                "audiences": verified.audiences,
            }),
            Err(reason) => json!({"user": {}, "error": reason.to_string()}),
        };
    Ok(())
}
