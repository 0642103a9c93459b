//! Disables the tokens of callers, because some may have been revoked after the backup.

use kent_access::{Refused, Token};
use kent_engine::records::{
    failure::StoreFailure,
    keys::{self, AccessKey},
};
use kent_proto::stored::{decode_token, encode_token};

use super::{Restore, RestoreArgs, RestoreError};

impl Restore {
    /// Disables the tokens, unless `--keep-tokens` is set.
    pub(super) fn disable_tokens(mut self, args: &RestoreArgs) -> Result<Self, RestoreError> {
        if args.keep_tokens {
            return Ok(self);
        }
        for (key, value) in self.records.iter_mut().filter(|(key, _)| key.starts_with(&keys::ACCESS)) {
            if let AccessKey::Token(id) = keys::parse_access(key).map_err(StoreFailure::from)? {
                let token = decode_token(id, value).map_err(StoreFailure::from)?;
                if token.refused.is_none() {
                    *value = encode_token(&Token { refused: Some(Refused::Restored), ..token });
                    self.disabled_tokens += 1;
                }
            }
        }
        Ok(self)
    }
}
