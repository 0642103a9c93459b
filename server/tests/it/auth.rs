//! Tokens and roles against real daemons: which callers are admitted, and what each may do.

mod certificates;
mod doors;
mod guessing;
mod intruder;
mod local;
mod rights;
mod tokens;

use std::{path::Path, process::Command};

use kent_proto::v1::{
    AllocateRequest, CreateRegionRequest, CreateTokenRequest, CreatedToken, Encoding, PutRoleRequest, Role,
    access_client::AccessClient,
};
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    client::GrpcService,
    codegen::{Bytes, StdError},
    metadata::AsciiMetadataValue,
    transport::Channel,
};
use tonic_types::StatusExt;

use super::harness::{Daemon, kentd, name, request};

/// A daemon that requires credentials, and the token of an administrator.
pub(super) struct Guarded {
    pub(super) daemon: Daemon,
    pub(super) admin: Holder,
}

/// The holder of a token.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) secret: String,
    pub(super) id: String,
}

/// The command line of a daemon that requires credentials.
pub(super) fn guarded(data: &Path) -> Command {
    let mut command = kentd(data);
    command.args(["--auth", "required"]);
    command
}

impl Guarded {
    /// Creates the first token while the daemon requires none, then restarts the daemon with credentials required.
    pub(super) async fn start(data: &Path) -> Self {
        let open = Daemon::start(data);
        let admin = make(&mut AccessClient::new(open.channel()), &anonymous(), &["admin:*"], 0).await.expect("made");
        open.kill();
        Self { daemon: Daemon::spawn(&mut guarded(data)), admin }
    }

    pub(super) fn access(&self) -> AccessClient<Channel> {
        AccessClient::new(self.daemon.channel())
    }

    /// Creates a token with these permissions.
    pub(super) async fn token(&self, permissions: &[&str]) -> Holder {
        make(&mut self.access(), &self.admin, permissions, 0).await.expect("made")
    }

    /// Allocates one identifier.
    pub(super) async fn draw(&self, by: &Holder, source: &str, encoding: Encoding) -> Result<(), Status> {
        self.daemon.allocator().allocate(by.send(request(source, 1, encoding))).await.map(drop)
    }

    /// Allocates one packed identifier.
    pub(super) async fn pack(&self, by: &Holder, source: &str) -> Result<(), Status> {
        self.draw(by, source, Encoding::Packed).await
    }

    /// Creates a region of the default space.
    pub(super) async fn create(&self, by: &Holder, region: &str) -> Result<(), Status> {
        self.daemon.regions().create_region(by.send(create(region))).await.map(drop)
    }

    pub(super) async fn role(&self, name: &str, permissions: &[&str], certificates: &[&str]) {
        let role = Role {
            name: name.to_owned(),
            permissions: owned(permissions),
            certificates: owned(certificates),
            limits: None,
        };
        let put = self.admin.send(PutRoleRequest { role: Some(role), update: Vec::new() });
        self.access().put_role(put).await.expect("put");
    }
}

impl Holder {
    /// Adds the token to a request.
    pub(super) fn send<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if !self.secret.is_empty() {
            let header: AsciiMetadataValue = format!("Bearer {}", self.secret).parse().expect("ASCII");
            request.metadata_mut().insert("authorization", header);
        }
        request
    }
}

/// A caller without a token.
pub(super) fn anonymous() -> Holder {
    Holder { secret: String::new(), id: String::new() }
}

/// Creates a token.
pub(super) async fn make<T>(
    access: &mut AccessClient<T>,
    by: &Holder,
    permissions: &[&str],
    valid_seconds: u64,
) -> Result<Holder, Status>
where
    T: GrpcService<Body, Error: Into<StdError>>,
    T::ResponseBody: http_body::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
{
    let new = CreateTokenRequest {
        name: "test".to_owned(),
        permissions: owned(permissions),
        valid_seconds,
        ..CreateTokenRequest::default()
    };
    let made = access.create_token(by.send(new)).await?;
    Ok(holder(made))
}

pub(super) fn holder(made: Response<CreatedToken>) -> Holder {
    let CreatedToken { secret, token } = made.into_inner();
    Holder { secret, id: token.expect("a token").id }
}

pub(super) fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn create(region: &str) -> CreateRegionRequest {
    super::harness::create(region)
}

/// The permission that a refusal names.
#[track_caller]
pub(super) fn missing<T: std::fmt::Debug>(refused: Result<T, Status>) -> String {
    let status = refused.expect_err("refused");
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    let info = status.get_details_error_info().expect("a reason");
    assert_eq!(info.reason, "PERMISSION_DENIED");
    assert!(status.message().contains(&info.metadata["permission"]), "{status}");
    assert!(status.message().starts_with(&info.metadata["principal"]), "{status}");
    info.metadata["permission"].clone()
}

/// The code and the reason of a refusal.
#[track_caller]
pub(super) fn refusal<T: std::fmt::Debug>(refused: Result<T, Status>) -> (Code, String) {
    let status = refused.expect_err("refused");
    (status.code(), status.get_details_error_info().map(|info| info.reason).unwrap_or_default())
}

pub(super) fn packed(source: &str) -> AllocateRequest {
    request(source, 1, Encoding::Packed)
}

pub(super) fn region(region: &str) -> String {
    name(region)
}
