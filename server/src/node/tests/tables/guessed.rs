//! A refused call performs the same store operations whether a name exists or not. Otherwise, the response time would
//! reveal whether the name exists.

use std::sync::{Mutex, PoisonError};

use kent_access::{Limits, Presented};
use kent_proto::v1::{
    DeleteBudgetRequest, DeleteRegionRequest, DeleteRoleRequest, DeleteSpaceRequest, GetSpaceRequest,
    ListHistoryRequest, ListRegionsRequest, PutRoleRequest, RevokeTokenRequest, Role, RotateTokenRequest,
    SealRegionRequest, SetBudgetRequest, UndoEditRequest, access_server::Access as _, set_budget_request::Change,
};

use kent_engine::{access::NewToken, auth::Caller};
use tonic::metadata::MetadataMap;

use super::*;
use crate::{config::AuthMode, service::AccessService};

/// A daemon that requires credentials, and the operations on its store, except those on slots and on the number of
/// starts.
struct Counted {
    node: Node,
    operations: Arc<Mutex<Vec<String>>>,
}

impl Counted {
    async fn start() -> Self {
        let disk = disk();
        let node = start(&disk, Settings { auth: Some(AuthMode::Required), ..Settings::default() }).await;
        let operations = Arc::new(Mutex::new(Vec::new()));
        let noted = operations.clone();
        disk.plan(move |operation| {
            let (kind, key) = match operation {
                Operation::Get(key) => ("get", (*key).clone()),
                Operation::Scan(key) => ("scan", (*key).clone()),
                Operation::Commit(txn) => ("commit", txn.writes()[0].0.clone()),
                Operation::Watch(_) | Operation::Announce(_) => return Fault::None,
            };
            if !key.starts_with(&keys::SLOTS) && !key.starts_with(&keys::BOOTS) {
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{kind} {}", key.as_str()));
            }
            Fault::None
        });
        Self { node, operations }
    }

    async fn token(&self, permissions: &[&str], roles: &[&str]) -> Presented {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let new = NewToken {
            name: "test".to_owned(),
            permissions: owned(permissions),
            roles: owned(roles),
            valid_seconds: 0,
            limits: Limits::default(),
            budgets: Vec::new(),
        };
        self.node.engine().access().create_token(&Caller::DAEMON, new).await.expect("made").0
    }

