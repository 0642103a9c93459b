//! Real etcd clusters for tests. Members can be killed, paused and restarted. Other processes can also be paused.
//!
//! `etcd` must be installed (Debian: `etcd-server`). The members are killed when the cluster is dropped.

mod process;
mod proxy;

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

pub use self::{
    process::{pause, resume},
    proxy::Proxy,
};

/// A cluster of etcd members.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    dir: tempfile::TempDir,
    extra: Vec<String>,
}

#[derive(Debug)]
struct Member {
    client: SocketAddr,
    peer: SocketAddr,
    process: Option<Child>,
    /// A process that kills the member when this process exits for any reason, because a cluster in a `static` is never
    /// dropped.
    reaper: Option<Child>,
}

/// The timeout for the start of a cluster.
const START: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

impl Etcd {
    /// Starts a cluster with this number of members, and waits until all of them answer.
    ///
    /// # Panics
    ///
    /// Panics if etcd is not installed or does not start.
    pub fn start(members: usize) -> Self {
        Self::start_with(members, &[])
    }

    /// Starts a cluster with additional arguments for etcd.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`Etcd::start`].
    pub fn start_with(members: usize, extra: &[&str]) -> Self {
        let mut cluster = Self::prepare(members, extra);
        (0..members).for_each(|at| cluster.spawn(at));
        cluster.wait();
        cluster
    }

