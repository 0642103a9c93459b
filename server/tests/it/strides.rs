//! Regions with a step: they issue every n-th number, and another generator issues the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_proto::v1::{
    CreateRegionRequest, EditResponse, Encoding, FieldMask, GetRegionRequest, Policy, Region, Stride,
    UpdateRegionRequest,
};
use kent_test_etcd::{Etcd, Proxy};
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};
use tonic::{Code, Status};

use super::{
    cluster::{draw, eventually, replica},
    harness::{Daemon, Ledger, create, data_dir, identifiers, name, request},
    operator::{Operator, run_at},
};

/// Returns numbers as the output of `kent alloc`.
fn lines(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(|number| format!("{number}\n")).collect()
}

/// An operator with a space of 62 bits, whose region `ids` has identifiers that are its numbers.
fn operator() -> Operator {
    let operator = Operator::new();
    operator.kent("space create orders --bits 62");
    operator.kent("region create ids --space orders --prefix 0 --suffix 20");
    operator
}

#[test]
fn ok_a_region_issues_every_nth_number() {
    let operator = operator();
    operator.kent("region set ids --space orders --step 3 --offset 1");
    assert_eq!(operator.kent("alloc region:ids@orders -n 4"), lines([1, 4, 7, 10]));
    assert_eq!(operator.kent("alloc region:ids@orders -n 2"), lines([13, 16]));
    let shown = operator.kent("region show ids --space orders");
    assert!(shown.contains("every 3rd number, from 1"), "{shown}");
    assert_eq!(
        operator.json("region show ids --space orders")["policy"]["stride"],
        json!({"step": 3, "offset": 1}),
        "{shown}"
    );
    // Kent does not know what the other generator has issued.
    let classified = operator.kent("classify 13 14 3001 --space orders");
    let issued: Vec<bool> = classified.lines().skip(1).map(|line| line.contains("not known")).collect();
    assert_eq!(issued, [false, true, false], "{classified}");
    assert_eq!(operator.json("classify 14 --space orders")["issued"], json!(null));
    let history = operator.kent("region history ids --space orders");
    assert!(history.contains("step: every 3rd number, from 1"), "{history}");
    // A step inside the step takes nothing from another generator.
    operator.kent("region set ids --space orders --step 6 --offset 4");
    assert_eq!(operator.kent("alloc region:ids@orders -n 2"), lines([22, 28]));
}

#[test]
fn err_the_numbers_of_another_generator_need_a_floor() {
    let operator = operator();
    operator.kent("region set ids --space orders --step 2");
    assert_eq!(operator.kent("alloc region:ids@orders -n 2"), lines([0, 2]));
    for change in ["--no-step", "--step 2 --offset 1", "--step 3", "--no-policy"] {
        let refused = operator.refused(&format!("region set ids --space orders {change}"), "BAD_INPUT");
        assert!(refused.contains("every 2nd number, from 0") && refused.contains("(--next N)"), "{change}: {refused}");
    }
    let undone = operator.refused("region undo ids --space orders", "NOT_UNDONE");
    assert!(undone.contains("(--next N)"), "{undone}");
    assert_eq!(operator.kent("alloc region:ids@orders"), lines([4]));
    operator.kent("region set ids --space orders --no-step --next 1_001");
    assert_eq!(operator.kent("alloc region:ids@orders -n 3"), lines([1001, 1002, 1003]));
}

#[test]
fn err_no_edit_frees_numbers_that_another_generator_may_have_issued() {
    let operator = operator();
    operator.kent("region set ids --space orders --step 2");
    for edit in ["region shrink ids --by 1", "region delegate ids", "region delete ids --yes"] {
        let refused = operator.refused(&format!("{edit} --space orders"), "USE_UNKNOWN");
        assert!(refused.contains("kent region set ids --space orders --no-step --next N"), "{edit}: {refused}");
    }
    let narrower = "region subdivide ids --by 1 --new heir:10:0 --abstract";
    operator.refused(&format!("{narrower} --space orders"), "USE_UNKNOWN");
    operator.kent("region set ids --space orders --no-step --next 0");
    operator.kent("region shrink ids --by 1 --space orders");
    operator.kent("region set ids --space orders --step 2");
    operator.kent("region delete ids --unused --yes --space orders");
}

/// The pace allows 1,024,000 numbers in a burst, which 20 identifiers exceed.
#[tokio::test(flavor = "multi_thread")]
async fn err_the_pace_counts_all_numbers() {
    let operator = Operator::new();
    for (region, suffix) in [("wide", 40), ("narrow", 20)] {
        operator.kent(&format!("region create {region} --suffix {suffix} --pace 1000"));
        operator.kent(&format!("region set {region} --step 65535 --auto-expand 80:2"));
    }
    let refused = draw(&operator.daemon, "region:wide", 20).await.expect_err("never allowed");
    assert!(refused.message().contains("region:wide, where each identifier counts as 65535,"), "{refused}");
    // A region does not expand for a request that is never granted.
    draw(&operator.daemon, "region:narrow", 20).await.expect_err("never allowed");
    assert_eq!(operator.json("region show narrow")["suffix_bits"], json!(20));
}

