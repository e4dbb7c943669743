//! Private keys in SEC1 (RFC 5915, `EC PRIVATE KEY`), the format of elliptic curve keys that all Kubernetes clients read.
//! Keys are generated and stored in PKCS#8, which some clients read only for RSA (fabric8).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use x509_parser::asn1_rs::{Any, FromDer as _, Oid, Sequence, oid};

const EC_PUBLIC_KEY: Oid<'_> = oid!(1.2.840.10045.2.1);

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// `[0]` and `[1]`, constructed: the explicit tags of the curve and of the public key.
const CURVE: u8 = 0xa0;
const PUBLIC_KEY: u8 = 0xa1;

const PEM_LINE_LENGTH: usize = 64;

/// The private key for a kubeconfig: an elliptic curve key in SEC1, others in PKCS#8.
pub(super) fn client_key_pem(key: &KeyPair) -> String {
    match sec1_der(&key.serialize_der(), key.public_key_raw()) {
        Some(der) => pem("EC PRIVATE KEY", &der),
        None => key.serialize_pem(),
    }
}

/// The ECPrivateKey of a key in PKCS#8, with its curve and its public point; `None` for other kinds of keys.
fn sec1_der(pkcs8: &[u8], public_point: &[u8]) -> Option<Vec<u8>> {
    let content = content_of(pkcs8)?;
    let (rest, _version) = Any::from_der(content).ok()?;
    let (rest, algorithm) = Sequence::from_der(rest).ok()?;
    let (_, private_key) = Any::from_der(rest).ok()?;
    let (parameters, algorithm) = Oid::from_der(&algorithm.content).ok()?;
    if algorithm != EC_PUBLIC_KEY {
        return None;
    }
    let (_, curve) = Any::from_der(parameters).ok()?;
    // The ECPrivateKey within PKCS#8 omits the curve, which PKCS#8 has beside it.
    let (scalar, _version) = Any::from_der(content_of(private_key.data)?).ok()?;
    let (_, scalar) = Any::from_der(scalar).ok()?;
    let bits = [&[0], public_point].concat();
    let fields = [
        tlv(INTEGER, &[1]),
        tlv(OCTET_STRING, scalar.data),
        tlv(CURVE, &tlv(OBJECT_IDENTIFIER, curve.data)),
        tlv(PUBLIC_KEY, &tlv(BIT_STRING, &bits)),
    ];
    Some(tlv(SEQUENCE, &fields.concat()))
}

/// The content of a DER value.
fn content_of(der: &[u8]) -> Option<&[u8]> {
    let (_, value) = Any::from_der(der).ok()?;
    Some(value.data)
}

/// A DER value: tag, length, content.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut der = vec![tag];
    match significant {
        [] => der.push(0),
        [short] if *short < 0x80 => der.push(*short),
        long => {
            der.push(0x80 | u8::try_from(long.len()).unwrap_or(u8::MAX));
            der.extend(long);
        }
    }
    der.extend(content);
    der
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, others) = rest.split_at(rest.len().min(PEM_LINE_LENGTH));
        pem.push_str(line);
        pem.push('\n');
        rest = others;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
