//! tonic codecs: for prost messages, with a buffer of the right size, and for messages that are encoded already.

use std::{marker::PhantomData, mem};

use bytes::{Buf, BufMut, Bytes};
use prost::{DecodeError, Message};
use tonic::{
    Code, Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};
use tonic_types::{ErrorDetails, StatusExt};

/// Encodes messages of type `T` and decodes messages of type `U`.
#[derive(Debug)]
pub struct SizedCodec<T, U>(PhantomData<fn(T) -> U>);

impl<T, U> Default for SizedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SizedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = SizedEncoder<T>;
    type Decoder = MessageDecoder<U>;

    fn encoder(&mut self) -> SizedEncoder<T> {
        SizedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> MessageDecoder<U> {
        MessageDecoder(PhantomData)
    }
}

/// An encoder that first reserves space for the whole message. A buffer that grows in steps would copy a reply of
/// several megabytes repeatedly.
#[derive(Debug)]
pub struct SizedEncoder<T>(PhantomData<fn(T)>);

/// Decodes messages. An invalid message is the sender's error (`INVALID_ARGUMENT`), but tonic's own decoder would
/// report an internal error (`INTERNAL`).
#[derive(Debug)]
pub struct MessageDecoder<U>(PhantomData<fn() -> U>);

impl<U: Message + Default> Decoder for MessageDecoder<U> {
    type Item = U;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        U::decode(buf).map(Some).map_err(|problem| bad_message(&problem))
    }
}

/// Returns the status for a message that cannot be decoded.
pub(crate) fn bad_message(problem: &DecodeError) -> Status {
    refused(format!("the message is not valid Protobuf: {problem}"))
}

fn refused(message: String) -> Status {
    let details = ErrorDetails::with_error_info("BAD_MESSAGE", "kent", []);
    Status::with_error_details(Code::InvalidArgument, message, details)
}

impl<T: Message> Encoder for SizedEncoder<T> {
    type Item = T;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn encode(&mut self, item: T, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.reserve(item.encoded_len());
        item.encode_raw(buf);
        Ok(())
    }
}

/// A codec that passes encoded messages through unchanged. Its decoder refuses a second message, so a server can use it
/// only for methods that take one message, and a client only for methods that answer with one.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesCodec;

/// The decoder of [`BytesCodec`].
#[derive(Debug, Default)]
pub struct OneMessage {
    is_read: bool,
}

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = OneMessage;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> OneMessage {
        OneMessage::default()
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn encode(&mut self, item: Bytes, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put(item);
        Ok(())
    }
}

impl Decoder for OneMessage {
    type Item = Bytes;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        if mem::replace(&mut self.is_read, true) {
            return Err(refused("there is more than one message, but this method takes only one".to_owned()));
        }
        Ok(Some(buf.copy_to_bytes(buf.remaining())))
    }
}

/// Returns the sizes of the buffers. Every call allocates two buffers, and most messages are short. Memory allocators
/// serve 1 KiB from a cache, but not tonic's default of 8 KiB. The yield threshold is tonic's default.
fn buffers() -> BufferSettings {
    const BYTES: usize = 1 << 10;
    const TOGETHER_BYTES: usize = 32 << 10;
    BufferSettings::new(BYTES, TOGETHER_BYTES)
}
