//! How messages become frames: prost's way, in buffers that are large enough from the beginning.

use std::marker::PhantomData;

use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, EncodeBuf, Encoder},
};
use tonic_prost::ProstDecoder;

/// prost's encoding of messages `T` that are sent and `U` that are received.
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
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> SizedEncoder<T> {
        SizedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstDecoder::new(buffers())
    }
}

/// Encodes messages into room that is made for them first: a buffer that grows by and by copies a reply of megabytes again
/// and again.
#[derive(Debug)]
pub struct SizedEncoder<T>(PhantomData<fn(T)>);

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

/// Two buffers are made for every call, and most messages are short: these are small enough for an allocator to have them at
/// hand, as tonic's own of 8 KiB are not. Messages go out together as tonic sends them.
fn buffers() -> BufferSettings {
    const BYTES: usize = 1 << 10;
    const TOGETHER_BYTES: usize = 32 << 10;
    BufferSettings::new(BYTES, TOGETHER_BYTES)
}
