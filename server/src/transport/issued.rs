//! Extensions by which a caller in this process takes a block instead of a message with its identifiers.

use kent_ids::Block;
use kent_proto::stored::TextForm;

/// An extension of a request for identifiers as text: the caller accepts [`Issued`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakesIssued;

/// An extension of a response: what the message would contain if it were not empty.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) block: Block,
    /// The text form of the block's space, if it has one.
    pub(crate) form: TextForm,
    pub(crate) clock_epoch: u64,
}
