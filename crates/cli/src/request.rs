//! `kent region ask` and `kent request`: asks for regions, and answers such requests.

use kent_client::Daemon;
use kent_proto::{
    model::request_name,
    v1::{
        CloseRegionRequestRequest, CreateRegionRequest, EditResponse, ListRegionRequestsRequest, RegionRequest,
        RequestRegionRequest, region_request::State,
    },
};
use serde_json::{Value, json};

use crate::args::{ApproveArgs, AskArgs, EditArgs, FormArg, RequestCommand};
use crate::confirm;
use crate::connect::request;
use crate::edit;
use crate::failure::Failure;
use crate::names;
use crate::notice;
use crate::number;
use crate::output::{Out, Palette, Role};
use crate::table::{Cell, Table, facts};

/// The maximum number of requests per page.
const PAGE_SIZE: u32 = 1000;

/// The maximum length of an edit's reason, in bytes.
const REASON_BYTES_MAX: usize = 1024;

pub(crate) async fn run(command: &RequestCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        RequestCommand::Ls { all, output, space } => {
            let requests = list(&space.space, *all, daemon).await?;
            print(&requests, (*all, *output), out)
        }
        RequestCommand::Show { id, space } => write(&find(&space.space, *id, daemon).await?, out),
        RequestCommand::Approve(args) => approve(args, daemon, out).await,
        RequestCommand::Decline { id, reason, space } => {
            close((&space.space, *id), State::Declined, reason, daemon, out).await
        }
        RequestCommand::Withdraw { id, reason, space } => {
            close((&space.space, *id), State::Withdrawn, reason, daemon, out).await
        }
    }
}

/// Asks for a region.
pub(crate) async fn ask(args: &AskArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let labels = args.labels.iter().cloned().map(|(name, value)| (name, value.unwrap_or_default())).collect();
    let message = RequestRegionRequest {
        parent: names::space(&args.space.space),
        region_id: args.name.clone(),
        suffix_bits: Some(args.suffix),
        zone_bits: args.zone,
        owner: args.owner.clone(),
        labels,
        reason: args.reason.clone(),
    };
    let asked = daemon.regions().request_region(request(message)).await?.into_inner();
    if out.is_json() {
        return out.json(&to_json(&asked));
    }
    let (id, space) = (id(&asked), &args.space.space);
    let option = names::space_option(space);
    out.text(&format!(
        "asked for region {} of space {space}: request {id}\nan operator creates the region or declines the request (kent request show {id}{option})\n",
        asked.region_id
    ))
}

async fn list(space: &str, include_closed: bool, daemon: &Daemon) -> Result<Vec<RegionRequest>, Failure> {
    let (parent, mut requests, mut page_token) = (names::space(space), Vec::new(), String::new());
    loop {
        let parent = parent.clone();
        let message = ListRegionRequestsRequest { parent, page_size: PAGE_SIZE, page_token, include_closed };
        let page = daemon.regions().list_region_requests(request(message)).await?.into_inner();
        requests.extend(page.requests);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(requests);
        }
    }
}

/// Returns the numbers of the open requests, for completion.
pub(crate) async fn ids(space: &str, daemon: &Daemon) -> Result<Vec<String>, Failure> {
    let open = list(space, false, daemon).await?;
    Ok(open.iter().map(|request| id(request).to_owned()).collect())
}

async fn find(space: &str, id: u64, daemon: &Daemon) -> Result<RegionRequest, Failure> {
    let parent = request_name(space, id);
    let message = ListRegionRequestsRequest { parent, ..ListRegionRequestsRequest::default() };
    let found = daemon.regions().list_region_requests(request(message)).await?.into_inner().requests;
    found.into_iter().next().ok_or_else(|| Failure::Answer("the request is missing".to_owned()))
}

async fn close(
    (space, id): (&str, u64),
    state: State,
    note: &str,
    daemon: &Daemon,
    out: &mut Out,
) -> Result<(), Failure> {
    let message =
        CloseRegionRequestRequest { name: request_name(space, id), state: state.into(), note: note.to_owned() };
    let closed = daemon.regions().close_region_request(request(message)).await?.into_inner();
    match out.is_json() {
        true => out.json(&to_json(&closed)),
        false => out.text(&format!("request {id} for region {}: {}\n", closed.region_id, state_name(closed.state()))),
    }
}

