//! A large table is read from its image at the start. It is the same as before, whatever happened meanwhile.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use kent_proto::v1::{
    AddSubregionsRequest, CreateRegionRequest, DeleteRegionRequest, Encoding, ExpandRegionRequest, ListRegionsRequest,
    NewRegion, Region, RenameRegionRequest, SealRegionRequest,
};

use super::harness::{Daemon, Ledger, SPACE, data_dir, identifiers, kentd, name, request};

/// The number of regions in one edit.
const BATCH: usize = 50;

/// The number of edits that fill the table, so that it has more regions than the smallest table with an image.
const EDITS: usize = 210;

/// A daemon on a large table.
struct Large {
    data: PathBuf,
    daemon: Daemon,
    ledger: Ledger,
}

impl Large {
    fn start(data: &Path, ledger: Ledger) -> Self {
        let mut command = kentd(data);
        command.stderr(File::create(data.with_extension("log")).expect("created"));
        Self { data: data.to_owned(), daemon: Daemon::spawn(&mut command), ledger }
    }

    fn image(&self) -> PathBuf {
        self.data.join("images/default")
    }

    /// What the daemon has said, warnings and errors.
    fn said(&self) -> String {
        fs::read_to_string(self.data.with_extension("log")).expect("readable")
    }

    async fn fill(&self) {
        let mut regions = self.daemon.regions();
        let top = CreateRegionRequest {
            parent: SPACE.to_owned(),
            region_id: "top".to_owned(),
            suffix_bits: Some(8),
            prefix: Some("0".to_owned()),
            ..CreateRegionRequest::default()
        };
        regions.create_region(top).await.expect("created");
        for edit in 0..EDITS {
            let region = |at: usize| NewRegion {
                region_id: format!("r{at}"),
                suffix_bits: Some(8),
                extension: Some(format!("{:024b}", at + 1)),
                ..NewRegion::default()
            };
            let new_regions = (edit * BATCH..(edit + 1) * BATCH).map(region).collect();
            let add =
                AddSubregionsRequest { name: name("top"), by_bits: 24, new_regions, ..AddSubregionsRequest::default() };
            regions.add_subregions(add).await.expect("added");
        }
    }

    /// Makes edits of several kinds.
    async fn edit(&self, first: usize) {
        let mut regions = self.daemon.regions();
        for at in first..first + 20 {
            let name = |more: usize| name(&format!("r{}", 4 * at + more));
            let rename =
                RenameRegionRequest { name: name(0), region_id: format!("n{at}"), ..RenameRegionRequest::default() };
            regions.rename_region(rename).await.expect("renamed");
            let seal = SealRegionRequest { name: name(1), ..SealRegionRequest::default() };
            regions.seal_region(seal).await.expect("sealed");
            let delete = DeleteRegionRequest { name: name(2), ..DeleteRegionRequest::default() };
            regions.delete_region(delete).await.expect("deleted");
            let expand = ExpandRegionRequest { name: name(3), by_bits: 1, ..ExpandRegionRequest::default() };
            regions.expand_region(expand).await.expect("expanded");
        }
    }

    /// Takes identifiers from some of the regions that are not edited.
    async fn take(&mut self) {
        for at in (5000..5100).step_by(9) {
            let source = format!("region:r{at}");
            let reply = self.daemon.allocator().allocate(request(&source, 5, Encoding::Packed)).await.expect("granted");
            self.ledger.record(&source, identifiers(reply.get_ref()));
        }
    }

    /// Lists the table in memory, which the daemon would update first if the counters had to be exact.
    async fn list(&self) -> Vec<Region> {
        let (mut all, mut page_token) = (Vec::new(), String::new());
        loop {
            let parent = SPACE.to_owned();
            let list = ListRegionsRequest { parent, page_size: 1000, page_token, ..Default::default() };
            let page = self.daemon.regions().list_regions(list).await.expect("listed").into_inner();
            all.extend(page.regions);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return all;
            }
        }
    }

    async fn stop(self) -> Ledger {
        self.daemon.signal("TERM");
        assert!(self.daemon.wait().await.success());
        self.ledger
    }

    /// Kills the daemon and starts it again. The table must be the same.
    async fn kill(self) -> Self {
        let before = self.list().await;
        self.daemon.kill();
        let again = Self::start(&self.data, self.ledger);
        let after = again.list().await;
        assert!(before.len() > EDITS * BATCH / 2);
        // A number that was reserved but not issued counts as issued after a crash.
        let shape = |region: Region| Region { issued: String::new(), rate: 0.0, full_in_seconds: None, ..region };
        let pairs = before.iter().cloned().map(shape).zip(after.iter().cloned().map(shape));
        let differ: Vec<_> = pairs.filter(|(before, after)| before != after).take(2).collect();
        assert!(differ.is_empty() && before.len() == after.len(), "the table is another one: {differ:#?}");
        again
    }
}

#[tokio::test]
async fn ok_a_large_table_survives_crashes_and_the_loss_of_its_image() {
    let dir = data_dir();
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("created");
    let mut large = Large::start(&data, Ledger::default());
    large.fill().await;
    large.take().await;
    let ledger = large.stop().await;

    let mut large = Large::start(&data, ledger);
    assert!(large.image().exists(), "the stop has written it");
    large.take().await;
    large.edit(0).await;
    let mut large = large.kill().await;
    large.take().await;
    large.edit(20).await;
    let mut large = large.kill().await;
    large.take().await;
    assert_eq!(large.said(), "", "the image was used");

    let mut bytes = fs::read(large.image()).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(large.image(), &bytes).expect("written");
    let mut large = large.kill().await;
    assert!(large.said().contains("the image of the table cannot be used"), "{}", large.said());
    large.take().await;
    large.edit(40).await;
    fs::remove_dir_all(data.join("images")).expect("removed");
    let mut large = large.kill().await;
    assert_eq!(large.said(), "", "an image that does not exist is not an error");
    large.take().await;
    let ledger = large.stop().await;
    assert!(data.join("images/default").exists(), "the stop has written it again");
    Large::start(&data, ledger).take().await;
}
