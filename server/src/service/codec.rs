//! `Codec`: inspects identifiers, and encodes them from fields.

use std::sync::Arc;

use kent_access::Action;
use kent_codec::Reading;
use kent_engine::{engine::Engine, host::computing::yielding, status};
use kent_proto::{
    model::Invalid,
    v1::{
        EncodeRequest, EncodeResponse, EncodeResult, Encoded, InspectRequest, InspectResponse, InspectResult,
        Inspection,
        codec_server::Codec,
        encode_request::Item,
        encode_result, inspect_result,
        inspection::{BitRange, Field},
    },
};
use kent_transport::callers::caller_who_may;
use prost::Message;
use tonic::{Request, Response, Status};

/// The `Codec` service.
#[derive(Debug)]
pub(crate) struct CodecService {
    engine: Arc<Engine>,
}

impl CodecService {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

/// The maximum number of strings or items in one call.
const TEXTS_MAX: usize = 1000;

/// The number of strings or items to process before yielding. The most expensive item takes about 20 microseconds.
const PART: u32 = 4;

/// The longest string, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// The longest item, in bytes.
const ITEM_BYTES_MAX: usize = 4096;

#[tonic::async_trait]
impl Codec for CodecService {
    async fn inspect(&self, request: Request<InspectRequest>) -> Result<Response<InspectResponse>, Status> {
        caller_who_may(&self.engine, &request, Action::Inspect)?;
        let request = request.into_inner();
        check_sizes("texts", request.texts.iter().map(String::len), TEXT_BYTES_MAX)?;
        let results = self.engine.computing().run(move || {
            let reading = reading(&request);
            let result = |text: &String| InspectResult { outcome: Some(inspect(text, &reading)) };
            yielding(request.texts.iter(), PART).map(result).collect()
        });
        let results = results.await.map_err(|busy| status::busy(&busy))?;
        Ok(Response::new(InspectResponse { results }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        caller_who_may(&self.engine, &request, Action::Inspect)?;
        let items = request.into_inner().items;
        check_sizes("items", items.iter().map(Message::encoded_len), ITEM_BYTES_MAX)?;
        let result = |item: &Item| EncodeResult { outcome: Some(encode(item)) };
        let results = self.engine.computing().run(move || yielding(items.iter(), PART).map(result).collect());
        let results = results.await.map_err(|busy| status::busy(&busy))?;
        Ok(Response::new(EncodeResponse { results }))
    }
}

fn check_sizes(field: &'static str, sizes: impl ExactSizeIterator<Item = usize>, max: usize) -> Result<(), Status> {
    let refused = |problem| Err(status::from_invalid(&Invalid::new(field, problem)));
    if sizes.len() > TEXTS_MAX {
        return refused(format!("has {} entries, but one call takes at most {TEXTS_MAX}", sizes.len()));
    }
    match sizes.max().filter(|largest| *largest > max) {
        Some(largest) => refused(format!("has an entry of {largest} bytes, but the maximum is {max}")),
        None => Ok(()),
    }
}

fn reading(request: &InspectRequest) -> Reading {
    let non_empty = |text: &String| (!text.is_empty()).then(|| text.clone());
    Reading {
        format: non_empty(&request.format),
        guid: request.guid,
        prefix: request.prefix,
        layout: non_empty(&request.layout),
        precision: non_empty(&request.precision),
        width: (request.width != 0).then_some(request.width),
    }
}

fn inspect(text: &str, reading: &Reading) -> inspect_result::Outcome {
    match kent_codec::inspect(text, reading) {
        Ok(inspection) => inspect_result::Outcome::Inspection(message(inspection)),
        Err(error) => inspect_result::Outcome::Refused(status::to_wire(&status::from_codec(&error))),
    }
}

fn encode(item: &Item) -> encode_result::Outcome {
    let fields = item.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    match kent_codec::encode(&item.format, fields) {
        Ok(encoded) => encode_result::Outcome::Encoded(Encoded { text: encoded.text, bytes: encoded.bytes.into() }),
        Err(error) => encode_result::Outcome::Refused(status::to_wire(&status::from_codec(&error))),
    }
}

fn message(inspection: kent_codec::Inspection) -> Inspection {
    let field = |field: kent_codec::Field| Field { name: field.name, value: field.value, meaning: field.meaning };
    let range = |range: kent_codec::BitRange| BitRange {
        first: range.first,
        last: range.last,
        label: range.label,
        bits: range.bits,
    };
    Inspection {
        text: inspection.text,
        format: inspection.format,
        because: inspection.because,
        canonical: inspection.canonical,
        hex: inspection.hex,
        time: inspection.time.unwrap_or_default(),
        fields: inspection.fields.into_iter().map(field).collect(),
        layout: inspection.layout.into_iter().map(range).collect(),
        also: inspection.also,
    }
}
