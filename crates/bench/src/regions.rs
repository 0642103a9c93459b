//! Creates regions for measurements, over gRPC.

use anyhow::Context;
use kent_client::{
    Client,
    proto::{CreateRegionRequest, Policy, UpdateRegionRequest},
};

/// The default space, which has 64 bits.
pub(crate) const SPACE: &str = "spaces/default";

pub(crate) async fn create(client: &Client, region: &str) -> anyhow::Result<()> {
    let request = CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(40),
        // This pace allows the whole region in one burst, so that the default pace does not limit the measurement.
        pace: 1 << 40,
        ..CreateRegionRequest::default()
    };
    client
        .connect()
        .await?
        .regions()
        .create_region(request)
        .await
        .with_context(|| format!("cannot create {region}"))?;
    Ok(())
}

/// Creates a strict region, whose grants are durable before the daemon answers.
pub(crate) async fn create_strict(client: &Client, region: &str) -> anyhow::Result<()> {
    create(client, region).await?;
    let request = UpdateRegionRequest {
        name: format!("{SPACE}/regions/{region}"),
        policy: Some(Policy { strict: true, ..Policy::default() }),
        ..UpdateRegionRequest::default()
    };
    client
        .connect()
        .await?
        .regions()
        .update_region(request)
        .await
        .with_context(|| format!("cannot make {region} strict"))?;
    Ok(())
}
