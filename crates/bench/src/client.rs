//! `kent-bench client`: identifiers from the client crate, compared with in-process generators.

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

/// Measure nanoseconds per identifier from the client crate and from generators that need no service.
///
/// `try_next` takes one identifier from the stock of a handle while the handle prefetches more from a real daemon; the
/// result includes the time that a caller waits. `take` requests a million identifiers. Several threads share one
/// handle, and the result is for all threads together. A stall is the time from one identifier to the next.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    options: Options,
    /// Number of concurrent threads to measure in addition to a single thread.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=256))]
    threads: u64,
    /// Number of identifiers over which to find the longest stall.
    #[arg(long, default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

/// The number of identifiers per `take`.
const BULK: usize = 1_000_000;
/// The number of xids that can be taken at once. After such a burst, the clock limits the rate of xids.
const XID_BURST: u64 = 20_000_000;
/// The number of identifiers taken between two readings of the clock.
const PIECE: u64 = 1024;
/// In the search for the longest stall, the number of identifiers after which to update the progress bar and check for
/// Ctrl-C.
const CHECK_INTERVAL: u64 = 1 << 20;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// The generators under measurement.
struct Generators {
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
    // The handles prefetch in tasks, which need a thread in addition to those that take identifiers.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = Client::new(format!("http://{}", daemon.address))?;
    runtime.block_on(regions::create(&client, "taken"))?;
    let generators = Generators {
        length: args.options.length(),
        runtime,
        uuids: client.uuid_v7(),
        xids: client.xid(),
        regional: client.region("taken"),
        snowflakes: AtomicSnowflakeGenerator::new(0, MonotonicClock::default()),
    };
    let contest = Contest::new("client", Unit::Nanos("identifier"), &args.options)?;
    let mut alone = generators.contenders(1);
    alone.push(generators.bulk("uuidv7 take", &generators.uuids, u64::MAX));
    alone.push(generators.bulk("xid take", &generators.xids, XID_BURST));
    alone.push(generators.bulk("region take", &generators.regional, u64::MAX));
    let one = contest.run("1 thread", alone)?;
    let many = contest.run(&format!("{} threads", args.threads), generators.contenders(args.threads))?;
    facts(&contest, &one, &many);

    let bar = contest.progress("longest stall", 2 * (args.count / CHECK_INTERVAL));
    let counter = stall(args.count, bar, || Some(COUNTER.fetch_add(1, Ordering::Relaxed)))?;
    let uuids = generators.runtime.block_on(async { stall(args.count, bar, || generators.uuids.try_next()) })?;
    let millis = |stall: Duration| Some(stall.as_secs_f64() * 1e3);
    contest.fact(format!("longest stall of {} numbers from fetch_add, ms", args.count), millis(counter), Bound::Any);
    contest.fact(format!("longest stall of {} uuidv7 from try_next, ms", args.count), millis(uuids), Bound::Any);
    contest.finish();
    drop(client);
    drop(generators);
    daemon.stop()
}

fn facts(contest: &Contest, one: &Outcomes, many: &Outcomes) {
    // A ratio of times is the inverse of the ratio of rates.
    let time = |name, of| one.ratio(of, name);
    contest.fact(
        "time per identifier, uuidv7 try_next / uuid now_v7",
        time("uuidv7 try_next", "uuid now_v7"),
        Bound::AtMost(0.1),
    );
    for name in ["xid try_next", "region try_next"] {
        contest.fact(format!("time per identifier, {name} / fetch_add"), time(name, "fetch_add"), Bound::AtMost(1.3));
    }
    for (name, most) in [("uuidv7 take", 5.0), ("xid take", 1.5), ("region take", 1.5)] {
        contest.fact(format!("{name}, ns each"), one.rate(name).map(|rate| 1e9 / rate), Bound::AtMost(most));
    }
    for name in ["uuidv7 try_next", "xid try_next", "region try_next"] {
        let ratio = many.rate(name).zip(one.rate(name)).map(|(many, one)| many / one);
        contest.fact(format!("{name}, rate of several threads / one thread"), ratio, Bound::AtLeast(1.0));
    }
}

impl Generators {
    /// Returns a contender for each generator of single identifiers.
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
            self.one("uuidv7 try_next", threads, u64::MAX, || blocking(&self.uuids)),
            self.one("xid try_next", threads, XID_BURST, || blocking(&self.xids)),
            self.one("region try_next", threads, u64::MAX, || blocking(&self.regional)),
        ]
    }

    /// Returns a contender whose threads take single identifiers, at most `most` in total. For each thread, `make`
    /// returns a generator.
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
                slice.count += black_box(&ids).len() as u64; // OK because a usize has at most 64 bits
                slice.took = began.elapsed();
            }
            Ok(slice)
        })
    }
}

/// Returns a closure that waits for the next identifier of a handle.
fn blocking<T: Identifier>(handle: &Handle<T>) -> impl FnMut() -> T {
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

/// Returns the longest time from one identifier to the next.
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
        if taken % CHECK_INTERVAL == 0 {
            bar.inc(1);
            interrupt::check()?;
            // The time for the update and the check does not count as a stall.
            last = now();
        }
    }
    Ok(longest)
}
