//! Queries the state of the members of an etcd cluster.

use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::{self, Instant};
use tonic::{Response, Status};

use super::endpoints::Caller;
use super::pb::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, Member, MemberListRequest, MemberListResponse, RangeRequest,
    StatusRequest, StatusResponse, cluster_client::ClusterClient, maintenance_client::MaintenanceClient,
};
use super::{ATTEMPT, Inner, describe};
use crate::error::Unavailable;
use crate::servers::{Server, ServerState, Servers};

/// The timeout for a cluster whose members do not answer.
const LIMIT: Duration = Duration::from_secs(3);

/// Queries all endpoints concurrently.
pub(super) async fn servers(inner: &Inner) -> Servers {
    let states = join_all((0..inner.endpoints.hosts().len()).map(|at| state(inner, at)));
    let (states, (read, (members, alarms))) =
        join(states, join(read(inner), join(members(inner), alarms(inner)))).await;
    let servers = all(inner.endpoints.hosts(), states, &members);
    let alarms = alarms.iter().map(|alarm| {
        let name = members.iter().find(|member| member.id == alarm.member_id).map_or("a member", |member| &member.name);
        let kind = AlarmType::try_from(alarm.alarm).map_or("unknown", |kind| kind.as_str_name());
        format!("{kind} on {name}")
    });
    Servers { read, alarms: alarms.collect(), servers }
}

/// Returns the members behind the endpoints, and then the members that no endpoint refers to.
fn all(hosts: &[String], states: Vec<Result<(u64, ServerState), String>>, members: &[Member]) -> Vec<Server> {
    let mut found = Vec::new();
    let addressed = hosts.iter().zip(states).map(|(host, state)| {
        // If an endpoint does not answer, find its member by its address.
        let member = match &state {
            Ok((id, _)) => members.iter().find(|member| member.id == *id),
            Err(_) => members.iter().find(|member| member.client_ur_ls.iter().any(|url| url.ends_with(&**host))),
        };
        found.extend(member.map(|member| member.id));
        Server {
            name: member.map(|member| member.name.clone()).unwrap_or_default(),
            endpoint: host.clone(),
            is_addressed: true,
            is_learner: member.is_some_and(|member| member.is_learner),
            state: Some(state.map(|(_, state)| state)),
        }
    });
    let mut servers: Vec<Server> = addressed.collect();
    let others = members.iter().filter(|member| !found.contains(&member.id)).map(|member| Server {
        name: member.name.clone(),
        endpoint: member.client_ur_ls.first().cloned().unwrap_or_default(),
        is_addressed: false,
        is_learner: member.is_learner,
        state: None,
    });
    servers.extend(others);
    servers
}

/// Returns the ID and the state of the member behind an endpoint.
async fn state(inner: &Inner, at: usize) -> Result<(u64, ServerState), String> {
    let began = Instant::now();
    let answer = inner.endpoints.call_at(at, ATTEMPT, status_of).await.map_err(|status| describe(&status))?;
    let latency = began.elapsed();
    let StatusResponse { header, version, db_size, leader, errors, db_size_in_use, db_size_quota, .. } = answer;
    let id = header.map_or(0, |header| header.member_id);
    let bytes = |size: i64| u64::try_from(size).unwrap_or(0);
    let state = ServerState {
        version,
        latency,
        database_bytes: bytes(db_size),
        used_bytes: bytes(db_size_in_use),
        quota_bytes: Some(bytes(db_size_quota)).filter(|quota| *quota > 0),
        is_leader: leader == id,
        has_leader: leader != 0,
        errors,
    };
    Ok((id, state))
}

/// Measures the duration of a linearizable read.
async fn read(inner: &Inner) -> Result<Duration, String> {
    let began = Instant::now();
    let range = RangeRequest { key: inner.identity_name().into(), ..RangeRequest::default() };
    match time::timeout(LIMIT, inner.range(range)).await {
        Ok(Ok(_)) => Ok(began.elapsed()),
        Ok(Err(error)) => Err(Unavailable::from(error).to_string()),
        Err(_) => Err(format!("no reply within {LIMIT:?}")),
    }
}

/// Returns the cluster's member list from the first member that answers; empty if none answers.
async fn members(inner: &Inner) -> Vec<Member> {
    let asked = time::timeout(LIMIT, inner.endpoints.call_idempotent(ATTEMPT, members_of)).await;
    asked.ok().and_then(Result::ok).map(|list| list.members).unwrap_or_default()
}

/// Returns the alarms of all members; empty if no member answers.
async fn alarms(inner: &Inner) -> Vec<AlarmMember> {
    let asked = time::timeout(LIMIT, inner.endpoints.call_idempotent(ATTEMPT, alarms_of)).await;
    asked.ok().and_then(Result::ok).map(|list| list.alarms).unwrap_or_default()
}

async fn status_of(caller: Caller) -> Result<StatusResponse, Status> {
    MaintenanceClient::new(caller.service()).status(StatusRequest {}).await.map(Response::into_inner)
}

async fn members_of(caller: Caller) -> Result<MemberListResponse, Status> {
    ClusterClient::new(caller.service()).member_list(MemberListRequest {}).await.map(Response::into_inner)
}

async fn alarms_of(caller: Caller) -> Result<AlarmResponse, Status> {
    MaintenanceClient::new(caller.service()).alarm(AlarmRequest::default()).await.map(Response::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, name: &str, url: &str) -> Member {
        Member { id, name: name.to_owned(), client_ur_ls: vec![url.to_owned()], is_learner: id == 9 }
    }

    #[test]
    fn ok_endpoints_come_first_and_then_the_other_members() {
        let hosts = ["a:1", "b:2", "c:3"].map(str::to_owned);
        let state = |id| Ok((id, ServerState::default()));
        let members =
            [member(9, "n9", "http://x:9"), member(1, "n1", "http://10.0.0.1:1"), member(2, "n2", "http://b:2")];
        let servers = all(&hosts, vec![state(1), Err("dead".to_owned()), Err("dead".to_owned())], &members);
        let shown: Vec<_> = servers
            .iter()
            .map(|server| (&*server.name, &*server.endpoint, server.is_addressed, server.is_learner))
            .collect();
        let expected = [
            ("n1", "a:1", true, false),
            ("n2", "b:2", true, false),
            ("", "c:3", true, false),
            ("n9", "http://x:9", false, true),
        ];
        assert_eq!(shown, expected);
        let states: Vec<_> = servers.iter().map(|server| server.state.as_ref().map(Result::is_ok)).collect();
        assert_eq!(states, [Some(true), Some(false), Some(false), None]);
    }
}
