//! `kent role`: lists, sets and deletes roles.

use kent_client::Daemon;
use kent_proto::v1::{self, DeleteRoleRequest, ListRolesRequest, PutRoleRequest};
use serde_json::{Value, json};

use super::{changed_to_json, limits, or_nothing, unconfirmed};
use crate::args::{FormArg, RoleCommand, RoleSetArgs};
use crate::confirm;
use crate::connect::request;
use crate::failure::Failure;
use crate::output::Out;
use crate::table::{Cell, Table};

pub(crate) async fn run(command: &RoleCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        RoleCommand::Ls { output } => print(&all(daemon).await?, *output, out),
        RoleCommand::Set(args) => set(args, daemon, out).await,
        RoleCommand::Rm { name, yes } => {
            let question = format!("Tokens and certificates with the role {name} lose its permissions. Delete it?");
            if !yes && confirm::is_possible() && !confirm::ask(&question)? {
                return Err(Failure::NotConfirmed);
            }
            let message = DeleteRoleRequest { name: name.clone() };
            let changed = daemon.access().delete_role(request(message)).await?.into_inner();
            match out.is_json() {
                true => out.json(&changed_to_json(("name", name), &changed)),
                false => out.text(&format!("deleted role {name}\n{}", unconfirmed(&changed, out.palette()))),
            }
        }
    }
}

async fn all(daemon: &Daemon) -> Result<Vec<v1::Role>, Failure> {
    Ok(daemon.access().list_roles(request(ListRolesRequest {})).await?.into_inner().roles)
}

/// Returns the names of all roles, for completion.
pub(crate) async fn names(daemon: &Daemon) -> Result<Vec<String>, Failure> {
    Ok(all(daemon).await?.into_iter().map(|role| role.name).collect())
}

/// Creates or changes a role. The daemon replaces only the given parts, so a concurrent change to another part is kept.
async fn set(args: &RoleSetArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let message = replacement(args, limits::given(&args.limits)?).map_err(Failure::Usage)?;
    let mut changed = daemon.access().put_role(request(message)).await?.into_inner();
    let missing = || Failure::Answer("the changed role is missing".to_owned());
    let role = changed.role.take().ok_or_else(missing)?;
    if out.is_json() {
        let mut value = to_json(&role);
        value["unconfirmed"] = json!(changed.unconfirmed);
        value["effective_within_ms"] = json!(changed.effective_within_ms);
        return out.json(&value);
    }
    let text = table(&[role]).render(out.palette()) + &unconfirmed(&changed, out.palette());
    out.text(&text)
}

/// Returns a request that replaces only those parts of the role that are among the arguments.
fn replacement(args: &RoleSetArgs, limits: Option<v1::CallerLimits>) -> Result<PutRoleRequest, String> {
    let RoleSetArgs { name, permissions, certificates, no_certificates, no_limits, .. } = args;
    let parts = [
        ("permissions", !permissions.is_empty()),
        ("certificates", !certificates.is_empty() || *no_certificates),
        ("limits", limits.is_some() || *no_limits),
    ];
    let update: Vec<_> = parts.iter().filter(|(_, is_given)| *is_given).map(|(part, _)| (*part).to_owned()).collect();
    if update.is_empty() {
        return Err(format!(
            "nothing to set: add --allow, --certificate, --no-certificates, --limit or --no-limits, as in `kent role set {name} --allow lease:uuidv7`"
        ));
    }
    let (permissions, certificates) = (permissions.clone(), certificates.clone());
    let role = v1::Role { name: name.clone(), permissions, certificates, limits };
    Ok(PutRoleRequest { role: Some(role), update })
}

fn print(roles: &[v1::Role], output: FormArg, out: &mut Out) -> Result<(), Failure> {
    match output {
        _ if out.is_json() || output == FormArg::Json => roles.iter().try_for_each(|role| out.json(&to_json(role))),
        FormArg::Name => roles.iter().try_for_each(|role| out.text(&format!("{}\n", role.name))),
        _ if roles.is_empty() => Ok(()),
        _ => {
            let text = table(roles).render(out.palette());
            out.text(&text)
        }
    }
}

fn table(roles: &[v1::Role]) -> Table {
    // Most roles have no limits, so omit the column if it would be empty.
    let has_limits = roles.iter().any(|role| role.limits.is_some());
    let limits = has_limits.then_some("LIMITS");
    let mut table = Table::new(["ROLE", "MAY"].into_iter().chain(limits).chain(["CERTIFICATES"]));
    for role in roles {
        let limits = has_limits.then(|| Cell::from(limits::text(role.limits)));
        let row = [Cell::from(&role.name), or_nothing(&role.permissions).into()].into_iter().chain(limits);
        table.push(row.chain([role.certificates.join(", ").into()]).collect());
    }
    table
}

fn to_json(role: &v1::Role) -> Value {
    json!({
        "name": role.name,
        "permissions": role.permissions,
        "certificates": role.certificates,
        "limits": limits::to_json(role.limits),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    fn role(permissions: &[&str], certificates: &[&str]) -> v1::Role {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        v1::Role {
            name: "ops".to_owned(),
            permissions: texts(permissions),
            certificates: texts(certificates),
            limits: None,
        }
    }

    #[test]
    fn ok_only_what_is_given_is_replaced() {
        let args = |permissions: &[&str], certificates: &[&str], no_certificates| {
            let v1::Role { name, permissions, certificates, .. } = role(permissions, certificates);
            RoleSetArgs { name, permissions, certificates, no_certificates, limits: Vec::new(), no_limits: false }
        };
        for (args, expected) in [
            (args(&["edit:*"], &[], false), &["permissions"][..]),
            (args(&[], &["b.example"], false), &["certificates"]),
            (args(&[], &[], true), &["certificates"]),
            (args(&["edit:*"], &["b.example"], false), &["permissions", "certificates"]),
        ] {
            assert_eq!(replacement(&args, None).expect("a request").update, expected, "{args:?}");
        }
        let limits = Some(v1::CallerLimits { streams: 3, ..v1::CallerLimits::default() });
        let no_limits = RoleSetArgs { no_limits: true, ..args(&[], &[], false) };
        for (args, limits) in [(args(&[], &[], false), limits), (no_limits, None)] {
            let request = replacement(&args, limits).expect("a request");
            assert_eq!((request.update, request.role.expect("a role").limits), (vec!["limits".to_owned()], limits));
        }
        assert!(replacement(&args(&[], &[], false), None).is_err_and(|text| text.starts_with("nothing to set")));
    }

    #[test]
    fn ok_roles_for_people_and_programs() {
        let role = role(&["read:*", "operate:*"], &["spiffe://example/ops"]);
        assert_eq!(
            table(std::slice::from_ref(&role)).render(Palette::PLAIN),
            "ROLE  MAY                CERTIFICATES\n\
             ops   read:*, operate:*  spiffe://example/ops\n"
        );
        assert_eq!(to_json(&role)["certificates"], json!(["spiffe://example/ops"]));
        let limits = Some(v1::CallerLimits { streams: 3, ..v1::CallerLimits::default() });
        let limited = v1::Role { limits, permissions: vec!["read:*".to_owned()], ..v1::Role::default() };
        assert_eq!(
            table(&[limited, role]).render(Palette::PLAIN),
            "ROLE  MAY                LIMITS     CERTIFICATES\n\
             \x20     read:*             streams=3\n\
             ops   read:*, operate:*             spiffe://example/ops\n"
        );
    }
}
