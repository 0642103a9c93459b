//! `kent-bench client`: identifiers taken from the client crate, against generators in process.

use std::{
    hint::black_box,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::anyhow;
use clap::Args;
use ferroid::{
    generator::{AtomicSnowflakeGenerator, thread_local::Ulid as FerroidUlid},
    id::SnowflakeMastodonId,
    time::MonotonicClock,
};
use indicatif::ProgressBar;
use kent_client::{Client, Handle, Identifier};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::{
    contest::{Bound, Contender, Contest, Options, Outcomes, Slice, Unit},
    figures::now,
    interrupt,
    process::Served,
    regions,
};

/// Identifiers in process: nanoseconds each, from the client crate and from generators that need no service.
///
/// `try_next` takes one identifier from those that a handle has in hand, while the handle fetches more from a real daemon;
/// what a caller waits for them is part of the figure. `take` asks for a million at once. Several threads share one handle, and
/// the figure is for all of them together. A stall is the time from one identifier to the next.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    options: Options,
    /// How many threads take identifiers at once, beside one alone.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=256))]
    threads: u64,
    /// Over how many identifiers the longest stall is sought.
    #[arg(long, default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

/// What `take` is asked for at once.
const BULK: usize = 1_000_000;
/// The clock of xid is faster than the others here in the long run. A burst of so many does not wait for it.
const XID_BURST: u64 = 20_000_000;
/// Between two looks at the clock.
const PIECE: u64 = 1024;
/// As often progress is told and Ctrl-C looked for, while a stall is sought.
const LOOK: u64 = 1 << 20;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// What the slices run with.
struct Ring {
    length: Duration,
    runtime: Runtime,
    uuids: Handle<Uuid>,
    xids: Handle<kent_client::Uid11>,
    regional: Handle<u128>,
    snowflakes: AtomicSnowflakeGenerator<SnowflakeMastodonId, MonotonicClock>,
}

pub(crate) fn run(args: &ClientArgs) -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let daemon = Served::kentd(args.options.kentd.as_ref(), data.path())?;
    // The handles fetch in tasks, so that these need a thread besides those that take.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = Client::new(format!("http://{}", daemon.address))?;
    runtime.block_on(regions::create(&client, "taken"))?;
    let ring = Ring {
        length: args.options.length(),
        runtime,
        uuids: client.uuid_v7(),
        xids: client.xid(),
        regional: client.region("taken"),
        snowflakes: AtomicSnowflakeGenerator::new(0, MonotonicClock::default()),
    };
    let contest = Contest::new("client", Unit::Nanos("identifier"), &args.options)?;
    let mut alone = ring.contenders(1);
    alone.push(ring.bulk("uuidv7 take", &ring.uuids, u64::MAX));
    alone.push(ring.bulk("xid take", &ring.xids, XID_BURST));
    alone.push(ring.bulk("region take", &ring.regional, u64::MAX));
    let one = contest.run("1 thread", alone)?;
    let many = contest.run(&format!("{} threads", args.threads), ring.contenders(args.threads))?;
    facts(&contest, &one, &many);

    let bar = contest.progress("longest stall", 2 * (args.count / LOOK));
    let counter = stall(args.count, bar, || Some(COUNTER.fetch_add(1, Ordering::Relaxed)))?;
    let uuids = ring.runtime.block_on(async { stall(args.count, bar, || ring.uuids.try_next()) })?;
    let millis = |stall: Duration| Some(stall.as_secs_f64() * 1e3);
    contest.fact(format!("longest stall of {} numbers from fetch_add, ms", args.count), millis(counter), Bound::Any);
    contest.fact(format!("longest stall of {} uuidv7 from try_next, ms", args.count), millis(uuids), Bound::Any);
    contest.finish();
    drop(client);
    drop(ring);
    daemon.stop()
}

