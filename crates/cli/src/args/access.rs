//! The arguments of `kent token`, `kent role` and `kent whoami`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use kent_access::{GRACE_SECONDS_MAX, Limits, Permission, Presented, TokenId, check_role_name, check_token_name};

/// Create, list, revoke and rotate tokens: the secrets by which callers prove who they are.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    Create(TokenCreateArgs),
    /// List tokens, without their secrets.
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  kent token ls\n  kent token ls -o wide\n  kent token ls --json"
    )]
    Ls {
        /// The output format; json is the same as --json.
        #[arg(short, long, value_name = "FORM", default_value = "table")]
        output: FormArg,
    },
    /// Revoke tokens permanently, after asking for confirmation on a terminal.
    ///
    /// When the command ends, all replicas refuse calls with these tokens and have ended their streams, except for
    /// replicas that the output lists as not confirmed. A token that is revoked by mistake cannot be restored: create
    /// another one.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  kent token revoke 3f9a1c0b77de\n  kent token revoke 3f9a1c0b77de --yes"
    )]
    Revoke {
        /// The IDs, as `kent token ls` shows them.
        #[arg(required = true, value_name = "ID", value_parser = parse_id)]
        ids: Vec<String>,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
    Rotate(TokenRotateArgs),
}

pub(super) const TOKEN_HELP: &str = "\
Create the first token on the daemon's machine: over its Unix socket, root and the daemon's user may do everything.

Examples:
  kent token create orders --allow allocate:region:default/orders --expires 30d --out orders.token
  kent alloc region:orders --token-file orders.token
  kent token ls
  kent token rotate 3f9a1c0b77de --grace 1h --out orders.token
  kent token revoke 3f9a1c0b77de
  kent whoami";

