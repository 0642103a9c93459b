//! Short paths for people: `POST /v1/alloc/SOURCE`, `GET /v1/inspect/ID` and `GET /v1/classify/ID`, answered as text,
//! or as JSON if the request prefers JSON.

use std::{borrow::Cow, fmt::Write, sync::Arc};

use axum::{
    Router,
    body::HttpBody,
    extract::{Path, Query, Request, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use kent_engine::{grant::TEXTS_MAX, status};
use kent_ids::Uuid;
use kent_proto::{
    model::{Classified, Invalid, space_name},
    v1::{
        self, AllocateRequest, Classification, ClassifyRequest, ClassifyResponse, GetSpaceRequest, InspectRequest,
        InspectResponse, Inspection, Space, inspect_result::Outcome,
    },
};
use percent_encoding::percent_decode_str;
use prost::Message;
use prost_reflect::DynamicMessage;
use serde::Deserialize;
use tonic::Status;

use super::{
    Shared,
    call::{Answered, From},
    failure::{self, Form},
    json, texts,
};

/// The short paths.
pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/alloc/{*source}", post(alloc).fallback(only_post))
        .route("/v1/inspect/{*text}", get(inspect).fallback(only_get))
        .route("/v1/classify/{*text}", get(classify).fallback(only_get))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllocQuery {
    n: Option<String>,
    request_id: Option<String>,
    tag: Option<String>,
}

/// The path at which identifiers are issued, before the source.
pub(super) const ALLOC: &str = "/v1/alloc/";

/// Issues identifiers, one per line. Also called without the router, so it reads the path and the query itself.
pub(super) async fn alloc(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (form, from) = (form(request.headers()), From::new(&request, None));
    let has_body = !request.body().is_end_stream();
    let query = Query::<AllocQuery>::try_from_uri(request.uri());
    let query = query.map_err(|rejected| bad_query(request.uri(), &rejected, ALLOC_QUERY));
    let source = request.uri().path().strip_prefix(ALLOC).unwrap_or_default();
    let source = percent_decode_str(source).decode_utf8().map(Cow::into_owned);
    let source = source.map_err(|_| status::from_invalid(&Invalid::new("source", "is not UTF-8")));
    let took = async {
        let _permit = shared.calls.begin()?;
        let Query(query) = query?;
        if has_body {
            let problem = "this path takes no body; write n, request_id and tag as query parameters, such as ?n=3";
            return Err(status::from_invalid(&Invalid::new("body", problem)));
        }
        let ask = AllocateRequest {
            source: source?,
            count: count(query.n.as_deref())?,
            encoding: v1::Encoding::Text.into(),
            request_id: query.request_id.unwrap_or_default(),
            tag: query.tag.as_deref().map(tag).transpose()?,
            ..AllocateRequest::default()
        };
        match shared.calls.allocate(from, ask).await? {
            Answered::Issued(issued) => Ok(issued),
            Answered::Message(_) => Err(status::broken_answer()),
        }
    };
    match took.await {
        Ok(issued) if form == Form::Text => texts::lines(&issued).into_response(),
        Ok(issued) => json_line(texts::identifiers(&issued)),
        Err(status) => failure::answer(&status, form, shared.methods.pool()),
    }
}

/// Explains that identifiers must be requested with POST. Browsers, link previews and proxies may send GET ahead of
/// time or twice, and each GET would use up identifiers.
async fn only_post(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    // Check the query first, so that the suggested command works.
    if let Err(rejected) = Query::<AllocQuery>::try_from_uri(request.uri()) {
        let status = bad_query(request.uri(), &rejected, ALLOC_QUERY);
        return failure::answer(&status, form(request.headers()), shared.methods.pool());
    }
    let url = url(&request);
    let hint =
        format!("request identifiers with POST, because browsers and proxies may repeat GET: curl -X POST '{url}'\n");
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")], hint).into_response()
}

/// Explains that identifiers are decoded with GET.
async fn only_get(request: Request) -> Response {
    let hint = format!("decode identifiers with GET: curl '{}'\n", url(&request));
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")], hint).into_response()
}

/// The URL of a request, for a suggested command.
fn url(request: &Request) -> String {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7601");
    format!("http://{host}{}", request.uri())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InspectQuery {
    #[serde(default)]
    format: String,
}

/// Decodes an identifier.
async fn inspect(
    State(shared): State<Arc<Shared>>,
    Path(text): Path<String>,
    query: Result<Query<InspectQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let (form, from) = (form(request.headers()), From::new(&request, None));
    let query = query.map_err(|rejected| bad_query(request.uri(), &rejected, INSPECT_QUERY));
    let inspected = async {
        let _permit = shared.calls.begin()?;
        let Query(query) = query?;
        let ask = InspectRequest { texts: vec![text], format: query.format, ..InspectRequest::default() };
        let reply: InspectResponse = shared.calls.typed("/kent.v1.Codec/Inspect", from, &ask).await?;
        match reply.results.into_iter().next().and_then(|result| result.outcome) {
            Some(Outcome::Inspection(inspection)) => Ok(inspection),
            Some(Outcome::Refused(refused)) => Err(status::from_wire(refused)),
            None => Err(status::broken_answer()),
        }
    };
    shared.show(form, inspected.await, "kent.v1.Inspection", describe)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassifyQuery {
    space: Option<String>,
}

/// The space to use if a request has no parameter `space`.
const SPACE: &str = "default";

/// Shows which region an identifier belongs to.
async fn classify(
    State(shared): State<Arc<Shared>>,
    Path(text): Path<String>,
    query: Result<Query<ClassifyQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let (form, from) = (form(request.headers()), From::new(&request, None));
    let query = query.map_err(|rejected| bad_query(request.uri(), &rejected, CLASSIFY_QUERY));
    let classified = async {
        let _permit = shared.calls.begin()?;
        let Query(query) = query?;
        let bad_id = |problem: String| status::from_invalid(&Invalid::new("id", problem).because("BAD_ID"));
        let id = kent_codec::parse_id(&text).map_err(bad_id)?;
        let space = query.space.as_deref().unwrap_or(SPACE);
        if id.is_uuid {
            // Check the width of the space, because the value of a UUID may happen to fit into a narrower space.
            let ask = GetSpaceRequest { name: space_name(space) };
            let Space { bits, .. } = shared.calls.typed("/kent.v1.Regions/GetSpace", from.clone(), &ask).await?;
            id.within(space, bits).map_err(bad_id)?;
        }
        let ask = ClassifyRequest { parent: space_name(space), identifiers: vec![id.value.into()] };
        let reply: ClassifyResponse = shared.calls.typed("/kent.v1.Regions/Classify", from, &ask).await?;
        let mut found = reply.classifications.into_iter().next().ok_or_else(status::broken_answer)?;
        if id.is_uuid {
            // Show a UUID as the caller wrote it, regardless of the text form of the space.
            found.text = Uuid::from_u128(id.value).to_string();
        }
        Ok(found)
    };
    let lines = |found: &Classification| {
        let identifier = ("identifier", Classified(found).text());
        let rows = [identifier].into_iter().chain(Classified(found).rows(str::to_owned)).collect::<Vec<_>>();
        lines(rows.iter().map(|(name, value)| (*name, &**value, "")).collect())
    };
    shared.show(form, classified.await, "kent.v1.Classification", lines)
}

impl Shared {
    /// The answer to a request for a short path. `text` formats the message named `name` for people.
    fn show<M: Message>(
        &self,
        form: Form,
        outcome: Result<M, Status>,
        name: &str,
        text: impl FnOnce(&M) -> String,
    ) -> Response {
        let pool = self.methods.pool();
        let json = |message: &M| {
            let descriptor = pool.get_message_by_name(name)?;
            json::value(&DynamicMessage::decode(descriptor, &*message.encode_to_vec()).ok()?)
        };
        match outcome {
            Ok(message) if form == Form::Text => text(&message).into_response(),
            Ok(message) => match json(&message) {
                Some(json) => json_line(json.to_string()),
                None => failure::answer(&status::broken_answer(), form, pool),
            },
            Err(status) => failure::answer(&status, form, pool),
        }
    }
}

/// Answers with JSON that ends with a newline, for terminals.
fn json_line(json: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json + "\n").into_response()
}

/// The form of the answer: JSON if the request prefers JSON to text.
fn form(headers: &HeaderMap) -> Form {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds =
        accepts.flat_map(|accept| accept.split(',')).map(|kind| kind.split(';').next().unwrap_or_default().trim());
    match kinds.into_iter().find(|kind| ["application/json", "text/plain", "text/*", "*/*"].contains(kind)) {
        Some("application/json") => Form::Aip193,
        _ => Form::Text,
    }
}

fn count(n: Option<&str>) -> Result<u64, Status> {
    let count = n.map_or(Ok(1), str::parse).ok().filter(|count| (1..=TEXTS_MAX).contains(count));
    let wrong = || Invalid::new("n", format!("must be a whole number from 1 to {TEXTS_MAX}, such as n=3"));
    count.ok_or_else(|| status::from_invalid(&wrong()))
}

/// The value of a layout's field `shard` or `tag`.
fn tag(tag: &str) -> Result<u64, Status> {
    let wrong = || Invalid::new("tag", "must be a whole number, such as tag=3");
    tag.parse().map_err(|_| status::from_invalid(&wrong()))
}

/// The parameters of each path, and an example.
const ALLOC_QUERY: (&[&str], &str) = (&["n", "request_id", "tag"], "?n=3");
const INSPECT_QUERY: (&[&str], &str) = (&["format"], "?format=uuidv7");
const CLASSIFY_QUERY: (&[&str], &str) = (&["space"], "?space=parts");

fn bad_query(uri: &Uri, rejected: &QueryRejection, (known, example): (&[&str], &str)) -> Status {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default();
    let unknown = pairs.into_iter().map(|(name, _)| name).find(|name| !known.contains(&&**name));
    let reason = || std::error::Error::source(rejected).map_or_else(|| rejected.to_string(), ToString::to_string);
    let problem = unknown.map_or_else(reason, |name| format!("there is no parameter {name:?}"));
    let problem = format!("{problem}; this path takes {}, such as {example}", listed(known));
    status::from_invalid(&Invalid::new("query", problem))
}

/// Lists words for a sentence: "a, b and c".
fn listed(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// Formats an inspected identifier as lines of names and values.
fn describe(inspection: &Inspection) -> String {
    let mut rows = vec![("format", inspection.format.as_str(), ""), ("canonical", &inspection.canonical, "")];
    if !inspection.time.is_empty() {
        rows.push(("time", &inspection.time, ""));
    }
    rows.extend(inspection.fields.iter().map(|field| (&*field.name, &*field.value, &*field.meaning)));
    rows.extend(inspection.also.iter().map(|other| ("could also be", other.as_str(), "")));
    lines(rows)
}

/// Formats rows as lines; a row has a name, a value and possibly a meaning.
fn lines(rows: Vec<(&str, &str, &str)>) -> String {
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |mut lines, (name, value, meaning)| {
        // OK because writing to a string never fails.
        let _ = match meaning {
            &"" => writeln!(lines, "{name:width$}  {value}"),
            meaning => writeln!(lines, "{name:width$}  {value}  ({meaning})"),
        };
        lines
    })
}
