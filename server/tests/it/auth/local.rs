//! The daemon's own user on its Unix socket may do everything, so the first token needs no secret.

use kent_proto::v1::{
    ListHistoryRequest, RevokeTokenRequest, WhoAmIRequest, access_client::AccessClient, regions_client::RegionsClient,
};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use super::{Holder, anonymous, guarded, make, packed, refusal};
use crate::it::harness::{Daemon, SPACE, create, data_dir};

#[tokio::test]
async fn ok_the_first_token_is_made_on_the_socket() {
    let dir = data_dir();
    let data = dir.path().join("data");
    let daemon = Daemon::spawn(&mut guarded(&data));
    let socket: Channel =
        Endpoint::from_shared(format!("unix:{}", data.join("kent.sock").display())).expect("an address").connect_lazy();
    let mut access = AccessClient::new(socket.clone());
    let who = access.who_am_i(anonymous().send(WhoAmIRequest {})).await.expect("answered").into_inner();
    assert_eq!((who.name.as_str(), who.permissions, who.auth_required), ("local", vec!["admin:*".to_owned()], true));
    // On the TCP port the same user has no credential.
    let strange = AccessClient::new(daemon.channel()).who_am_i(anonymous().send(WhoAmIRequest {})).await;
    assert_eq!(refusal(strange), (Code::Unauthenticated, "NO_CREDENTIAL".to_owned()));
    let token = make(&mut access, &anonymous(), &["allocate:uuidv7"], 0).await.expect("made");
    daemon.allocator().allocate(token.send(packed("uuidv7"))).await.expect("granted");
    // A token on the socket takes precedence: a valid token can be tried there, and an invalid one is refused.
    let who = access.who_am_i(token.send(WhoAmIRequest {})).await.expect("answered").into_inner();
    assert_eq!(who.name, format!("token:{} (test)", token.id));
    let bad = Holder { secret: "kent_x".to_owned(), id: String::new() };
    assert_eq!(refusal(access.who_am_i(bad.send(WhoAmIRequest {})).await).1, "BAD_CREDENTIAL");
    // The history names the user.
    let mut regions = RegionsClient::new(socket);
    regions.create_region(anonymous().send(create("orders"))).await.expect("created");
    let history = ListHistoryRequest { parent: SPACE.to_owned(), ..Default::default() };
    let history = regions.list_history(anonymous().send(history)).await.expect("listed").into_inner();
    assert!(history.entries[0].principal.starts_with("local from local user "), "{:?}", history.entries[0].principal);
    access.revoke_token(anonymous().send(RevokeTokenRequest { id: token.id.clone() })).await.expect("revoked");
    assert_eq!(refusal(daemon.allocator().allocate(token.send(packed("uuidv7"))).await).1, "CREDENTIAL_ENDED");
}
