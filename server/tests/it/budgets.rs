//! Budgets against real daemons: a token or role never gets more than its total, and can get all of it.

use std::{collections::HashMap, time::Duration};

use kent_proto::v1::{
    AllocateRequest, Budget, CreateTokenRequest, DeleteBudgetRequest, DeleteRegionRequest, DeleteRoleRequest, Encoding,
    ListBudgetsRequest, NewBudget, Policy, RenameRegionRequest, RevokeTokenRequest, SetBudgetRequest,
    UpdateRegionRequest, access_client::AccessClient, set_budget_request::Change,
};
use kent_test_etcd::Etcd;
use tokio::time::sleep;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    auth::{Guarded, Holder, anonymous, guarded as guarded_on, holder, make, missing, owned, refusal},
    backup::{backup_as, restore, said},
    cluster::eventually,
    harness::{Daemon, create, data_dir, identifiers, name, request},
};

const ORDERS: &str = "region:default/orders";

/// Changes the total of a budget.
async fn set(daemon: &Daemon, by: &Holder, of: &str, resource: &str, change: Change) -> Result<Budget, Status> {
    let set = SetBudgetRequest { holder: of.to_owned(), resource: resource.to_owned(), change: Some(change) };
    let set = AccessClient::new(daemon.channel()).set_budget(by.send(set)).await?.into_inner();
    assert!(set.changed.expect("a change").unconfirmed.is_empty());
    Ok(set.budget.expect("a budget"))
}

/// Returns the budgets of a holder, or of all holders if `of` is empty.
async fn show(daemon: &Daemon, by: &Holder, of: &str) -> Vec<Budget> {
    let list = ListBudgetsRequest { holder: of.to_owned(), ..Default::default() };
    AccessClient::new(daemon.channel()).list_budgets(by.send(list)).await.expect("listed").into_inner().budgets
}

/// Returns how much of a holder's only budget is used.
async fn used(daemon: &Daemon, by: &Holder, of: &str) -> u64 {
    let budgets = show(daemon, by, of).await;
    assert_eq!(budgets.len(), 1, "{budgets:?}");
    budgets[0].used
}

/// Takes identifiers, and returns how many.
async fn take(daemon: &Daemon, by: &Holder, source: &str, count: u64) -> Result<u64, Status> {
    let reply = daemon.allocator().allocate(by.send(request(source, count, Encoding::Packed))).await?;
    Ok(identifiers(reply.get_ref()).len() as u64)
}

/// Takes identifiers until the budget is used up, and returns how many.
async fn take_all(daemon: &Daemon, by: &Holder, source: &str, count: u64) -> u64 {
    let mut taken = 0;
    loop {
        match take(daemon, by, source, count).await {
            Ok(more) => taken += more,
            Err(refused) => match refusal(Err::<(), _>(refused)) {
                // The disk can be slow while other tests run. A client tries again, too.
                (Code::Unavailable, reason) if reason == "STORE_SLOW" => {}
                refused => {
                    assert_eq!(refused, spent());
                    return taken;
                }
            },
        }
    }
}

fn spent() -> (Code, String) {
    (Code::ResourceExhausted, "BUDGET".to_owned())
}

/// Creates a token with a role.
async fn token_of(guarded: &Guarded, role: &str) -> Holder {
    let new = CreateTokenRequest { name: "test".to_owned(), roles: owned(&[role]), ..Default::default() };
    holder(guarded.access().create_token(guarded.admin.send(new)).await.expect("made"))
}