#[test]
fn err_steps_that_make_no_sense() {
    let operator = operator();
    operator.kent("region create mixed --suffix 20 --order scrambled");
    operator.kent("region create foreign --suffix 20 --order external");
    for (words, expected) in [
        ("region set ids --space orders --step 1", "expected a number from 2 to 65_535"),
        ("region set ids --space orders --step 2 --offset x", "expected a number from 0 on, below the step"),
        ("region set ids --space orders --offset 1", "--step"),
        ("region set ids --space orders --step 2 --no-step", "cannot be used with"),
    ] {
        let (code, _, stderr) = operator.run(words);
        assert!(code == 2 && stderr.contains(expected), "{words}: {stderr}");
    }
    let refused = operator.refused("region set ids --space orders --step 3 --offset 3", "BAD_INPUT");
    assert!(refused.contains("the offset below the step"), "{refused}");
    let refused = operator.refused("region set mixed --step 2", "BAD_INPUT");
    assert!(refused.contains("a scrambled region cannot leave out numbers"), "{refused}");
    operator.refused("region set foreign --step 2", "BAD_INPUT");
}

/// The region has 16 suffixes, of which five are granted with a step of 3: the last number has no whole step left.
#[test]
fn err_a_full_region_counts_steps() {
    let operator = Operator::new();
    operator.kent("region create small --suffix 4 --zone 2");
    operator.kent("region set small --step 3");
    assert_eq!(operator.kent("alloc region:small -n 4").lines().count(), 4);
    let refused = operator.refused("alloc region:small -n 2", "CAPACITY_EXHAUSTED");
    assert!(refused.contains("has 1 identifier left (12 of 16 suffixes are issued or reserved)"), "{refused}");
    assert!(refused.contains("kent region expand small --space default --by 1"), "{refused}");
    operator.kent("region set small --auto-expand 100:1");
    assert_eq!(operator.kent("alloc region:small -n 2").lines().count(), 2);
    assert_eq!(operator.json("region show small")["suffix_bits"], json!(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_step_holds_over_crashes() {
    let data = data_dir();
    let mut seen = Ledger::default();
    let sources = [("chunked", "00", 0), ("strict", "01", 1 << 62)];
    for round in 0..6 {
        let daemon = Daemon::start(data.path());
        for (region, prefix, base) in sources {
            if round == 0 {
                let create = CreateRegionRequest { prefix: Some(prefix.to_owned()), ..create(region) };
                daemon.regions().create_region(create).await.expect("created");
                step(&daemon, region, 5, 2, region == "strict").await;
            }
            let source = format!("region:{region}");
            for encoding in [Encoding::Lease, Encoding::Packed] {
                let reply = daemon.allocator().allocate(request(&source, 700, encoding)).await.expect("granted");
                let ids = identifiers(reply.get_ref());
                assert_eq!(ids.len(), 700);
                assert!(ids.iter().all(|id| (id - base) % 5 == 2), "{region} {encoding:?}");
                seen.record(&source, ids);
            }
        }
        daemon.kill();
    }
    assert_eq!(seen.len(), 6 * 4 * 700);
}

/// Gives a region a step, and waits until it holds on all replicas.
async fn step(daemon: &Daemon, region: &str, step: u32, offset: u32, strict: bool) -> EditResponse {
    let policy = Some(Policy { strict, stride: Some(Stride { step, offset }), ..Policy::default() });
    let update = UpdateRegionRequest { name: name(region), policy, ..UpdateRegionRequest::default() };
    let made = daemon.regions().update_region(update).await.expect("a step").into_inner();
    sleep(Duration::from_millis(made.effective_within_ms)).await;
    made
}

/// A repeated request ID is answered as done only if the region has the step now.
#[test]
fn err_a_request_id_does_not_stand_for_a_step_that_is_gone() {
    let operator = operator();
    let set = |policy: &str| operator.kent(&format!("region set ids --space orders {policy}"));
    let err = |policy: &str| {
        let refused = operator.refused(&format!("region set ids --space orders {policy}"), "BAD_INPUT");
        assert!(refused.contains("this edit would change something: use a new one"), "{policy}: {refused}");
    };
    set("--step 2 --offset 1");
    // Both change nothing, also when they are repeated.
    for _ in 0..2 {
        set("--step 2 --offset 1 --request-id again");
        set("--owner= --request-id owner");
    }
    err("--step 4 --offset 1 --request-id again");
    set("--no-step --next 101");
    err("--step 2 --offset 1 --request-id again");
    err("--step 2 --offset 1 --request-id owner");
    assert_eq!(operator.kent("alloc region:ids@orders -n 2"), lines([101, 102]));
}

/// The new regions could have identifiers of the other generator, unless it stays below the capacity of the region.
#[test]
fn ok_a_division_beside_another_generator_is_warned_of() {
    let operator = operator();
    operator.kent("region set ids --space orders --step 2");
    for edit in ["split ids --by 1 --new other:10", "subdivide ids --by 1 --new heir:20:0 --abstract"] {
        let (code, _, warning) = operator.run(&format!("region {edit} --space orders"));
        assert_eq!(code, 0, "{edit}: {warning}");
        assert!(warning.contains("the other generator of ids must stay below 2^20: "), "{edit}: {warning}");
    }
}

/// Another replica may hold a chunk between the declared number and the counter.
#[tokio::test(flavor = "multi_thread")]
async fn err_a_repeated_declaration_names_another_number() {
    let etcd = Etcd::start(1);
    let [one, two] = pair(&etcd).await;
    let set = |words: &str| run_at(one.grpc_address(), &format!("region set c {words}"));
    for words in ["--next 5000", "--next 5000 --request-id x"] {
        let (code, _, error) = set(words);
        assert_eq!(code, 0, "{words}: {error}");
    }
    let drawn = draw(&two, "region:c", 10).await.expect("granted");
    assert!(drawn.iter().all(|id| (5000..5500).contains(id)), "the chunk begins at the declared number: {drawn:?}");
    let (code, out, error) = set("--next 5500 --request-id x");
    assert!(code == 1 && error.contains("NEXT_TOO_LOW"), "{out}{error}");
}

async fn exactly(daemon: &Daemon, region: &str) -> Result<Region, Status> {
    let get = GetRegionRequest { name: name(region), exact_counter: true };
    daemon.regions().get_region(get).await.map(tonic::Response::into_inner)
}

/// Another generator starts at `reserved`, so a replica must not answer with the counter that it last heard of.
#[tokio::test(flavor = "multi_thread")]
async fn err_a_replica_without_etcd_does_not_know_where_another_generator_may_start() {
    let etcd = Etcd::start(1);
    let proxy = Proxy::to(etcd.clients()[0]);
    let near = replica(&etcd.address("kent"), 3);
    let far = replica(&format!("etcd://{}/kent", proxy.address()), 3);
    near.regions().create_region(create("c")).await.expect("created");
    eventually("the region is seen", async || exactly(&far, "c").await.is_ok()).await;
    proxy.off();
    let drawn = draw(&near, "region:c", 50_000).await.expect("granted");
    let made = step(&near, "c", 2, 1, false).await;
    let reserved = |region: &Region| region.reserved.parse::<u128>().expect("a number");
    let base = drawn[0] - drawn[0] % (1 << 40);
    let last = drawn.iter().max().expect("numbers") - base;
    let (region, after) = (made.region.expect("the region"), made.changes[0].after.as_ref().expect("the change"));
    assert!(reserved(&region) > last && after.reserved == region.reserved, "{} {}", region.reserved, after.reserved);

    let unknown = exactly(&far, "c").await.expect_err("no etcd");
    assert_eq!(unknown.code(), Code::Unavailable, "{unknown}");
    let (code, shown, warning) = run_at(far.grpc_address(), "region show c");
    assert!(code == 0 && warning.contains("`reserved` and `issued` may be out of date"), "{shown}{warning}");
    proxy.on();
    eventually("etcd is back", async || exactly(&far, "c").await.is_ok()).await;
    assert!(reserved(&exactly(&far, "c").await.expect("etcd is back")) > last);
}

#[test]
fn ok_a_strict_region_repeats_an_answer_from_before_a_step() {
    let operator = operator();
    operator.kent("region set ids --space orders --strict");
    let ask = |id: &str, count: u64| operator.kent(&format!("alloc region:ids@orders -n {count} --request-id {id}"));
    assert_eq!(ask("one", 3), lines([0, 1, 2]));
    operator.kent("region set ids --space orders --step 2 --offset 1");
    assert_eq!(ask("one", 3), lines([0, 1, 2]), "the same answer");
    assert_eq!(ask("two", 3), lines([3, 5, 7]));
    operator.kent("region set ids --space orders --no-step --next 100");
    assert_eq!(ask("two", 3), lines([3, 5, 7]), "the same answer");
    assert_eq!(ask("three", 2), lines([100, 101]));
    operator.refused("alloc region:ids@orders -n 6 --request-id two", "BAD_INPUT");
}

/// Two replicas on one store, and the region `c`, whose identifiers are its numbers.
async fn pair(etcd: &Etcd) -> [Arc<Daemon>; 2] {
    let address = etcd.address("kent");
    let replicas = [(); 2].map(|()| Arc::new(replica(&address, 60)));
    let wide = CreateRegionRequest { prefix: Some("0".to_owned()), suffix_bits: Some(60), ..create("c") };
    replicas[0].regions().create_region(wide).await.expect("created");
    eventually("the region is seen", async || draw(&replicas[1], "region:c", 1).await.is_ok()).await;
    replicas
}

/// While two replicas grant, a region gets a step. After the answer, no replica issues a number of the other generator.
#[tokio::test(flavor = "multi_thread")]
async fn ok_no_replica_issues_anothers_number_after_the_answer() {
    let etcd = Etcd::start(1);
    let replicas = pair(&etcd).await;
    let (is_stepped, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for daemon in &replicas {
        let (daemon, is_stepped, ends) = (daemon.clone(), is_stepped.clone(), ends.clone());
        tasks.spawn(async move {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            while !ends.load(Relaxed) {
                let ids = if is_stepped.load(Relaxed) { &mut after } else { &mut before };
                ids.extend(draw(&daemon, "region:c", 3).await.expect("granted"));
                sleep(Duration::from_millis(1)).await;
            }
            (before, after)
        });
    }
    sleep(Duration::from_millis(300)).await;
    step(&replicas[1], "c", 2, 1, false).await;
    is_stepped.store(true, Relaxed);
    sleep(Duration::from_millis(500)).await;
    ends.store(true, Relaxed);
    let mut ledger = Ledger::default();
    while let Some(task) = tasks.join_next().await {
        let (before, after) = task.expect("no task panics");
        assert!(after.iter().all(|id| id % 2 == 1), "a number of the other generator");
        assert!(after.len() > 50, "too few grants to show anything: {}", after.len());
        ledger.record("region:c", before);
        ledger.record("region:c", after);
    }
}

/// A region gets a step and loses it again and again, while clients take identifiers from another replica. When the step
/// ends, that replica has a chunk, which holds numbers of the other generator.
#[tokio::test(flavor = "multi_thread")]
async fn ok_no_replica_issues_anothers_number_when_a_step_ends() {
    let etcd = Etcd::start(1);
    let replicas = pair(&etcd).await;
    // The first number that is not the other generator's, and the numbers that were granted too early.
    let (floor, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (daemon, floor, ends) = (replicas[1].clone(), floor.clone(), ends.clone());
        tasks.spawn(async move {
            let (mut ids, mut others) = (Vec::new(), Vec::new());
            while !ends.load(Relaxed) {
                let below = floor.load(Relaxed);
                let granted = draw(&daemon, "region:c", 1).await.expect("granted");
                others.extend(granted.iter().copied().filter(|id| id % 2 == 0 && *id < below.into()));
                ids.extend(granted);
            }
            (ids, others)
        });
    }
    let update = async |stride: Option<Stride>, next: u64| {
        let policy = Some(Policy { stride, ..Policy::default() });
        let policy_mask = Some(FieldMask { paths: vec!["stride".to_owned()] });
        let next = Some(u128::from(next).into());
        let update =
            UpdateRegionRequest { name: name("c"), policy, policy_mask, next, ..UpdateRegionRequest::default() };
        let made = replicas[0].regions().update_region(update).await.expect("an edit").into_inner();
        sleep(Duration::from_millis(made.effective_within_ms)).await;
    };
    for round in 1..=STEPS {
        let next = round << 40;
        update(Some(Stride { step: 2, offset: 1 }), 0).await;
        // From now on, an even number below `next` belongs to the other generator.
        floor.store(next, Relaxed);
        sleep(Duration::from_millis(5)).await;
        update(None, next).await;
        floor.store(0, Relaxed);
    }
    ends.store(true, Relaxed);
    let mut ledger = Ledger::default();
    while let Some(task) = tasks.join_next().await {
        let (ids, others) = task.expect("no task panics");
        ledger.record("region:c", ids);
        assert_eq!(others, [0; 0], "numbers of the other generator");
    }
}

/// The number of times that a step begins and ends.
const STEPS: u64 = 200;

#[test]
fn ok_a_step_moves_with_an_export() {
    let operator = operator();
    operator.kent("region set ids --space orders --step 4 --offset 3 --owner shop");
    operator.kent("alloc region:ids@orders -n 3");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), operator.kent("table export --space orders")).expect("written");
    let other = Operator::new();
    other.kent("space create orders --bits 62");
    let (code, _, stderr) =
        run_at(other.daemon.grpc_address(), &format!("table import {} --space orders --yes", file.path().display()));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(other.json("region show ids --space orders")["policy"]["stride"], json!({"step": 4, "offset": 3}));
    let next: u64 = other.kent("alloc region:ids@orders").trim().parse().expect("a number");
    assert!(next % 4 == 3 && next > 11, "{next}");
}
