//! A codec that sends octets as they are: for messages that no stub would send.

use bytes::{Buf, BufMut};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// The body of a message, as it goes over the wire.
#[derive(Debug)]
pub(crate) struct Octets(pub(crate) Vec<u8>);

#[derive(Default)]
pub(crate) struct OctetsCodec;

impl Codec for OctetsCodec {
    type Encode = Octets;
    type Decode = Octets;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for OctetsCodec {
    type Item = Octets;
    type Error = Status;

    fn encode(&mut self, item: Octets, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item.0);
        Ok(())
    }
}

impl Decoder for OctetsCodec {
    type Item = Octets;
    type Error = Status;

    fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<Octets>, Status> {
        Ok(Some(Octets(input.copy_to_bytes(input.remaining()).to_vec())))
    }
}
