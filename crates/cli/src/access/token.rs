//! `kent token`: creates, lists, revokes and rotates tokens.

use std::io;

use kent_client::Daemon;
use kent_proto::v1::{
    CreateTokenRequest, CreatedToken, ListTokensRequest, NewBudget, RevokeTokenRequest, RotateTokenRequest, Token,
};
use serde_json::{Value, json};

use super::secret::Place;
use super::{changed_to_json, end, json_time, limits, or_nothing, time, unconfirmed};
use crate::args::{FormArg, TokenCommand, TokenCreateArgs, TokenRotateArgs};
use crate::connect::request;
use crate::failure::Failure;
use crate::output::{Out, Role};
use crate::table::{Cell, Table};
use crate::{confirm, notice};

/// The maximum number of tokens per page.
const PAGE_SIZE: u32 = 1000;

pub(crate) async fn run(command: &TokenCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(args) => create(args, daemon, out).await,
        TokenCommand::Ls { output } => print(&all(daemon).await?, *output, out),
        TokenCommand::Revoke { ids, yes } => revoke(ids, *yes, daemon, out).await,
        TokenCommand::Rotate(args) => rotate(args, daemon, out).await,
    }
}

/// Returns all tokens that the caller may see, in the order of their IDs.
async fn all(daemon: &Daemon) -> Result<Vec<Token>, Failure> {
    let (mut tokens, mut page_token) = (Vec::new(), String::new());
    loop {
        let message = ListTokensRequest { page_size: PAGE_SIZE, page_token };
        let page = daemon.access().list_tokens(request(message)).await?.into_inner();
        tokens.extend(page.tokens);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(tokens);
        }
    }
}

async fn create(args: &TokenCreateArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let limits = limits::given(&args.limits)?;
    let place = Place::prepare(args.out.as_deref(), false)?;
    let message = CreateTokenRequest {
        name: args.name.clone(),
        permissions: args.permissions.clone(),
        roles: args.roles.clone(),
        valid_seconds: args.expires.map_or(0, |validity| validity.as_secs()),
        limits,
        budgets: args
            .budgets
            .iter()
            .map(|(resource, total)| NewBudget { resource: resource.clone(), total: *total })
            .collect(),
    };
    let created = daemon.access().create_token(request(message)).await?.into_inner();
    hand_over(&created, None, place, out)
}

async fn rotate(args: &TokenRotateArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let place = Place::prepare(args.out.as_deref(), true)?;
    if args.grace.is_zero() && !args.yes && confirm::is_possible() {
        let question = format!("Calls with the current secret of {} are refused at once. Rotate it?", args.id);
        if !confirm::ask(&question)? {
            return Err(Failure::NotConfirmed);
        }
    }
    let message = RotateTokenRequest { id: args.id.clone(), grace_seconds: args.grace.as_secs() };
    let created = daemon.access().rotate_token(request(message)).await?.into_inner();
    let old = match args.grace.is_zero() {
        true => "the old secret is refused from now on".to_owned(),
        false => format!("the old secret works for {} more", humantime::format_duration(args.grace)),
    };
    hand_over(&created, Some(&old), place, out)
}

/// Prints a new token once: the secret alone on standard output or in a file, and the rest on standard error.
fn hand_over(created: &CreatedToken, note: Option<&str>, place: Place, out: &mut Out) -> Result<(), Failure> {
    let token = created.token.clone().unwrap_or_default();
    write(created, &token, note, place, out).map_err(|failure| match failure {
        Failure::Output(error) => Failure::File(lost(&token, note, &error)),
        other => other,
    })
}

/// The message for a token whose secret was lost.
fn lost(Token { id, name, .. }: &Token, note: Option<&str>, error: &io::Error) -> String {
    let done = match note {
        None => "was created".to_owned(),
        Some(note) => format!("has a new secret ({note})"),
    };
    format!(
        "token {id} ({name}) {done}, but the secret could not be written to standard output and is lost: {error}; make another secret (kent \
         token rotate {id} --out FILE), or revoke the token (kent token revoke {id})"
    )
}

