//! The OpenAPI documents: made when they are asked for, kept compressed for the next who asks.

use std::sync::Arc;

use http::HeaderMap;

use crate::Api;
use crate::http::Reply;
use crate::request::Query;

pub(crate) async fn answer(
    _api: &Arc<Api>,
    _path: &str,
    _query: &Query,
    _headers: &HeaderMap,
) -> Option<Reply> {
    None
}
