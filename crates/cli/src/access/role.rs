//! `kent role`: lists, sets and deletes roles.

use kent_client::Daemon;
use kent_proto::v1::{self, DeleteRoleRequest, ListRolesRequest, PutRoleRequest};
use serde_json::{Value, json};

use super::{changed_to_json, or_nothing, unconfirmed};
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
    let role = merged(args, present).map_err(Failure::Usage)?;
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
fn merged(args: &RoleSetArgs, present: Option<v1::Role>) -> Result<v1::Role, String> {
    let RoleSetArgs { name, permissions, certificates, no_certificates } = args;
    let mut role = match present {
        Some(role) => role,
        None if permissions.is_empty() => {
            return Err(format!(
                "there is no role {name} yet: say what it allows, as in `kent role set {name} --allow allocate:uuidv7`"
            ));
        }
        None => v1::Role { name: name.clone(), ..v1::Role::default() },
    };
    if permissions.is_empty() && certificates.is_empty() && !no_certificates {
        return Err("nothing to set: add --allow, --certificate or --no-certificates".to_owned());
    }
    if !permissions.is_empty() {
        role.permissions.clone_from(permissions);
    }
    if !certificates.is_empty() || *no_certificates {
        role.certificates.clone_from(certificates);
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
    let mut table = Table::new(["ROLE", "MAY", "CERTIFICATES"]);
    for role in roles {
        table.row([Cell::from(&role.name), or_nothing(&role.permissions).into(), role.certificates.join(", ").into()]);
    }
    table
}

fn to_json(role: &v1::Role) -> Value {
    json!({"name": role.name, "permissions": role.permissions, "certificates": role.certificates})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    fn role(permissions: &[&str], certificates: &[&str]) -> v1::Role {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        v1::Role { name: "ops".to_owned(), permissions: texts(permissions), certificates: texts(certificates) }
    }

    #[test]
    fn ok_what_is_not_given_stays() {
        let args = |permissions: &[&str], certificates: &[&str], no_certificates| {
            let v1::Role { name, permissions, certificates } = role(permissions, certificates);
            RoleSetArgs { name, permissions, certificates, no_certificates }
        };
        let present = || Some(role(&["read:*"], &["a.example"]));
        for (args, expected) in [
            (args(&["edit:*"], &[], false), role(&["edit:*"], &["a.example"])),
            (args(&[], &["b.example"], false), role(&["read:*"], &["b.example"])),
            (args(&[], &[], true), role(&["read:*"], &[])),
        ] {
            assert_eq!(merged(&args, present()), Ok(expected), "{args:?}");
        }
        assert_eq!(merged(&args(&["edit:*"], &[], false), None), Ok(role(&["edit:*"], &[])));
        assert!(merged(&args(&[], &["b.example"], false), None).is_err_and(|text| text.contains("kent role set ops")));
        assert!(merged(&args(&[], &[], false), present()).is_err_and(|text| text.starts_with("nothing to set")));
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
    }
}
