//! The text of identifiers.

use kent_ids::Uid11;
use kent_proto::stored::TextForm;

/// Formats an identifier in the text form of its space.
pub(super) fn text_of(identifier: u128, bits: u8, form: TextForm) -> String {
    match form {
        TextForm::Decimal => identifier.to_string(),
        TextForm::Hex => format!("0x{identifier:0width$x}", width = usize::from(bits).div_ceil(4)),
        TextForm::Uid11 => Uid11::new(identifier as u64).to_string(), // OK because such a space has 64 bits
    }
}
