//! A proxy in front of one member, which loses answers at a moment that the test chooses.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// Stands between clients and a member. Its threads end with the test's process.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<TcpStream>,
    plan: Plan,
    lost: u32,
}

/// What happens to what the member says.
#[derive(Debug, Default)]
enum Plan {
    /// It passes.
    #[default]
    Pass,
    /// That many answers pass, and the one after them is lost with its connection.
    Lose(u32),
    /// Its connection is lost once that many bytes have passed.
    CutAfter(usize),
}

/// HTTP/2's frames for settings, pings and windows are shorter than this, answers to calls are longer.
const ANSWER_BYTES_MIN: usize = 60;

impl Proxy {
    /// Starts a proxy in front of `member`.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn to(member: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                connect(&client, member, &shared);
            }
        });
        Self { address, state }
    }

    /// Where clients reach the member.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets `passing` answers pass, and loses the one after them, with its connection.
    pub fn lose_answer_after(&self, passing: u32) {
        lock(&self.state).plan = Plan::Lose(passing);
    }

    /// Ends all connections now.
    pub fn cut(&self) {
        for connection in lock(&self.state).connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Ends a connection once the member has said `bytes` more.
    pub fn cut_after(&self, bytes: usize) {
        lock(&self.state).plan = Plan::CutAfter(bytes);
    }

    /// How often an answer was lost or a connection cut as planned.
    pub fn lost(&self) -> u32 {
        lock(&self.state).lost
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries bytes both ways, on two threads.
fn connect(client: &TcpStream, member: SocketAddr, state: &Arc<Mutex<State>>) {
    let Ok(member) = TcpStream::connect(member) else { return };
    let (Ok(asking), Ok(asked)) = (client.try_clone(), member.try_clone()) else { return };
    let (Ok(answered), Ok(kept)) = (client.try_clone(), client.try_clone()) else { return };
    let _ = (client.set_nodelay(true), member.set_nodelay(true));
    lock(state).connections.push(kept);
    let state = state.clone();
    thread::spawn(move || carry(asking, asked, |_| false));
    thread::spawn(move || carry(member, answered, |bytes| is_end(&mut lock(&state), bytes)));
}

/// Carries bytes until the plan or either side ends it.
fn carry(mut from: TcpStream, mut to: TcpStream, is_end: impl Fn(usize) -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if is_end(bytes) || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    // The threads of the other direction end as well.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Whether the connection ends here, and what was just said is lost.
fn is_end(state: &mut State, bytes: usize) -> bool {
    let is_end = match &mut state.plan {
        Plan::Pass => false,
        Plan::Lose(0) => bytes > ANSWER_BYTES_MIN,
        Plan::Lose(passing) => {
            *passing -= u32::from(bytes > ANSWER_BYTES_MIN);
            false
        }
        Plan::CutAfter(left) if bytes > *left => true,
        Plan::CutAfter(left) => {
            *left -= bytes;
            false
        }
    };
    if is_end {
        (state.plan, state.lost) = (Plan::Pass, state.lost + 1);
    }
    is_end
}
