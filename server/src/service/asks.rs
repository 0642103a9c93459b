//! Requests for regions.

use kent_engine::{
    audit::{Event, Outcome},
    engine::Engine,
    status,
    tables::asks::{Asker, Listing},
};
use kent_proto::{
    model::{self, AskInput, CloseInput, RequestName, SpaceName},
    stored::AskOutcome,
    v1::{
        CloseRegionRequestRequest, ListRegionRequestsRequest, ListRegionRequestsResponse, RegionRequest,
        RequestRegionRequest,
    },
};
use kent_transport::callers::{Author, author, caller};
use tonic::{Request, Status};

use super::audited::{ask_resource, record, resource};

pub(super) async fn ask(engine: &Engine, request: Request<RequestRegionRequest>) -> Result<RegionRequest, Status> {
    let (by, author) = asker(author(engine, &request)?);
    let input = AskInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
    let (wanted, reason) = (resource(&input.space, &input.region), input.reason.clone());
    let asked = engine.ask(by, input).await.map_err(|error| status::from_ask(&error));
    let note = match asked.as_ref().ok().and_then(|asked| RequestName::parse("name", &asked.name).ok()) {
        Some(name) => format!("{}: {reason}", ask_resource(&name.space, name.number)),
        None => reason,
    };
    record(Event::new("request.create", &author.by, wanted).note(&note), &asked, Outcome::Done);
    asked
}

pub(super) async fn close(
    engine: &Engine,
    request: Request<CloseRegionRequestRequest>,
) -> Result<RegionRequest, Status> {
    let (by, author) = asker(author(engine, &request)?);
    let input = CloseInput::try_from(request.into_inner()).map_err(|invalid| status::from_invalid(&invalid))?;
    let (subject, note) = (ask_resource(&input.name.space, input.name.number), input.note.clone());
    let action = match input.how {
        AskOutcome::Withdrawn => "request.withdraw",
        AskOutcome::Declined | AskOutcome::Made(_) => "request.decline",
    };
    let closed = engine.close_ask(by, input).await.map_err(|error| status::from_ask(&error));
    record(Event::new(action, &author.by, subject).note(&note), &closed, Outcome::Done);
    closed
}

pub(super) async fn list(
    engine: &Engine,
    request: Request<ListRegionRequestsRequest>,
) -> Result<ListRegionRequestsResponse, Status> {
    let caller = caller(engine, &request)?;
    let ListRegionRequestsRequest { parent, page_size, page_token, include_closed } = request.into_inner();
    let (space, only) = match RequestName::parse("parent", &parent) {
        Ok(RequestName { space, number }) => (space, Some(number)),
        Err(_) => {
            let space = SpaceName::parse("parent", &parent).map_err(|invalid| status::from_invalid(&invalid))?;
            (space.into_inner(), None)
        }
    };
    let page = model::parse_page(page_size, &page_token).map_err(|invalid| status::from_invalid(&invalid))?;
    let before = page.after.as_deref().map(|after| after.parse().map_err(|_| status::bad_page_token())).transpose()?;
    let listing = Listing { only, before, include_closed };
    let listed = engine.directory().asks(&caller, &space, listing, page.size).await;
    let mut requests = listed.map_err(|error| status::from_ask(&error))?;
    let more = requests.len() > page.size;
    requests.truncate(page.size);
    let last = requests.last().filter(|_| more).and_then(|last| RequestName::parse("name", &last.name).ok());
    let next_page_token = last.map(|last| model::page_token(&last.number.to_string())).unwrap_or_default();
    Ok(ListRegionRequestsResponse { requests, next_page_token })
}

fn asker(author: Author) -> (Asker, Author) {
    (Asker { caller: author.caller.clone(), described: author.describe() }, author)
}
