//! Tokens and roles: creating, revoking, rotating, expiring.

use std::time::Duration;

use kent_proto::v1::{
    AllocateRequest, BackupRequest, CreateTokenRequest, DeleteRoleRequest, Encoding, ExpandRegionRequest,
    ListRolesRequest, ListTokensRequest, Policy, PutRoleRequest, RevokeTokenRequest, Role, RotateTokenRequest,
    UpdateRegionRequest, WatchTableRequest, WhoAmIRequest, allocate_stream_response::Outcome,
};
use kent_test_etcd::Etcd;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{Guarded, Holder, anonymous, guarded, holder, make, missing, owned, packed, refusal, region};
use crate::it::{
    backup::{backup_as, restore, said},
    harness::{Daemon, SPACE, data_dir, identifiers, request},
};

const DENIED: Code = Code::Unauthenticated;

fn ended() -> (Code, String) {
    (DENIED, "CREDENTIAL_ENDED".to_owned())
}

#[tokio::test]
async fn ok_a_token_is_made_shown_rotated_and_revoked() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let mut access = guarded.access();
    let token = guarded.token(&["allocate:uuidv7", "lease:uuidv6"]).await;
    let who = access.who_am_i(token.send(WhoAmIRequest {})).await.expect("answered").into_inner();
    assert_eq!(who.name, format!("token:{} (test)", token.id));
    assert_eq!(who.permissions, owned(&["allocate:uuidv7", "lease:uuidv6"]));
    assert!(who.auth_required && who.roles.is_empty() && who.expires_unix_ms == 0);
    guarded.pack(&token, "uuidv7").await.expect("granted");
    assert_eq!(missing(guarded.pack(&token, "uuidv6").await), "allocate:uuidv6");

    let listed = access.list_tokens(guarded.admin.send(ListTokensRequest::default())).await.expect("listed");
    let listed = listed.into_inner().tokens;
    assert_eq!(listed.len(), 2);
    let text = format!("{listed:?}");
    assert!(!text.contains(&token.secret[18..]) && text.contains(&token.id));

    // The old secret works until its grace period ends.
    let rotate = |grace_seconds| RotateTokenRequest { id: token.id.clone(), grace_seconds };
    let second = holder(access.rotate_token(guarded.admin.send(rotate(2))).await.expect("rotated"));
    assert_eq!(second.id, token.id);
    for holder in [&token, &second] {
        guarded.pack(holder, "uuidv7").await.expect("granted");
    }
    sleep(Duration::from_millis(2100)).await;
    assert_eq!(refusal(guarded.pack(&token, "uuidv7").await), ended());
    guarded.pack(&second, "uuidv7").await.expect("granted");
    let third = holder(access.rotate_token(guarded.admin.send(rotate(0))).await.expect("rotated"));
    assert_eq!(refusal(guarded.pack(&second, "uuidv7").await).1, "BAD_CREDENTIAL");
    let too_long = access.rotate_token(guarded.admin.send(rotate(604_801))).await;
    assert_eq!(refusal(too_long).0, Code::InvalidArgument);

    let revoke = RevokeTokenRequest { id: token.id.clone() };
    for _ in 0..2 {
        let answer = access.revoke_token(guarded.admin.send(revoke.clone())).await.expect("revoked").into_inner();
        assert!(answer.unconfirmed.is_empty());
    }
    let refused = guarded.pack(&third, "uuidv7").await.expect_err("refused");
    assert!(refused.message().contains("(test) is revoked"), "{refused}");
    let again = access.rotate_token(guarded.admin.send(rotate(0))).await;
    assert_eq!(refusal(again), (Code::FailedPrecondition, "TOKEN_ENDED".to_owned()));
    let listed = access.list_tokens(guarded.admin.send(ListTokensRequest::default())).await.expect("listed");
    let listed = listed.into_inner().tokens;
    assert_eq!(listed.iter().find(|listed| listed.id == token.id).expect("listed").refused, "revoked");
    let absent = RevokeTokenRequest { id: "ffffffffffff".to_owned() };
    assert_eq!(refusal(access.revoke_token(guarded.admin.send(absent)).await).0, Code::NotFound);
}

