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

/// The names of all roles, for completion.
pub(crate) async fn names(daemon: &Daemon) -> Result<Vec<String>, Failure> {
    Ok(all(daemon).await?.into_iter().map(|role| role.name).collect())
}

async fn set(args: &RoleSetArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let present = all(daemon).await?.into_iter().find(|role| role.name == args.name);
    let role = merged(args, limits::given(&args.limits)?, present).map_err(Failure::Usage)?;
    let message = PutRoleRequest { role: Some(role.clone()) };
    let changed = daemon.access().put_role(request(message)).await?.into_inner();
    if out.is_json() {
        let mut value = to_json(&role);
        value["unconfirmed"] = json!(changed.unconfirmed);
        value["effective_within_ms"] = json!(changed.effective_within_ms);
        return out.json(&value);
    }
    let text = table(&[role]).render(out.palette()) + &unconfirmed(&changed, out.palette());
    out.text(&text)
}

/// The role with what the arguments replace.
fn merged(args: &RoleSetArgs, limits: Option<v1::CallerLimits>, present: Option<v1::Role>) -> Result<v1::Role, String> {
    let RoleSetArgs { name, permissions, certificates, no_certificates, no_limits, .. } = args;
    let mut role = match present {
        Some(role) => role,
        None if permissions.is_empty() => {
            return Err(format!(
                "there is no role {name} yet: say what it allows, as in `kent role set {name} --allow allocate:uuidv7`"
            ));
        }
        None => v1::Role { name: name.clone(), ..v1::Role::default() },
    };
    if permissions.is_empty() && certificates.is_empty() && !no_certificates && limits.is_none() && !no_limits {
        return Err("nothing to set: add --allow, --certificate, --no-certificates, --limit or --no-limits".to_owned());
    }
    if !permissions.is_empty() {
        role.permissions.clone_from(permissions);
    }
    if !certificates.is_empty() || *no_certificates {
        role.certificates.clone_from(certificates);
    }
    if limits.is_some() || *no_limits {
        role.limits = limits;
    }
    Ok(role)
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
    // Most roles have no limits.
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
    fn ok_what_is_not_given_stays() {
        let args = |permissions: &[&str], certificates: &[&str], no_certificates| {
            let v1::Role { name, permissions, certificates, .. } = role(permissions, certificates);
            RoleSetArgs { name, permissions, certificates, no_certificates, limits: Vec::new(), no_limits: false }
        };
        let present = || Some(role(&["read:*"], &["a.example"]));
        for (args, expected) in [
            (args(&["edit:*"], &[], false), role(&["edit:*"], &["a.example"])),
            (args(&[], &["b.example"], false), role(&["read:*"], &["b.example"])),
            (args(&[], &[], true), role(&["read:*"], &[])),
        ] {
            assert_eq!(merged(&args, None, present()), Ok(expected), "{args:?}");
        }
        assert_eq!(merged(&args(&["edit:*"], &[], false), None, None), Ok(role(&["edit:*"], &[])));
        let limits = Some(v1::CallerLimits { streams: 3, ..v1::CallerLimits::default() });
        let limited = v1::Role { limits, ..role(&["read:*"], &[]) };
        assert_eq!(merged(&args(&[], &[], false), limits, Some(role(&["read:*"], &[]))), Ok(limited.clone()));
        let same = RoleSetArgs { no_limits: true, ..args(&[], &[], false) };
        assert_eq!(merged(&same, None, Some(limited.clone())), Ok(role(&["read:*"], &[])));
        let with_edit = v1::Role { permissions: vec!["edit:*".to_owned()], ..limited.clone() };
        assert_eq!(merged(&args(&["edit:*"], &[], false), None, Some(limited)), Ok(with_edit));
        assert!(
            merged(&args(&[], &["b.example"], false), None, None).is_err_and(|text| text.contains("kent role set ops"))
        );
        assert!(merged(&args(&[], &[], false), None, present()).is_err_and(|text| text.starts_with("nothing to set")));
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
