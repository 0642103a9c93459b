//! Takes identifiers from a daemon on this machine. Run it with `cargo run --release -p kent-client --example identifiers`.

use kent_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new("http://127.0.0.1:7600")?;

    // A handle prefetches blocks. Its clones share them.
    let events = client.uuid_v7();
    println!("one event: {}", events.next().await?);
    println!("one more, without waiting: {:?}", events.try_next());
    println!("{} in one call", events.take(100_000).await?.len());

    println!("an xid: {}", client.xid().next().await?);
    let order = client.region("r1").next().await?;
    println!("an order: {order}");

    // A local copy of the prefix table finds the region of an identifier without a call.
    let table = client.table("default").await?;
    let of = table.read(|table| Some(table.classify(order)?.path.last()?.name.clone()));
    println!("its region: {of:?}");
    Ok(())
}
