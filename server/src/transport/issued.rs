//! Extensions with which a caller in this process gets a block instead of a message with the identifiers.

use kent_ids::Block;
use kent_proto::stored::TextForm;

/// An extension of a request for identifiers as text: the caller accepts [`Issued`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakesIssued;

/// An extension of a response whose message is empty: the contents that replace the message.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) block: Block,
    /// The text form of the block's space; the default if the block does not belong to a space.
    pub(crate) form: TextForm,
    pub(crate) clock_epoch: u64,
}
