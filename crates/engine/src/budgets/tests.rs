use std::sync::atomic::{AtomicU64, Ordering};

use kent_access::{Bound, Holder, Right, Target};
use kent_ids::{Format, UnixNanos};
use kent_store::{Fault, MemoryStore, Operation, StoreId};

use super::*;

/// A clock that a test moves, in milliseconds.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(i128::from(self.0.load(Ordering::SeqCst)) * 1_000_000)
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A replica on a store that it shares with other replicas.
struct Replica {
    store: MemoryStore,
    budgets: Arc<Budgets>,
    clock: Arc<ManualClock>,
    account: Arc<Account>,
}

fn budget(total: u64) -> Arc<Budget> {
    let right = Right::new(Budget::permission("uuidv7").expect("one source"), Bound::Nothing).expect("bound");
    let holder = Holder::Role("shop".to_owned());
    Arc::new(Budget::new(BudgetId::new([1; 8]), holder, right, total).expect("one source"))
}

async fn write(disk: &MemoryStore, budget: &Budget) {
    let key = keys::budget(budget.holder(), budget.id());
    disk.reopen().commit(Txn::new().put(key, stored::encode_budget(budget))).await.expect("written");
}

impl Replica {
    fn on(disk: &MemoryStore, total: u64) -> Self {
        let store = disk.reopen();
        let clock = Arc::new(ManualClock::default());
        let budgets = Budgets::new(Arc::new(store.reopen()), clock.clone());
        let account = budgets.account(&budget(total), Version::new(1));
        Self { store, budgets, clock, account }
    }

    /// Grants as the service does: takes from the share, or waits for a reservation. If the grant is
    /// refused, returns how much of the budget is left.
    async fn grant(&self, count: u64) -> Result<(), NotReserved> {
        let purse = Purse::new(vec![self.account.clone()]);
        loop {
            match purse.charge(Target::Format(Format::by_token("uuidv7").expect("a format")), count) {
                Ok(charge) => {
                    charge.keep();
                    return Ok(());
                }
                Err(account) => self.budgets.clone().reserve(account, count).await?,
            }
        }
    }

    async fn used(&self) -> u64 {
        let read = self.store.get(&keys::spent(self.account.id())).await.expect("read");
        read.map_or(0, |read| stored::decode_spent(&read.value).expect("decoded").used)
    }
}

async fn start(total: u64) -> (MemoryStore, Replica) {
    let disk = MemoryStore::new(StoreId::new([3; 16]));
    write(&disk, &budget(total)).await;
    let replica = Replica::on(&disk, total);
    (disk, replica)
}

#[tokio::test]
async fn ok_replicas_share_a_budget_to_the_last_identifier() {
    let (disk, one) = start(1000).await;
    let two = Replica::on(&disk, 1000);
    let mut granted = 0;
    loop {
        let mut is_refused = true;
        for replica in [&one, &two] {
            match replica.grant(7).await {
                Ok(()) => (granted, is_refused) = (granted + 7, false),
                Err(NotReserved::Short(left)) => assert!(left < 7, "{left}"),
                Err(error) => panic!("{error}"),
            }
        }
        if is_refused {
            break;
        }
    }
    // Let the replicas forget the last refusal.
    for replica in [&one, &two] {
        replica.clock.0.fetch_add(1000, Ordering::SeqCst);
        while replica.grant(1).await.is_ok() {
            granted += 1;
        }
    }
    assert_eq!((granted, one.used().await), (1000, 1000));
}

/// Between the read and the commit of a reservation, another replica takes all, or an operator lowers the total.
#[tokio::test]
async fn err_a_reservation_that_is_overtaken_is_not_made() {
    for is_lowered in [false, true] {
        let (disk, one) = start(10).await;
        let (two, mut overtakes) = (Replica::on(&disk, 10), Some(disk.reopen()));
        let (budgets, account) = (two.budgets.clone(), two.account.clone());
        disk.plan(move |operation| match (operation, overtakes.take()) {
            (Operation::Commit(_), Some(disk)) => {
                let (budgets, account) = (budgets.clone(), account.clone());
                Fault::DelayBefore(Box::pin(async move {
                    match is_lowered {
                        true => write(&disk, &budget(9)).await,
                        false => budgets.reserve(account, 10).await.expect("reserved"),
                    }
                }))
            }
            (_, left) => {
                overtakes = left;
                Fault::None
            }
        });
        let (left, taken) = if is_lowered { (9, 0) } else { (0, 10) };
        assert!(matches!(one.grant(10).await, Err(NotReserved::Short(said)) if said == left), "{left}");
        assert_eq!((one.used().await, two.account.share.left()), (taken, taken));
    }
}

#[tokio::test]
async fn ok_a_replica_that_stops_returns_its_share_and_one_that_crashes_does_not() {
    let (disk, stopped) = start(1000).await;
    for _ in 0..10 {
        stopped.grant(10).await.expect("left");
    }
    assert!(stopped.used().await > 100, "the share is larger than what was granted");
    assert_eq!(stopped.budgets.spent(stopped.account.id()).await.expect("read").used, 100);
    stopped.budgets.give_back_all().await;
    assert_eq!(stopped.used().await, 100);
    let crashed = Replica::on(&disk, 1000);
    for _ in 0..10 {
        crashed.grant(10).await.expect("left");
    }
    let used = crashed.used().await;
    let next = Replica::on(&disk, 1000);
    let mut granted = 0;
    while next.grant(1).await.is_ok() {
        granted += 1;
    }
    assert!(used > 200 && granted == 1000 - used, "{used} {granted}");
}

