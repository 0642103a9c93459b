//! Tests of the client in a process that forks, and in a process that is stopped for a while. They do not use the standard test
//! harness, because it starts threads.

#[path = "it/daemon.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod daemon;

use std::{
    collections::HashSet,
    env,
    io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use fork::{Fork, fork};
use futures_util::FutureExt;
use kent_client::{Client, Error, Handle};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::{
    runtime::{self, Runtime},
    time::Instant,
};
use uuid::Uuid;

use self::daemon::{Daemon, Script};

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, mode, endpoint] = arguments.as_slice()
        && mode == TAKER
    {
        return take_all_the_time(endpoint);
    }
    let is_wanted = |name: &str| arguments[1..].iter().all(|wanted| wanted.starts_with('-') || name.contains(wanted));
    let wanted: Vec<_> = TESTS.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    for (name, test) in &wanted {
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n", wanted.len());
}

const TESTS: [(&str, fn()); 2] = [
    ("ok_parent_and_children_never_get_the_same_identifier", ok_parent_and_children_never_get_the_same_identifier),
    ("ok_a_stopped_process_returns_no_old_identifiers", ok_a_stopped_process_returns_no_old_identifiers),
];

fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Returns the identifier without its random tail, which would hide a repeated position.
fn position(id: Uuid) -> u128 {
    id.as_u128() >> TAIL_BITS
}

fn tail(id: Uuid) -> u128 {
    id.as_u128() & ((1 << TAIL_BITS) - 1)
}

const TAIL_BITS: u32 = 46;

const CHILDREN: usize = 1000;
/// The number of identifiers of the parent's other thread that are compared. On a slow machine, it takes billions.
const COMPARED_MAX: usize = 2_000_000;
/// The longest time that a child may take.
const CHILD_ENDS: Duration = Duration::from_secs(60);

fn ok_parent_and_children_never_get_the_same_identifier() {
    let runtime = runtime();
    let daemon = runtime.block_on(Daemon::start(Script::new()));
    let client = Client::new(daemon.endpoint()).expect("valid");
    let (uuids, orders) = (client.uuid_v7(), client.region("orders"));
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let (seen, stop) = (thread::spawn(move || read_all(reader)), AtomicBool::new(false));

    let (mut of_parent, mut tails) = (HashSet::new(), Vec::new());
    thread::scope(|scope| {
        let stopping = Stopping(&stop);
        // When the process forks, this thread can be at any point and can hold any lock.
        let other = scope.spawn(|| {
            let _inside = runtime.enter();
            let mut taken = Vec::new();
            while !stop.load(Relaxed) {
                let uuid = uuids.try_next().map(position);
                let numbers = runtime.block_on(orders.take(3)).expect("granted");
                if taken.len() < COMPARED_MAX {
                    taken.extend(uuid.into_iter().chain(numbers));
                }
            }
            taken
        });
        for _ in 0..CHILDREN {
            let _inside = runtime.enter();
            let (id, order) = runtime.block_on(async { (uuids.next().await, orders.next().await) });
            for number in [position(id.expect("granted")), order.expect("granted")] {
                assert!(of_parent.insert(number), "{number} was returned twice in the parent");
            }
            let mut taking = Box::pin(orders.take(1_000));
            // A fetch is in progress when the process forks.
            let early = taking.as_mut().now_or_never();
            match fork().expect("a child") {
                Fork::Child => {
                    let all = || in_child(&uuids, &orders, early.is_none().then_some(taking), &daemon, &mut writer);
                    process::exit(i32::from(catch_unwind(AssertUnwindSafe(all)).is_err()));
                }
                Fork::Parent(child) => wait_for(Pid::from_raw(child).expect("a process")),
            }
            // A child that used its parent's generator would have generated the same random tails.
            let ids = runtime.block_on(uuids.take(OF_EACH)).expect("granted");
            assert!(ids.iter().all(|id| of_parent.insert(position(*id))), "a number was returned twice in the parent");
            tails.extend(ids.into_iter().map(tail));
            let taken = early.unwrap_or_else(|| runtime.block_on(taking)).expect("granted");
            assert!(
                taken.into_iter().all(|number| of_parent.insert(number)),
                "a number was returned twice in the parent"
            );
        }
        drop(stopping);
        let taken = other.join().expect("the thread does not panic");
        assert!(taken.into_iter().all(|number| of_parent.insert(number)), "a number was returned twice in the parent");
    });
    drop(writer);
    let reported: Vec<Uuid> = seen.join().expect("the thread does not panic");
    let of_children: HashSet<u128> = reported.iter().copied().map(position).collect();
    assert_eq!(reported.len(), of_children.len(), "two children got the same identifier");
    assert!(of_children.is_disjoint(&of_parent), "a parent and a child got the same identifier");
    assert_eq!(reported.len(), CHILDREN * OF_EACH, "each child gets identifiers from its own client only");
    tails.extend(reported.into_iter().map(tail));
    assert_eq!(tails.iter().collect::<HashSet<_>>().len(), tails.len(), "two random tails are equal");
}

