//! `kent token`, `kent role`, `kent budget` and `kent whoami`: credentials and permissions.

mod budget;
mod limits;
mod role;
mod secret;
mod token;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kent_client::Daemon;
use kent_proto::v1::{AccessChanged, Principal, WhoAmIRequest};
use serde_json::{Value, json};

pub(crate) use self::budget::run as budget;
pub(crate) use self::role::{names as role_names, run as role};
pub(crate) use self::token::{ids as token_ids, run as token};
use crate::connect::request;
use crate::failure::Failure;
use crate::output::{Out, Palette, Role};
use crate::table::facts;

/// Shows how the daemon identifies the caller, and what the caller may do.
pub(crate) async fn who_am_i(daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let principal = daemon.access().who_am_i(request(WhoAmIRequest {})).await?.into_inner();
    match out.is_json() {
        true => out.json(&who_to_json(&principal)),
        false => out.text(&render_who(&principal, out.palette())),
    }
}

fn render_who(principal: &Principal, palette: Palette) -> String {
    let Principal { name, permissions, roles, expires_unix_ms, on_behalf_of, auth_required, limits } = principal;
    let daemon = match auth_required {
        true => "requires credentials",
        false => "requires no credentials: every caller may do everything (kentd --auth required changes this)",
    };
    let rows = [
        ("you", name.clone()),
        ("on behalf of", on_behalf_of.clone()),
        ("roles", roles.join(", ")),
        ("may", or_nothing(permissions)),
        ("limits", limits::text(*limits)),
        ("expires", end(*expires_unix_ms)),
        ("daemon", daemon.to_owned()),
    ];
    let rows: Vec<_> = rows.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    facts(&rows, palette)
}

fn who_to_json(principal: &Principal) -> Value {
    json!({
        "name": principal.name,
        "permissions": principal.permissions,
        "roles": principal.roles,
        "limits": limits::to_json(principal.limits),
        "expires": json_time(principal.expires_unix_ms),
        "on_behalf_of": principal.on_behalf_of,
        "auth_required": principal.auth_required,
    })
}

fn or_nothing(permissions: &[String]) -> String {
    if permissions.is_empty() { "nothing".to_owned() } else { permissions.join(", ") }
}

/// Formats a time in UTC. Returns `None` for 0.
fn time(unix_ms: i64) -> Option<String> {
    let since = u64::try_from(unix_ms).ok().filter(|ms| *ms > 0)?;
    let at: SystemTime = UNIX_EPOCH.checked_add(Duration::from_millis(since))?;
    Some(humantime::format_rfc3339_seconds(at).to_string())
}

fn end(unix_ms: i64) -> String {
    time(unix_ms).unwrap_or_else(|| "never".to_owned())
}

fn json_time(unix_ms: i64) -> Value {
    time(unix_ms).map_or(Value::Null, Value::from)
}

/// Returns a line that names the replicas that have not confirmed a change, or an empty string if all have confirmed
/// it.
fn unconfirmed(changed: &AccessChanged, palette: Palette) -> String {
    if changed.unconfirmed.is_empty() {
        return String::new();
    }
    let (replicas, within) = (changed.unconfirmed.join(", "), changed.effective_within_ms.div_ceil(1000));
    let pending = format!("not confirmed by {replicas} yet: takes effect everywhere within {within} s");
    format!("{}\n", palette.paint(Role::Warning, &pending))
}

fn changed_to_json(name: (&str, &str), changed: &AccessChanged) -> Value {
    json!({
        name.0: name.1,
        "unconfirmed": changed.unconfirmed,
        "effective_within_ms": changed.effective_within_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_caller_for_people_and_programs() {
        let principal = Principal {
            name: "token:3f9a1c0b77de (orders)".to_owned(),
            permissions: vec!["lease:uuidv7".to_owned(), "read:region:default/orders".to_owned()],
            roles: Vec::new(),
            expires_unix_ms: 1_800_000_000_000,
            on_behalf_of: "ada".to_owned(),
            auth_required: true,
            limits: Some(kent_proto::v1::CallerLimits { ids_per_second: 10_000, ..Default::default() }),
        };
        assert_eq!(
            render_who(&principal, Palette::PLAIN),
            "you           token:3f9a1c0b77de (orders)\n\
             on behalf of  ada\n\
             may           lease:uuidv7, read:region:default/orders\n\
             limits        ids=10_000/s\n\
             expires       2027-01-15T08:00:00Z\n\
             daemon        requires credentials\n"
        );
        assert_eq!(who_to_json(&principal)["expires"], "2027-01-15T08:00:00Z");
        let anyone = Principal { name: "anyone".to_owned(), ..Principal::default() };
        let text = render_who(&anyone, Palette::PLAIN);
        assert!(
            text.contains("may      nothing\nexpires  never\n") && text.contains("requires no credentials"),
            "{text}"
        );
        assert_eq!(who_to_json(&anyone)["expires"], Value::Null);
    }

    #[test]
    fn ok_replicas_that_have_not_confirmed_are_named() {
        let changed = AccessChanged { unconfirmed: vec!["a:1".to_owned()], effective_within_ms: 59_001, role: None };
        assert_eq!(
            unconfirmed(&changed, Palette::PLAIN),
            "not confirmed by a:1 yet: takes effect everywhere within 60 s\n"
        );
        assert_eq!(unconfirmed(&AccessChanged::default(), Palette::PLAIN), "");
    }
}
