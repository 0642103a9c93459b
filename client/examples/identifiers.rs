//! Takes identifiers from a daemon on this machine: `cargo run --release -p kent-client --example identifiers`.

use kent_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new("http://127.0.0.1:7600")?;

    // Keep a handle: it holds a block and prefetches the next one. Its clones share the blocks.
    let events = client.uuid_v7();
    println!("one event: {}", events.next().await?);
    println!("one more, without waiting: {:?}", events.try_next());
    println!("{} together", events.take(100_000).await?.len());

    let orders = client.region("r1");
    let order = orders.next().await?;
    println!("an order: {order}");

    // A local copy of the prefix table, which follows every edit. It finds an identifier's region without a call.
    let table = client.table("default").await?;
    let owner = table.read(|table| Some(table.classify(order)?.path.last()?.name.clone()));
    println!("its owner is {owner:?}");
    Ok(())
}