#[tokio::test]
async fn err_no_token_exceeds_the_permissions_or_lifetime_of_its_creator() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    guarded.create(&guarded.admin, "orders").await.expect("created");
    guarded.role("ops", &["operate:*"], &[]).await;
    let mut access = guarded.access();
    let team = make(&mut access, &guarded.admin, &["admin:region:default/team-a-*"], 100).await.expect("made");
    let inner = make(&mut access, &team, &["allocate:region:default/team-a-x*"], 0).await.expect("within");
    for (permission, lacks) in [
        ("allocate:region:default/orders", "admin:region:default/orders"),
        ("allocate:region:default/*", "admin:region:default/*"),
        ("allocate:uuidv7", "admin:uuidv7"),
        ("admin:*", "admin:*"),
    ] {
        assert_eq!(missing(make(&mut access, &team, &[permission], 0).await), lacks);
        let role = Role { name: "mine".to_owned(), permissions: owned(&[permission]), ..Role::default() };
        let put = PutRoleRequest { role: Some(role), update: Vec::new() };
        assert_eq!(missing(access.put_role(team.send(put)).await), lacks);
    }
    // A caller cannot give a token another owner's role, and cannot replace or delete that role.
    let new = CreateTokenRequest { name: "x".to_owned(), roles: owned(&["ops"]), ..Default::default() };
    missing(access.create_token(team.send(new)).await);
    let role = Role { name: "ops".to_owned(), ..Role::default() };
    missing(access.put_role(team.send(PutRoleRequest { role: Some(role), update: Vec::new() })).await);
    missing(access.delete_role(team.send(DeleteRoleRequest { name: "ops".to_owned() })).await);
    missing(access.delete_role(team.send(DeleteRoleRequest { name: "absent".to_owned() })).await);
    // This caller neither sees nor changes the tokens of others.
    for id in [guarded.admin.id.clone(), "ffffffffffff".to_owned()] {
        missing(access.revoke_token(team.send(RevokeTokenRequest { id: id.clone() })).await);
        missing(access.rotate_token(team.send(RotateTokenRequest { id, grace_seconds: 0 })).await);
    }
    let listed = access.list_tokens(team.send(ListTokensRequest::default())).await.expect("listed").into_inner();
    let mut ids: Vec<_> = listed.tokens.iter().map(|token| token.id.clone()).collect();
    let mut own = vec![team.id.clone(), inner.id.clone()];
    ids.sort();
    own.sort();
    assert_eq!(ids, own);
    let roles = access.list_roles(team.send(ListRolesRequest {})).await.expect("listed").into_inner().roles;
    assert!(roles.is_empty(), "{roles:?}");
    // A token does not outlive its creator's credential.
    let expires = |id: &str| listed.tokens.iter().find(|token| token.id == id).expect("listed").expires_unix_ms;
    assert_eq!(expires(&inner.id), expires(&team.id));
    let longer = make(&mut access, &team, &["allocate:region:default/team-a-x*"], 1000).await;
    assert_eq!(refusal(longer).0, Code::InvalidArgument);
    // A token without `admin` cannot create tokens.
    assert_eq!(missing(make(&mut access, &inner, &["allocate:region:default/team-a-x*"], 0).await), "admin:*");
    missing(access.list_tokens(inner.send(ListTokensRequest::default())).await);
}

#[tokio::test]
async fn err_bad_requests_say_what_is_wrong() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let mut access = guarded.access();
    for (permission, expected) in [
        ("allocate:region:default/orders", "create it first, or use a pattern such as allocate:region:default/orders*"),
        ("allocate:region:orders", "write region:default/orders"),
        ("edit:space:default/orders", "names a space that does not exist"),
        ("give:uuidv7", "where ACTION is"),
    ] {
        let refused = make(&mut access, &guarded.admin, &[permission], 0).await.expect_err("refused");
        assert!(refused.code() == Code::InvalidArgument && refused.message().contains(expected), "{refused}");
    }
    let new = |name: &str, permissions: &[&str], roles: &[&str]| CreateTokenRequest {
        name: name.to_owned(),
        permissions: owned(permissions),
        roles: owned(roles),
        ..CreateTokenRequest::default()
    };
    let refused = access.create_token(guarded.admin.send(new("x", &[], &[]))).await;
    assert_eq!(refusal(refused).0, Code::InvalidArgument);
    let refused = access.create_token(guarded.admin.send(new("", &["admin:*"], &[]))).await;
    assert_eq!(refusal(refused).0, Code::InvalidArgument);
    let refused = access.create_token(guarded.admin.send(new("x", &[], &["absent"]))).await;
    assert_eq!(refusal(refused), (Code::NotFound, "NO_SUCH_ROLE".to_owned()));
    let refused = access.create_token(guarded.admin.send(new("x", &["admin:*"; 101], &[]))).await;
    assert_eq!(refusal(refused).0, Code::InvalidArgument);
}