fn write(
    created: &CreatedToken,
    token: &Token,
    note: Option<&str>,
    place: Place,
    out: &mut Out,
) -> Result<(), Failure> {
    let file = place.file();
    if out.is_json() {
        let mut value = to_json(token);
        match &file {
            Some(file) => value["file"] = json!(file),
            None => value["token"] = json!(created.secret),
        }
        // Write the file first: if that fails, the token is printed instead.
        place.put(&created.secret, out)?;
        return out.json(&value).and_then(|()| out.flush());
    }
    place.put(&created.secret, out)?;
    notice::write(&describe(token, note, file.as_deref()), false);
    Ok(())
}

fn describe(token: &Token, note: Option<&str>, file: Option<&str>) -> String {
    let Token { id, name, permissions, roles, expires_unix_ms, .. } = token;
    let roles = if roles.is_empty() { String::new() } else { format!("; roles {}", roles.join(", ")) };
    let may = if permissions.is_empty() && !roles.is_empty() { String::new() } else { or_nothing(permissions) };
    let may = [may, roles].concat();
    let may = may.trim_start_matches("; ");
    let limits = Some(limits::text(token.limits)).filter(|limits| !limits.is_empty());
    let limits = limits.map(|limits| format!("; at most {limits}")).unwrap_or_default();
    let end = match time(*expires_unix_ms) {
        Some(end) => format!("expires {end}"),
        None => "does not expire".to_owned(),
    };
    let note = note.map(|note| format!("{note}\n")).unwrap_or_default();
    let advice = match file {
        Some(file) => format!("it is in {file}: use it with --token-file {file} or KENT_TOKEN_FILE\n"),
        None => {
            "it is not shown again: keep it in a file, and use it with --token-file or KENT_TOKEN_FILE\n".to_owned()
        }
    };
    format!("token {id} ({name}), {end}: {may}{limits}\n{note}{advice}")
}

async fn revoke(ids: &[String], yes: bool, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    if !yes && confirm::is_possible() {
        let tokens: Vec<_> = all(daemon).await?.into_iter().filter(|token| ids.contains(&token.id)).collect();
        notice::write(&table(&tokens, false).render(out.palette()), false);
        let count = if ids.len() == 1 { "this token".to_owned() } else { format!("these {} tokens", ids.len()) };
        if !confirm::ask(&format!("This cannot be undone: calls with {count} are refused from then on. Revoke?"))? {
            return Err(Failure::NotConfirmed);
        }
    }
    for id in ids {
        let revoked = daemon.access().revoke_token(request(RevokeTokenRequest { id: id.clone() })).await?.into_inner();
        match out.is_json() {
            true => out.json(&changed_to_json(("id", id), &revoked))?,
            false => out.text(&format!("revoked {id}\n{}", unconfirmed(&revoked, out.palette())))?,
        }
    }
    Ok(())
}

fn print(tokens: &[Token], output: FormArg, out: &mut Out) -> Result<(), Failure> {
    match output {
        _ if out.is_json() || output == FormArg::Json => tokens.iter().try_for_each(|token| out.json(&to_json(token))),
        FormArg::Name => tokens.iter().try_for_each(|token| out.text(&format!("{}\n", token.id))),
        _ if tokens.is_empty() => Ok(()),
        _ => {
            let text = table(tokens, output == FormArg::Wide).render(out.palette());
            out.text(&text)
        }
    }
}

fn table(tokens: &[Token], is_wide: bool) -> Table {
    // Most tokens have no limits, so omit the column if it would be empty.
    let has_limits = tokens.iter().any(|token| token.limits.is_some());
    let more = if is_wide { &["CREATED", "CREATED BY", "ROLES"][..] } else { &[] };
    let headings = ["TOKEN", "NAME", "STATE", "EXPIRES"].into_iter().chain(more.iter().copied());
    let mut table = Table::new(headings.chain(has_limits.then_some("LIMITS")).chain(["MAY"]));
    for token in tokens {
        let state = match token.refused.as_str() {
            "" => Cell::new(Role::Good, "valid"),
            refused => Cell::new(Role::Bad, refused),
        };
        let mut row = vec![Cell::from(&token.id), Cell::from(&token.name), state, end(token.expires_unix_ms).into()];
        let roles = token.roles.join(", ");
        let permissions = token.permissions.join(", ");
        if is_wide {
            row.extend([
                Cell::from(time(token.created_unix_ms).unwrap_or_default()),
                Cell::from(&token.created_by),
                Cell::from(roles),
            ]);
        }
        row.extend(has_limits.then(|| Cell::from(limits::text(token.limits))));
        let roles = token.roles.iter().filter(|_| !is_wide).map(|role| format!("role {role}"));
        row.push(roles.chain([permissions]).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ").into());
        table.push(row);
    }
    table
}

fn to_json(token: &Token) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "permissions": token.permissions,
        "roles": token.roles,
        "created": json_time(token.created_unix_ms),
        "expires": json_time(token.expires_unix_ms),
        "created_by": token.created_by,
        "limits": limits::to_json(token.limits),
        "refused": (!token.refused.is_empty()).then_some(&token.refused),
    })
}

