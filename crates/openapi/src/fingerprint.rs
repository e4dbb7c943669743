//! A hash that changes when an OpenAPI document would, computed without generating it; used as ETag.

use rhumb_api::Kind;

/// A 64-bit FNV-1a hash, equal on all servers that run the same binary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Starts with the server version, because another version may generate other documents.
    pub(crate) fn of_server() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325).with(env!("CARGO_PKG_VERSION"))
    }

    pub(crate) fn with(self, text: &str) -> Fingerprint {
        // The terminator separates consecutive strings; 0xff does not occur in UTF-8.
        let bytes = text.bytes().chain([0xff]);
        Fingerprint(bytes.fold(self.0, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// Adds all properties of a kind that a document contains.
    pub(crate) fn with_kind(self, kind: &Kind) -> Fingerprint {
        let named = self
            .with(&kind.group)
            .with(&kind.name)
            .with(&kind.plural)
            .with(&format!("{:?} {:?}", kind.scope, kind.verbs));
        let served = kind.versions.iter().fold(named, |all, served| {
            all.with(&served.version).with(&served.schema)
        });
        kind.subresources.iter().fold(served, |all, subresource| {
            all.with(&subresource.name)
                .with(&format!("{:?}", subresource.verbs))
        })
    }

    pub(crate) fn to_hex(self) -> String {
        format!("{:016X}", self.0)
    }
}
