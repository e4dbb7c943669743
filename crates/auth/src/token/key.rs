//! Private keys that sign tokens, and public keys that verify them (also as JSON Web Keys).
//!
//! rhumb generates ECDSA P-256 keys; RSA keys are supported for clusters created by other tools.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use serde_json::{Value, json};

/// Why a key cannot be loaded or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenKeyError {
    #[error("unsupported key: expected ECDSA P-256, or RSA with at least 2048 bits")]
    Unsupported,
    #[error("failed to sign with the key")]
    Signing,
}

/// A private key. `Debug` shows the key ID, never the key.
pub struct SigningKey {
    pair: SigningKeyPair,
    public: VerifyingKey,
}

enum SigningKeyPair {
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id)
    }
}

impl SigningKey {
    /// Parses a PKCS#8 private key (the content of a PEM `PRIVATE KEY`).
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, TokenKeyError> {
        let random = SystemRandom::new();
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            return Ok(SigningKey {
                public: VerifyingKey::ecdsa(pair.public_key().as_ref()),
                pair: SigningKeyPair::Ecdsa(Box::new(pair)),
            });
        }
        let pair = RsaKeyPair::from_pkcs8(der).map_err(|_| TokenKeyError::Unsupported)?;
        Self::from_rsa(pair)
    }

    /// Parses a PKCS#1 RSA key (the content of a PEM `RSA PRIVATE KEY`), as kubeadm writes it.
    pub fn from_pkcs1(der: &[u8]) -> Result<Self, TokenKeyError> {
        let pair = RsaKeyPair::from_der(der).map_err(|_| TokenKeyError::Unsupported)?;
        Self::from_rsa(pair)
    }

    fn from_rsa(pair: RsaKeyPair) -> Result<Self, TokenKeyError> {
        Ok(SigningKey {
            public: VerifyingKey::rsa(pair.public().as_ref()).ok_or(TokenKeyError::Unsupported)?,
            pair: SigningKeyPair::Rsa(Box::new(pair)),
        })
    }

    pub fn public(&self) -> &VerifyingKey {
        &self.public
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TokenKeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            SigningKeyPair::Ecdsa(pair) => {
                let signature = pair.sign(&random, message);
                Ok(signature
                    .map_err(|_| TokenKeyError::Signing)?
                    .as_ref()
                    .to_vec())
            }
            SigningKeyPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map_err(|_| TokenKeyError::Signing)?;
                Ok(signature)
            }
        }
    }
}

/// A public key that verifies token signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    id: String,
    algorithm: SignatureAlgorithm,
    /// The uncompressed EC point, or the DER of `RSAPublicKey`.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignatureAlgorithm {
    Es256,
    Rs256,
}

/// The DER prefix of a P-256 SubjectPublicKeyInfo; the uncompressed point follows.
const P256_INFO_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The DER of the AlgorithmIdentifier of RSA keys.
const RSA_ALGORITHM: [u8; 15] = [
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

const DER_SEQUENCE: u8 = 0x30;
const DER_BIT_STRING: u8 = 0x03;
const DER_INTEGER: u8 = 0x02;
const P256_POINT_BYTES: usize = 65;

impl VerifyingKey {
    /// Parses a SubjectPublicKeyInfo (the content of a PEM `PUBLIC KEY`).
    pub fn from_spki(der: &[u8]) -> Result<Self, TokenKeyError> {
        if let Some(point) = der.strip_prefix(&P256_INFO_PREFIX) {
            let is_point = point.len() == P256_POINT_BYTES;
            return is_point
                .then(|| Self::ecdsa(point))
                .ok_or(TokenKeyError::Unsupported);
        }
        read_rsa_info(der)
            .and_then(Self::rsa)
            .ok_or(TokenKeyError::Unsupported)
    }

    fn ecdsa(point: &[u8]) -> Self {
        VerifyingKey {
            id: identity(&[&P256_INFO_PREFIX, point].concat()),
            algorithm: SignatureAlgorithm::Es256,
            bytes: point.to_vec(),
        }
    }

    fn rsa(public_key: &[u8]) -> Option<Self> {
        read_rsa_numbers(public_key)?;
        let bits = der(DER_BIT_STRING, &[&[0], public_key].concat());
        let info = der(DER_SEQUENCE, &[&RSA_ALGORITHM[..], &bits].concat());
        Some(VerifyingKey {
            id: identity(&info),
            algorithm: SignatureAlgorithm::Rs256,
            bytes: public_key.to_vec(),
        })
    }

    /// The key ID (`kid`): the base64url SHA-256 digest of the SubjectPublicKeyInfo.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn algorithm(&self) -> &'static str {
        match self.algorithm {
            SignatureAlgorithm::Es256 => "ES256",
            SignatureAlgorithm::Rs256 => "RS256",
        }
    }

    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = match self.algorithm {
            SignatureAlgorithm::Es256 => {
                return UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes)
                    .verify(message, signature)
                    .is_ok();
            }
            SignatureAlgorithm::Rs256 => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.bytes)
            }
        };
        key.verify(message, signature).is_ok()
    }

    /// The key as a JSON Web Key.
    pub(super) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self.algorithm {
            SignatureAlgorithm::Es256 => {
                let (x, y) = self.bytes[1..].split_at(self.bytes.len() / 2);
                json!({"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
                    "x": text(x), "y": text(y)})
            }
            SignatureAlgorithm::Rs256 => {
                let (n, e) = read_rsa_numbers(&self.bytes).unwrap_or_default();
                json!({"use": "sig", "kty": "RSA", "kid": self.id, "alg": "RS256",
                    "n": text(n), "e": text(e)})
            }
        }
    }
}

fn identity(info: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, info))
}

/// Encodes one DER element: tag, length, content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant: Vec<u8> = length.into_iter().skip_while(|&byte| byte == 0).collect();
    let mut element = vec![tag];
    match content.len() {
        short @ 0..=0x7f => element.push(short as u8),
        _ => {
            element.push(0x80 | significant.len() as u8);
            element.extend(significant);
        }
    }
    element.extend_from_slice(content);
    element
}

/// Splits off one DER element with this tag; returns its content and the remaining bytes.
fn read_der(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk()?;
    let count = usize::from(first & 0x7f);
    let (length, rest) = match first {
        0..=0x7f => (count, rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(count)?;
            let length = digits
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            (length, rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}

fn read_rsa_info(info: &[u8]) -> Option<&[u8]> {
    let (content, _) = read_der(DER_SEQUENCE, info)?;
    let bits = content.strip_prefix(&RSA_ALGORITHM)?;
    let (bits, _) = read_der(DER_BIT_STRING, bits)?;
    bits.strip_prefix(&[0])
}

/// The modulus and exponent of an `RSAPublicKey`, without leading zeros.
fn read_rsa_numbers(public_key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (content, _) = read_der(DER_SEQUENCE, public_key)?;
    let (modulus, rest) = read_der(DER_INTEGER, content)?;
    let (exponent, _) = read_der(DER_INTEGER, rest)?;
    Some((unsigned(modulus), unsigned(exponent)))
}

fn unsigned(number: &[u8]) -> &[u8] {
    number.strip_prefix(&[0]).unwrap_or(number)
}