#[tokio::test]
async fn ok_a_budget_can_be_used_up_but_not_exceeded() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (daemon, admin) = (&guarded.daemon, &guarded.admin);
    guarded.create(admin, "orders").await.expect("created");
    for (source, resource) in [
        ("uuidv7", "uuidv7"),
        ("region:orders", ORDERS),
        ("serial:GBP", "serial:GBP"),
        ("uid11-fullrand", "uid11-fullrand"),
    ] {
        let token = guarded.token(&[&format!("allocate:{resource}"), "allocate:uuidv6"]).await;
        let of = format!("token:{}", token.id);
        set(daemon, admin, &of, resource, Change::Total(1000)).await.expect("set");
        let granted = take_all(daemon, &token, source, 300).await;
        assert_eq!((granted, used(daemon, admin, &of).await), (900, 900), "{source}");
        let refused = take(daemon, &token, source, 300).await.expect_err("refused");
        assert_eq!(
            refused.message(),
            format!(
                "the budget of {of} for {resource} has 100 identifiers left, but 300 were requested; an operator, with the token \
                 in FILE, can raise it: kent budget add {of} {resource} +200 --token-file FILE"
            )
        );
        let details = refused.get_error_details();
        let facts = [("holder", &*of), ("resource", resource), ("left", "100")];
        let facts: HashMap<_, _> = facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into();
        assert_eq!(details.error_info().expect("a reason").metadata, facts);
        assert!(details.retry_info().is_none(), "waiting does not help");
        // The last identifiers are granted to small requests of several concurrent callers.
        let takers = (0..4).map(|_| take_all(daemon, &token, source, 3));
        let granted: u64 = futures_util::future::join_all(takers).await.into_iter().sum();
        assert_eq!(granted, 99, "{source}");
        assert_eq!(take_all(daemon, &token, source, 1).await, 1, "{source}");
        assert_eq!(used(daemon, admin, &of).await, 1000, "{source}");
        // Other sources are not limited.
        take(daemon, &token, "uuidv6", 1000).await.expect("granted");
        // The total can be raised while the daemon runs.
        let raised = set(daemon, admin, &of, resource, Change::Add(5)).await.expect("set");
        assert_eq!((raised.total, raised.left), (1005, 5));
        assert_eq!(take_all(daemon, &token, source, 1).await, 5, "{source}");
        // A total below the used amount allows no grant; a deleted budget limits nothing.
        set(daemon, admin, &of, resource, Change::Total(10)).await.expect("set");
        assert_eq!(refusal(take(daemon, &token, source, 1).await), spent());
        let delete = DeleteBudgetRequest { holder: of.clone(), resource: resource.to_owned() };
        guarded.access().delete_budget(admin.send(delete.clone())).await.expect("removed");
        assert_eq!(take(daemon, &token, source, 2000).await.expect("granted"), 2000);
        assert_eq!(refusal(guarded.access().delete_budget(admin.send(delete)).await).1, "NO_SUCH_BUDGET");
    }
}

#[tokio::test]
async fn ok_all_holders_of_a_role_share_its_budget() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (daemon, admin) = (&guarded.daemon, &guarded.admin);
    guarded.create(admin, "orders").await.expect("created");
    guarded.role("shop", &["allocate:region:default/orders"], &[]).await;
    let [one, two] = [token_of(&guarded, "shop").await, token_of(&guarded, "shop").await];
    set(daemon, admin, "role:shop", ORDERS, Change::Total(500)).await.expect("set");
    // One token also has a separate budget. A grant needs enough identifiers in both budgets.
    let of = format!("token:{}", one.id);
    set(daemon, admin, &of, ORDERS, Change::Total(100)).await.expect("set");
    assert_eq!(take_all(daemon, &one, "region:orders", 10).await, 100);
    assert_eq!((used(daemon, admin, &of).await, used(daemon, admin, "role:shop").await), (100, 100));
    assert_eq!(take_all(daemon, &two, "region:orders", 10).await, 400);
    let refused = take(daemon, &two, "region:orders", 1).await.expect_err("used up");
    assert!(refused.message().starts_with("the budget of role:shop for region:default/orders has 0"), "{refused}");
    // A budget survives a rename of its region.
    let rename = RenameRegionRequest { name: name("orders"), region_id: "old".to_owned(), ..Default::default() };
    daemon.regions().rename_region(admin.send(rename)).await.expect("renamed");
    guarded.create(admin, "orders").await.expect("created");
    assert_eq!(refusal(take(daemon, &two, "region:old", 1).await), spent());
    missing(take(daemon, &two, "region:orders", 1).await);
    assert_eq!(show(daemon, admin, "role:shop").await[0].resource, "region:default/old");
    // A budget of a deleted region limits nothing. The budget can be removed by the name that the list shows.
    let spare = guarded.token(&["allocate:uuidv7"]).await;
    guarded.create(admin, "brief").await.expect("created");
    let spare_of = format!("token:{}", spare.id);
    set(daemon, admin, &spare_of, "region:default/brief", Change::Total(5)).await.expect("set");
    let delete = DeleteRegionRequest { name: name("brief"), ..Default::default() };
    daemon.regions().delete_region(admin.send(delete)).await.expect("deleted");
    let brief = DeleteBudgetRequest { holder: spare_of.clone(), resource: "region:default/brief".to_owned() };
    guarded.access().delete_budget(admin.send(brief)).await.expect("removed");
    // Budgets are removed with their holders.
    set(daemon, admin, &spare_of, "uuidv7", Change::Total(5)).await.expect("set");
    guarded.access().revoke_token(admin.send(RevokeTokenRequest { id: spare.id.clone() })).await.expect("revoked");
    guarded.access().delete_role(admin.send(DeleteRoleRequest { name: "shop".to_owned() })).await.expect("deleted");
    let left = show(daemon, admin, "").await;
    assert_eq!(left.iter().map(|budget| budget.holder.clone()).collect::<Vec<_>>(), [of]);
    assert_eq!(refusal(set(daemon, admin, &spare_of, "uuidv7", Change::Total(5)).await).1, "TOKEN_ENDED");
    assert_eq!(refusal(set(daemon, admin, "role:shop", "uuidv7", Change::Total(5)).await).1, "NO_SUCH_ROLE");
}

