//! Free ports of the loopback interface.

use std::net::{Ipv4Addr, TcpListener};

/// Distinct ports that are free now: all are bound at the same time, and then released.
pub fn free_ports<const COUNT: usize>() -> std::io::Result<[u16; COUNT]> {
    let mut ports = [0; COUNT];
    let mut held = Vec::with_capacity(COUNT);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