fn facts(contest: &Contest, one: &Outcomes, many: &Outcomes) {
    // Of times, not of rates.
    let time = |name, of| one.ratio(of, name);
    contest.fact("try_next of uuidv7, of uuid's now_v7", time("uuidv7 try_next", "uuid now_v7"), Bound::AtMost(0.1));
    for name in ["xid try_next", "region try_next"] {
        contest.fact(format!("{name}, of fetch_add"), time(name, "fetch_add"), Bound::AtMost(1.3));
    }
    for (name, most) in [("uuidv7 take", 5.0), ("xid take", 1.5), ("region take", 1.5)] {
        contest.fact(format!("{name}, ns each"), one.rate(name).map(|rate| 1e9 / rate), Bound::AtMost(most));
    }
    for name in ["uuidv7 try_next", "xid try_next", "region try_next"] {
        let ratio = many.rate(name).zip(one.rate(name)).map(|(many, one)| many / one);
        contest.fact(format!("{name}, several threads of one"), ratio, Bound::AtLeast(1.0));
    }
}

impl Ring {
    /// All that give one identifier after the other.
    fn contenders(&self, threads: u64) -> Vec<Contender<'_>> {
        vec![
            self.one("uuid now_v7", threads, u64::MAX, || Uuid::now_v7),
            self.one("ulid", threads, u64::MAX, || {
                let mut generator = ulid::Generator::new();
                move || generator.generate().map_err(drop)
            }),
            self.one("ferroid ulid", threads, u64::MAX, || || FerroidUlid::new_ulid_mono(|_| thread::yield_now())),
            self.one("ferroid snowflake", threads, u64::MAX, || || self.snowflakes.next_id(|_| thread::yield_now())),
            self.one("fetch_add", threads, u64::MAX, || || COUNTER.fetch_add(1, Ordering::Relaxed)),
            self.one("uuidv7 try_next", threads, u64::MAX, || patient(&self.uuids)),
            self.one("xid try_next", threads, XID_BURST, || patient(&self.xids)),
            self.one("region try_next", threads, u64::MAX, || patient(&self.regional)),
        ]
    }

    /// Threads that take one identifier after the other, each with what `make` makes for it; at most so many in all.
    fn one<'a, T, N: FnMut() -> T>(
        &'a self,
        name: &str,
        threads: u64,
        most: u64,
        make: impl Fn() -> N + Sync + 'a,
    ) -> Contender<'a> {
        Contender::new(name, move || {
            let barrier = Barrier::new(threads.try_into()?);
            let work = || {
                let _guard = self.runtime.enter();
                let next = make();
                barrier.wait();
                spin(self.length, most / threads, next)
            };
            thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                let mut sum = Slice::default();
                for worker in workers {
                    sum.add(worker.join().map_err(|_| anyhow!("a thread panicked"))?);
                }
                Ok(sum)
            })
        })
    }

    fn bulk<'a, T: Identifier>(&'a self, name: &str, handle: &'a Handle<T>, most: u64) -> Contender<'a> {
        Contender::new(name, move || {
            let (began, mut slice) = (now(), Slice::default());
            while slice.took < self.length && slice.count < most {
                let ids = self.runtime.block_on(handle.take(BULK))?;
                slice.count += black_box(&ids).len() as u64; // OK because a usize has 64 bits at most
                slice.took = began.elapsed();
            }
            Ok(slice)
        })
    }
}

/// The next identifier of a handle, waited for.
fn patient<T: Identifier>(handle: &Handle<T>) -> impl FnMut() -> T {
    let handle = handle.clone();
    move || {
        loop {
            match handle.try_next() {
                Some(id) => return id,
                None => thread::yield_now(),
            }
        }
    }
}

fn spin<T>(length: Duration, most: u64, mut next: impl FnMut() -> T) -> Slice {
    let (began, mut slice) = (now(), Slice::default());
    while slice.took < length && slice.count < most {
        for _ in 0..PIECE {
            black_box(next());
        }
        slice.count += PIECE;
        slice.took = began.elapsed();
    }
    slice
}

/// The longest time from one identifier to the next.
fn stall<T>(count: u64, bar: &ProgressBar, mut next: impl FnMut() -> Option<T>) -> anyhow::Result<Duration> {
    let (mut longest, mut last, mut taken) = (Duration::ZERO, now(), 0);
    while taken < count {
        match black_box(next()) {
            Some(_) => taken += 1,
            None => {
                thread::yield_now();
                continue;
            }
        }
        let time = now();
        longest = longest.max(time - last);
        last = time;
        if taken % LOOK == 0 {
            bar.inc(1);
            interrupt::check()?;
            // What these took is nobody's stall.
            last = now();
        }
    }
    Ok(longest)
}