#[tokio::test]
async fn ok_a_token_can_be_made_with_budgets() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (daemon, admin) = (&guarded.daemon, &guarded.admin);
    let new = |budgets: &[(&str, u64)]| CreateTokenRequest {
        name: "ci".to_owned(),
        permissions: owned(&["allocate:*"]),
        budgets: budgets.iter().map(|(of, total)| NewBudget { resource: (*of).to_owned(), total: *total }).collect(),
        ..CreateTokenRequest::default()
    };
    let two = [("uuidv7", 20), ("serial:GBP", 0)];
    let token = holder(guarded.access().create_token(admin.send(new(&two))).await.expect("made"));
    assert_eq!(take_all(daemon, &token, "uuidv7", 7).await, 14);
    assert_eq!(take_all(daemon, &token, "serial:GBP", 1).await, 0);
    take(daemon, &token, "serial:EUR", 100).await.expect("granted");
    for (bad, problem) in [
        (&[("uuidv7", 1), ("uuidv7", 2)][..], "names uuidv7 twice"),
        (&[("uuid*", 1)], "is not one source"),
        (&[("region:default/absent", 1)], "does not exist"),
        (&[("uuidv7", 1); 21], "has 21 entries"),
    ] {
        let refused = guarded.access().create_token(admin.send(new(bad))).await.expect_err("refused");
        assert!(refused.code() == Code::InvalidArgument && refused.message().contains(problem), "{refused}");
    }
    // A caller can set budgets only for sources for which it has `admin`, and only for holders that it may manage.
    let team = make(&mut guarded.access(), admin, &["admin:uuidv7"], 0).await.expect("made");
    let inner = make(&mut guarded.access(), &team, &["allocate:uuidv7"], 0).await.expect("made");
    let of = format!("token:{}", inner.id);
    set(daemon, &team, &of, "uuidv7", Change::Total(9)).await.expect("its own");
    assert_eq!(missing(set(daemon, &team, &of, "uuidv6", Change::Total(9)).await), "admin:uuidv6");
    missing(set(daemon, &team, &format!("token:{}", token.id), "uuidv7", Change::Total(9)).await);
    missing(set(daemon, &inner, &of, "uuidv7", Change::Add(9)).await);
    assert_eq!(show(daemon, &team, "").await.len(), 1);
    // The list is divided into pages, and a total that is too large is refused.
    let page = ListBudgetsRequest { page_size: 2, ..Default::default() };
    let first = guarded.access().list_budgets(admin.send(page.clone())).await.expect("listed").into_inner();
    let page = ListBudgetsRequest { page_token: first.next_page_token.clone(), ..page };
    let second = guarded.access().list_budgets(admin.send(page)).await.expect("listed").into_inner();
    assert_eq!((first.budgets.len(), second.budgets.len(), &*second.next_page_token), (2, 1, ""));
    assert!(!second.budgets.iter().any(|budget| first.budgets.contains(budget)));
    assert_eq!(refusal(set(daemon, admin, &of, "uuidv7", Change::Add(u64::MAX)).await).0, Code::InvalidArgument);
}

