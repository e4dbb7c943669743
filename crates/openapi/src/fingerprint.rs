//! A number that changes when a document would.

use rhumb_api::Kind;

/// The 64-bit FNV-1a hash: the same on every server that runs the same binary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Of this version of the server, which writes documents its own way.
    pub(crate) fn of_server() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325).with(env!("CARGO_PKG_VERSION"))
    }

    pub(crate) fn with(self, text: &str) -> Fingerprint {
        // The byte at the end keeps two texts from being taken for one.
        let bytes = text.bytes().chain([0xff]);
        Fingerprint(bytes.fold(self.0, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// With all of a kind that shows in a document.
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
            all.with(subresource.name)
                .with(&format!("{:?}", subresource.verbs))
        })
    }

    pub(crate) fn text(self) -> String {
        format!("{:016X}", self.0)
    }
}