/// Create a token and print it. The token is shown only once.
///
/// The token alone goes to standard output, or to the file of --out, which only its owner may read. A summary of what
/// the token may do goes to standard error. You can grant only permissions over which you have `admin`, and the token
/// ends no later than your own credential.
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(crate) struct TokenCreateArgs {
    /// What the token is for, such as orders or ci-import.
    #[arg(value_parser = parse_token_name)]
    pub(crate) name: String,
    /// Allow ACTION on RESOURCE. Repeat the option for more permissions.
    #[arg(long = "allow", value_name = "ACTION:RESOURCE", value_parser = parse_permission, required_unless_present = "roles")]
    pub(crate) permissions: Vec<String>,
    /// Give the token the permissions of this role, as they are at the time of each call. Repeat the option for more
    /// roles.
    #[arg(long = "role", value_name = "ROLE", value_parser = parse_role_name)]
    pub(crate) roles: Vec<String>,
    /// Limit what the holder may do on each replica: ids=10k/s, calls=500/s, streams=10 or connections=20. Repeat the
    /// option for more limits.
    #[arg(long = "limit", value_name = "LIMIT=NUMBER", value_delimiter = ',', value_parser = parse_limit)]
    pub(crate) limits: Vec<String>,
    /// Let the token take only TOTAL identifiers from RESOURCE, as in `kent budget set`. Repeat the option for more
    /// budgets.
    #[arg(long = "budget", value_name = "RESOURCE=TOTAL", value_parser = super::value::parse_budget)]
    pub(crate) budgets: Vec<(String, u64)>,
    /// End the token after this time, such as 12h, 30d or 1y [default: when your own credential ends].
    #[arg(long, value_name = "DURATION", value_parser = parse_validity, allow_hyphen_values = true)]
    pub(crate) expires: Option<Duration>,
    /// Write the token to this new file, with mode 0600, instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

const CREATE_HELP: &str = "\
Actions:
  allocate     get identifiers, packed or as text
  lease        get blocks as leases, as client libraries do; a lease contains the key of a scrambled region
  inspect      decode identifiers with the service Codec
  read         see regions, tables, history and watch changes
  edit         create, change and delete regions, spaces and custom layouts
  operate      status, diagnosis, backups, series and the clock
  admin        all of these, and make tokens and roles for them

Resources:
  *                      everything
  uuidv7                 a format; uuid* matches all formats whose names begin with uuid
  serial:INVOICE         a series
  layout:orders          a custom layout; layout:team-* matches all layouts whose names begin with team-
  region:default/orders  this region of the space default, even after a rename
  region:default/team-*  the regions whose names matched when they were created
  space:shop             a space with all its regions

Limits. All connections of the token share them, and each replica counts separately:
  ids=10k/s        identifiers per second. A larger request passes, and later requests wait
  calls=500/s      calls per second; each message of an AllocateStream call is one
  streams=10       open AllocateStream calls
  connections=20   open connections
A token without a limit has the greatest limit of its roles, or else that of kentd --caller-limits.

Examples:
  kent token create orders --allow lease:uuidv7 --allow lease:region:default/orders --expires 90d
  kent token create ci --allow edit:region:default/ci-* --expires 12h --out ci.token
  kent token create shop --allow lease:uuidv7 --limit ids=10k/s --limit connections=20
  kent token create ann --role operators --expires 30d
  kent token create load-test --allow allocate:uuidv7 --budget uuidv7=1M
  kent token create backup --allow operate:* --out /etc/kent/backup.token";

/// Give a token a new secret, and print the new token. The old secret keeps working for a grace period.
#[derive(Debug, Args)]
#[command(after_help = ROTATE_HELP)]
pub(crate) struct TokenRotateArgs {
    /// The ID, as `kent token ls` shows it.
    #[arg(value_parser = parse_id)]
    pub(crate) id: String,
    /// Accept the old secret for this time, at most 7d; 0s ends it at once, after asking for confirmation on a
    /// terminal.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_grace, allow_hyphen_values = true)]
    pub(crate) grace: Duration,
    /// Write the token to this file, with mode 0600, instead of standard output. A file that exists is replaced at
    /// once.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
}

const ROTATE_HELP: &str = "\
Clients read their --token-file again when it changes, so a rotation needs no restart.

Examples:
  kent token rotate 3f9a1c0b77de --out /etc/kent/orders.token
  kent token rotate 3f9a1c0b77de --grace 0s --yes             the old secret is known to others";

/// List, set and delete roles: named sets of permissions, for tokens and certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// List roles with their permissions and certificates.
    #[command(visible_alias = "list", after_help = "Examples:\n  kent role ls\n  kent role ls --json")]
    Ls {
        /// The output format; json is the same as --json.
        #[arg(short, long, value_name = "FORM", default_value = "table")]
        output: FormArg,
    },
    Set(RoleSetArgs),
    /// Delete a role, after asking for confirmation on a terminal. Its holders lose its permissions.
    #[command(visible_alias = "delete", after_help = "Example:\n  kent role rm operators")]
    Rm {
        /// The role.
        #[arg(value_parser = parse_role_name)]
        name: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
}

pub(super) const ROLE_HELP: &str = "\
Examples:
  kent role set operators --allow operate:* --allow read:*
  kent token create ann --role operators
  kent role set orders --allow lease:region:default/orders --certificate spiffe://example/orders
  kent role ls
  kent role rm operators";

/// Create a role, or replace its permissions, its certificates or its limits. Parts that are not given stay unchanged.
///
/// --allow replaces all permissions of the role: to add one, repeat the others, which `kent role ls` shows.
/// --certificate replaces all its certificates, and --limit all its limits. If two operators replace different parts at
/// the same time, both changes are kept. The holders of the role have the new permissions and limits from their next
/// call on.
#[derive(Debug, Args)]
#[command(after_help = SET_HELP)]
pub(crate) struct RoleSetArgs {
    /// The role: 1 to 63 of a-z 0-9 - _.
    #[arg(value_parser = parse_role_name)]
    pub(crate) name: String,
    /// Allow ACTION on RESOURCE, as in `kent token create`. Repeat the option for more permissions.
    #[arg(long = "allow", value_name = "ACTION:RESOURCE", value_parser = parse_permission)]
    pub(crate) permissions: Vec<String>,
    /// Give the role to callers whose certificate has this name: a URI or a DNS name. The name may end in *. Repeat the
    /// option for more names.
    #[arg(long = "certificate", value_name = "NAME")]
    pub(crate) certificates: Vec<String>,
    /// Remove the role from all certificates.
    #[arg(long, conflicts_with = "certificates")]
    pub(crate) no_certificates: bool,
    /// Limit what each holder may do, as in `kent token create`. If a holder has several roles, the greatest limit
    /// applies. Repeat the option for more limits.
    #[arg(long = "limit", value_name = "LIMIT=NUMBER", value_delimiter = ',', value_parser = parse_limit)]
    pub(crate) limits: Vec<String>,
    /// Remove all limits of the role.
    #[arg(long, conflicts_with = "limits")]
    pub(crate) no_limits: bool,
}

const SET_HELP: &str = "\
Examples:
  kent role set operators --allow operate:* --allow read:*
  kent role set orders --certificate spiffe://example/orders --certificate orders.example.com
  kent role set shops --allow lease:uuidv7 --limit ids=10k/s --limit streams=10
  kent role set team-a --allow edit:region:default/team-a-* --certificate 'spiffe://example/team-a/*'";

/// The output format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    Table,
    /// With more columns.
    Wide,
    /// One JSON object per line.
    Json,
    /// Only the IDs of tokens or the names of roles, one per line.
    Name,
}