#[tokio::test]
async fn ok_streams_end_when_their_token_ends() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let mut access = guarded.access();
    let permissions = ["allocate:uuidv7", "read:space:default", "operate:*"];
    let token = make(&mut access, &guarded.admin, &permissions, 0).await.expect("made");
    let short = make(&mut access, &guarded.admin, &permissions, 2).await.expect("made");
    let began = Instant::now();
    for (token, is_revoked) in [(short, false), (token, true)] {
        let (asking, asked) = mpsc::channel(1);
        let stream = guarded.daemon.allocator().allocate_stream(token.send(ReceiverStream::new(asked))).await;
        let mut stream = stream.expect("open").into_inner();
        let watch = WatchTableRequest { parent: SPACE.to_owned(), after_revision: 0 };
        let watch = guarded.daemon.regions().watch_table(token.send(watch)).await;
        let mut watch = watch.expect("open").into_inner();
        watch.message().await.expect("a snapshot").expect("a snapshot");
        asking.send(packed("uuidv7")).await.expect("sent");
        let answer = stream.message().await.expect("answered").expect("answered");
        assert!(matches!(answer.outcome, Some(Outcome::Granted(_))));
        match is_revoked {
            true => {
                let revoke = RevokeTokenRequest { id: token.id.clone() };
                access.revoke_token(guarded.admin.send(revoke)).await.expect("revoked");
            }
            false => sleep(Duration::from_millis(2000).saturating_sub(began.elapsed())).await,
        }
        let waited = Instant::now();
        assert_eq!(refusal(watch.message().await), ended());
        assert!(waited.elapsed() < Duration::from_millis(1500), "{:?}", waited.elapsed());
        asking.send(packed("uuidv7")).await.expect("sent");
        assert_eq!(refusal(stream.message().await), ended());
        assert_eq!(refusal(guarded.pack(&token, "uuidv7").await), ended());
    }
}

#[tokio::test]
async fn ok_a_restore_disables_tokens_unless_told_otherwise() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let open = Guarded::start(&at("old")).await;
    let token = open.token(&["allocate:uuidv7"]).await;
    backup_as(&open.daemon, open.admin.send(BackupRequest {}), &at("backup")).await;
    for (to, more) in [("new", None), ("kept", Some("--keep-tokens"))] {
        let known = ["--yes", "--table-unchanged", "--clock-error", "0s"];
        let args: Vec<&str> = known.into_iter().chain(more).collect();
        let done = restore(&at("backup"), &at(to), &args);
        assert!(done.status.success(), "{}", said(&done));
        assert_eq!(said(&done).contains("2 tokens are disabled"), more.is_none(), "{}", said(&done));
        let daemon = Daemon::spawn(&mut guarded(&at(to)));
        let granted = daemon.allocator().allocate(token.send(packed("uuidv7"))).await;
        match more {
            Some(_) => drop(granted.expect("granted")),
            None => {
                let refused = granted.expect_err("refused");
                assert!(refused.message().contains("disabled by a restore"), "{refused}");
            }
        }
    }
}