/// Stops the other thread, even if the test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The number of identifiers that each child takes from its own client.
const OF_EACH: usize = 3;

/// Takes all identifiers that a child can get, and sends them to the parent.
fn in_child(
    uuids: &Handle<Uuid>,
    orders: &Handle<u128>,
    taking: Option<impl Future<Output = Result<Vec<u128>, Error>>>,
    daemon: &Daemon,
    parent: &mut PipeWriter,
) {
    let mut taken = Vec::new();
    for _ in 0..20 {
        taken.extend(uuids.try_next().map(position));
        taken.extend(orders.try_next());
    }
    let took = uuids.take(20).now_or_never().expect("no waiting");
    taken.extend(took.iter().flatten().copied().map(position));
    let later = taking.and_then(FutureExt::now_or_never);
    taken.extend(later.iter().flatten().flatten());
    let next = orders.next().now_or_never().expect("no waiting");
    taken.extend(&next);

    assert!(taken.is_empty() && matches!(took, Err(Error::Forked)) && matches!(next, Err(Error::Forked)), "{taken:?}");

    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = Client::new(daemon.endpoint()).expect("valid");
    let ids = runtime.block_on(client.uuid_v7().take(OF_EACH)).expect("granted");
    let text: String = ids.into_iter().map(|id| format!("{id}\n")).collect();
    parent.write_all(text.as_bytes()).expect("the parent reads");
}

/// Reads the identifiers of all children.
fn read_all(reader: PipeReader) -> Vec<Uuid> {
    BufReader::new(reader).lines().map(|line| line.expect("text").parse().expect("a UUID")).collect()
}

/// Waits until a child has ended successfully.
fn wait_for(child: Pid) {
    let began = Instant::now();
    loop {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).expect("a child") {
            assert_eq!(status.exit_status(), Some(0), "the child failed: see its output");
            return;
        }
        if began.elapsed() > CHILD_ENDS {
            kill_process(child, Signal::KILL).expect("a child");
            panic!("a child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The argument of a process that takes identifiers continuously.
const TAKER: &str = "--taker";
const MAX_AGE: Duration = Duration::from_millis(300);
/// The pause between two identifiers, too long for a burst.
const PAUSE: Duration = Duration::from_micros(2);
const STOPS: usize = 3;

fn ok_a_stopped_process_returns_no_old_identifiers() {
    let runtime = runtime();
    let daemon = runtime.block_on(Daemon::start(Script::new()));
    let mut taker = Taker::start(&daemon.endpoint());
    for _ in 0..STOPS {
        taker.signal(Signal::STOP);
        let (_, status) = waitpid(Some(taker.pid()), WaitOptions::UNTRACED).expect("a child").expect("a change");
        assert!(status.stopped(), "{status:?}");
        thread::sleep(MAX_AGE + Duration::from_millis(100));
        taker.signal(Signal::CONT);
        assert_eq!(taker.read(), YOUNG, "an identifier from before the stop was returned after it");
    }
}

const READY: &str = "ready";
const YOUNG: &str = "young";
const OLD: &str = "old";

/// Takes identifiers continuously. After each stop, prints whether the next identifier was prefetched before the stop.
fn take_all_the_time(endpoint: &str) {
    let runtime = runtime();
    let _inside = runtime.enter();
    let handle = Client::builder().endpoint(endpoint).max_age(MAX_AGE).build().expect("valid").uuid_v7();
    let (mut last_look, mut last) = (Instant::now(), None);
    let mut take = |count: usize| {
        let mut verdict = None;
        let mut taken = 0;
        while taken < count {
            while last_look.elapsed() < PAUSE {}
            let look = Instant::now();
            // A stop after this clock reading is detected at the next reading.
            let was_stopped = look - last_look > MAX_AGE;
            let position = handle.try_next().map(position);
            if was_stopped {
                let goes_on = position.is_some_and(|position| last.is_none_or(|last| position == last + 1));
                verdict = Some(if goes_on { OLD } else { YOUNG });
            }
            taken += usize::from(position.is_some());
            (last_look, last) = (look, position.or(last));
        }
        verdict
    };
    take(100);
    println!("{READY}");
    loop {
        if let Some(verdict) = take(100) {
            println!("{verdict}");
        }
    }
}

/// A process that takes identifiers continuously.
struct Taker {
    child: Child,
    answers: BufReader<process::ChildStdout>,
}

impl Taker {
    /// Starts the process and waits until it is ready.
    fn start(endpoint: &str) -> Self {
        let mut command = Command::new(env::current_exe().expect("this program"));
        let mut child = command.args([TAKER, endpoint]).stdout(Stdio::piped()).spawn().expect("started");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut taker = Self { child, answers };
        assert_eq!(taker.read(), READY);
        taker
    }

    fn read(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("text");
        line.trim().to_owned()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        // OK because the process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
