//! Signed text: one object has the signature and what it signs, so that one request brings both (docs/remote.md).

use minisign_verify::{PublicKey, Signature};

/// The first line.
const MAGIC: &str = "vkstash signed 1\n";
/// Lines of a minisign signature.
const SIGNATURE_LINES: usize = 4;
/// The longest line of a signature.
const LONGEST_LINE: usize = 1024;

/// Why signed text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes do not begin as signed text does.
    #[error("it is not signed text")]
    Form,
    /// None of the pinned signers has signed it.
    #[error("no pinned signer has signed it")]
    Signer,
}

/// Signed text, not verified yet.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    signature: &'a str,
    body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes it apart.
    pub fn decode(bytes: &'a [u8]) -> Result<Envelope<'a>, EnvelopeError> {
        let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or(EnvelopeError::Form)?;
        let mut end = 0;
        for _ in 0..SIGNATURE_LINES {
            let line = rest[end..].iter().take(LONGEST_LINE).position(|&byte| byte == b'\n');
            end += line.ok_or(EnvelopeError::Form)? + 1;
        }
        let (signature, body) = rest.split_at(end);
        let signature = std::str::from_utf8(signature).map_err(|_| EnvelopeError::Form)?;
        Ok(Envelope { signature, body })
    }

    /// What may be signed: for counters alone, which only ever make this machine refuse more.
    pub fn unverified(&self) -> &'a [u8] {
        self.body
    }

    /// What is signed, once one of the keys has signed it; with the position of that key.
    pub fn verify(&self, keys: &[&PublicKey]) -> Result<(&'a [u8], usize), EnvelopeError> {
        let signature = Signature::decode(self.signature.trim_end()).map_err(|_| EnvelopeError::Form)?;
        let signer = keys.iter().position(|key| key.verify(self.body, &signature, false).is_ok());
        signer.map(|signer| (self.body, signer)).ok_or(EnvelopeError::Signer)
    }
}

/// Joins a signature, as minisign writes it, and what it signs.
pub(crate) fn encode(signature: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.as_bytes().to_vec();
    for line in signature.lines().take(SIGNATURE_LINES) {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(body);
    bytes
}