    /// Returns the directory of the cluster, which is removed when the cluster is dropped.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the client addresses of all members.
    pub fn clients(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.client).collect()
    }

    /// Returns the address of a store on this cluster.
    pub fn address(&self, prefix: &str) -> String {
        let hosts: Vec<String> = self.clients().iter().map(ToString::to_string).collect();
        format!("etcd://{}/{prefix}", hosts.join(","))
    }

    /// Kills a member with SIGKILL.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.members[at].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if let Some(mut reaper) = self.members[at].reaper.take() {
            let _ = reaper.kill();
            let _ = reaper.wait();
        }
    }

    /// Starts a member that was killed.
    pub fn restart(&mut self, at: usize) {
        if self.members[at].process.is_none() {
            self.spawn(at);
        }
    }

    /// Pauses a member with SIGSTOP.
    pub fn pause(&self, at: usize) {
        self.members[at].process.iter().for_each(pause);
    }

    /// Resumes a paused member.
    pub fn resume(&self, at: usize) {
        self.members[at].process.iter().for_each(resume);
    }

    /// Saves a snapshot of the first member to the cluster's directory.
    ///
    /// # Panics
    ///
    /// Panics if `etcdctl` is not installed (Debian: `etcd-client`) or fails.
    pub fn save_snapshot(&self) -> PathBuf {
        let path = self.dir.path().join("snapshot");
        let mut save = self.etcdctl();
        run(save.args(["snapshot", "save"]).arg(&path));
        path
    }

    /// Kills all members and starts new ones from a snapshot, at the same addresses. The cluster ID depends on the
    /// addresses and `token`. etcd's default token is `etcd-cluster`.
    ///
    /// # Panics
    ///
    /// Panics if a step fails.
    pub fn restore_snapshot(&mut self, snapshot: &Path, token: &str) {
        (0..self.members.len()).for_each(|at| self.kill(at));
        for at in 0..self.members.len() {
            fs::remove_dir_all(self.data(at)).expect("removed");
            let mut restore = self.etcdctl();
            restore.args(["snapshot", "restore"]).arg(snapshot).args(["--name", &format!("m{at}"), "--data-dir"]);
            restore.arg(self.data(at)).args(["--initial-cluster", &self.initial_cluster()]);
            restore.args(["--initial-advertise-peer-urls", &format!("http://{}", self.members[at].peer)]);
            run(restore.args(["--initial-cluster-token", token]));
        }
        (0..self.members.len()).for_each(|at| self.spawn(at));
        self.wait();
    }

    /// Copies a member's data. The member is stopped during the copy, and then restarted.
    ///
    /// # Panics
    ///
    /// Panics if a step fails.
    pub fn copy_data(&mut self, at: usize) -> PathBuf {
        let copy = self.dir.path().join(format!("copy-of-m{at}"));
        self.kill(at);
        run(Command::new("cp").arg("-a").arg(self.data(at)).arg(&copy));
        self.spawn(at);
        self.wait();
        copy
    }

    /// Replaces a member's data with an earlier copy. The member is stopped during the replacement, and then restarted.
    ///
    /// # Panics
    ///
    /// Panics if a step fails.
    pub fn put_back_data(&mut self, at: usize, copy: &Path) {
        self.kill(at);
        fs::remove_dir_all(self.data(at)).expect("removed");
        run(Command::new("cp").arg("-a").arg(copy).arg(self.data(at)));
        self.spawn(at);
        self.wait();
    }

    /// Waits until every running member answers.
    ///
    /// # Panics
    ///
    /// Panics if a member does not answer within half a minute.
    pub fn wait(&self) {
        for member in self.members.iter().filter(|member| member.process.is_some()) {
            let mut waited = Duration::ZERO;
            while !self.is_healthy(member.client) {
                assert!(waited < START, "etcd does not answer; the end of its log:\n{}", self.logs());
                thread::sleep(PAUSE);
                waited += PAUSE;
            }
        }
    }

    /// Returns the value of a member's metric, summed over all labels.
    ///
    /// # Panics
    ///
    /// Panics if the member does not answer.
    pub fn metric(&self, at: usize, name: &str) -> f64 {
        let text = get(self.members[at].client, "/metrics").expect("etcd serves metrics");
        let is_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        text.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Returns whether a member answers and sees a leader. With TLS, returns whether the member accepts connections.
    fn is_healthy(&self, client: SocketAddr) -> bool {
        match self.is_tls() {
            true => TcpStream::connect_timeout(&client, Duration::from_millis(500)).is_ok(),
            false => get(client, "/health").is_some_and(|body| body.contains("true")),
        }
    }

    fn is_tls(&self) -> bool {
        self.extra.iter().any(|argument| argument == "--cert-file")
    }

    fn prepare(members: usize, extra: &[&str]) -> Self {
        // Bind all ports before releasing any of them, so that they all differ.
        let free: Vec<TcpListener> =
            (0..2 * members).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")).collect();
        let address = |at: usize| free[at].local_addr().expect("bound");
        let member =
            |at: usize| Member { client: address(2 * at), peer: address(2 * at + 1), process: None, reaper: None };
        Self {
            members: (0..members).map(member).collect(),
            dir: tempfile::tempdir().expect("a temporary directory"),
            extra: extra.iter().map(ToString::to_string).collect(),
        }
    }

    fn spawn(&mut self, at: usize) {
        let scheme = if self.is_tls() { "https" } else { "http" };
        let Member { client, peer, .. } = &self.members[at];
        let (client, peer) = (format!("{scheme}://{client}"), format!("http://{peer}"));
        let log = File::create(self.log(at)).expect("a log file");
        let mut command = Command::new("etcd");
        command.args(["--name", &format!("m{at}"), "--data-dir"]).arg(self.data(at));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &self.initial_cluster(), "--initial-cluster-state", "new"]);
        // With short intervals, the cluster soon detects a dead member.
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap"]);
        command.args(&self.extra).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let hint = "etcd must be installed for this test (Debian: apt-get install etcd-server)";
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let process = command.spawn().expect(hint);
        // `cat` exits when this process closes its end of the pipe, at the latest on exit.
        let mut reaper = Command::new("sh");
        reaper.args(["-c", &format!("cat; kill -9 {}", process.id())]).stdin(Stdio::piped()).stdout(Stdio::null());
        self.members[at].reaper = Some(reaper.stderr(Stdio::null()).spawn().expect("sh must be installed"));
        self.members[at].process = Some(process);
    }

    fn initial_cluster(&self) -> String {
        let peer = |(at, member): (usize, &Member)| format!("m{at}=http://{}", member.peer);
        self.members.iter().enumerate().map(peer).collect::<Vec<_>>().join(",")
    }

    fn data(&self, at: usize) -> PathBuf {
        self.dir.path().join(format!("m{at}"))
    }

    /// Returns an `etcdctl` command for the first member.
    fn etcdctl(&self) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.members[0].client.to_string()]);
        command
    }

    fn log(&self, at: usize) -> PathBuf {
        self.dir.path().join(format!("m{at}.log"))
    }

    fn logs(&self) -> String {
        let log = |at| std::fs::read_to_string(self.log(at)).unwrap_or_default();
        let tail = |at| log(at).lines().rev().take(3).map(|line| format!("{line}\n")).collect::<String>();
        (0..self.members.len()).map(tail).collect()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
    }
}

fn run(command: &mut Command) {
    let output =
        command.stdin(Stdio::null()).output().expect("etcdctl must be installed (Debian: apt-get install etcd-client)");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(reply)
}
