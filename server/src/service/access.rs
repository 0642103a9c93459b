//! `Access`: tokens, roles, budgets, and the identity of callers.

mod budgets;

use std::sync::Arc;

use kent_access::{Limits, Right, Role, Token, TokenId};
use kent_engine::{
    access::{Access, AccessError, NewToken, RoleParts},
    audit::{Event, Outcome},
    cluster::Unconfirmed,
    engine::Engine,
    status,
};
use kent_proto::{
    model::{self, Invalid},
    v1::{
        self, AccessChanged, CreateTokenRequest, CreatedToken, DeleteBudgetRequest, DeleteRoleRequest,
        ListBudgetsRequest, ListBudgetsResponse, ListRolesRequest, ListRolesResponse, ListTokensRequest,
        ListTokensResponse, PutRoleRequest, RevokeTokenRequest, RotateTokenRequest, SetBudgetRequest,
        SetBudgetResponse, WhoAmIRequest,
    },
};
use kent_store::Version;
use kent_transport::callers::{Author, author, caller, on_behalf_of};
use tonic::{Request, Response, Status};

use super::audited::record;

/// The `Access` service.
#[derive(Debug)]
pub(crate) struct AccessService {
    engine: Arc<Engine>,
}

impl AccessService {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn access(&self) -> &Access {
        self.engine.access()
    }

    /// Completes a change even if the caller disconnects, so that a stored change always takes effect on this daemon.
    async fn change<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, AccessError>> + Send + 'static,
    ) -> Result<T, Status> {
        let made = self.engine.tasks().spawn_work(change).await.unwrap_or(Err(AccessError::Abandoned));
        made.map_err(|error| status::from_access(&error))
    }

    /// Waits for the other replicas to confirm a change, and returns the answer to the change.
    async fn changed(&self, version: Version) -> AccessChanged {
        let Some(cluster) = self.engine.cluster() else { return AccessChanged::default() };
        let Unconfirmed { replicas, within } = cluster.confirm_access(version).await;
        let effective_within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        AccessChanged { unconfirmed: replicas, effective_within_ms, role: None }
    }

    fn token(&self, token: &Token) -> v1::Token {
        let refused = token.refused(self.engine.auth().unix_ms());
        v1::Token {
            id: token.id.to_string(),
            name: token.name.clone(),
            permissions: self.permissions(&token.rights),
            roles: token.roles.clone(),
            created_unix_ms: token.created,
            expires_unix_ms: token.expires.unwrap_or(0),
            created_by: token.created_by.clone(),
            limits: message(token.limits),
            refused: refused.map(|refused| refused.to_string()).unwrap_or_default(),
        }
    }

    fn role(&self, role: &Role) -> v1::Role {
        v1::Role {
            name: role.name.clone(),
            permissions: self.permissions(&role.rights),
            certificates: role.certificates.iter().map(String::from).collect(),
            limits: message(role.limits),
        }
    }

    fn permissions(&self, rights: &[Right]) -> Vec<String> {
        rights.iter().map(|right| self.access().describe(right)).collect()
    }
}

#[tonic::async_trait]
impl v1::access_server::Access for AccessService {
    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> Result<Response<v1::Principal>, Status> {
        let caller = caller(&self.engine, &request)?;
        let (permissions, roles, expires, limits) = match caller.principal() {
            Some(known) => (self.permissions(known.rights.rights()), known.roles.clone(), known.expires, known.limits),
            None => (vec!["admin:*".to_owned()], Vec::new(), None, Limits::default()),
        };
        Ok(Response::new(v1::Principal {
            name: caller.name().to_owned(),
            permissions,
            roles,
            expires_unix_ms: expires.unwrap_or(0),
            on_behalf_of: on_behalf_of(&request),
            auth_required: self.engine.auth().is_required(),
            limits: message(limits),
        }))
    }