/// A commit that was lost, or whose outcome is not known, grants nothing twice.
#[tokio::test]
async fn err_without_the_store_no_share_is_reserved() {
    for (fault, uses) in
        [((|| Fault::Unavailable) as fn() -> Fault, 0), (|| Fault::LostUnknown, 0), (|| Fault::AppliedUnknown, 10)]
    {
        let (disk, replica) = start(1000).await;
        disk.plan(move |operation| if matches!(operation, Operation::Commit(_)) { fault() } else { Fault::None });
        assert!(matches!(replica.grant(10).await, Err(NotReserved::Store(_))));
        disk.plan(|_| Fault::None);
        assert_eq!((replica.used().await, replica.account.share.left()), (uses, 0));
        replica.grant(10).await.expect("granted");
        assert_eq!(replica.used().await, uses + 10);
        // The same holds while a share is returned.
        replica.grant(50).await.expect("granted");
        let (held, before) = (replica.account.share.left(), replica.used().await);
        disk.plan(move |operation| if matches!(operation, Operation::Commit(_)) { fault() } else { Fault::None });
        replica.budgets.give_back_all().await;
        disk.plan(|_| Fault::None);
        replica.budgets.give_back_all().await;
        let after = replica.used().await;
        assert!(before - held <= after && after <= before && after >= uses + 60, "{before} {held} {after}");
    }
}

#[tokio::test]
async fn ok_a_lower_total_counts_what_the_share_still_holds() {
    let (disk, replica) = start(1000).await;
    for _ in 0..10 {
        replica.grant(10).await.expect("left");
    }
    assert!(replica.account.share.left() > 0);
    write(&disk, &budget(105)).await;
    let _ = replica.budgets.account(&budget(105), Version::new(2));
    assert!(matches!(replica.grant(6).await, Err(NotReserved::Short(5))));
    replica.grant(5).await.expect("the last ones");
    // An older version of the tokens and roles changes nothing; a raised total takes effect at once.
    let _ = replica.budgets.account(&budget(1000), Version::new(1));
    assert!(matches!(replica.grant(1).await, Err(NotReserved::Short(0))));
    write(&disk, &budget(106)).await;
    let _ = replica.budgets.account(&budget(106), Version::new(3));
    replica.grant(1).await.expect("raised");
    assert_eq!(replica.used().await, 106);
}

#[tokio::test]
async fn ok_a_budget_that_is_removed_limits_nothing() {
    let (disk, replica) = start(1).await;
    replica.grant(1).await.expect("left");
    assert!(matches!(replica.grant(1).await, Err(NotReserved::Short(0))));
    let (key, spent) = (replica.account.key(), keys::spent(replica.account.id()));
    disk.reopen().commit(Txn::new().delete(key).delete(spent)).await.expect("removed");
    replica.clock.0.store(1000, Ordering::SeqCst);
    replica.grant(1000).await.expect("no limit");
}

#[tokio::test]
async fn ok_an_unused_share_goes_back_after_some_checks() {
    let (_disk, replica) = start(1000).await;
    let (mut granted, mut used) = (0, 0);
    // While the budget is in use, nothing goes back.
    while granted < 200 || replica.account.share.left() == 0 {
        replica.grant(3).await.expect("left");
        granted += 3;
        replica.budgets.tidy(|_| true).await;
        assert!(replica.used().await >= used);
        used = replica.used().await;
    }
    for _ in 0..IDLE_CHECKS {
        assert_eq!(replica.used().await, used);
        replica.budgets.tidy(|_| true).await;
    }
    assert_eq!((replica.used().await, replica.account.share.left()), (granted, 0));
    replica.budgets.tidy(|_| false).await;
    assert!(replica.account.is_removed() && replica.budgets.all().is_empty());
}

#[test]
fn ok_a_refused_grant_gives_back_what_it_took_from_all_budgets() {
    let account = |total, id: u8| {
        let right = budget(1).right().clone();
        let holder = Holder::Role(format!("role-{id}"));
        let budget = Budget::new(BudgetId::new([id; 8]), holder, right, total).expect("one source");
        let account = Account::new(Arc::new(budget), Version::new(1));
        account.share.put(total);
        Arc::new(account)
    };
    let (wide, narrow) = (account(10, 1), account(5, 2));
    let purse = Purse::new(vec![wide.clone(), narrow.clone(), wide.clone()]);
    let (mine, other) =
        ["uuidv7", "uuidv6"].map(|token| Target::Format(Format::by_token(token).expect("a format"))).into();
    let left = || (wide.share.left(), narrow.share.left());
    assert_eq!(purse.charge(mine, 6).expect_err("too small").holder(), narrow.holder());
    assert_eq!(left(), (10, 5));
    let charge = purse.charge(mine, 5).expect("left");
    assert_eq!(left(), (5, 0));
    drop(charge);
    assert_eq!(left(), (10, 5));
    let kept = purse.charge(mine, 2).expect("left");
    kept.keep();
    drop(kept);
    assert_eq!(left(), (8, 3));
    drop(purse.charge(other, 100).expect("no budget for this source"));
    assert_eq!(left(), (8, 3));
}
