//! The subset of SCTP packets that the handshake needs.

/// A packet with one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SctpPacket {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) tag: u32,
    pub(crate) chunk: SctpChunk,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SctpChunk {
    Init { tag: u32 },
    InitAck { tag: u32, cookie: Vec<u8> },
    Abort,
    CookieEcho { cookie: Vec<u8> },
    CookieAck,
}

const HEADER_BYTES: usize = 12;
const CHUNK_HEADER_BYTES: usize = 4;
const INIT_BYTES: usize = 16;
const PARAMETER_STATE_COOKIE: u16 = 7;

impl SctpPacket {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (kind, mut body) = match &self.chunk {
            SctpChunk::Init { tag } => (1, init(*tag)),
            SctpChunk::InitAck { tag, cookie } => {
                let mut body = init(*tag);
                body.extend(PARAMETER_STATE_COOKIE.to_be_bytes());
                body.extend(length(CHUNK_HEADER_BYTES + cookie.len()));
                body.extend(cookie);
                (2, body)
            }
            SctpChunk::Abort => (6, Vec::new()),
            SctpChunk::CookieEcho { cookie } => (10, cookie.clone()),
            SctpChunk::CookieAck => (11, Vec::new()),
        };
        let mut bytes = Vec::new();
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.destination.to_be_bytes());
        bytes.extend(self.tag.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend([kind, 0]);
        bytes.extend(length(CHUNK_HEADER_BYTES + body.len()));
        // The chunk length excludes padding.
        body.resize(body.len().next_multiple_of(4), 0);
        bytes.extend(body);
        let sum = crc32c(&bytes);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<SctpPacket> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let (head, rest) = rest.split_at_checked(CHUNK_HEADER_BYTES)?;
        let body_bytes = usize::from(number16(head, 2)?).checked_sub(CHUNK_HEADER_BYTES)?;
        let body = rest.get(..body_bytes)?;
        let chunk = match head[0] {
            1 => SctpChunk::Init {
                tag: number32(body, 0)?,
            },
            2 => SctpChunk::InitAck {
                tag: number32(body, 0)?,
                cookie: cookie(body.get(INIT_BYTES..)?)?,
            },
            6 => SctpChunk::Abort,
            10 => SctpChunk::CookieEcho {
                cookie: body.to_vec(),
            },
            11 => SctpChunk::CookieAck,
            _ => return None,
        };
        Some(SctpPacket {
            source: number16(header, 0)?,
            destination: number16(header, 2)?,
            tag: number32(header, 4)?,
            chunk,
        })
    }
}

/// Initiate tag, window, one stream per direction, and initial TSN.
fn init(tag: u32) -> Vec<u8> {
    let mut body = tag.to_be_bytes().to_vec();
    body.extend(65_536_u32.to_be_bytes());
    body.extend([0, 1, 0, 1]);
    body.extend(tag.to_be_bytes());
    body
}

fn cookie(parameter: &[u8]) -> Option<Vec<u8>> {
    let end = usize::from(number16(parameter, 2)?);
    let is_cookie = number16(parameter, 0)? == PARAMETER_STATE_COOKIE;
    is_cookie.then_some(parameter.get(CHUNK_HEADER_BYTES..end)?.to_vec())
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).expect("a short chunk").to_be_bytes()
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(bytes))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// CRC32c checksum, without which connection tracking considers a packet invalid.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |sum: u32, _| (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg());
    !bytes
        .iter()
        .fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

#[test]
fn sctp_packets_round_trip_with_crc32c_checksums() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let cookie = b"cookie".to_vec();
    for chunk in [
        SctpChunk::Init { tag: 7 },
        SctpChunk::InitAck {
            tag: 9,
            cookie: cookie.clone(),
        },
        SctpChunk::Abort,
        SctpChunk::CookieEcho { cookie },
        SctpChunk::CookieAck,
    ] {
        let packet = SctpPacket {
            source: 1,
            destination: 2,
            tag: 3,
            chunk,
        };
        assert_eq!(SctpPacket::parse(&packet.to_bytes()), Some(packet));
    }
}