/// Creates the region that a request asks for. On a terminal, shows the request and the planned region first, and asks
/// for confirmation.
async fn approve(args: &ApproveArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let asked = find(&args.edit.space.space, args.id, daemon).await?;
    let mut edit = args.edit.clone();
    if edit.reason.is_empty() {
        edit.reason = default_reason(args.id, &asked.reason);
    }
    let call = async |edit: &EditArgs| {
        let made = daemon.regions().create_region(request(creation(args, &asked, edit))).await;
        made.map(|response| response.into_inner())
    };
    if !edit.yes && !edit.dry_run && confirm::is_possible() {
        let planned = call(&EditArgs { dry_run: true, ..edit.clone() }).await;
        let plan: EditResponse = planned.map_err(|status| approve_instead(args, &asked, status.into()))?;
        let palette = out.palette();
        notice::write(&format!("{}\n{}", render(&asked, palette), edit::render(&plan, palette)), false);
        let warning = confirm::permanence(&plan).map(|why| format!("{why}. ")).unwrap_or_default();
        if !confirm::ask(&format!("{warning}Create the region?"))? {
            return Err(Failure::NotConfirmed);
        }
        // An edit with a request ID may already have been made, at another revision.
        if edit.request_id.is_none() && edit.expect_revision.is_none() {
            edit.expect_revision = Some(plan.base_revision);
        }
    }
    let made = call(&edit).await.map_err(|status| approve_instead(args, &asked, status.into()))?;
    edit::write(&made, out)
}

/// In a suggested command that creates the region, replaces the creation with an approval, which also closes the
/// request. If the region's name is taken, adds the commands to approve the request with another name or to decline it.
fn approve_instead(args: &ApproveArgs, asked: &RegionRequest, failure: Failure) -> Failure {
    let Failure::Refused(mut refusal) = failure else { return failure };
    let (name, option) = match &args.name {
        Some(name) => (name, format!(" --name {name}")),
        None => (&asked.region_id, String::new()),
    };
    let creates = format!("region create {name} --suffix");
    let approves = format!("request approve {}{option} --suffix", args.id);
    for text in refusal.advice.iter_mut().chain([&mut refusal.message]) {
        *text = text.replace(&creates, &approves);
    }
    if refusal.reason.as_deref() == Some("NAME_TAKEN") {
        let (id, overrides) = (args.id, overrides(args));
        let space = names::space_option(&args.edit.space.space);
        refusal.advice.extend([
            format!("to create it with another name: kent request approve {id}{overrides} --name NAME{space}"),
            format!("to decline: kent request decline {id} --reason TEXT{space}"),
        ]);
    }
    Failure::Refused(refusal)
}

/// Returns the options with which an approval overrides the size and the place that the request asks for, each after a
/// space.
fn overrides(args: &ApproveArgs) -> String {
    let options = [
        ("suffix", args.suffix.map(|bits| bits.to_string())),
        ("zone", args.zone.map(|bits| bits.to_string())),
        ("prefix", args.prefix.as_ref().map(|bits| format!("'{bits}'"))),
        ("split-donor", args.split_donor.clone()),
    ];
    let given = options.into_iter().filter_map(|(name, value)| Some(format!(" --{name} {}", value?)));
    given.chain(args.auto_split.then(|| " --auto-split".to_owned())).collect()
}

/// Returns the request that creates the region.
fn creation(args: &ApproveArgs, asked: &RegionRequest, edit: &EditArgs) -> CreateRegionRequest {
    let prefix = args.prefix.as_ref().map(ToString::to_string);
    let zone_bits = if prefix.is_some() { None } else { args.zone.or(asked.zone_bits) };
    CreateRegionRequest {
        parent: names::space(&edit.space.space),
        region_id: args.name.clone().unwrap_or_else(|| asked.region_id.clone()),
        suffix_bits: Some(args.suffix.unwrap_or(asked.suffix_bits)),
        zone_bits,
        prefix,
        auto_split: args.auto_split,
        split_donor: args.split_donor.clone().unwrap_or_default(),
        validate_only: edit.dry_run,
        expected_revision: edit.expect_revision.unwrap_or_default(),
        request_id: edit.request_id.clone().unwrap_or_default(),
        reason: edit.reason.clone(),
        answers: asked.name.clone(),
        ..CreateRegionRequest::default()
    }
}

/// Returns the reason to record in the history: the request's number and reason, truncated if they are too long.
fn default_reason(id: u64, asked: &str) -> String {
    let mut reason = format!("request {id}: {asked}");
    while reason.len() > REASON_BYTES_MAX {
        reason.pop();
    }
    reason
}

