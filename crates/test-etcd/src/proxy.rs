//! A proxy for one member. A test can make it drop replies.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// A proxy between clients and a member. Its threads end with the test process.
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
    is_off: bool,
}

/// What the proxy does with replies.
#[derive(Debug, Default)]
enum Plan {
    /// Passes all replies.
    #[default]
    Pass,
    /// Passes this number of replies, then drops the next one and closes the connection.
    Lose(u32),
    /// Closes the connection after this number of bytes.
    CutAfter(usize),
}

/// A reply to a call has more bytes than this. HTTP/2 frames for settings, pings and windows do not.
const REPLY_BYTES_MIN: usize = 60;

impl Proxy {
    /// Starts a proxy for `member`.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn to(member: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if !lock(&shared).is_off {
                    connect(&client, member, &shared);
                }
            }
        });
        Self { address, state }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes `passing` replies, then drops the next one and closes the connection.
    pub fn lose_answer_after(&self, passing: u32) {
        lock(&self.state).plan = Plan::Lose(passing);
    }

    /// Closes all connections.
    pub fn cut(&self) {
        for connection in lock(&self.state).connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Closes all connections, and all that are opened until [`on`](Self::on).
    pub fn off(&self) {
        lock(&self.state).is_off = true;
        self.cut();
    }

    /// Passes connections again.
    pub fn on(&self) {
        lock(&self.state).is_off = false;
    }

    /// Closes a connection after the member has sent `bytes` more bytes.
    pub fn cut_after(&self, bytes: usize) {
        lock(&self.state).plan = Plan::CutAfter(bytes);
    }

    /// Returns how often the proxy has dropped data and closed a connection according to its plan.
    pub fn lost(&self) -> u32 {
        lock(&self.state).lost
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards bytes in both directions, on two threads.
fn connect(client: &TcpStream, member: SocketAddr, state: &Arc<Mutex<State>>) {
    let Ok(member) = TcpStream::connect(member) else { return };
    let (Ok(asking), Ok(asked)) = (client.try_clone(), member.try_clone()) else { return };
    let (Ok(answered), Ok(kept)) = (client.try_clone(), client.try_clone()) else { return };
    let _ = (client.set_nodelay(true), member.set_nodelay(true));
    lock(state).connections.push(kept);
    let state = state.clone();
    thread::spawn(move || forward(asking, asked, |_| false));
    thread::spawn(move || forward(member, answered, |bytes| is_end(&mut lock(&state), bytes)));
}

/// Forwards bytes until the plan or one side ends the connection.
fn forward(mut from: TcpStream, mut to: TcpStream, is_end: impl Fn(usize) -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if is_end(bytes) || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    // The shutdown also ends the thread for the other direction.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Returns whether the plan drops these bytes and closes the connection.
fn is_end(state: &mut State, bytes: usize) -> bool {
    let is_end = match &mut state.plan {
        Plan::Pass => false,
        Plan::Lose(0) => bytes > REPLY_BYTES_MIN,
        Plan::Lose(passing) => {
            *passing -= u32::from(bytes > REPLY_BYTES_MIN);
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
