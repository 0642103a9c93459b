//! `Codec`: what is this identifier?

use kent_proto::{
    model::Invalid,
    v1::{
        InspectRequest, InspectResponse, InspectResult, Inspection,
        codec_server::Codec,
        inspect_result::Outcome,
        inspection::{BitRange, Field},
    },
};
use tonic::{Request, Response, Status};

use crate::status;

/// The service. It has no state.
#[derive(Debug)]
pub(crate) struct CodecService;

/// The most texts of one call.
const TEXTS_MAX: usize = 1000;

/// The longest text, in octets.
const TEXT_BYTES_MAX: usize = 1024;

#[tonic::async_trait]
impl Codec for CodecService {
    async fn inspect(&self, request: Request<InspectRequest>) -> Result<Response<InspectResponse>, Status> {
        let texts = request.into_inner().texts;
        if texts.len() > TEXTS_MAX {
            let problem = format!("are {}, but one call inspects at most {TEXTS_MAX}", texts.len());
            return Err(status::from_invalid(&Invalid::new("texts", problem)));
        }
        if let Some(long) = texts.iter().find(|text| text.len() > TEXT_BYTES_MAX) {
            let problem =
                format!("one has {} octets, but no text of an identifier has more than {TEXT_BYTES_MAX}", long.len());
            return Err(status::from_invalid(&Invalid::new("texts", problem)));
        }
        let results = texts.iter().map(|text| InspectResult { outcome: Some(inspect(text)) }).collect();
        Ok(Response::new(InspectResponse { results }))
    }
}

fn inspect(text: &str) -> Outcome {
    match kent_codec::inspect(text) {
        Ok(inspection) => Outcome::Inspection(message(inspection)),
        Err(error) => Outcome::Refused(status::to_wire(&status::from_codec(&error))),
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
    }
}
