//! Extensions that let a caller in this process get a block instead of a message with the identifiers.

use kent_ids::{Block, layout::Spelling};
use kent_proto::stored::TextForm;

/// A request extension for identifiers as text, which tells the service that the caller accepts [`Issued`].
#[derive(Clone, Copy, Debug)]
pub struct TakesIssued;

/// How the identifiers of a block are written.
#[derive(Clone, Debug)]
pub enum Form {
    /// In the text form of the block's space; the default if the block does not belong to a space.
    Space(TextForm),
    /// In the spelling of the block's custom layout.
    Layout(Spelling),
}

/// A response extension with the contents that replace the response's empty message.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The identifiers.
    pub block: Block,
    /// The form in which the caller wants them.
    pub form: Form,
    /// The number of times that the clock has stepped, for the reply.
    pub clock_epoch: u64,
}
