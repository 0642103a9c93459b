//! A network connection between two processes, which a test can cut.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Notify,
};

/// A proxy to an address. When it is cut, open connections become silent, as in a network partition.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    mended: Notify,
    cut: Notify,
}

impl Wire {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let shared = state.clone();
        Handle::current().spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                Handle::current().spawn(forward(near, target, shared.clone()));
            }
        });
        Self { address, state }
    }

    pub(crate) fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
        self.state.cut.notify_waiters();
    }

    pub(crate) fn mend(&self) {
        self.state.is_cut.store(false, Ordering::SeqCst);
        self.state.mended.notify_waiters();
    }
}

/// Forwards bytes until the wire is cut. Then keeps the connection silent until the wire is restored, and closes it.
async fn forward(mut near: TcpStream, target: SocketAddr, state: Arc<State>) {
    let cut = state.cut.notified();
    tokio::pin!(cut);
    cut.as_mut().enable();
    if !state.is_cut.load(Ordering::SeqCst) {
        let Ok(mut far) = TcpStream::connect(target).await else { return };
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        tokio::select! {
            _ = copy_bidirectional(&mut near, &mut far) => return,
            () = &mut cut => {}
        }
    }
    let mended = state.mended.notified();
    tokio::pin!(mended);
    mended.as_mut().enable();
    if state.is_cut.load(Ordering::SeqCst) {
        mended.await;
    }
}