    /// The code of a refused call, and the store operations that the call performed.
    async fn refused<T>(&self, call: impl Future<Output = Result<T, Status>>) -> (Code, Vec<String>) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let refused = call.await.err().expect("the caller may not do this");
        (refused.code(), self.operations.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Makes calls that name this region, space, role or token. Returns the code and the store operations of each call.
    async fn costs(&self, by: &Presented, name: &str, token: &str) -> Vec<(&'static str, Code, Vec<String>)> {
        let (regions, allocator) = (self.node.regions(), self.node.allocator());
        let access = AccessService::new(self.node.engine().clone());
        let (region, space) = (format!("spaces/default/regions/{name}"), format!("spaces/{name}"));
        let (own, request_id) = (|| name.to_owned(), || "1".to_owned());
        let mut costs = Vec::new();
        macro_rules! cost {
            ($service:ident . $method:ident ( $message:expr )) => {
                // The daemon itself may read from the store meanwhile, so the attempt with the fewest operations
                // counts.
                let (message, mut least) = ($message, None::<(Code, Vec<String>)>);
                for _ in 0..TRIES {
                    let mut request = Request::new(message.clone());
                    sign(request.metadata_mut(), by);
                    let cost = self.refused($service.$method(request)).await;
                    if least.as_ref().is_none_or(|least| cost.1.len() < least.1.len()) {
                        least = Some(cost);
                    }
                }
                let (code, operations) = least.expect("tried");
                costs.push((stringify!($method), code, operations));
            };
        }
        cost!(regions.get_region(GetRegionRequest { name: region.clone(), ..GetRegionRequest::default() }));
        cost!(regions.get_space(GetSpaceRequest { name: space.clone() }));
        cost!(regions.list_regions(ListRegionsRequest { parent: space.clone(), ..Default::default() }));
        cost!(regions.list_history(ListHistoryRequest { parent: space.clone(), ..Default::default() }));
        cost!(regions.delete_space(DeleteSpaceRequest { name: space.clone(), ..Default::default() }));
        let expand = ExpandRegionRequest { name: region.clone(), by_bits: 1, ..Default::default() };
        cost!(regions.expand_region(ExpandRegionRequest { request_id: request_id(), ..expand.clone() }));
        cost!(regions.expand_region(expand));
        cost!(regions.delete_region(DeleteRegionRequest { name: region.clone(), ..Default::default() }));
        cost!(regions.seal_region(SealRegionRequest { name: region.clone(), ..Default::default() }));
        cost!(regions.undo_edit(UndoEditRequest { name: region.clone(), ..Default::default() }));
        let allocate = AllocateRequest { source: format!("region:{name}"), count: 1, ..Default::default() };
        cost!(allocator.allocate(AllocateRequest { request_id: request_id(), ..allocate.clone() }));
        cost!(allocator.allocate(allocate));
        cost!(access.revoke_token(RevokeTokenRequest { id: token.to_owned() }));
        cost!(access.rotate_token(RotateTokenRequest { id: token.to_owned(), grace_seconds: 0 }));
        cost!(access.delete_role(DeleteRoleRequest { name: own() }));
        let role = Role { name: own(), permissions: vec!["operate:*".to_owned()], ..Default::default() };
        cost!(access.put_role(PutRoleRequest { role: Some(role), update: Vec::new() }));
        let (holder, resource) = (format!("role:{name}"), format!("region:default/{name}"));
        let budget =
            SetBudgetRequest { holder: holder.clone(), resource: resource.clone(), change: Some(Change::Total(1)) };
        cost!(access.set_budget(budget));
        cost!(access.delete_budget(DeleteBudgetRequest { holder, resource }));
        costs
    }
}

const TRIES: usize = 5;

/// Adds the token of the caller.
fn sign(metadata: &mut MetadataMap, by: &Presented) {
    metadata.insert("authorization", format!("Bearer {}", by.reveal()).parse().expect("ASCII"));
}

#[tokio::test]
async fn err_a_refused_caller_costs_the_same_operations_whether_a_name_exists_or_not() {
    let daemon = Counted::start().await;
    let admin = daemon.token(&["admin:*"], &[]).await;
    let by_admin = |metadata: &mut MetadataMap| sign(metadata, &admin);
    for name in ["secret", "own"] {
        let region = CreateRegionRequest {
            parent: "spaces/default".to_owned(),
            region_id: name.to_owned(),
            suffix_bits: Some(20),
            policy: Some(Policy { strict: true, ..Policy::default() }),
            ..Default::default()
        };
        let mut create = Request::new(region);
        by_admin(create.metadata_mut());
        daemon.node.regions().create_region(create).await.expect("created");
    }
    let mut create = Request::new(CreateSpaceRequest { space_id: "secret".to_owned(), bits: 32, ..Default::default() });
    by_admin(create.metadata_mut());
    daemon.node.regions().create_space(create).await.expect("created");
    let role = Role { name: "secret".to_owned(), permissions: vec!["operate:*".to_owned()], ..Default::default() };
    let mut put = Request::new(PutRoleRequest { role: Some(role), update: Vec::new() });
    by_admin(put.metadata_mut());
    AccessService::new(daemon.node.engine().clone()).put_role(put).await.expect("put");
    let other = daemon.token(&["operate:*"], &[]).await;
    // Callers without a right to the region: the first has no right to any region, and the others have rights to other
    // regions.
    for permissions in [
        &["allocate:uuidv7"][..],
        &["allocate:region:default/own", "edit:region:default/own", "read:region:default/own"],
        &["admin:region:default/team-*"],
    ] {
        let by = daemon.token(permissions, &[]).await;
        let present = daemon.costs(&by, "secret", &other.id().to_string()).await;
        let absent = daemon.costs(&by, "absent", "0123456789ab").await;
        assert_eq!(present, absent, "{permissions:?}");
        assert!(present.iter().all(|(_, code, _)| *code == Code::PermissionDenied), "{present:#?}");
        // A refused edit or grant reads nothing. A change of tokens first reads whether another replica has changed the
        // tokens.
        let has_admin = permissions[0].starts_with("admin:");
        for (method, _, operations) in present {
            let is_read = operations.iter().all(|it| it == "get access/version");
            assert!(operations.is_empty() || has_admin && is_read, "{method}: {operations:?}");
        }
    }
}