/// Starts a replica that requires credentials.
fn replica(address: &str) -> Daemon {
    let mut command = guarded(data_dir().path());
    Daemon::spawn(command.args(["--store", address, "--window", "4s", "--log", "error"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_revocation_reaches_all_replicas() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let mut open = crate::it::harness::kentd(data_dir().path());
    let open = Daemon::spawn(open.args(["--store", &address, "--log", "error"]));
    let mut access = kent_proto::v1::access_client::AccessClient::new(open.channel());
    let admin = make(&mut access, &anonymous(), &["admin:*"], 0).await.expect("made");
    drop(open);
    let [one, other] = [(); 2].map(|()| replica(&address));
    let [mut at_one, mut at_other] =
        [&one, &other].map(|daemon| kent_proto::v1::access_client::AccessClient::new(daemon.channel()));
    let draw = async |daemon: &Daemon, token: &Holder| {
        daemon.allocator().allocate(token.send(packed("uuidv7"))).await.map(drop)
    };
    for round in 0..5 {
        // The first daemon has stopped, but its announcement expires only after a while.
        let token = make(&mut at_one, &admin, &["allocate:uuidv7"], 0).await.expect("made");
        draw(&other, &token).await.unwrap_or_else(|refused| panic!("round {round}: {refused}"));
        let revoke = RevokeTokenRequest { id: token.id.clone() };
        let answer = at_other.revoke_token(admin.send(revoke)).await.expect("revoked").into_inner();
        let one_is_known = !answer.unconfirmed.iter().any(|replica| replica == one.grpc_address());
        assert!(one_is_known, "round {round}: {answer:?}");
        assert_eq!(refusal(draw(&one, &token).await), ended(), "round {round}");
        assert_eq!(refusal(draw(&other, &token).await), ended(), "round {round}");
    }
    // A replica that is cut off from etcd accepts known tokens only until its window ends.
    let token = make(&mut at_one, &admin, &["allocate:uuidv7"], 0).await.expect("made");
    etcd.pause(0);
    draw(&one, &token).await.expect("granted");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(refusal(draw(&one, &token).await), (Code::Unavailable, "OUT_OF_TOUCH".to_owned()));
    etcd.resume(0);
    crate::it::cluster::eventually("the token works again", async || draw(&one, &token).await.is_ok()).await;
}

/// Without this rule, two services that number their requests 1, 2, 3 would get the same identifiers, and the edit of
/// one service would silently not be made.
#[tokio::test]
async fn err_a_request_id_belongs_to_the_caller_who_used_it_first() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    guarded.create(&guarded.admin, "orders").await.expect("created");
    guarded.create(&guarded.admin, "secret").await.expect("created");
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let strict = UpdateRegionRequest { name: region("orders"), policy, ..Default::default() };
    guarded.daemon.regions().update_region(guarded.admin.send(strict)).await.expect("strict");
    let permissions = ["allocate:region:default/orders", "edit:region:default/orders"];
    let (one, other) = (guarded.token(&permissions).await, guarded.token(&permissions).await);

    let take = async |by: &Holder, count: u64| {
        let ask = AllocateRequest { request_id: "1".to_owned(), ..request("region:orders", count, Encoding::Packed) };
        let reply = guarded.daemon.allocator().allocate(by.send(ask)).await?;
        Ok::<_, Status>(identifiers(reply.get_ref()))
    };
    assert_eq!(take(&one, 3).await.expect("granted"), [0, 1, 2]);
    assert_eq!(take(&one, 3).await.expect("the same"), [0, 1, 2]);
    for count in [3, 4] {
        let refused = take(&other, count).await.expect_err("of another caller");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(refused.message().contains("used before, by another caller: use a new one"), "{refused:?}");
        assert!(!refused.message().contains('3'), "{refused:?}");
    }

    let expand = async |by: &Holder, name: &str| {
        let expand =
            ExpandRegionRequest { name: region(name), by_bits: 1, request_id: "e".to_owned(), ..Default::default() };
        guarded.daemon.regions().expand_region(by.send(expand)).await.map(tonic::Response::into_inner)
    };
    let made = expand(&guarded.admin, "secret").await.expect("expanded");
    assert_eq!(expand(&guarded.admin, "secret").await.expect("the same").revision, made.revision);
    // The refusal shows neither the operation nor the revision of an edit that the caller may not see.
    let refused = expand(&one, "orders").await.expect_err("of another caller");
    assert!(refused.message().ends_with("was used before, by another caller: use a new one"), "{refused:?}");
}
