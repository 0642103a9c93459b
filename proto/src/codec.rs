//! A tonic codec for prost messages that allocates a buffer of the right size before it encodes.

use std::marker::PhantomData;

use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, EncodeBuf, Encoder},
};
use tonic_prost::ProstDecoder;

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
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> SizedEncoder<T> {
        SizedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstDecoder::new(buffers())
    }
}

/// Reserves the length of a message before it encodes it. A buffer that grows in steps would copy a reply of megabytes several
/// times.
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

/// Every call allocates two buffers, and most messages are short. An allocator serves 1 KiB from its cache, but not the 8 KiB that
/// are tonic's default. The yield threshold is tonic's default.
fn buffers() -> BufferSettings {
    const BYTES: usize = 1 << 10;
    const TOGETHER_BYTES: usize = 32 << 10;
    BufferSettings::new(BYTES, TOGETHER_BYTES)
}