/// The maximum validity of a token: a hundred years.
const VALIDITY_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

fn parse_validity(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(validity) if validity >= Duration::from_secs(1) && validity <= VALIDITY_MAX => Ok(validity),
        _ => Err("expected a time from 1s to 100y, such as 12h, 30d or 1y; without --expires, the token ends with your own credential, or never if \
              yours does not expire"
            .to_owned()),
    }
}

/// Parses a grace period, which the daemon counts in seconds.
fn parse_grace(text: &str) -> Result<Duration, String> {
    let is_allowed = |grace: &Duration| *grace <= Duration::from_secs(GRACE_SECONDS_MAX) && grace.subsec_nanos() == 0;
    let grace = humantime::parse_duration(text).ok().filter(is_allowed);
    grace.ok_or_else(|| "expected whole seconds from 0s to 7d, such as 90s or 1h".to_owned())
}

/// Checks the syntax of a permission. Only the daemon can check that its regions exist.
fn parse_permission(text: &str) -> Result<String, String> {
    text.parse::<Permission>().map(|permission| permission.to_string()).map_err(|bad| bad.to_string())
}

fn parse_limit(text: &str) -> Result<String, String> {
    Limits::default().and(text).map(|_| text.to_owned()).map_err(|bad| bad.to_string())
}

fn parse_token_name(text: &str) -> Result<String, String> {
    check_token_name(text).map(|()| text.to_owned()).map_err(|bad| bad.to_string())
}

pub(crate) fn parse_role_name(text: &str) -> Result<String, String> {
    check_role_name(text).map(|()| text.to_owned()).map_err(|bad| bad.to_string())
}

/// Parses the ID of a token. Also accepts a whole token, so that a leaked one can be revoked: only its ID is sent.
fn parse_id(text: &str) -> Result<String, String> {
    let expected = || "expected the ID of a token, such as 3f9a1c0b77de (`kent token ls` lists them)".to_owned();
    // The error does not repeat the text, which may contain a secret.
    let id = Presented::parse(text.as_bytes()).map(|token| token.id()).or_else(|_| text.parse::<TokenId>());
    id.map(|id| id.to_string()).map_err(|_| expected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_and_err_grace_periods() {
        for (text, seconds) in [("0s", 0), ("1h", 3600), ("1m 30s", 90), ("7d", GRACE_SECONDS_MAX)] {
            assert_eq!(parse_grace(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["30d", "7d 1s", "500ms", "1s 1ns", "5", "-1s", ""] {
            assert!(parse_grace(text).is_err_and(|error| error.contains("from 0s to 7d")), "{text}");
        }
    }
}
