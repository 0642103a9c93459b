//! Reads lines `LAYOUT<tab>ID` from standard input, and prints the fields that ferroid finds in each identifier as JSON.
//! Then prints the identifiers that ferroid generates for these layouts: `presets COUNT MACHINE`.

use std::{collections::BTreeSet, env, error::Error, io, thread, time::Duration};

use ferroid::{
    generator::BasicSnowflakeGenerator,
    id::{SnowflakeDiscordId, SnowflakeId, SnowflakeInstagramId, SnowflakeMastodonId, SnowflakeTwitterId},
    time::{DISCORD_EPOCH, INSTAGRAM_EPOCH, MASTODON_EPOCH, MonotonicClock, TWITTER_EPOCH},
};

/// `our_epoch` in the SQL of Instagram's article "Sharding & IDs at Instagram".
const INSTAGRAM_SQL_EPOCH: Duration = Duration::from_millis(1_314_220_021_721);

fn print<ID: SnowflakeId<Ty = u64>>(layout: &str, from: &str, epoch: Duration, raw: u64) {
    let id = ID::from_raw(raw);
    let unix_ms = u128::from(id.timestamp()) + epoch.as_millis();
    println!(
        r#"{{"layout":"{layout}","library":"ferroid","from":"{from}","id":"{raw}","hex":"{raw:016x}","fields":{{"unix_ms":{unix_ms},"machine":{},"sequence":{}}}}}"#,
        id.machine_id(),
        id.sequence(),
    );
}

fn both<ID: SnowflakeId<Ty = u64>>(layout: &str, epoch: Duration, ours: &[u64], count: usize, machine: u64) {
    for id in ours {
        print::<ID>(layout, "kent", epoch, *id);
    }
    let machine = machine.min(ID::max_machine_id());
    let generator: BasicSnowflakeGenerator<ID, _> =
        BasicSnowflakeGenerator::new(machine, MonotonicClock::<1>::with_epoch(epoch));
    for _ in 0..count {
        let id = generator.next_id(|_| thread::sleep(Duration::from_millis(1)));
        print::<ID>(layout, "library", epoch, id.to_raw());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let (count, machine) = (arguments[1].parse()?, arguments[2].parse()?);
    let input = io::read_to_string(io::stdin())?;
    let ours: Vec<(&str, &str)> = input.lines().filter_map(|line| line.split_once('\t')).collect();
    for layout in ours.iter().map(|(layout, _)| *layout).collect::<BTreeSet<_>>() {
        let ids = ours
            .iter()
            .filter(|(of, _)| *of == layout)
            .map(|(_, id)| id.parse().map_err(|error| format!("{layout} {id}: {error}")));
        let ids = ids.collect::<Result<Vec<u64>, _>>()?;
        match layout {
            "snowflake-twitter" => both::<SnowflakeTwitterId>(layout, TWITTER_EPOCH, &ids, count, machine),
            "snowflake-discord" => both::<SnowflakeDiscordId>(layout, DISCORD_EPOCH, &ids, count, machine),
            "snowflake-instagram" => both::<SnowflakeInstagramId>(layout, INSTAGRAM_SQL_EPOCH, &ids, count, machine),
            "snowflake-instagram-2011" => both::<SnowflakeInstagramId>(layout, INSTAGRAM_EPOCH, &ids, count, machine),
            "snowflake-mastodon" => both::<SnowflakeMastodonId>(layout, MASTODON_EPOCH, &ids, count, machine),
            _ => return Err(format!("no reader for {layout}").into()),
        }
    }
    Ok(())
}
