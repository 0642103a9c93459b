//! Audit events of `kentd restore` and `kentd migrate`.

use std::{env, future::Future};

use kent_engine::audit::{Audit, AuditArgs, By, Event, Outcome, Rotation};

use crate::telemetry::{self, NoLogs};

/// Runs a command, and records its start and its outcome in the audit log. If the log cannot be opened, the command
/// does not run.
pub(super) async fn audited<T, E>(
    args: &AuditArgs,
    (action, note): (&str, &str),
    work: impl Future<Output = Result<T, E>>,
) -> Result<Result<T, E>, NoLogs> {
    let rotation = Rotation { bytes: args.audit_bytes, files: args.audit_files };
    let audit = args.audit.as_ref().map(|to| telemetry::start_audit(to, rotation)).transpose()?;
    let by = user();
    let record = |outcome| Event::new(action, &by, "").note(note).record(outcome);
    record(Outcome::Begun);
    if let Some((source, to)) = audit.as_ref().and_then(Audit::take_failure).zip(args.audit.clone()) {
        return Err(NoLogs::Audit { file: to.into(), source });
    }
    let made = work.await;
    record(if made.is_ok() { Outcome::Done } else { Outcome::Failed });
    if let Some(error) = audit.as_ref().and_then(Audit::take_failure) {
        eprintln!("warning: the outcome is missing from the audit log: {error}");
    }
    Ok(made)
}

/// Returns the user that runs the process, and an unverified user name from the environment.
fn user() -> By {
    let name = ["KENT_PRINCIPAL", "SUDO_USER", "USER"].into_iter().find_map(|name| env::var(name).ok());
    let uid = rustix::process::getuid().as_raw();
    By { principal: format!("uid:{uid}"), on_behalf_of: name.unwrap_or_default(), ..By::default() }
}