#[tokio::test]
async fn ok_a_restart_exceeds_no_budget_and_a_stop_loses_nothing() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let token = guarded.token(&["allocate:uuidv7"]).await;
    let of = format!("token:{}", token.id);
    let Guarded { mut daemon, admin } = guarded;
    set(&daemon, &admin, &of, "uuidv7", Change::Total(5000)).await.expect("set");
    let mut granted = 0;
    for is_killed in [true, false, true, false] {
        for _ in 0..30 {
            granted += take(&daemon, &token, "uuidv7", 10).await.expect("left");
        }
        let before = used(&daemon, &admin, &of).await;
        assert!(before >= granted, "{before} {granted}");
        match is_killed {
            true => daemon.kill(),
            false => {
                daemon.signal("TERM");
                assert!(daemon.wait().await.success());
            }
        }
        daemon = Daemon::spawn(&mut guarded_on(dir.path()));
        let after = used(&daemon, &admin, &of).await;
        // The share of a killed replica stays counted as used. A replica that stops returns its share.
        assert!(if is_killed { after >= before } else { after == before }, "{before} {after}");
    }
    granted += take_all(&daemon, &token, "uuidv7", 1).await;
    let (total, used) = (5000, used(&daemon, &admin, &of).await);
    assert!(granted <= total && used == total && granted > total / 2, "{granted} {used}");
}

#[tokio::test]
async fn ok_a_repeated_strict_grant_takes_nothing() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (daemon, admin) = (&guarded.daemon, &guarded.admin);
    guarded.create(admin, "orders").await.expect("created");
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let strict = UpdateRegionRequest { name: name("orders"), policy, ..Default::default() };
    daemon.regions().update_region(admin.send(strict)).await.expect("strict");
    let token = guarded.token(&["allocate:region:default/orders"]).await;
    let of = format!("token:{}", token.id);
    set(daemon, admin, &of, ORDERS, Change::Total(10)).await.expect("set");
    let ask = async |request_id: &str, count| {
        let request_id = request_id.to_owned();
        let ask = AllocateRequest { request_id, ..request("region:orders", count, Encoding::Packed) };
        daemon.allocator().allocate(token.send(ask)).await.map(|reply| identifiers(reply.get_ref()))
    };
    let first = ask("a", 4).await.expect("granted");
    for _ in 0..3 {
        assert_eq!(ask("a", 4).await.expect("granted before"), first);
    }
    assert_eq!(used(daemon, admin, &of).await, 4);
    ask("b", 6).await.expect("granted");
    // A repeated request gets the same answer, even when nothing is left.
    assert_eq!(ask("a", 4).await.expect("granted before"), first);
    assert_eq!(refusal(ask("c", 1).await), spent());
    assert_eq!(refusal(ask("a", 5).await).0, Code::InvalidArgument);
    assert_eq!(refusal(ask("", 1).await), spent());
    assert_eq!(used(daemon, admin, &of).await, 10);
}

#[tokio::test]
async fn ok_budgets_have_metrics() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (daemon, admin) = (&guarded.daemon, &guarded.admin);
    let metric = |name: &str, of: &str, resource: &str| {
        let head = format!("kent_budget_{name}{{holder=\"{of}\",resource=\"{resource}\"}} ");
        let text = daemon.get("/metrics").1;
        text.lines().find_map(|line| line.strip_prefix(&head)?.parse::<f64>().ok())
    };
    let both = |of: &str, resource: &str| (metric("capacity", of, resource), metric("left", of, resource));
    guarded.create(admin, "orders").await.expect("created");
    guarded.role("shop", &["allocate:*"], &[]).await;
    let token = token_of(&guarded, "shop").await;
    let of = format!("token:{}", token.id);
    assert_eq!(both(&of, ORDERS), (None, None));
    set(daemon, admin, "role:shop", ORDERS, Change::Total(1000)).await.expect("set");
    set(daemon, admin, &of, "uuidv7", Change::Total(50)).await.expect("set");
    assert_eq!(
        (both(&of, "uuidv7"), both("role:shop", ORDERS)),
        ((Some(50.0), Some(50.0)), (Some(1000.0), Some(1000.0)))
    );
    // Shares that the daemon holds do not count as used.
    for (taken, left) in [(1, 999.0), (1, 998.0), (100, 898.0)] {
        take(daemon, &token, "region:orders", taken).await.expect("granted");
        assert_eq!(both("role:shop", ORDERS), (Some(1000.0), Some(left)));
    }
    set(daemon, admin, "role:shop", ORDERS, Change::Total(100)).await.expect("set");
    assert_eq!(both("role:shop", ORDERS), (Some(100.0), Some(0.0)));
    // Budgets that limit nothing have no metrics.
    let delete = DeleteBudgetRequest { holder: of.clone(), resource: "uuidv7".to_owned() };
    guarded.access().delete_budget(admin.send(delete)).await.expect("removed");
    assert_eq!(both(&of, "uuidv7"), (None, None));
    guarded.create(admin, "brief").await.expect("created");
    set(daemon, admin, &of, "region:default/brief", Change::Total(5)).await.expect("set");
    assert_eq!(both(&of, "region:default/brief"), (Some(5.0), Some(5.0)));
    let delete = DeleteRegionRequest { name: name("brief"), ..Default::default() };
    daemon.regions().delete_region(admin.send(delete)).await.expect("deleted");
    assert_eq!(both(&of, "region:default/brief"), (None, None));
    assert!(daemon.get("/metrics").1.contains("\nkent_budget_metrics_omitted 0\n"));
}