/// Returns the IDs of the valid tokens, for completion.
pub(crate) async fn ids(daemon: &Daemon) -> Result<Vec<String>, Failure> {
    let tokens = all(daemon).await?;
    Ok(tokens.into_iter().filter(|token| token.refused.is_empty()).map(|token| token.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    fn token() -> Token {
        Token {
            id: "3f9a1c0b77de".to_owned(),
            name: "orders".to_owned(),
            permissions: vec!["lease:uuidv7".to_owned(), "lease:region:default/orders".to_owned()],
            roles: Vec::new(),
            created_unix_ms: 1_790_000_000_000,
            expires_unix_ms: 1_800_000_000_000,
            created_by: "local".to_owned(),
            limits: None,
            refused: String::new(),
        }
    }

    #[test]
    fn ok_tokens_for_people_and_programs() {
        let revoked = Token {
            roles: vec!["ops".to_owned()],
            permissions: Vec::new(),
            refused: "revoked".to_owned(),
            expires_unix_ms: 0,
            ..token()
        };
        assert_eq!(
            table(&[token(), revoked.clone()], false).render(Palette::PLAIN),
            "TOKEN         NAME    STATE    EXPIRES               MAY\n\
             3f9a1c0b77de  orders  valid    2027-01-15T08:00:00Z  lease:uuidv7, lease:region:default/orders\n\
             3f9a1c0b77de  orders  revoked  never                 role ops\n"
        );
        assert_eq!(
            table(std::slice::from_ref(&revoked), true).render(Palette::PLAIN),
            "TOKEN         NAME    STATE    EXPIRES  CREATED               CREATED BY  ROLES  MAY\n\
             3f9a1c0b77de  orders  revoked  never    2026-09-21T14:13:20Z  local       ops\n"
        );
        let limits = Some(kent_proto::v1::CallerLimits { ids_per_second: 10_000, ..Default::default() });
        let limited = Token { limits, roles: vec!["ops".to_owned()], permissions: Vec::new(), ..token() };
        assert_eq!(
            table(&[limited.clone(), token()], false).render(Palette::PLAIN),
            "TOKEN         NAME    STATE  EXPIRES               LIMITS        MAY\n\
             3f9a1c0b77de  orders  valid  2027-01-15T08:00:00Z  ids=10_000/s  role ops\n\
             3f9a1c0b77de  orders  valid  2027-01-15T08:00:00Z                lease:uuidv7, lease:region:default/orders\n"
        );
        assert!(
            table(std::slice::from_ref(&limited), true).render(Palette::PLAIN).contains("ROLES  LIMITS        MAY\n")
        );
        assert!(describe(&limited, None, None).starts_with(
            "token 3f9a1c0b77de (orders), expires 2027-01-15T08:00:00Z: roles ops; at most ids=10_000/s\n"
        ));
        let value = to_json(&revoked);
        assert_eq!((&value["refused"], &value["expires"]), (&json!("revoked"), &Value::Null));
        assert_eq!(to_json(&token())["refused"], Value::Null);
    }

    #[test]
    fn ok_a_new_token_is_described_without_its_secret() {
        assert_eq!(
            describe(&token(), None, None),
            "token 3f9a1c0b77de (orders), expires 2027-01-15T08:00:00Z: lease:uuidv7, lease:region:default/orders\n\
             it is not shown again: keep it in a file, and use it with --token-file or KENT_TOKEN_FILE\n"
        );
        let by_role = Token { roles: vec!["ops".to_owned()], permissions: Vec::new(), expires_unix_ms: 0, ..token() };
        assert_eq!(
            describe(&by_role, Some("the old secret works for 1h more"), Some("a.token")),
            "token 3f9a1c0b77de (orders), does not expire: roles ops\n\
             the old secret works for 1h more\n\
             it is in a.token: use it with --token-file a.token or KENT_TOKEN_FILE\n"
        );
    }
}
