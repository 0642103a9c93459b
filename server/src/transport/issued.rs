//! Extensions that let a caller in this process get a block instead of a message with the identifiers.

use kent_ids::Block;
use kent_proto::stored::TextForm;

/// A request extension for identifiers as text, which tells the service that the caller accepts [`Issued`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakesIssued;

/// A response extension with the contents that replace the response's empty message.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) block: Block,
    /// The text form of the block's space; the default if the block does not belong to a space.
    pub(crate) form: TextForm,
    pub(crate) clock_epoch: u64,
}