#[tokio::test]
async fn ok_a_backup_holds_budgets_and_a_restore_marks_them() {
    let dir = data_dir();
    let guarded = Guarded::start(&dir.path().join("old")).await;
    guarded.role("shop", &["allocate:uuidv7"], &[]).await;
    let token = token_of(&guarded, "shop").await;
    set(&guarded.daemon, &guarded.admin, "role:shop", "uuidv7", Change::Total(100)).await.expect("set");
    set(&guarded.daemon, &guarded.admin, "role:shop", "uuidv6", Change::Total(100)).await.expect("set");
    take(&guarded.daemon, &token, "uuidv7", 30).await.expect("granted");
    let (file, data) = (dir.path().join("backup"), dir.path().join("new"));
    backup_as(&guarded.daemon, guarded.admin.send(Default::default()), &file).await;
    let Guarded { daemon, admin } = guarded;
    daemon.kill();
    let restored = restore(&file, &data, &["--keep-tokens", "--clock-error", "1s", "--yes"]);
    assert!(restored.status.success(), "{}", said(&restored));
    let told = "2 budgets are counted as of the backup: later use is not known. Lower each total by the number that may have been used since \
                (kent budget show, kent budget set HOLDER RESOURCE TOTAL)\n";
    assert!(said(&restored).contains(told), "{}", said(&restored));
    let daemon = Daemon::spawn(&mut guarded_on(&data));
    let budgets = show(&daemon, &admin, "role:shop").await;
    let facts: Vec<_> = budgets.iter().map(|it| (&*it.resource, it.used, it.restored_unix_ms > 0)).collect();
    assert!(facts.contains(&("uuidv7", 30, true)) && facts.contains(&("uuidv6", 0, true)), "{facts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_replicas_share_a_budget_under_load() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let dir = data_dir();
    let replica = |auth: &str| {
        let mut command = super::harness::kentd(dir.path());
        Daemon::spawn(command.args(["--store", &address, "--window", "10s", "--log", "error", "--auth", auth]))
    };
    let open = replica("off");
    let mut access = AccessClient::new(open.channel());
    let admin = make(&mut access, &anonymous(), &["admin:*"], 0).await.expect("made");
    let token = make(&mut access, &anonymous(), &["allocate:*"], 0).await.expect("made");
    open.regions().create_region(create("orders")).await.expect("created");
    open.signal("TERM");
    assert!(open.wait().await.success());
    let (one, two) = (replica("required"), replica("required"));
    let of = format!("token:{}", token.id);
    let budget = set(&one, &admin, &of, ORDERS, Change::Total(3000)).await.expect("set");
    assert_eq!(budget.left, 3000);
    let takers = (0..16_u64).map(|taker| {
        let daemon = if taker % 2 == 0 { &one } else { &two };
        take_all(daemon, &token, "region:orders", 1 + taker % 5)
    });
    let granted: u64 = futures_util::future::join_all(takers).await.into_iter().sum();
    assert!(granted <= 3000, "{granted}");
    // A replica returns its share after some seconds without use, or when it stops.
    let mut rest = 0;
    eventually("the last identifiers are granted", async || {
        rest += take_all(&one, &token, "region:orders", 1).await + take_all(&two, &token, "region:orders", 1).await;
        granted + rest == 3000
    })
    .await;
    assert_eq!(used(&one, &admin, &of).await, 3000);
    // A raised total takes effect on both replicas immediately. The share of a killed replica stays counted as used.
    set(&one, &admin, &of, ORDERS, Change::Add(2000)).await.expect("set");
    let mut more = 0;
    for _ in 0..50 {
        more += take(&one, &token, "region:orders", 5).await.expect("left");
        more += take(&two, &token, "region:orders", 5).await.expect("left");
    }
    one.kill();
    more += take_all(&two, &token, "region:orders", 1).await;
    sleep(Duration::from_millis(600)).await;
    more += take_all(&two, &token, "region:orders", 1).await;
    assert!(more <= 2000 && used(&two, &admin, &of).await == 5000, "{more}");
}
