//! A full disk: nothing acknowledged is lost, and the daemon recovers when space is freed.
//!
//! The disk is a tmpfs in a separate mount namespace, which needs no privileges if the kernel allows user namespaces.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use kent_proto::v1::{
    CreateRegionRequest, Encoding, ListRegionsRequest, Policy, UpdateRegionRequest, allocator_client::AllocatorClient,
    regions_client::RegionsClient,
};
use tonic::{Code, Status, transport::Channel};

use super::harness::{Daemon, Ledger, copy_environment, data_dir, identifiers, kentd, request};

/// A small disk, and the process that keeps it mounted.
pub(crate) struct SmallDisk {
    holder: Child,
    mounted_at: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of 12 MiB at `at`. Only processes started by [`SmallDisk::run`] see it. Returns `None` if the
    /// machine does not allow this.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        let script = format!("mount -t tmpfs -o size=12m none {} && echo mounted && exec cat", at.display());
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
        // The process reads its standard input, so it ends when the test ends, even if the test panics.
        let mut holder =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare (util-linux) starts");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("it reports the result");
        (line == "mounted\n").then(|| Self { holder, mounted_at: at.to_owned() })
    }

    /// The command line of a daemon with its store on the disk.
    fn kentd(&self) -> Command {
        self.run(&kentd(&self.mounted_at.join("data")))
    }

    /// The command line of a daemon that sees the disk.
    pub(crate) fn run(&self, daemon: &Command) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--user", "--mount", "--preserve-credentials", "--"]);
        command.arg(daemon.get_program()).args(daemon.get_args()).args(["--log", "off"]);
        copy_environment(daemon, &mut command);
        command
    }

    /// The path of the disk as seen from this process.
    pub(crate) fn root(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.mounted_at.strip_prefix("/").expect("absolute"))
    }

    /// The file that fills the disk.
    fn filler(&self) -> PathBuf {
        self.root().join("filler")
    }

    pub(crate) fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a file");
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    pub(crate) fn empty(&self) {
        fs::remove_file(self.filler()).expect("removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A client that edits the table, requests invoice numbers, and records every acknowledged edit and number.
pub(crate) struct User {
    regions: RegionsClient<Channel>,
    allocator: AllocatorClient<Channel>,
    regions_made: BTreeSet<String>,
    invoices: Ledger,
}

impl User {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        let (regions_made, invoices) = (BTreeSet::new(), Ledger::default());
        Self { regions: daemon.regions(), allocator: daemon.allocator(), regions_made, invoices }
    }

    pub(crate) fn talks_to(&mut self, daemon: &Daemon) {
        (self.regions, self.allocator) = (daemon.regions(), daemon.allocator());
    }

    /// Creates a region with a long description, to use space in the store.
    pub(crate) async fn create(&mut self, name: &str) -> Result<(), Status> {
        let create = CreateRegionRequest {
            parent: "spaces/default".to_owned(),
            region_id: name.to_owned(),
            suffix_bits: Some(16),
            ..CreateRegionRequest::default()
        };
        self.regions.create_region(create).await?;
        self.regions_made.insert(name.to_owned());
        let description = Some("x".repeat(4000));
        self.update(UpdateRegionRequest { name: full_name(name), description, ..UpdateRegionRequest::default() }).await
    }

    pub(crate) async fn update(&mut self, update: UpdateRegionRequest) -> Result<(), Status> {
        self.regions.update_region(update).await.map(drop)
    }

    pub(crate) async fn number_invoices(&mut self) -> Result<(), Status> {
        let granted = self.allocator.allocate(request("region:invoices", 10, Encoding::Packed)).await?;
        self.invoices.record("region:invoices", identifiers(granted.get_ref()));
        Ok(())
    }

    /// Checks that every region whose creation was acknowledged exists.
    pub(crate) async fn check(&mut self) {
        let (mut listed, mut page_token) = (BTreeSet::new(), String::new());
        loop {
            let list = ListRegionsRequest { parent: "spaces/default".to_owned(), page_token, ..Default::default() };
            let page = self.regions.list_regions(list).await.expect("a page").into_inner();
            listed.extend(page.regions.iter().filter_map(|it| Some(it.name.rsplit_once('/')?.1.to_owned())));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let lost: Vec<_> = self.regions_made.difference(&listed).collect();
        assert!(lost.is_empty(), "{lost:?} are lost");
    }
}

pub(crate) fn full_name(region: &str) -> String {
    format!("spaces/default/regions/{region}")
}

/// Repeats an action for up to half a minute until it succeeds. Until then, only refusals because of the full disk are
/// allowed.
pub(crate) async fn until_it_works(user: &mut User, act: impl AsyncFn(&mut User) -> Result<(), Status>) {
    for _ in 0..300 {
        match act(user).await {
            Ok(()) => return,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not recover");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_full_disk_loses_nothing_and_recovers() {
    let dir = data_dir();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        eprintln!("skipped: this machine does not allow mounting a disk in a user namespace");
        return;
    };
    let mut daemon = Daemon::spawn(&mut disk.kentd());
    let mut user = User::of(&daemon);
    user.create("invoices").await.expect("there is space");
    let strict = Some(Policy { strict: true, ..Policy::default() });
    let update = UpdateRegionRequest { name: full_name("invoices"), policy: strict, ..Default::default() };
    user.update(update).await.expect("there is space");
    for round in 0..2 {
        user.number_invoices().await.expect("there is space");
        disk.fill();
        let mut refusals = Vec::new();
        for attempt in 0..5000 {
            // The journal's preallocated file still has space for some commits.
            refusals.extend(user.create(&format!("r{round}-{attempt}")).await.err());
            refusals.extend(user.number_invoices().await.err());
            if refusals.len() >= 4 {
                break;
            }
        }
        assert!(refusals.len() >= 4, "the disk is full, but nothing was refused");
        for refusal in &refusals {
            assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
        }
        disk.empty();
        if round == 1 {
            // A store opens again after its daemon is killed on a full disk.
            daemon.kill();
            daemon = Daemon::spawn(&mut disk.kentd());
            user.talks_to(&daemon);
        }
        until_it_works(&mut user, User::number_invoices).await;
        until_it_works(&mut user, async |user| user.create(&format!("after{round}")).await).await;
        user.check().await;
    }
    daemon.kill();
    let daemon = Daemon::spawn(&mut disk.kentd());
    user.talks_to(&daemon);
    user.check().await;
    user.number_invoices().await.expect("there is space");
}
