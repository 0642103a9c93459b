//! Which web pages may call the daemon from a browser.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::console::MARK;
use crate::origins::Origins;

/// How long a browser remembers which requests are allowed.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The request headers that pages may send, and the response headers that they may read.
const SENT: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("connect-protocol-version"),
    HeaderName::from_static("connect-timeout-ms"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("kent-principal"),
    HeaderName::from_static("x-grpc-web"),
];
const RECEIVED: [HeaderName; 4] = [
    header::RETRY_AFTER,
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
];

/// The response headers that tell a browser what pages of these origins may do.
pub(super) fn cors(origins: &Origins) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins.headers().iter().cloned()))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(SENT)
        .expose_headers(RECEIVED)
        .max_age(REMEMBERED)
}

/// Whether a page in a browser may have sent a request.
pub(super) fn is_of_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key(MARK)
}

/// Refuses requests from pages of other origins. A browser sends simple requests without a preflight, and hides only
/// their responses from the page. Each such request would use up identifiers.
pub(super) async fn refuse_strangers(State(origins): State<Arc<Origins>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    match request.headers().get(header::ORIGIN) {
        Some(origin) if !is_allowed(&origins, origin, host) => {
            let shown = String::from_utf8_lossy(origin.as_bytes()).into_owned();
            let hint = format!(
                "pages of {shown} may not call this daemon; its operator can allow them: kentd --http-origins {shown}\n"
            );
            (StatusCode::FORBIDDEN, hint).into_response()
        }
        _ => next.run(request).await,
    }
}

fn is_allowed(origins: &Origins, origin: &HeaderValue, host: Option<&str>) -> bool {
    origins.headers().contains(origin) || host.is_some_and(|host| is_own(origin, host))
}

/// Whether an origin belongs to the daemon itself. The origin must be an IP address or `localhost`, because the owner
/// of another site can make its domain name resolve to this machine.
fn is_own(origin: &HeaderValue, host: &str) -> bool {
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    let name = Uri::try_from(host).ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    authority == Some(host) && (is_address || name == "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_origins_are_listed_or_the_daemons_own() {
        let listed: Origins = "https://ops.example, http://localhost:3000".parse().expect("origins");
        for (origin, host, expected) in [
            ("https://ops.example", "kent.example:7601", true),
            ("http://ops.example", "kent.example:7601", false),
            ("https://ops.example.evil", "kent.example:7601", false),
            ("http://127.0.0.1:7601", "127.0.0.1:7601", true),
            ("http://[::1]:7601", "[::1]:7601", true),
            ("http://localhost:7601", "localhost:7601", true),
            ("http://localhost:9999", "localhost:7601", false),
            // Another site can make this name resolve to this machine.
            ("http://evil.example:7601", "evil.example:7601", false),
            ("null", "127.0.0.1:7601", false),
        ] {
            let origin = HeaderValue::from_static(origin);
            assert_eq!(is_allowed(&listed, &origin, Some(host)), expected, "{origin:?} {host}");
        }
        assert!(!is_allowed(&listed, &HeaderValue::from_static("http://127.0.0.1:7601"), None));
    }
}