fn print(requests: &[RegionRequest], (all, output): (bool, FormArg), out: &mut Out) -> Result<(), Failure> {
    match output {
        _ if out.is_json() || output == FormArg::Json => {
            requests.iter().try_for_each(|request| out.json(&to_json(request)))
        }
        FormArg::Name => requests.iter().try_for_each(|request| out.text(&format!("{}\n", id(request)))),
        _ if requests.is_empty() => Ok(()),
        _ => {
            let text = table(requests, all, output == FormArg::Wide).render(out.palette());
            out.text(&text)
        }
    }
}

fn table(requests: &[RegionRequest], all: bool, wide: bool) -> Table {
    let state = all.then_some("STATE");
    let more = wide.then_some(["OWNER", "NOTE"]).into_iter().flatten();
    let headings = [">ID", "REGION", ">S", ">Z"].into_iter().chain(state).chain(["ASKED", "REQUESTER", "REASON"]);
    let mut table = Table::new(headings.chain(more));
    for asked in requests {
        let mut row = vec![
            Cell::from(id(asked)),
            Cell::from(&asked.region_id),
            Cell::from(asked.suffix_bits.to_string()),
            Cell::from(asked.zone_bits.map(|bits| bits.to_string()).unwrap_or_default()),
        ];
        if all {
            row.push(Cell::new(state_role(asked.state()), state_name(asked.state())));
        }
        row.extend([&asked.create_time, &asked.requester, &asked.reason].map(|text| Cell::from(plain(text))));
        if wide {
            row.extend([&asked.owner, &asked.note].map(|text| Cell::from(plain(text))));
        }
        table.push(row);
    }
    table
}

fn write(asked: &RegionRequest, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&to_json(asked));
    }
    let text = format!("{}{}", render(asked, out.palette()), next_step(asked));
    out.text(&text)
}

fn render(asked: &RegionRequest, palette: Palette) -> String {
    let capacity = number::power_of_two(
        &1u128
            .checked_shl(asked.suffix_bits)
            .map_or_else(|| format!("2^{}", asked.suffix_bits), |capacity| capacity.to_string()),
    );
    let labels: Vec<_> = asked.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let closed = match asked.closed_by.as_str() {
        "" => asked.close_time.clone(),
        by => format!("{} by {}", asked.close_time, plain(by)),
    };
    let rows = [
        ("request", id(asked).to_owned()),
        ("state", palette.paint(state_role(asked.state()), state_name(asked.state()))),
        ("region", asked.region_id.clone()),
        ("suffix", format!("{} bits ({capacity} identifiers)", asked.suffix_bits)),
        ("zone", asked.zone_bits.map(|bits| number::counted(bits, "bit")).unwrap_or_default()),
        ("owner", plain(&asked.owner)),
        ("labels", labels.join(", ")),
        ("reason", plain(&asked.reason)),
        ("requester", plain(&asked.requester)),
        ("asked", asked.create_time.clone()),
        ("closed", if asked.close_time.is_empty() { String::new() } else { closed }),
        ("made", names::short(&asked.region).to_owned()),
        ("note", plain(&asked.note)),
    ];
    let rows: Vec<_> = rows.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    facts(&rows, palette)
}

/// Returns a line about what the caller can do with an open request.
fn next_step(asked: &RegionRequest) -> String {
    let (number, space) = (id(asked), space_of(&asked.name));
    let option = names::space_option(space);
    match (asked.state(), asked.decidable, asked.mine) {
        (State::Open, true, _) => {
            format!(
                "to create the region: kent request approve {number}{option}; to decline: kent request decline {number} --reason TEXT{option}\n"
            )
        }
        (State::Open, false, true) => format!("to withdraw it: kent request withdraw {number}{option}\n"),
        _ => String::new(),
    }
}

/// Returns the number of a request, as text.
fn id(asked: &RegionRequest) -> &str {
    asked.name.rsplit('/').next().unwrap_or_default()
}

/// Returns the name of a request's space, from the request's resource name.
fn space_of(request: &str) -> &str {
    let space = request.strip_prefix("spaces/").unwrap_or(request);
    space.rsplit_once("/requests/").map_or(space, |(space, _)| space)
}

/// Returns text that another caller wrote, on one line and without control characters.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Unspecified => "unknown",
        State::Open => "open",
        State::Made => "made",
        State::Declined => "declined",
        State::Withdrawn => "withdrawn",
    }
}

