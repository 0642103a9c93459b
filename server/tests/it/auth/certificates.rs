//! Certificates of callers have the roles that list their names.

use std::time::{Duration, SystemTime};

use kent_client::{Channel, Client};
use kent_proto::v1::{
    DeleteRoleRequest, PutRoleRequest, Role, WatchTableRequest, WhoAmIRequest, access_client::AccessClient,
};
use tonic::{Code, Status};

use super::{Holder, anonymous, make, missing, owned, packed, refusal};
use crate::it::{
    harness::{Daemon, SPACE, data_dir},
    tls::{Ca, DAY, Files, Identity, client, until},
};

/// A stub of the Access service, on a connection with this certificate.
async fn access(daemon: &Daemon, ca: &Ca, identity: &Identity) -> AccessClient<Channel> {
    client(daemon, ca, Some(identity)).connect().await.expect("connected").access()
}

async fn draw(client: &Client, by: &Holder) -> Result<(), Status> {
    let client = client.connect().await.expect("connected");
    client.allocator().allocate(by.send(packed("uuidv7"))).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_certificate_has_the_roles_that_list_its_name() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
    let files = Files::new(&ca.server(), Some(&ca), None);
    let [ops, orders, other] = [("ops", 2), ("team/orders", 3), ("other", 4)]
        .map(|(name, serial)| ca.client(&format!("spiffe://example/{name}"), serial));
    // The first token is created while the daemon requires none.
    let open = files.daemon(data.path());
    let admin = make(&mut access(&open, &ca, &ops).await, &anonymous(), &["admin:*"], 0).await.expect("made");
    open.kill();
    let daemon = Daemon::spawn(files.command(data.path()).args(["--auth", "required"]));
    let mut access = access(&daemon, &ca, &ops).await;
    let role = |name: &str, permissions: &[&str], certificates: &[&str]| {
        let role = Role {
            name: name.to_owned(),
            permissions: owned(permissions),
            certificates: owned(certificates),
            limits: None,
        };
        admin.send(PutRoleRequest { role: Some(role), update: Vec::new() })
    };
    // A certificate alone gives no permission.
    missing(access.list_roles(anonymous().send(kent_proto::v1::ListRolesRequest {})).await);
    access.put_role(role("ops", &["operate:*"], &["spiffe://example/ops"])).await.expect("put");
    access
        .put_role(role("team", &["allocate:uuidv7", "read:space:default"], &["spiffe://example/team/*"]))
        .await
        .expect("put");
    let who = access.who_am_i(anonymous().send(WhoAmIRequest {})).await.expect("answered").into_inner();
    assert_eq!(who.name, "certificate:spiffe://example/ops");
    assert_eq!((who.roles, who.permissions), (owned(&["ops"]), owned(&["operate:*"])));
    let left = Duration::from_millis(who.expires_unix_ms as u64).checked_sub(now).expect("an end in the future");
    assert!(left <= DAY && left > DAY / 2, "{left:?}");
    let who = access.who_am_i(admin.send(WhoAmIRequest {})).await.expect("answered").into_inner();
    assert_eq!(who.expires_unix_ms, 0, "the token counts, not the certificate");
    let (by_orders, by_other) = (client(&daemon, &ca, Some(&orders)), client(&daemon, &ca, Some(&other)));
    draw(&by_orders, &anonymous()).await.expect("granted");
    assert_eq!(missing(draw(&by_other, &anonymous()).await), "allocate:uuidv7");
    // A token takes precedence over the certificate, even if the token has fewer permissions or is invalid.
    draw(&by_other, &admin).await.expect("granted");
    let weak = make(&mut access, &admin, &["allocate:xid"], 0).await.expect("made");
    missing(draw(&by_orders, &weak).await);
    let bad = Holder { secret: "kent_x".to_owned(), id: String::new() };
    assert_eq!(refusal(draw(&by_orders, &bad).await), (Code::Unauthenticated, "BAD_CREDENTIAL".to_owned()));
    // Deleting the role ends streams and calls on open connections.
    let watcher = by_orders.connect().await.expect("connected");
    let watch = WatchTableRequest { parent: SPACE.to_owned(), after_revision: 0 };
    let mut watch = watcher.regions().watch_table(watch).await.expect("open").into_inner();
    watch.message().await.expect("a snapshot").expect("a snapshot");
    access.delete_role(admin.send(DeleteRoleRequest { name: "team".to_owned() })).await.expect("deleted");
    missing(watch.message().await);
    until(async || missing(draw(&by_orders, &anonymous()).await) == "allocate:uuidv7").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_token_expires_no_later_than_the_certificate_of_its_creator() {
    let (data, ca) = (data_dir(), Ca::new("kent"));
    let files = Files::new(&ca.server(), Some(&ca), None);
    let ops = ca.client("spiffe://example/ops", 2);
    let open = files.daemon(data.path());
    let by_anyone = &mut access(&open, &ca, &ops).await;
    let role = Role {
        name: "ops".to_owned(),
        permissions: owned(&["admin:*"]),
        certificates: owned(&["spiffe://example/ops"]),
        limits: None,
    };
    let put = PutRoleRequest { role: Some(role), update: Vec::new() };
    by_anyone.put_role(anonymous().send(put)).await.expect("put");
    open.kill();
    let daemon = Daemon::spawn(files.command(data.path()).args(["--auth", "required"]));
    let by_ops = &mut access(&daemon, &ca, &ops).await;
    let too_long = make(by_ops, &anonymous(), &["allocate:uuidv7"], 2 * DAY.as_secs()).await;
    assert_eq!(too_long.expect_err("refused").code(), Code::InvalidArgument);
    let token = make(by_ops, &anonymous(), &["allocate:uuidv7"], 0).await.expect("made");
    let mut expiry_of = async |by: &Holder| {
        by_ops.who_am_i(by.send(WhoAmIRequest {})).await.expect("answered").into_inner().expires_unix_ms
    };
    assert_eq!(expiry_of(&token).await, expiry_of(&anonymous()).await);
}