    async fn create_token(&self, request: Request<CreateTokenRequest>) -> Result<Response<CreatedToken>, Status> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let CreateTokenRequest { name, permissions, roles, valid_seconds, limits, budgets } = request.into_inner();
        let limits = model::parse_limits("limits", limits).map_err(|invalid| status::from_invalid(&invalid))?;
        let budgets: Vec<_> = budgets.into_iter().map(|budget| (budget.resource, budget.total)).collect();
        let totals = budgets.iter().map(|(resource, total)| format!(", at most {total} from {resource}"));
        let note = format!("{name}: {}{}", holds(&permissions, ("role", &roles), limits), totals.collect::<String>());
        let new = NewToken { name, permissions, roles, valid_seconds, limits, budgets };
        let access = self.access().clone();
        let created = self.change(async move { access.create_token(&caller, new).await }).await;
        let resource = created.as_ref().map(|(_, token, _)| format!("token:{}", token.id)).unwrap_or_default();
        record(Event::new("token.create", &by, resource).note(&note), &created, Outcome::Done);
        let (presented, token, version) = created?;
        // Wait, so that the token works on all replicas when the caller receives it.
        self.changed(version).await;
        Ok(Response::new(CreatedToken { secret: presented.reveal(), token: Some(self.token(&token)) }))
    }

    async fn list_tokens(&self, request: Request<ListTokensRequest>) -> Result<Response<ListTokensResponse>, Status> {
        let caller = caller(&self.engine, &request)?;
        let ListTokensRequest { page_size, page_token } = request.into_inner();
        let page = model::parse_page(page_size, &page_token).map_err(|invalid| status::from_invalid(&invalid))?;
        let after = page.after.as_deref().map(|after| parse_id("page_token", after)).transpose()?;
        let tokens = self.access().tokens(&caller, after, page.size + 1);
        let mut tokens = tokens.map_err(|denied| status::from_denied(&denied))?;
        let more = tokens.len() > page.size;
        tokens.truncate(page.size);
        let last = tokens.last().filter(|_| more);
        Ok(Response::new(ListTokensResponse {
            next_page_token: last.map(|last| model::page_token(&last.id.to_string())).unwrap_or_default(),
            tokens: tokens.iter().map(|token| self.token(token)).collect(),
        }))
    }

    async fn revoke_token(&self, request: Request<RevokeTokenRequest>) -> Result<Response<AccessChanged>, Status> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let (id, access) = (parse_id("id", &request.get_ref().id)?, self.access().clone());
        let revoked = self.change(async move { access.revoke_token(&caller, id).await }).await;
        record(Event::new("token.revoke", &by, format!("token:{id}")), &revoked, Outcome::Done);
        Ok(Response::new(self.changed(revoked?).await))
    }

    async fn rotate_token(&self, request: Request<RotateTokenRequest>) -> Result<Response<CreatedToken>, Status> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let RotateTokenRequest { id, grace_seconds } = request.into_inner();
        let (id, access) = (parse_id("id", &id)?, self.access().clone());
        let rotated = self.change(async move { access.rotate_token(&caller, id, grace_seconds).await }).await;
        let note = format!("the old secret works for {grace_seconds} s");
        record(Event::new("token.rotate", &by, format!("token:{id}")).note(&note), &rotated, Outcome::Done);
        let (presented, token, version) = rotated?;
        self.changed(version).await;
        Ok(Response::new(CreatedToken { secret: presented.reveal(), token: Some(self.token(&token)) }))
    }

    async fn put_role(&self, request: Request<PutRoleRequest>) -> Result<Response<AccessChanged>, Status> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let missing = || status::from_invalid(&Invalid::new("role", "is missing"));
        let PutRoleRequest { role, update } = request.into_inner();
        let v1::Role { name, permissions, certificates, limits } = role.ok_or_else(missing)?;
        let parts = RoleParts::parse(&update).map_err(|invalid| status::from_invalid(&invalid))?;
        let limits = model::parse_limits("role.limits", limits).map_err(|invalid| status::from_invalid(&invalid))?;
        let (resource, note) = (format!("role:{name}"), holds(&permissions, ("certificate", &certificates), limits));
        let access = self.access().clone();
        let put = async move { access.put_role(&caller, name, &permissions, &certificates, parts, limits).await };
        let put = self.change(put).await;
        record(Event::new("role.set", &by, resource).note(&note), &put, Outcome::Done);
        let (role, version) = put?;
        let role = Some(self.role(&role));
        Ok(Response::new(AccessChanged { role, ..self.changed(version).await }))
    }

    async fn list_roles(&self, request: Request<ListRolesRequest>) -> Result<Response<ListRolesResponse>, Status> {
        let caller = caller(&self.engine, &request)?;
        let roles = self.access().roles(&caller).map_err(|denied| status::from_denied(&denied))?;
        Ok(Response::new(ListRolesResponse { roles: roles.iter().map(|role| self.role(role)).collect() }))
    }

    async fn delete_role(&self, request: Request<DeleteRoleRequest>) -> Result<Response<AccessChanged>, Status> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let (name, access) = (request.into_inner().name, self.access().clone());
        let resource = format!("role:{name}");
        let deleted = self.change(async move { access.delete_role(&caller, &name).await }).await;
        record(Event::new("role.delete", &by, resource), &deleted, Outcome::Done);
        Ok(Response::new(self.changed(deleted?).await))
    }

    async fn set_budget(&self, request: Request<SetBudgetRequest>) -> Result<Response<SetBudgetResponse>, Status> {
        self.put_budget(request).await
    }

    async fn list_budgets(
        &self,
        request: Request<ListBudgetsRequest>,
    ) -> Result<Response<ListBudgetsResponse>, Status> {
        self.page_of_budgets(request).await
    }

    async fn delete_budget(&self, request: Request<DeleteBudgetRequest>) -> Result<Response<AccessChanged>, Status> {
        self.remove_budget(request).await
    }
}

/// Lists permissions, roles and limits for the audit log.
fn holds(permissions: &[String], (kind, others): (&str, &[String]), limits: Limits) -> String {
    let others = others.iter().map(|other| format!("{kind} {other}"));
    let limits = (!limits.is_empty()).then(|| limits.to_string());
    permissions.iter().cloned().chain(others).chain(limits).collect::<Vec<_>>().join(", ")
}

/// Converts limits to a message; returns `None` if there are no limits.
fn message(limits: Limits) -> Option<v1::CallerLimits> {
    (!limits.is_empty()).then(|| limits.into())
}

fn parse_id(field: &'static str, id: &str) -> Result<TokenId, Status> {
    id.parse().map_err(|bad: kent_access::BadId| status::from_invalid(&Invalid::new(field, bad)))
}
