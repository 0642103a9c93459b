//! The console: its files, and the sessions of browsers.
//!
//! A browser sends its cookie with every request, even with requests that another site causes. So the daemon accepts a
//! cookie only together with the header `kent-console: 1`, because other sites cannot add this header.

mod assets;
mod sessions;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{self, Body},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::get,
};
use kent_engine::{
    audit::{By, Event, Outcome},
    status,
};
use kent_proto::{
    model::Invalid,
    v1::{Principal, WhoAmIRequest},
};
use kent_transport::peer::{Peer, on_behalf_of};
use serde::{Deserialize, Serialize};
use tonic::Status;

pub(crate) use self::sessions::Sessions;
use self::sessions::{LIFE, SESSIONS_MAX, TooMany};
use super::{
    Shared,
    call::From,
    failure::{self, Form},
};

/// The header that the console sends with each request.
pub(super) const MARK: HeaderName = HeaderName::from_static("kent-console");

/// The maximum size of a request for a session, in bytes.
const REQUEST_BYTES_MAX: usize = 4096;

/// The paths of the console.
pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/console", get(assets::redirect))
        .route("/console/", get(assets::index))
        .route(SESSION, get(show).post(sign_in).delete(sign_out))
        .route("/console/{*file}", get(assets::file))
}

/// The path of the session.
const SESSION: &str = "/console/session";

/// Whether a path is that of a file of the console. The files contain nothing secret, and the page tells a browser
/// without a certificate what is missing.
pub(super) fn is_file(path: &str) -> bool {
    path == "/console" || (path.starts_with("/console/") && path != SESSION)
}

/// Marks a request that carries the token of its session. The session ends after `left`.
#[derive(Clone, Copy, Debug)]
struct InSession {
    left: Duration,
}

/// Adds the token of the session to a request that has the cookie of the session.
pub(super) async fn use_session(State(sessions): State<Arc<Sessions>>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    if is_marked(headers)
        && !headers.contains_key(header::AUTHORIZATION)
        && let Some((authorization, left)) = sessions.find(headers)
    {
        request.headers_mut().insert(header::AUTHORIZATION, authorization);
        request.extensions_mut().insert(InSession { left });
    }
    next.run(request).await
}

/// Whether the console sent a request.
fn is_marked(headers: &HeaderMap) -> bool {
    headers.get(&MARK).is_some_and(|value| value.as_bytes() == b"1")
}

/// The answer of `/console/session`: the principal of the browser.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    /// The name of the principal, as in `WhoAmI`.
    principal: String,
    permissions: Vec<String>,
    roles: Vec<String>,
    /// How the principal was identified: `off`, `session`, `certificate` or `token`.
    by: &'static str,
    /// When the session or the token ends, whichever is first, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_unix_ms: Option<i64>,
    auth_required: bool,
}

impl Shown {
    fn new(principal: Principal, in_session: Option<InSession>, now_unix_ms: i64) -> Self {
        let by = match (principal.auth_required, in_session, principal.name.split(':').next()) {
            (false, ..) => "off",
            (true, Some(_), _) => "session",
            (true, None, Some("certificate")) => "certificate",
            (true, None, _) => "token",
        };
        let millis = |left: Duration| i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
        let session = in_session.map(|session| now_unix_ms.saturating_add(millis(session.left)));
        let token = Some(principal.expires_unix_ms).filter(|end| *end != 0);
        let expires_unix_ms = session.into_iter().chain(token).min();
        let Principal { name, permissions, roles, auth_required, .. } = principal;
        Self { principal: name, permissions, roles, by, expires_unix_ms, auth_required }
    }
}

/// Answers with the principal of the browser.
async fn show(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let in_session = request.extensions().get::<InSession>().copied();
    match who_am_i(&shared, From::new(&request, None)).await {
        Ok(principal) => answer(&shared, principal, in_session, None),
        Err(status) => refusal(&shared, &status),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// Exchanges a token for a cookie. An API call checks the token, so that limits, metrics and the audit log apply.
async fn sign_in(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    match try_sign_in(&shared, request).await {
        Ok(response) => response,
        Err(status) => refusal(&shared, &status),
    }
}

async fn try_sign_in(shared: &Shared, request: Request) -> Result<Response, Status> {
    check_marked(request.headers())?;
    let (head, body) = request.into_parts();
    let body = body::to_bytes(body, REQUEST_BYTES_MAX).await;
    let body = body.map_err(|_| status::request_too_large(REQUEST_BYTES_MAX))?;
    let SignIn { token } =
        serde_json::from_slice(&body).map_err(|_| status::bad_json(r#"send {"token": "kent_..."}"#))?;
    let bad = |_| status::from_invalid(&Invalid::new("token", "contains characters that are not allowed in a token"));
    let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(bad)?;
    authorization.set_sensitive(true);
    let mut request = Request::from_parts(head, Body::empty());
    request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
    let principal = who_am_i(shared, From::new(&request, None)).await?;
    if !principal.auth_required {
        return Ok(answer(shared, principal, None, None));
    }
    let left = match principal.expires_unix_ms {
        0 => LIFE,
        end => LIFE.min(Duration::from_millis(u64::try_from(end - shared.now_unix_ms()).unwrap_or(0))),
    };
    let opened = shared.sessions.open(authorization, &principal.name, left, request.headers());
    let cookie = opened.map_err(|TooMany| status::too_many("sign-in", SESSIONS_MAX))?;
    record("session.create", &principal.name, &request);
    Ok(answer(shared, principal, Some(InSession { left }), Some(cookie)))
}

/// Ends the session.
async fn sign_out(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if let Err(status) = check_marked(request.headers()) {
        return refusal(&shared, &status);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some((cookie, principal)) = shared.sessions.close(request.headers()) {
        record("session.delete", &principal, &request);
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Fails if another site may have caused the request.
fn check_marked(headers: &HeaderMap) -> Result<(), Status> {
    let missing = || status::bad_header("kent-console", "must be 1: only the console's own requests may do this");
    if is_marked(headers) { Ok(()) } else { Err(missing()) }
}

/// Asks the daemon who a caller is.
async fn who_am_i(shared: &Shared, from: From) -> Result<Principal, Status> {
    let _permit = shared.calls.begin()?;
    shared.calls.typed("/kent.v1.Access/WhoAmI", from, &WhoAmIRequest {}).await
}

fn answer(
    shared: &Shared,
    principal: Principal,
    in_session: Option<InSession>,
    cookie: Option<HeaderValue>,
) -> Response {
    let shown = Shown::new(principal, in_session, shared.now_unix_ms());
    // OK because serialization cannot fail: the fields are strings, numbers, booleans and lists of strings.
    let text = serde_json::to_string(&shown).unwrap_or_default();
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    let mut response = (kind, text).into_response();
    cookie.map(|cookie| response.headers_mut().insert(header::SET_COOKIE, cookie));
    response
}

fn refusal(shared: &Shared, status: &Status) -> Response {
    failure::answer(status, Form::Connect, shared.methods.pool())
}

/// Writes the start or the end of a session to the audit log.
fn record(action: &str, principal: &str, request: &Request) {
    let peer = request.extensions().get::<Peer>();
    let certificate = peer.and_then(|peer| peer.certificate.as_ref()?.name.clone());
    let by = By {
        principal: principal.to_owned(),
        on_behalf_of: on_behalf_of(request.headers()),
        peer: peer.map(|peer| peer.address.to_string()).unwrap_or_default(),
        certificate: certificate.unwrap_or_default(),
    };
    Event::new(action, &by, "").record(Outcome::Done);
}
