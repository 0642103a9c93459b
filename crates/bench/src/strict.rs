//! `kent-bench strict`: the cost of a strict region, whose grants are durable before the daemon answers.

use std::{fs::File, io::Write, time::Duration};

use anyhow::Context;
use clap::Args;
use kent_client::Client;

use crate::{
    arena::Arena,
    contest::{Bound, Contender, Options, Slice, Unit},
    figures::now,
    load::{Load, lease},
    process::Served,
    regions,
};

/// Compare grants from a strict region with grants from a plain region: requests per second and latencies.
///
/// A strict region's numbers have no gaps: each grant is on disk before the daemon answers. `archived` is a second
/// daemon, which also writes grants to an archive on the same disk. `fdatasync` appends a record of the same size to a
/// file on the same disk, and syncs the file.
#[derive(Debug, Args)]
pub(crate) struct StrictArgs {
    #[command(flatten)]
    options: Options,
}

/// A record of approximately the size that the store writes for a grant.
const RECORD: [u8; 256] = [b'x'; 256];

pub(crate) fn run(args: &StrictArgs) -> anyhow::Result<()> {
    let arena = Arena::open("strict", Unit::Each("requests"), &args.options)?;
    arena.runtime.block_on(async {
        let client = arena.client()?;
        regions::create(&client, "plain").await?;
        regions::create_strict(&client, "strict").await
    })?;
    // These directories are on the same disk as the other store.
    let (archive, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let archive = archive.path().to_str().context("the temporary directory's name is not UTF-8")?;
    let more = ["--archive", archive];
    let archived = Served::kentd_with(arena.options.kentd.as_ref(), &data.path().join("store"), &more)?;
    arena.runtime.block_on(async {
        let client = Client::new(format!("http://{}", archived.address))?;
        regions::create_strict(&client, "strict").await
    })?;
    // This file is in the directory that contains the store, so it is on the same disk.
    let file = tempfile::tempfile_in(arena.data())?;
    for in_flight in [1, 64] {
        let [plain, strict] = ["region:plain", "region:strict"].map(|source| Load::Unary {
            request: lease(source, 1),
            connections: 1,
            in_flight,
        });
        let name = format!("{in_flight} in flight");
        let contenders = vec![
            Contender::new("plain", || arena.slice(&arena.daemon, &plain)),
            Contender::new("strict", || arena.slice(&arena.daemon, &strict)),
            Contender::new("archived", || arena.slice(&archived, &strict)),
            Contender::new("fdatasync", || sync(&file, arena.options.length())),
        ];
        let outcomes = arena.contest.run(&name, contenders)?;
        if in_flight == 1 {
            let [plain, strict, sync] = ["plain", "strict", "fdatasync"].map(|name| outcomes.median_micros(name));
            let costs =
                strict.zip(plain).map(|(strict, plain)| strict - plain).zip(sync).map(|(more, sync)| more / sync);
            arena.contest.fact("1 in flight, cost of strict in fdatasyncs", costs, Bound::AtMost(1.0));
            let ratio = outcomes.ratio("archived", "strict");
            arena.contest.fact("1 in flight, archived / strict", ratio, Bound::AtLeast(0.4));
        } else {
            let ratio = outcomes.ratio("strict", "plain");
            arena.contest.fact(format!("{name}, strict / plain"), ratio, Bound::AtLeast(0.6));
            let ratio = outcomes.ratio("archived", "strict");
            arena.contest.fact(format!("{name}, archived / strict"), ratio, Bound::AtLeast(0.5));
        }
    }
    arena.close()?;
    archived.stop()
}

fn sync(mut file: &File, length: Duration) -> anyhow::Result<Slice> {
    let (began, mut slice) = (now(), Slice::default());
    while slice.took < length {
        file.write_all(&RECORD)?;
        file.sync_data()?;
        let took = began.elapsed();
        slice.call(took - slice.took);
        slice.count += 1;
        slice.took = took;
    }
    Ok(slice)
}