fn state_role(state: State) -> Role {
    match state {
        State::Made => Role::Good,
        State::Declined => Role::Bad,
        State::Open => Role::Warning,
        State::Unspecified | State::Withdrawn => Role::Faint,
    }
}

fn to_json(asked: &RegionRequest) -> Value {
    json!({
        "id": id(asked),
        "space": space_of(&asked.name),
        "state": state_name(asked.state()),
        "region": asked.region_id,
        "suffix_bits": asked.suffix_bits,
        "zone_bits": asked.zone_bits,
        "owner": asked.owner,
        "labels": asked.labels,
        "reason": asked.reason,
        "requester": asked.requester,
        "asked": asked.create_time,
        "closed": (!asked.close_time.is_empty()).then_some(&asked.close_time),
        "closed_by": asked.closed_by,
        "note": asked.note,
        "made": (!asked.region.is_empty()).then(|| names::short(&asked.region)),
        "mine": asked.mine,
        "decidable": asked.decidable,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kent_client::tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;
    use crate::args::{Cli, Command, DaemonCommand};

    fn asked() -> RegionRequest {
        RegionRequest {
            name: "spaces/default/requests/7".to_owned(),
            state: State::Open.into(),
            region_id: "returns".to_owned(),
            suffix_bits: 32,
            reason: "returned\nparcels".to_owned(),
            requester: "token:0123456789ab (shop) from 10.0.0.7".to_owned(),
            create_time: "2026-11-25T18:00:00.000Z".to_owned(),
            decidable: true,
            ..RegionRequest::default()
        }
    }

    #[test]
    fn ok_requests_for_people_and_programs() {
        assert_eq!(
            table(&[asked()], false, false).render(Palette::PLAIN),
            "ID  REGION    S  Z  ASKED                     REQUESTER                                REASON\n \
             7  returns  32     2026-11-25T18:00:00.000Z  token:0123456789ab (shop) from 10.0.0.7  returned parcels\n"
        );
        let text = render(&asked(), Palette::PLAIN);
        assert!(text.contains("suffix     32 bits (2^32 identifiers)\n"), "{text}");
        assert!(text.contains("reason     returned parcels\n") && !text.contains("closed"), "{text}");
        let json = to_json(&asked());
        assert_eq!((&json["id"], &json["space"], &json["made"]), (&json!("7"), &json!("default"), &json!(null)));
    }

    #[test]
    fn ok_the_next_step_depends_on_the_rights() {
        let mine = RegionRequest { mine: true, decidable: false, ..asked() };
        assert!(next_step(&asked()).contains("kent request approve 7 --space default"));
        assert!(next_step(&mine).contains("kent request withdraw 7 --space default"));
        assert_eq!(next_step(&RegionRequest { state: State::Made.into(), ..asked() }), "");
    }

    #[test]
    fn err_a_request_for_a_name_that_is_taken_can_be_answered_in_two_ways() {
        for (line, approves) in [
            ("", "kent request approve 7 --name NAME --space parts\n"),
            (
                " --suffix 28 --zone 0 --auto-split --name shop",
                "kent request approve 7 --suffix 28 --zone 0 --auto-split --name NAME --space parts\n",
            ),
            (" --prefix 01", "kent request approve 7 --prefix '01' --name NAME --space parts\n"),
        ] {
            let line = format!("kent request approve 7 --space parts{line}");
            let cli = Cli::try_parse_from(line.split(' ')).expect("valid");
            let Command::Daemon(DaemonCommand::Request(command)) = cli.command else { panic!("{line}") };
            let RequestCommand::Approve(args) = *command else { panic!("{line}") };
            let refuse = |reason| {
                let details = ErrorDetails::with_error_info(reason, "kent", []);
                let status = Status::with_error_details(Code::AlreadyExists, "region \"returns\" exists", details);
                approve_instead(&args, &asked(), status.into()).render(false).expect("a message")
            };
            let message = refuse("NAME_TAKEN");
            let declines = "kent request decline 7 --reason TEXT --space parts\n";
            assert!(message.contains(approves) && message.contains(declines), "{message}");
            assert!(!refuse("NO_FREE_PREFIX").contains("--name"), "{line}");
        }
    }

    #[test]
    fn ok_a_long_reason_is_cut_to_what_an_edit_accepts() {
        let reason = default_reason(7, &"ä".repeat(600));
        assert!(reason.starts_with("request 7: ää") && reason.len() <= REASON_BYTES_MAX);
    }
}
